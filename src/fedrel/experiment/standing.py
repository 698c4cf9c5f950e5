"""How far a run has come: what a round reports, and what a resumed run must know beside the weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedrel.engines.screening import Past


@dataclass(frozen=True)
class Progress:
    """One finished round, as written to metrics.jsonl."""

    line: dict[str, Any]
    best_round: int
    best_score: float
    stopped: bool


@dataclass
class Standing:
    """All that a resumed run must know, beside the weights."""

    data: str = ""  # the content that the run was started on
    rounds: int = 0
    best_round: int = 0  # the last with the best score; where dev cannot choose, the last of all
    improved: int = 0  # the first with the best score
    best_score: float = -1.0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    trained: int = 0  # sentences read in training, every epoch counted
    training_seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    participation: dict[str, int] = field(default_factory=dict)
    high_losses: int = 0  # rounds in a row, up to the last, whose loss is beyond the limit
    screened: Past = field(default_factory=dict)  # what updates were like before, to compare others with

    def add(self, phase: str, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds
