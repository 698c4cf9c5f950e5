"""The audit trail of a node: who connected, who asked for what, and who was refused, a line of JSON each.

KIT/audit.jsonl
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedrel.errors import UserError

FILE = "audit.jsonl"
_MOST_BYTES = 50 * 2**20  # then it is put aside, and the one before that goes
_MOST_TEXT = 500


class Audit:
    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()

    def write(self, event: str, **about: Any) -> None:
        """A full disk must not end the node: then the line is lost, and what is refused is refused all the same."""
        said = {name: value[:_MOST_TEXT] if isinstance(value, str) else value for name, value in about.items()}
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = (json.dumps({"time": time, "event": event, **said}) + "\n").encode()
        with self._lock, contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, 0o600)
            try:
                if os.fstat(descriptor).st_size > _MOST_BYTES:
                    self.path.replace(self.path.with_suffix(".jsonl.1"))
                    os.close(descriptor)
                    descriptor = os.open(self.path, flags, 0o600)
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a node's trail, the oldest first."""
    path = folder / FILE
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    yield json.loads(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
