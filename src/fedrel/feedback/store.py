"""A platform's store of predictions shown and verdicts given: an append-only SQLite file.

Undo adds a row that takes another back. A verdict is on disk before `give` returns (write-ahead log, synchronous =
FULL; people are slow enough for that), so neither a killed process nor a power cut loses it.
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
from fedrel.feedback.database import connect, connect_to_read, explained_errors, transaction

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"
VERDICTS = (RIGHT, WRONG, UNKNOWN)
LONGEST_USER = 100  # characters of a user's name
TIME = "%Y-%m-%dT%H:%M:%S.%fZ"  # of fixed width, so that sorting the text sorts by time

_LONGEST_TEXT = 2_000  # characters of a relation, a key or a model's digest
_NOT_TAKEN_BACK = "verdict IS NOT NULL AND number NOT IN (SELECT takes_back FROM verdicts WHERE takes_back IS NOT NULL)"


@dataclass(frozen=True)
class Verdict:
    """A user's verdict on one model's prediction for one sentence."""

    key: str
    relation: str
    model: str
    verdict: str
    user: str
    at: str
    latency_ms: int | None
    corrected: str | None = None  # of "wrong": the relation that the sentence states instead
    decides: bool = False  # where reviewers disagree, a decision counts instead of their verdicts

    @property
    def stated(self) -> str | None:
        """The relation that the sentence states according to this verdict; None if it says of none that it is."""
        return self.relation if self.verdict == RIGHT else self.corrected


class Prediction(NamedTuple):
    """A relation that a model predicted for a sentence."""

    relation: str
    model: str
    confidence: float


class TakenBack(NamedTuple):
    """The row that takes a verdict back."""

    id: str
    at: str


class Given(NamedTuple):
    """A verdict as it was given, with its prediction, and whether it was taken back."""

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
    corrected: str | None
    decides: bool
    taken_back: TakenBack | None


class Store:
    """An open store: `with Store.open(path) as store:`. Threads may share one; each process opens its own. All methods
    raise UserError if the file cannot be read or written.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._file = _identity(path)
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> Store:
        """Opens a store, and migrates one of an older version. A missing file is created, or without `create` an error.

        Raises UserError if the file cannot be opened, is not a store, or was written by a newer version.
        """
        if path.is_dir():
            raise UserError(f"{path}: this is a folder; name a file for the verdicts")
        if not path.exists():
            if not create:
                raise UserError(f"{path}: no such file; fedrel review creates one")
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"{path}: its folder cannot be created ({error.strerror or error})") from None
        return cls(path, connect(path, create=create))

    @classmethod
    def open_to_read(cls, path: Path) -> Store:
        """Opens an existing store for reading alone, without a right to write. Raises UserError as `open` does."""
        if not path.is_file():
            raise UserError(f"{path}: no such file; fedrel review creates one")
        return cls(path, connect_to_read(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def show(self, key: str, relation: str, confidence: float, model: str) -> int:
        """Records that a prediction is shown; returns its number, which stays the same if it is shown again.

        Raises UserError for empty or overlong text, and for a confidence outside 0 to 1.
        """
        for what, text in (("key", key), ("relation", relation), ("model", model)):
            check_text(text, what)
        if not 0 <= confidence <= 1:
            raise UserError(f"confidence is a number from 0 to 1, not {confidence}")
        with self._reading():
            if found := self._prediction(key, model, relation):
                return found
        with self._writing():
            return self._add_prediction(key, model, relation, float(confidence), _now())

    def give(
        self,
        prediction: int,
        user: str,
        verdict: str,
        latency_ms: int | None = None,
        *,
        corrected: str | None = None,
        decides: bool = False,
        id: str | None = None,
    ) -> None:
        """Adds a verdict, with the relation that is `corrected` if the one shown is wrong and another is stated. An
        `id` that the store already has is the same click again, and changes nothing. Raises UserError for a verdict
        that is not one of VERDICTS or does not fit what is corrected, an unknown prediction, or an empty or overlong
        user.
        """
        check_text(user, "user", LONGEST_USER)
        if verdict not in VERDICTS:
            raise UserError(f'a verdict is "right", "wrong" or "unknown", not "{verdict}"')
        with self._writing():
            shown = self._row("SELECT relation FROM predictions WHERE number = ?", prediction)
            if not shown:
                raise UserError(f"{self.path}: there is no prediction {prediction}")
            check_corrected(verdict, str(shown[0]), corrected)
            if id is None or not self._row("SELECT 1 FROM verdicts WHERE id = ?", id):
                self._add(id, prediction, user, verdict, None, self._time(user), latency_ms, corrected, decides)

    def undo(self, user: str, *, decides: bool = False, id: str | None = None) -> int | None:
        """Takes back the user's latest standing verdict, or their latest decision; returns the number of its
        prediction, or None if there is none. An `id` that the store already has is the same click again, and changes
        nothing.
        """
        with self._writing():
            if id is not None and (done := self._row("SELECT prediction FROM verdicts WHERE id = ?", id)):
                return int(done[0])
            last = self._row(
                "SELECT number, prediction FROM verdicts "
                f"WHERE user = ? AND decides = ? AND {_NOT_TAKEN_BACK} ORDER BY at DESC, number DESC LIMIT 1",
                user,
                decides,
            )
            if last is None:
                return None
            number, prediction = last
            self._add(id, prediction, user, None, number, self._time(user), None)
            return int(prediction)

    def standing(self) -> Iterator[Verdict]:
        """The latest verdict that was not taken back, and the latest such decision, for every prediction and user, in
        the order given.
        """
        with self._reading():
            rows = self._connection.execute(
                "SELECT key, relation, model, verdict, user, at, latency_ms, corrected, decides FROM ("
                "  SELECT *, row_number()"
                "    OVER (PARTITION BY prediction, user, decides ORDER BY at DESC, number DESC) AS place"
                f"  FROM verdicts WHERE {_NOT_TAKEN_BACK}"
                ") AS latest JOIN predictions ON predictions.number = prediction "
                "WHERE place = 1 ORDER BY at, latest.number"
            ).fetchall()
        return (
            Verdict(key, relation, model, verdict, user, at, latency, corrected, bool(decides))
            for key, relation, model, verdict, user, at, latency, corrected, decides in rows
        )

    def counts(self) -> dict[str, int]:
        """The number of predictions `shown`, and of reviewers' standing verdicts of each kind."""
        with self._reading():
            row = self._row("SELECT count(*) FROM predictions")
        counted = {"shown": int(row[0]) if row else 0} | dict.fromkeys(VERDICTS, 0)
        for it in self.standing():
            counted[it.verdict] += not it.decides
        return counted

    def sentence_of(self, prediction: int) -> tuple[str, str] | None:
        """The key of the sentence and the relation of a prediction; None if there is no such prediction."""
        with self._reading():
            found = self._row("SELECT key, relation FROM predictions WHERE number = ?", prediction)
        return (str(found[0]), str(found[1])) if found else None

    def predictions(self) -> dict[str, list[Prediction]]:
        """What was shown, by the key of the sentence: each relation once, as it was shown last."""
        with self._reading():
            rows = self._connection.execute("SELECT key, relation, model, confidence FROM predictions ORDER BY number")
            latest = {row[:2]: Prediction(*row[1:]) for row in rows.fetchall()}
        found: dict[str, list[Prediction]] = {}
        for (key, _), it in latest.items():
            found.setdefault(key, []).append(it)
        return found

    def history(self) -> list[Given]:
        """Every verdict in the order given, including those taken back."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT given.id, key, relation, model, confidence, shown, given.user, given.verdict, given.at,"
                " given.latency_ms, given.corrected, given.decides, back.id, back.at FROM verdicts AS given"
                " JOIN predictions ON predictions.number = given.prediction"
                " LEFT JOIN verdicts AS back ON back.takes_back = given.number"
                " WHERE given.verdict IS NOT NULL ORDER BY given.at, given.number"
            ).fetchall()
        return [
            Given._make([*fields, bool(decides), None if back_id is None else TakenBack(back_id, back_at)])
            for *fields, decides, back_id, back_at in rows
        ]

    def merge(self, verdicts: Iterable[tuple[str, Given]]) -> int:
        """Adds verdicts that are not in the store, and takes back those taken back there; returns how many rows were
        added. Each verdict comes with its place (file:line) for messages. Raises UserError if one contradicts what is
        stored, and then adds none.
        """
        with self._writing():
            return sum(self._merge(given, where) for where, given in verdicts)

    # ------------------------------------------------------------------------------------------ inside

    def _merge(self, it: Given, where: str) -> int:
        known = self._row(
            "SELECT verdicts.number, prediction, key, relation, model, user, verdict, at, latency_ms,"
            " corrected, decides FROM verdicts JOIN predictions ON predictions.number = prediction WHERE id = ?",
            it.id,
        )
        added = 0
        if known is None:
            prediction = self._add_prediction(it.key, it.model, it.relation, it.confidence, it.shown)
            number = self._add(
                it.id, prediction, it.user, it.verdict, None, it.at, it.latency_ms, it.corrected, it.decides
            )
            added += 1
        else:
            number, prediction, *there = known
            names = ("key", "relation", "model", "user", "verdict", "at", "latency_ms", "corrected", "decides")
            if other := [name for name, value in zip(names, there, strict=True) if getattr(it, name) != value]:
                raise UserError(f'{where}: the store has another verdict with the id {it.id} ("{other[0]}" differs)')
        back = it.taken_back
        if back is not None and not self._row("SELECT 1 FROM verdicts WHERE takes_back = ?", number):
            if self._row("SELECT 1 FROM verdicts WHERE id = ?", back.id):
                raise UserError(f"{where}: the store already uses the id {back.id} for something else")
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
        """The number of the prediction, which another process may have added in the meantime."""
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
        corrected: str | None = None,
        decides: bool = False,
    ) -> int:
        added = self._connection.execute(
            "INSERT INTO verdicts (id, prediction, user, verdict, takes_back, at, latency_ms, corrected, decides) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (id or secrets.token_hex(16), prediction, user, verdict, takes_back, at, latency_ms, corrected, decides),
        )
        return int(added.lastrowid or 0)

    def _time(self, user: str) -> str:
        """The current time, or just after this user's latest row if the clock was set back."""
        last = self._row("SELECT max(at) FROM verdicts WHERE user = ?", user)
        now = _now()
        return now if last is None or last[0] is None or last[0] < now else _just_after(last[0])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, explained_errors(self.path):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A write transaction, which blocks other writers."""
        with self._lock, explained_errors(self.path):
            if _identity(self.path) != self._file:  # SQLite would go on writing to the file that is gone
                raise UserError(
                    f"{self.path}: this file was moved, deleted or replaced since it was opened; put it back, or "
                    "restart: this was not stored"
                )
            with transaction(self._connection):
                yield


def check_corrected(verdict: str, relation: str, corrected: str | None) -> None:
    """Raises UserError for a relation that is stated instead of the one shown unless that is wrong and another."""
    if corrected is not None:
        check_text(corrected, "corrected")
        if verdict != WRONG:
            raise UserError(f'another relation is stated only if the one shown is "wrong", not "{verdict}"')
        if corrected == relation:
            raise UserError(f'"{relation}" is the relation that was shown; if it is stated, the verdict is "right"')


def check_text(text: str, what: str, longest: int = _LONGEST_TEXT) -> None:
    """Raises a UserError that begins with `what` if the text is blank, too long or not valid Unicode."""
    if not text.strip():
        raise UserError(f"{what}: must not be empty")
    if len(text) > longest:
        raise UserError(f"{what}: longer than {longest:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{what}: contains a lone surrogate (half a character), which cannot be stored") from None


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
