"""What a platform's users were shown and what they said of it: one SQLite file, to which rows are only ever added.

Undoing adds a row that takes another back. A verdict that was given is on disk (write-ahead log, synchronous = FULL:
people judge slowly enough for that), so neither a killed process nor a power cut loses it.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from fedrel.errors import UserError
from fedrel.files import stream_whole

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"
VERDICTS = (RIGHT, WRONG, UNKNOWN)
LONGEST_USER = 100  # characters of a name

_APPLICATION = 0x66726C76  # "frlv": what marks an SQLite file as a store of verdicts
_TIMEOUT = 10.0  # seconds that another program may hold the file
_LONGEST_TEXT = 2_000  # characters of a relation, a key, a model's digest
_MIGRATIONS: tuple[tuple[str, ...], ...] = (  # from version n to n + 1, a statement each; what is published stays
    (
        """CREATE TABLE predictions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,  -- of the sentence, as keys.py makes it
            model TEXT NOT NULL,  -- its digest
            relation TEXT NOT NULL,
            confidence REAL NOT NULL,
            shown TEXT NOT NULL,  -- for the first time
            UNIQUE (key, model, relation)
        ) STRICT""",
        """CREATE TABLE verdicts (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,  -- by which the same click, or the same line of a file, is known again
            prediction INTEGER NOT NULL REFERENCES predictions,
            user TEXT NOT NULL,
            verdict TEXT CHECK (verdict IN ('right', 'wrong', 'unknown')),
            takes_back INTEGER UNIQUE REFERENCES verdicts,
            at TEXT NOT NULL,
            latency_ms INTEGER CHECK (latency_ms >= 0),
            CHECK ((verdict IS NULL) <> (takes_back IS NULL))
        ) STRICT""",
        "CREATE INDEX verdicts_of_user ON verdicts (user, at)",
        *(
            f"CREATE TRIGGER {table}_{action} BEFORE {action} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are only added'); END"
            for table in ("predictions", "verdicts")
            for action in ("UPDATE", "DELETE")
        ),
    ),
)
_NOT_TAKEN_BACK = "verdict IS NOT NULL AND number NOT IN (SELECT takes_back FROM verdicts WHERE takes_back IS NOT NULL)"
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_SHUT = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


@dataclass(frozen=True)
class Verdict:
    """What a user said of one model's prediction for one sentence."""

    key: str
    relation: str
    model: str
    verdict: str
    user: str
    at: str
    latency_ms: int | None


