"""Exports verdicts as JSON lines and imports them into another store; the lines hold no sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.feedback.store import LONGEST_USER, TIME, VERDICTS, Given, Store, TakenBack, check_corrected, check_text
from fedrel.util.files import open_atomic

_KINDS = {  # by field: its type, and what a message calls that
    **dict.fromkeys(Given._fields, (str, "a string")),
    "confidence": (int | float, "a number from 0 to 1"),
    "latency_ms": (int | None, "a number of milliseconds or null"),
    "corrected": (str | None, "a string or null"),
    "decides": (bool, "true or false"),
    "taken_back": (dict | None, "an object or null"),
}
_OLDER: Mapping[str, Any] = {"corrected": None, "decides": False}  # what older exports do not have
_ID = re.compile(r"[0-9A-Za-z_-]{1,100}")


def export(store: Store, path: Path) -> int:
    """Writes every verdict of the store as a line, including those taken back; returns how many. Only this user can
    read the file.
    """
    found = list(lines(store))
    with open_atomic(path, private=True) as file:
        file.writelines(found)
    return len(found)


def lines(store: Store) -> Iterator[bytes]:
    """Every verdict of the store as a line of JSON."""
    for it in store.history():
        back = it.taken_back and it.taken_back._asdict()
        yield json.dumps({**it._asdict(), "taken_back": back}, ensure_ascii=False).encode() + b"\n"


def load(store: Store, path: Path) -> int:
    """Adds the verdicts of an exported file that the store does not have, and takes back those that the file takes
    back; returns how many rows were added. Raises UserError for a bad line, and then adds nothing.
    """
    return take(store, content_of(path), str(path))


def content_of(path: Path) -> bytes:
    """What is in a file; raises UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def take(store: Store, content: bytes, name: str) -> int:
    """The same with what is in a file of this name."""
    # All lines are parsed first, since writing to the store locks it for others.
    return store.merge(
        [
            (f"{name}:{number}", _given(line, f"{name}:{number}"))
            for number, line in enumerate(content.split(b"\n"), 1)
            if line.strip()
        ]
    )


def _given(content: bytes, where: str) -> Given:
    """A parsed line; raises UserError unless `export` could have written it."""
    try:
        line = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{where}: not a line of JSON in UTF-8; export the verdicts again") from None
    if not isinstance(line, dict):
        raise UserError(f"{where}: a verdict is a JSON object, not {type(line).__name__}")
    return parsed({**_OLDER, **line}, where)


def parsed(line: Mapping[str, Any], where: str) -> Given:
    """A verdict from its fields; raises UserError unless `export` could have written them."""
    if missing := [name for name in _KINDS if name not in line]:
        raise UserError(f'{where}: "{missing[0]}" is missing')
    if more := [name for name in line if name not in _KINDS]:
        raise UserError(f'{where}: "{more[0]}" is unknown; a verdict has {", ".join(_KINDS)}')
    for name, (kind, called) in _KINDS.items():
        if not isinstance(line[name], kind) or (isinstance(line[name], bool) and kind is not bool):
            raise UserError(f'{where}: "{name}" is {json.dumps(line[name])[:60]}, which is not {called}')
    _check(line, where)
    back = None if line["taken_back"] is None else _taken_back(line["taken_back"], line["id"], where)
    return Given(**{**line, "confidence": float(line["confidence"]), "taken_back": back})


def _check(line: Mapping[str, Any], where: str) -> None:
    for name in ("key", "relation", "model"):
        check_text(line[name], f"{where}: {name}")
    check_text(line["user"], f"{where}: user", LONGEST_USER)
    _check_id(line["id"], f"{where}: id")
    for name in ("shown", "at"):
        _check_time(line[name], f"{where}: {name}")
    if line["verdict"] not in VERDICTS:
        raise UserError(f'{where}: a verdict is "right", "wrong" or "unknown", not "{line["verdict"]}"')
    try:
        check_corrected(line["verdict"], line["relation"], line["corrected"])
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if not 0 <= line["confidence"] <= 1:
        raise UserError(f"{where}: confidence is a number from 0 to 1, not {line['confidence']}")
    if line["latency_ms"] is not None and not 0 <= line["latency_ms"] < 2**53:
        raise UserError(f"{where}: latency_ms cannot be {line['latency_ms']}")


def _taken_back(back: Mapping[str, Any], given: str, where: str) -> TakenBack:
    if set(back) != set(TakenBack._fields) or not all(isinstance(value, str) for value in back.values()):
        raise UserError(f'{where}: "taken_back" has "id" and "at", both strings')
    _check_id(back["id"], f"{where}: taken_back.id")
    _check_time(back["at"], f"{where}: taken_back.at")
    if back["id"] == given:
        raise UserError(f"{where}: a verdict cannot take itself back")
    return TakenBack(**back)


def _check_id(text: str, what: str) -> None:
    if not _ID.fullmatch(text):
        raise UserError(f"{what}: letters, digits, - and _ only, at most 100")


def _check_time(text: str, what: str) -> None:
    try:
        good = datetime.strptime(text, TIME).strftime(TIME) == text
    except ValueError:
        good = False
    if not good:
        raise UserError(f'{what}: "{text[:60]}" is not a time such as 2026-01-31T09:30:00.000000Z')
