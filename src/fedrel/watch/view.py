"""What is known of runs and of the platforms behind them: for `fedrel status`, for the page, and for JSON.

It is made from statuses: what a coordinator answers (`fedrel.federation.nodes.status`), or what `fedrel.watch.folder`
finds in the folder of a run. Either may come from elsewhere, or from another version: nothing in it is relied on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from fedrel.watch import states
from fedrel.watch.history import is_number

SILENT = 30.0  # seconds without a sign of life that are worth a word
_SLOW, _TIMES = 20.0, 3.0  # a reply is late after so many seconds, and so many times what others have taken
_RECENT = 10  # rounds that predict the others


@dataclass(frozen=True)
class Platform:
    """How a platform is doing. Times are seconds since 1970; 0: never."""

    name: str
    state: str  # one of states.PLATFORM_STATES
    connected: bool | None  # None: there is nothing to be connected to
    seen: float  # its last reply
    sent: int  # bytes
    rounds: int | None  # that it took part in
    held: int | None  # sentences
    failures: int
    outliers: int
    problem: str  # the last one


@dataclass(frozen=True)
class Event:
    """Something that went wrong, or right again."""

    time: float  # 0: not known
    round: int
    what: str
    platform: str
    why: str
    times: int


@dataclass(frozen=True)
class Run:
    """How far a run has come."""

    name: str
    state: str
    why: str
    done: str  # rounds, in words
    round: int
    rounds: int  # at most
    metric: str
    score: float | None
    best_round: int
    doing: str
    place: int  # in the queue
    silent: float  # seconds without a sign of life
    began: float
    left: float | None  # seconds, at most
    method: str
    history: list[dict[str, Any]]
    events: list[Event]
    platforms: list[Platform]
    result: dict[str, Any]
    folder: str

    @property
    def ended(self) -> bool:
        """Whether it will not go on by itself."""
        return self.state in (*states.ENDED, states.INTERRUPTED)

    @property
    def is_silent(self) -> bool:
        """Whether there has been no sign of life for so long that one should know."""
        return not self.ended and self.state != states.QUEUED and self.silent > SILENT

    @property
    def counts(self) -> Counter[str]:
        """How many platforms are in which state."""
        return Counter(it.state for it in self.platforms)

    def sum(self, name: str) -> float:
        """The sum of up, down or seconds over all rounds."""
        return _number(self.history[-1].get(f"all_{name}")) if self.history else 0.0


@dataclass(frozen=True)
class View:
    """All runs, unfinished ones first, and all platforms."""

    runs: list[Run]
    platforms: list[Platform]  # with the numbers of the run at work, or else of the latest

    def run(self, name: str = "") -> Run | None:
        """The run of this name; without one, the run at work, or else the latest."""
        if name:
            return next((it for it in self.runs if it.name == name), None)
        at_work = (it for it in self.runs if it.state in states.ALIVE)
        return next(at_work, None) or (self.runs[-1] if self.runs else None)


def view(statuses: Iterable[Mapping[str, Any]], connected: Mapping[str, Any] | None, now: float) -> View:
    """`connected`: the platforms that are, by name; None where there is nothing to be connected to."""
    found = [dict(it) for it in statuses]
    runs = [_run(it, connected, now) for it in found]
    entries: dict[str, tuple[Any, Mapping[str, Any]]] = {}
    for it in sorted(found, key=lambda it: (it.get("state") in states.ALIVE, _number(it.get("beat")))):
        entries |= {str(name): (entry, it) for name, entry in _table(it.get("platforms")).items()}
    names = sorted({*entries, *(connected or ())})
    return View(runs, [_platform(name, *entries.get(name, ({}, {})), connected, now) for name in names])


def _run(it: Mapping[str, Any], connected: Mapping[str, Any] | None, now: float) -> Run:
    history = [line for line in _list(it.get("history")) if isinstance(line, dict) and is_number(line.get("round"))]
    round_, rounds, ended = (
        int(_number(it.get("round"))),
        int(_number(it.get("rounds"))),
        it.get("state") in states.ENDED,
    )
    seconds = [_number(line.get("seconds")) for line in history[-_RECENT:]]
    left = sum(seconds) / len(seconds) * (rounds - round_) if seconds and rounds and not ended else None
    score = it.get("score")
    return Run(
        name=str(it.get("run", "")),
        state=str(it.get("state", "")),
        why=str(it.get("why") or ""),
        done=states.rounds_done({**it, "round": round_, "rounds": rounds}),
        round=round_,
        rounds=rounds,
        metric=str(it.get("metric") or ""),
        score=float(score) if is_number(score) else None,
        best_round=int(_number(it.get("best_round"))),
        doing="" if ended else str(it.get("doing") or ""),
        place=int(_number(it.get("place"))),
        silent=_number(it.get("silent")),
        began=_number(it.get("queued")),
        left=left,
        method=str(it.get("method") or _table(it.get("result")).get("method") or ""),
        history=history,
        events=[_event(found) for found in _list(it.get("events")) if isinstance(found, dict)],
        platforms=_platforms(it, connected, now),
        result=_table(it.get("result")),
        folder=str(it.get("folder") or ""),
    )


def _platforms(it: Mapping[str, Any], connected: Mapping[str, Any] | None, now: float) -> list[Platform]:
    found = [_platform(str(name), entry, it, connected, now) for name, entry in _table(it.get("platforms")).items()]
    order = {state: place for place, state in enumerate(states.PLATFORM_STATES)}
    return sorted(found, key=lambda it: (order[it.state], it.name))


def _platform(
    name: str, entry: Any, status: Mapping[str, Any], connected: Mapping[str, Any] | None, now: float
) -> Platform:
    mine = _table(entry)
    problem = "; ".join(str(mine[kind]) for kind in ("suspicion", "why") if mine.get(kind))
    return Platform(
        name=name,
        state=_state(name, mine, status, connected, now),
        connected=None if connected is None else name in connected,
        seen=_number(mine.get("seen")),
        sent=int(_number(mine.get("bytes"))),
        rounds=int(mine["rounds"]) if is_number(mine.get("rounds")) else None,
        held=int(mine["held"]) if is_number(mine.get("held")) else None,
        failures=int(_number(mine.get("failures"))),
        outliers=int(_number(mine.get("suspicions"))),
        problem=problem,
    )


def _state(
    name: str, mine: Mapping[str, Any], status: Mapping[str, Any], connected: Mapping[str, Any] | None, now: float
) -> str:
    if connected is not None and name not in connected:
        return states.GONE
    asked = _number(mine.get("asked"))
    if asked and status.get("state") in states.ALIVE:
        return states.LATE if now - asked > _patience(status) else states.WORKING
    if _number(mine.get("failed")) > _number(mine.get("seen")):  # its last word, or silence
        why = str(mine.get("why") or "")
        if why.startswith(("refused: ", states.REFUSES)):
            return states.REFUSED
        return states.LATE if why.startswith(states.NO_ANSWER) else states.FAILED
    if mine.get("suspected") and _number(mine.get("suspected")) == _number(status.get("round")):
        return states.LEFT_OUT
    return states.ACTIVE if name in _list(status.get("cohort")) else states.IDLE


def _patience(status: Mapping[str, Any]) -> float:
    """Seconds after which a reply is late: three times what half of the platforms that have answered have taken."""
    entries = [_table(it) for it in _table(status.get("platforms")).values()]
    took = [taken for it in entries if (taken := _number(it.get("took"))) > 0]
    return max(_SLOW, _TIMES * median(took)) if took else float("inf")


def _event(found: Mapping[str, Any]) -> Event:
    return Event(
        time=_number(found.get("time")),
        round=int(_number(found.get("round"))),
        what=str(found.get("what", "")),
        platform=str(found.get("platform") or ""),
        why=str(found.get("why") or ""),
        times=int(_number(found.get("times")) or 1),
    )


def _number(value: object) -> float:
    return float(value) if is_number(value) else 0.0


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
