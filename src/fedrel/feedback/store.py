"""What a platform's users were shown and what they said of it: one SQLite file, to which rows are only ever added.

Undoing adds a row that takes another back. A verdict that was given is on disk (write-ahead log, synchronous = FULL:
people judge slowly enough for that), so neither a killed process nor a power cut loses it.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from fedrel.errors import UserError
from fedrel.feedback.database import connect, told, transaction

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"
VERDICTS = (RIGHT, WRONG, UNKNOWN)
LONGEST_USER = 100  # characters of a name
TIME = "%Y-%m-%dT%H:%M:%S.%fZ"  # of one width, so that text in order is time in order

_LONGEST_TEXT = 2_000  # characters of a relation, a key, a model's digest
_NOT_TAKEN_BACK = "verdict IS NOT NULL AND number NOT IN (SELECT takes_back FROM verdicts WHERE takes_back IS NOT NULL)"


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


class TakenBack(NamedTuple):
    id: str
    at: str


class Given(NamedTuple):
    """A verdict as it was given, with the prediction that it is about, and whether it was taken back."""

    id: str
    key: str
    relation: str
    model: str
    confidence: float
    shown: str
    user: str
    verdict: str
    at: str
    latency_ms: int | None
    taken_back: TakenBack | None


class Store:
    """`with Store.open(path) as store:`. Threads may share one; other processes open the file for themselves."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._file = _identity(path)
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> Store:
        """A new file gets its tables, an older one what it lacks."""
        if path.is_dir():
            raise UserError(f"{path}: this is a folder; name a file for the verdicts")
        if not path.exists():
            if not create:
                raise UserError(f"{path}: no such file; fedrel review makes one")
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"{path}: its folder cannot be made ({error.strerror or error})") from None
        return cls(path, connect(path, create=create))

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
            check_text(text, what)
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
        check_text(user, "user", LONGEST_USER)
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

    def history(self) -> list[Given]:
        """Every verdict in the order they were given, those that were taken back too."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT given.id, key, relation, model, confidence, shown, given.user, given.verdict, given.at,"
                " given.latency_ms, back.id, back.at FROM verdicts AS given"
                " JOIN predictions ON predictions.number = given.prediction"
                " LEFT JOIN verdicts AS back ON back.takes_back = given.number"
                " WHERE given.verdict IS NOT NULL ORDER BY given.at, given.number"
            ).fetchall()
        return [
            Given._make([*fields, None if back_id is None else TakenBack(back_id, back_at)])
            for *fields, back_id, back_at in rows
        ]

    def merge(self, verdicts: Iterable[tuple[str, Given]]) -> int:
        """Adds those that are not there, and takes back what they take back; how many rows that added. Each comes with
        the place that it is from. All of them or, where one contradicts what is stored, none.
        """
        with self._writing():
            return sum(self._merge(given, where) for where, given in verdicts)

    # ------------------------------------------------------------------------------------------ inside

    def _merge(self, it: Given, where: str) -> int:
        known = self._row(
            "SELECT verdicts.number, prediction, key, relation, model, user, verdict, at, latency_ms FROM verdicts"
            " JOIN predictions ON predictions.number = prediction WHERE id = ?",
            it.id,
        )
        added = 0
        if known is None:
            prediction = self._add_prediction(it.key, it.model, it.relation, it.confidence, it.shown)
            number = self._add(it.id, prediction, it.user, it.verdict, None, it.at, it.latency_ms)
            added += 1
        else:
            number, prediction, *there = known
            names = ("key", "relation", "model", "user", "verdict", "at", "latency_ms")
            if other := [name for name, value in zip(names, there, strict=True) if getattr(it, name) != value]:
                raise UserError(f'{where}: the store has another verdict with the id {it.id} ("{other[0]}" differs)')
        back = it.taken_back
        if back is not None and not self._row("SELECT 1 FROM verdicts WHERE takes_back = ?", number):
            if self._row("SELECT 1 FROM verdicts WHERE id = ?", back.id):
                raise UserError(f"{where}: the store has something else with the id {back.id}")
            self._add(back.id, prediction, it.user, None, number, back.at, None)
            added += 1
        return added

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
        with self._lock, told(self.path):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """All of it or nothing; others wait."""
        with self._lock, told(self.path):
            if _identity(self.path) != self._file:  # SQLite would go on in a file that nobody finds again
                raise UserError(
                    f"{self.path}: this file was moved, deleted or replaced since it was opened; put it back, or start "
                    "again: this was not stored"
                )
            with transaction(self._connection):
                yield


def check_text(text: str, what: str, longest: int = _LONGEST_TEXT) -> None:
    if not text.strip():
        raise UserError(f"{what}: must not be empty")
    if len(text) > longest:
        raise UserError(f"{what}: longer than {longest:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{what}: holds half a character (a lone surrogate), which cannot be stored") from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _now() -> str:
    return datetime.now(UTC).strftime(TIME)


def _just_after(moment: str) -> str:
    return (datetime.strptime(moment, TIME) + timedelta(microseconds=1)).strftime(TIME)
