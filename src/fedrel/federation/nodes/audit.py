"""A node's audit trail, KIT/audit.jsonl: connections, commands and refusals, one line of JSON each."""

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
_MOST_BYTES = 50 * 2**20  # then the file is renamed to audit.jsonl.1, which it replaces
_MOST_TEXT = 500  # characters of a value


class Audit:
    """Appends to a node's audit trail; for use by several threads."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()

    def write(self, event: str, **about: Any) -> None:
        """Appends a line with the time. If the disk is full the line is lost and nothing is raised, so that the node
        keeps running.
        """
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
    """The events of a node's trail, oldest first; none if there is no file. Raises UserError if it cannot be read."""
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