class Store:
    """`with Store.open(path) as store:`. Threads may share one; other processes open the file for themselves."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> Store:
        """A new file gets its tables, an older one what it lacks."""
        if path.is_dir():
            raise UserError(f"{path}: this is a folder; name a file for the verdicts")
        if not path.exists():
            if not create:
                raise UserError(f"{path}: no such file; fedrel review makes one")
            path.parent.mkdir(parents=True, exist_ok=True)
        with _told(path):
            mode = "rwc" if create else "rw"
            address = f"{path.absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(
                address, uri=True, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                _prepare(path, connection)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def show(self, key: str, relation: str, confidence: float, model: str) -> int:
        """Notes that a prediction is shown; its number, which is the same whenever the same one is shown again."""
        for what, text in (("key", key), ("relation", relation), ("model", model)):
            _check_text(text, what)
        if not 0 <= confidence <= 1:
            raise UserError(f"confidence is a share from 0 to 1, not {confidence}")
        with self._reading():
            if found := self._prediction(key, model, relation):
                return found
        with self._writing():
            return self._add_prediction(key, model, relation, float(confidence), _now())

    def give(
        self, prediction: int, user: str, verdict: str, latency_ms: int | None = None, *, id: str | None = None
    ) -> None:
        """Adds a verdict. One with an `id` that the store has already is the same click again, and changes nothing."""
        _check_text(user, "user", LONGEST_USER)
        if verdict not in VERDICTS:
            raise UserError(f'a verdict is "right", "wrong" or "unknown", not "{verdict}"')
        with self._writing():
            if not self._row("SELECT 1 FROM predictions WHERE number = ?", prediction):
                raise UserError(f"{self.path}: no prediction has the number {prediction}")
            if id is None or not self._row("SELECT 1 FROM verdicts WHERE id = ?", id):
                self._add(id, prediction, user, verdict, None, self._time(user), latency_ms)

    def undo(self, user: str, *, id: str | None = None) -> int | None:
        """Takes back the user's latest standing verdict: the number of its prediction, or None if there is none. With
        an `id` that the store has already, it is done already.
        """
        with self._writing():
            if id is not None and (done := self._row("SELECT prediction FROM verdicts WHERE id = ?", id)):
                return int(done[0])
            last = self._row(
                "SELECT number, prediction FROM verdicts "
                f"WHERE user = ? AND {_NOT_TAKEN_BACK} ORDER BY at DESC, number DESC LIMIT 1",
                user,
            )
            if last is None:
                return None
            number, prediction = last
            self._add(id, prediction, user, None, number, self._time(user), None)
            return int(prediction)

    def standing(self) -> Iterator[Verdict]:
        """For every prediction and user the latest verdict that was not taken back, in the order they were given."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT key, relation, model, verdict, user, at, latency_ms FROM ("
                "  SELECT *, row_number() OVER (PARTITION BY prediction, user ORDER BY at DESC, number DESC) AS place"
                f"  FROM verdicts WHERE {_NOT_TAKEN_BACK}"
                ") AS latest JOIN predictions ON predictions.number = prediction "
                "WHERE place = 1 ORDER BY at, latest.number"
            ).fetchall()
        return (Verdict(*row) for row in rows)

    def counts(self) -> dict[str, int]:
        """How many predictions were shown, and how many standing verdicts there are of each kind."""
        with self._reading():
            row = self._row("SELECT count(*) FROM predictions")
        counted = {"shown": int(row[0]) if row else 0} | dict.fromkeys(VERDICTS, 0)
        for verdict in self.standing():
            counted[verdict.verdict] += 1
        return counted

    def sentence_of(self, prediction: int) -> tuple[str, str] | None:
        """The key and the relation of a prediction."""
        with self._reading():
            found = self._row("SELECT key, relation FROM predictions WHERE number = ?", prediction)
        return (str(found[0]), str(found[1])) if found else None

    # ------------------------------------------------------------------------------------------ inside

    def _row(self, query: str, *values: object) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return found

    def _prediction(self, key: str, model: str, relation: str) -> int | None:
        found = self._row(
            "SELECT number FROM predictions WHERE key = ? AND model = ? AND relation = ?", key, model, relation
        )
        return int(found[0]) if found else None

    def _add_prediction(self, key: str, model: str, relation: str, confidence: float, shown: str) -> int:
        """Its number; somebody else may have shown it in the meantime."""
        if found := self._prediction(key, model, relation):
            return found
        added = self._connection.execute(
            "INSERT INTO predictions (key, model, relation, confidence, shown) VALUES (?, ?, ?, ?, ?)",
            (key, model, relation, confidence, shown),
        )
        return int(added.lastrowid or 0)

    def _add(
        self,
        id: str | None,
        prediction: int,
        user: str,
        verdict: str | None,
        takes_back: int | None,
        at: str,
        latency_ms: int | None,
    ) -> int:
        added = self._connection.execute(
            "INSERT INTO verdicts (id, prediction, user, verdict, takes_back, at, latency_ms) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (id or secrets.token_hex(16), prediction, user, verdict, takes_back, at, latency_ms),
        )
        return int(added.lastrowid or 0)

    def _time(self, user: str) -> str:
        """Now, but after all that this user did before, even if the clock was set back."""
        last = self._row("SELECT max(at) FROM verdicts WHERE user = ?", user)
        now = _now()
        return now if last is None or last[0] is None or last[0] < now else _just_after(last[0])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, _told(self.path):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """All of it or nothing; others wait."""
        with self._lock, _told(self.path), _transaction(self._connection):
            yield


# ------------------------------------------------------------------------------------------ files


