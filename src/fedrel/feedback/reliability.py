"""How reliable the users of a platform are, from their verdicts on probes: sentences whose labels are known."""

from __future__ import annotations

from torch import Tensor

NO_SEED = (
    "the seed model needs gold sentences on the server; set partition.server = 0.01, or go on from a model with "
    "fedrel run --from"
)
NO_PROBES = (
    'method.reliability = "estimated" needs users who judge the server\'s sentences; people whose verdicts are in '
    'feedback.store have not seen them: leave it "none"'
)


def half_wrong(truth: Tensor, classes: int, sentences: int) -> Tensor:
    """(sentences,) labels to show for the probes, which come first: the true label for every other one, the next class
    for the rest, 0 beyond the probes. `truth` (n,) are the probes' labels.

    Predictions would not do: the seed model was trained on the probes and predicts nearly all of them correctly, so a
    user who never says "wrong" would not stand out.
    """
    shown = truth.new_zeros(sentences)
    shown[: len(truth)] = truth
    shown[1 : len(truth) : 2] = (truth[1::2] + 1) % classes
    return shown


def trust(given: Tensor, verdict: Tensor, truth: Tensor) -> float:
    """γ̂ + δ̂ - 1, at least 0: 1 for users who are always right, 0 for those who answer at random or in reverse.

    `given` (n,) are the labels shown, `verdict` (n,) is 1 for right, 0 for wrong, -1 for none, `truth` (n,) the labels.
    Both rates are smoothed by one right and one wrong answer, so that a handful of probes cannot decide alone.
    """
    correct = given == truth
    gamma = (float((correct & (verdict == 1)).sum()) + 1) / (float(correct.sum()) + 2)
    delta = (float((~correct & (verdict == 0)).sum()) + 1) / (float((~correct).sum()) + 2)
    return max(gamma + delta - 1.0, 0.0)
