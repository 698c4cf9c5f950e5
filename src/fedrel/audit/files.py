"""Where audits are kept: audit.json in a run's folder, NAME.audit.json beside an experiment NAME.toml."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.util.files import write_atomic

FILE = "audit.json"
_KEYS = {"format", "method", "platforms", "rounds", "members", "non_members", "attacks"}


def audit_file(place: Path) -> Path:
    """The file for a run's folder or an experiment file."""
    return place / FILE if place.is_dir() else place.with_name(f"{place.stem}.{FILE}")


def write_audit(report: Mapping[str, Any], path: Path) -> None:
    """Writes a report, whole or not at all."""
    write_atomic(path, json.dumps(report, indent=1) + "\n")


def read_audit(path: Path) -> dict[str, Any] | None:
    """The report in a file; None where there is no such file. UserError for anything else."""
    if not path.exists():
        return None
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or not report.keys() >= _KEYS:
            raise ValueError("not written by fedrel privacy audit")
        return report
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: unreadable ({error}); delete it, or audit again") from None
