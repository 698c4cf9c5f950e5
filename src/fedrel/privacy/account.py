"""What a platform has given away in noisy sums, over all runs: a line of JSON an answer, on disk before it leaves.

Answers compose (`accounting.py`), whatever run they are of: with μ_t = 1/noise_t of each, ε follows from √Σ μ_t². Noise
that hides all of a platform also hides each of its sentences: a sentence turns one clipped change into another, so it
counts as two. Noise that hides sentences does not hide a platform.

The same question is answered with the same numbers, which tell nothing new, and counts once. Other numbers for it would
give the noise away, and are not sent.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedrel.errors import UserError
from fedrel.privacy.accounting import PLATFORM, epsilon_of

FILE = "privacy.jsonl"  # beside the ledger


@dataclass(frozen=True)
class Answer:
    """One noisy answer. `asked`: a digest of the question; `sent`: of the numbers."""

    run: str
    run_id: str
    round: int
    task: str
    unit: str
    noise: float
    asked: str
    sent: str
    time: str = ""

    @property
    def question(self) -> tuple[object, ...]:
        return self.run_id, self.round, self.task, self.asked


@dataclass
class Account:
    """A platform's answers so far. Raises UserError where the file cannot be read or written."""

    path: Path
    answers: list[Answer]

    @classmethod
    def open(cls, path: Path) -> Account:
        """To write in. An answer whose line is incomplete, since the platform failed while it was written, did not
        leave: it is taken out.
        """
        found = cls.read(path)
        try:
            content = path.read_bytes() if path.exists() else b""
            if torn := len(content) - content.rfind(b"\n") - 1:
                os.truncate(path, len(content) - torn)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        return found

    @classmethod
    def read(cls, path: Path) -> Account:
        try:
            lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        return cls(path, list(_answers(path, lines)))

    def add(self, answer: Answer) -> None:
        """Writes an answer down, unless it was given before. Raises ValueError if it was, with other numbers."""
        before = next((it for it in self.answers if it.question == answer.question), None)
        if before is not None:
            if before.sent != answer.sent:
                raise ValueError("what it answered before was not the same, and two answers would show the noise")
            return
        dated = {**asdict(answer), "time": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, json.dumps(dated, separators=(",", ":")).encode() + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise UserError(
                f"{self.path}: {error.strerror or error}; nothing leaves that is not written here"
            ) from None
        self.answers.append(answer)

    def epsilon(
        self, unit: str, delta: float, *, planned: Iterable[float] = (), of: str = "", run_id: str = ""
    ) -> float:
        """What all answers together give away of this unit. `planned`: the noise of answers, of unit `of`, that take
        the place of those of the run.
        """
        squares = sum(_square(it.unit, it.noise, unit) for it in self.answers if not run_id or it.run_id != run_id)
        squares += sum(_square(of, noise, unit) for noise in planned)
        return epsilon_of(math.sqrt(squares), delta) if math.isfinite(squares) else math.inf


def _square(unit: str, noise: float, wanted: str) -> float:
    """μ² of one answer with noise for a unit, of what is wanted to be hidden."""
    if unit == wanted:
        return noise**-2
    return (2 / noise) ** 2 if unit == PLATFORM else math.inf


def _answers(path: Path, lines: Iterable[bytes]) -> Iterator[Answer]:
    for number, line in enumerate(lines, 1):
        try:
            answer = Answer(**json.loads(line))
            if not answer.noise > 0:
                raise ValueError
            yield answer
        except (ValueError, TypeError):
            raise UserError(
                f"{path}:{number}: damaged, so nobody knows how much has been given away; put a copy of the file back"
            ) from None
