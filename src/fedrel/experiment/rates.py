"""The learning rate where nobody gives one, from how much a platform trains between two means.

What SGD bears depends little on the text once pretrained vectors have the spread of random ones, and much on the steps
that a platform takes alone in a round: the more of them, the smaller each must be. On five real sets and the built-in
world, with 1 and 20 platforms of which all are active, the rates that dev prefers lie near 30 / steps, and near it the
score is flat. Where few of the platforms are active in a round, their mean strays from what all of them would say, and
the rate is smaller (docs/defaults.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedrel.config import Experiment
from fedrel.data.partition import Division

_RATE, _STEPS = 0.3, 100.0  # the rate for so many steps a round
_LOWEST, _HIGHEST = 0.01, 0.5  # with 1, training on real text fails at any number of steps
_ENOUGH = 20  # active platforms, whose mean is as good as that of all
_ADAMW = 1e-3  # which scales its steps itself


def typical_sentences(division: Division) -> float:
    """The median of the sentences that platforms hold."""
    return float(np.median([len(rows) for rows in division.platforms.values()]))


def with_rate(
    experiment: Experiment,
    sentences: float | None = None,
    *,
    platforms: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Experiment:
    """The experiment with a learning rate, if it has none yet. `sentences` are those of a typical platform; None: not
    known, as in a federation, where the rate is the one for 100 steps a round. `platforms`: how many there are; None:
    not known, 20.
    """
    training = experiment.training
    if not training.lr_auto:
        return experiment
    if training.optimizer == "adamw":
        rate, why = _ADAMW, "usual for AdamW"
    elif sentences is None:
        rate, why = _RATE, "for platforms of about a thousand sentences"
    else:
        steps = max(1.0, training.epochs * sentences / training.batch)
        rate = min(_HIGHEST, max(_LOWEST, _RATE * _STEPS / steps))
        why = f"for about {steps:,.0f} steps of a platform in a round"
    if training.optimizer == "sgd" and training.fraction < 1:
        active = max(1, round(training.fraction * (platforms or _ENOUGH)))
        share = min(1.0, active / _ENOUGH)
        rate = min(rate * share ** (1 / 3), _HIGHEST * share ** (1 / 2))
        why += f" with {active:,} active"
    rate = float(f"{rate:.2g}")
    say(f"learning rate {rate:g}, {why}; --set training.lr=… for another")
    return replace(experiment, training=replace(training, lr=rate, lr_auto=False))
