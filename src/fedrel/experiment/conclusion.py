"""What a finished run says: its one look at test, and the contents of details.json and result.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrel.data.sufficiency import too_little
from fedrel.engines.screening import summary
from fedrel.evaluation.calibration import Calibration, fit_calibration, reliability
from fedrel.evaluation.human import METRIC as HUMAN
from fedrel.evaluation.selection import selection_quality
from fedrel.experiment.assembly import Setup
from fedrel.experiment.budget import noise_notes
from fedrel.experiment.divergence import past_attempts
from fedrel.experiment.evaluators import Evaluated, Guesses
from fedrel.experiment.hidden_names import METRIC as WITHOUT_NAMES
from fedrel.experiment.hidden_names import score_without_names
from fedrel.experiment.judged import human_scores
from fedrel.experiment.outcome import (
    calibration_errors,
    held_out,
    held_out_notes,
    labels_held,
    machine,
    suspicion_notes,
)
from fedrel.experiment.showcase import Showcase, examples
from fedrel.experiment.standing import Standing
from fedrel.experiment.sums import sum_notes
from fedrel.experiment.views import choose_view
from fedrel.learning.model import BOTH_VIEWS, SHOWN
from fedrel.learning.named import Named
from fedrel.util.profiling import watched
from fedrel.version import checked_out_commit, installed_version


@dataclass(frozen=True)
class Scored:
    """The best round's model, scored on dev and test."""

    dev: Evaluated
    test: Evaluated
    calibration: Calibration
    cut: float | None
    metrics: dict[str, float]  # of test, by people's labels as well where there are any
    guesses: Guesses  # on test
    human: dict[str, Any] | None
    without_names: float | None  # on dev


def score_finished(setup: Setup, best: Named, evaluate: Callable[[str], Evaluated]) -> Scored:
    """Chooses the view by dev, fits the calibration there, and opens test."""
    on_dev = choose_view(setup, lambda: evaluate("dev"))
    guesses = on_dev.guesses()
    calibration, cut = fit_calibration(guesses.scores, guesses.right, guesses.times), on_dev.cut()
    without_names = score_without_names(setup, best)
    on_test = evaluate("test")
    metrics, guesses = on_test.metrics(), on_test.guesses()
    human = human_scores(setup, best)
    if human is not None:
        metrics[HUMAN] = human[HUMAN]
    return Scored(on_dev, on_test, calibration, cut, metrics, guesses, human, without_names)


@dataclass(frozen=True)
class Conclusion:
    """A run that is over, with everything that its pages say."""

    setup: Setup
    out: Path
    standing: Standing
    scored: Scored
    seen: Showcase | None  # its training sentences, where they are in this process
    lines: Sequence[Mapping[str, Any]]  # of metrics.jsonl
    trusted: dict[str, Any] | None

    def details(self) -> dict[str, Any]:
        """Of details.json, which quotes sentences."""
        setup, scored = self.setup, self.scored
        return {
            **scored.test.details(),
            **scored.test.predictions(scored.cut),
            "reliability": reliability(
                scored.calibration.confidence(scored.guesses.scores), scored.guesses.right, scored.guesses.times
            ),
            "mistakes": scored.test.mistakes(scored.calibration, scored.cut),
            "labels": labels_held(setup),
            "participation": {name: self.standing.participation.get(name, 0) for name in setup.sites},
            "held": dict(setup.sites.sizes),
            "examples": [] if self.seen is None else examples(setup, self.seen),
            "data": setup.dataset.meta | {"notes": [*setup.dataset.notes, *self._notes()]},
        }

    def _notes(self) -> list[str]:
        return [
            *(f"begun again with a smaller learning rate: {it['why']}" for it in past_attempts(self.out)),
            *held_out_notes(held_out(self.setup, self._best_line, self.scored.test)),
            *suspicion_notes(self._suspects),
            *sum_notes(self.setup.experiment),
            *noise_notes(self._spent),
            *(f"warning: {it}" for it in self._warnings),
        ]

    def result(self) -> dict[str, Any]:
        """Of result.json."""
        setup, standing, scored = self.setup, self.standing, self.scored
        best_line, view = self._best_line, self.setup.model.hidden_view
        result = {
            "method": setup.experiment.method["name"],
            "seed": setup.experiment.seed,
            "rounds": standing.rounds,
            "best_round": standing.best_round,
            "dev": best_line["dev"] if view == BOTH_VIEWS else scored.dev.metrics(),
            WITHOUT_NAMES: scored.without_names,
            "hidden_view": view if setup.model.hide_names else SHOWN,
            "bags": setup.model.scored_by,
            "test": scored.metrics,
            "metric": setup.experiment.training.metric,
            "intervals": {"dev": scored.dev.interval(), "test": scored.test.interval()},
            "trivial": scored.test.trivial(),
            "too_little": self._warnings,
            "selection": self._selection,
            "human": scored.human,
            "trusted": self.trusted,
            "calibration": calibration_errors(scored.calibration, scored.guesses),
            "bytes": {"up": standing.bytes_up, "down": standing.bytes_down},
            "seconds": {"total": standing.seconds, "by_phase": standing.phases},
            "sentences_per_second": standing.trained / standing.training_seconds if standing.training_seconds else 0.0,
            "privacy": asdict(setup.experiment.privacy),
            "version": installed_version(),
            "commit": checked_out_commit(),
            "device": machine(setup.model.device),
        }
        optional = {
            "profile": watched(),
            "dp": self._spent,
            "suspicions": self._suspects or None,
            "restarts": past_attempts(self.out) or None,
            "held_out": held_out(setup, best_line, scored.test) if setup.at_home else None,
        }
        return result | {key: value for key, value in optional.items() if value is not None}

    @property
    def _best_line(self) -> Mapping[str, Any]:
        return self.lines[self.standing.best_round - 1]

    @property
    def _selection(self) -> dict[str, Any] | None:
        """Of the best round; of all platforms, not of that round's, where all sentences are in this process."""
        if self.seen is not None and self.setup.model.denoiser.chooses:
            return selection_quality(self.setup.dataset.train, self.seen.selected)
        found: dict[str, Any] | None = self._best_line["selection"]
        return found

    @cached_property
    def _suspects(self) -> dict[str, dict[str, Any]]:
        return summary(it for line in self.lines for it in line.get("suspicions", []))

    @cached_property
    def _spent(self) -> dict[str, Any] | None:
        budget = self.setup.sites.budget
        return budget.described(self.standing.participation) if budget else None

    @cached_property
    def _warnings(self) -> list[str]:
        return too_little(self.setup.dataset, self.scored.calibration.most)