def export(store: Store, path: Path) -> int:
    """Every verdict as a line of JSON, those that were taken back too; how many."""
    with store._reading():
        rows = store._connection.execute(
            "SELECT given.id, key, relation, model, confidence, shown, given.user, given.verdict, given.at,"
            " given.latency_ms, back.id, back.at FROM verdicts AS given"
            " JOIN predictions ON predictions.number = given.prediction"
            " LEFT JOIN verdicts AS back ON back.takes_back = given.number"
            " WHERE given.verdict IS NOT NULL ORDER BY given.at, given.number"
        ).fetchall()
    with stream_whole(path) as file:
        for *fields, back_id, back_at in rows:
            line = dict(zip(_FIELDS, [*fields, {"id": back_id, "at": back_at} if back_id else None], strict=True))
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    return len(rows)


def load(store: Store, path: Path) -> int:
    """Adds the verdicts of an exported file that the store does not have, and takes back what the file takes back; how
    many rows that added. All of the file or, where a line is wrong, nothing.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    with store._writing():
        return sum(
            _load_line(store, line, f"{path}:{number}")
            for number, line in enumerate(content.split(b"\n"), 1)
            if line.strip()
        )


_FIELDS = {
    "id": str,
    "key": str,
    "relation": str,
    "model": str,
    "confidence": float,
    "shown": str,
    "user": str,
    "verdict": str,
    "at": str,
    "latency_ms": int | None,
    "taken_back": dict | None,
}
_ID = re.compile(r"[0-9A-Za-z_-]{1,100}")


def _load_line(store: Store, content: bytes, where: str) -> int:
    line = _checked(content, where)
    known = store._row(
        "SELECT key, relation, model, verdicts.number, user, verdict, at, latency_ms, prediction FROM verdicts"
        " JOIN predictions ON predictions.number = prediction WHERE id = ?",
        line["id"],
    )
    added = 0
    if known is None:
        prediction = store._add_prediction(
            line["key"], line["model"], line["relation"], float(line["confidence"]), line["shown"]
        )
        number = store._add(line["id"], prediction, line["user"], line["verdict"], None, line["at"], line["latency_ms"])
        added += 1
    else:
        key, relation, model, number, user, verdict, at, latency_ms, prediction = known
        there = {"key": key, "relation": relation, "model": model, "user": user, "verdict": verdict, "at": at}
        there["latency_ms"] = latency_ms
        if other := [name for name, value in there.items() if line[name] != value]:
            raise UserError(f'{where}: the store has another verdict with the id {line["id"]} ("{other[0]}" differs)')
    back = line["taken_back"]
    if back is not None and not store._row("SELECT 1 FROM verdicts WHERE takes_back = ?", number):
        if store._row("SELECT 1 FROM verdicts WHERE id = ?", back["id"]):
            raise UserError(f"{where}: the store has something else with the id {back['id']}")
        store._add(back["id"], prediction, line["user"], None, number, back["at"], None)
        added += 1
    return added


def _checked(content: bytes, where: str) -> dict[str, Any]:
    """A line that export could have written."""
    try:
        line = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{where}: no line of JSON in UTF-8; export the verdicts again") from None
    if not isinstance(line, dict):
        raise UserError(f"{where}: a verdict is a JSON object, not {type(line).__name__}")
    if missing := [name for name in _FIELDS if name not in line]:
        raise UserError(f'{where}: "{missing[0]}" is missing')
    if more := [name for name in line if name not in _FIELDS]:
        raise UserError(f'{where}: "{more[0]}" is unknown; a verdict has {", ".join(_FIELDS)}')
    for name, kind in _FIELDS.items():
        value = line[name]
        fits = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
        if not fits:
            raise UserError(f'{where}: "{name}" is {json.dumps(value)[:60]}, which is no {_KIND[name]}')
    _check_line(line, where)
    if line["taken_back"] is not None:
        _check_back(line["taken_back"], line["id"], where)
    return line


_KIND = dict.fromkeys(_FIELDS, "text") | {
    "confidence": "share from 0 to 1",
    "latency_ms": "number of milliseconds, nor null",
    "taken_back": "object, nor null",
}


def _check_line(line: Mapping[str, Any], where: str) -> None:
    for name in ("key", "relation", "model"):
        _check_text(line[name], f"{where}: {name}")
    _check_text(line["user"], f"{where}: user", LONGEST_USER)
    _check_id(line["id"], f"{where}: id")
    for name in ("shown", "at"):
        _check_time(line[name], f"{where}: {name}")
    if line["verdict"] not in VERDICTS:
        raise UserError(f'{where}: a verdict is "right", "wrong" or "unknown", not "{line["verdict"]}"')
    if not 0 <= line["confidence"] <= 1:
        raise UserError(f"{where}: confidence is a share from 0 to 1, not {line['confidence']}")
    if line["latency_ms"] is not None and not 0 <= line["latency_ms"] < 2**53:
        raise UserError(f"{where}: latency_ms cannot be {line['latency_ms']}")


def _check_back(back: Mapping[str, Any], given: str, where: str) -> None:
    if set(back) != {"id", "at"} or not all(isinstance(value, str) for value in back.values()):
        raise UserError(f'{where}: "taken_back" has "id" and "at", both text')
    _check_id(back["id"], f"{where}: taken_back.id")
    _check_time(back["at"], f"{where}: taken_back.at")
    if back["id"] == given:
        raise UserError(f"{where}: a verdict does not take itself back")


def _check_id(text: str, what: str) -> None:
    if not _ID.fullmatch(text):
        raise UserError(f"{what}: letters, digits, - and _ only, at most 100")


def _check_text(text: str, what: str, longest: int = _LONGEST_TEXT) -> None:
    if not text.strip():
        raise UserError(f"{what}: must not be empty")
    if len(text) > longest:
        raise UserError(f"{what}: longer than {longest:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{what}: holds half a character (a lone surrogate), which cannot be stored") from None


# ------------------------------------------------------------------------------------------ time

_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"  # of one width, so that text in order is time in order


def _now() -> str:
    return datetime.now(UTC).strftime(_TIME)


def _just_after(moment: str) -> str:
    return (datetime.strptime(moment, _TIME) + timedelta(microseconds=1)).strftime(_TIME)


def _check_time(text: str, what: str) -> None:
    try:
        good = datetime.strptime(text, _TIME).strftime(_TIME) == text
    except ValueError:
        good = False
    if not good:
        raise UserError(f'{what}: "{text[:60]}" is no time such as 2026-01-31T09:30:00.000000Z')


# ------------------------------------------------------------------------------------------ SQLite


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Makes sure that this is a store, of our version. A file that is none stays as it is."""
    version = _version(path, connection)
    if version < len(_MIGRATIONS):
        with _transaction(connection):
            version = _version(path, connection)  # somebody else may have been first
            for statements in _MIGRATIONS[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _version(path: Path, connection: sqlite3.Connection) -> int:
    application, version, tables = (
        int(connection.execute(query).fetchone()[0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if application != _APPLICATION and (application or version or tables):
        raise UserError(f"{path}: a database, but no store of verdicts; name another file")
    if version > len(_MIGRATIONS):
        raise UserError(
            f"{path}: this store was written by a newer fedrel (version {version} of the store; this one knows "
            f"{len(_MIGRATIONS)}); install that, the store is unchanged"
        )
    return version


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Readers and the writer do not wait for each other. SQLite does not wait by itself for those who hold the file
    while the mode changes, which is only the moment when several open a new one.
    """
    end = time.monotonic() + _TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """Without the details that SQLite packs into the upper bits."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What SQLite complains of, as a sentence for whoever can mend it."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in _BUSY:
            raise UserError(
                f"{path}: another program has held the store for {_TIMEOUT:.0f} seconds; close it and try again, "
                "nothing that was stored is lost"
            ) from None
        if code in _FULL:
            raise UserError(
                f"{path}: cannot be written, the disk is full or fails ({error}); make room and try again: "
                "this was not stored, all before it is"
            ) from None
        if code in _SHUT:
            raise UserError(f"{path}: cannot be opened for writing ({error}); whose file or folder is it?") from None
        if code == sqlite3.SQLITE_NOTADB:
            raise UserError(f"{path}: no store of verdicts; name another file") from None
        if code == sqlite3.SQLITE_CORRUPT:
            raise UserError(f"{path}: damaged ({error}); take the latest copy, or import an export of it") from None
        raise
