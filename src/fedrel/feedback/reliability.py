"""How far the users of a platform can be trusted, from their verdicts on sentences whose labels are known."""

from __future__ import annotations

from torch import Tensor

NO_SEED = "the seed model needs gold sentences on the server; set partition.server = 0.01"
NO_PROBES = (
    'method.reliability = "estimated" needs users who judge the server\'s sentences; people whose verdicts lie in '
    'feedback.store have not seen them: leave it "none"'
)


def half_wrong(truth: Tensor, classes: int, sentences: int) -> Tensor:
    """(sentences,) labels to show: of the first, which are the probes, every second the next class. The seed model
    knows them by heart; what it says of them is right, and would not tell who never says "wrong".
    """
    shown = truth.new_zeros(sentences)
    shown[: len(truth)] = truth
    shown[1 : len(truth) : 2] = (truth[1::2] + 1) % classes
    return shown


def trust(given: Tensor, verdict: Tensor, truth: Tensor) -> float:
    """γ̂ + δ̂ - 1, at least 0: 1 for users who are always right, 0 for those who answer at random or in reverse.

    `given` (n,) the labels shown, `verdict` (n,) 1 right, 0 wrong, -1 nothing, `truth` (n,). Both rates start from one
    right and one wrong answer, so that a handful of probes does not decide alone.
    """
    correct = given == truth
    gamma = (float((correct & (verdict == 1)).sum()) + 1) / (float(correct.sum()) + 2)
    delta = (float((~correct & (verdict == 0)).sum()) + 1) / (float((~correct).sum()) + 2)
    return max(gamma + delta - 1.0, 0.0)
