"""What a score should be read beside: its interval, and the scores of answers that need no model.

An interval is a bootstrap over what is evaluated, pairs or sentences, drawn again 500 times with replacement: between
its ends lie 95 % of the scores that other pairs or sentences of the same kind would have given. Draws of all right, or
of all wrong, are all alike, however few there are; the end of such an interval is that of Clopper and Pearson.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints
from fedrel.evaluation import classification, heldout
from fedrel.evaluation.ranking import Bools, Ranking

Floats = npt.NDArray[np.floating]
Interval = tuple[float, float]

TRIVIAL = {  # answers that need no model, in words
    "constant": "all candidates alike",
    "frequency": "relations by frequency",
    "majority": "the most frequent label",
    "related": "the most frequent relation",
}
_DRAWS, _SEED = 500, 1
_ENDS = (2.5, 97.5)  # percentiles


def ap_interval(scores: Floats, facts: Ints) -> Interval | None:
    """Of the average precision of `heldout.rank`, drawing pairs; None if there is no fact. `scores` (P, R), `facts`
    (F, 2).
    """
    return _ends(ap_draws(scores, facts), len(facts)) if len(facts) else None


def ap_draws(scores: Floats, facts: Ints) -> Floats:
    """(500,) the average precision of every draw of pairs, NaN for one without a fact. The draws depend on the number
    of pairs alone: those of two models on the same pairs can be compared draw by draw.
    """
    pairs, relations = scores.shape
    flat = scores[:, 1:].reshape(-1)
    order = np.argsort(-flat, kind="stable")
    right = heldout.truth_table(scores.shape, facts)[:, 1:].reshape(-1)[order]
    pair = (order // (relations - 1)).astype(np.int64)
    tied, group = _tied(flat[order], right)
    draw = np.random.default_rng(_SEED)

    def drawn(weight: Floats) -> float:
        """Average precision where a candidate counts as often as its pair was drawn, equal scores in any order."""
        other = tied[np.lexsort((draw.random(len(tied)), group))]
        right[tied], pair[tied] = right[other], pair[other]
        times = weight[pair]
        found = np.cumsum(times * right)
        precision = found / np.maximum(np.cumsum(times), 1)
        return float((precision * times * right).sum() / found[-1]) if found[-1] else np.nan

    return _bootstrap(drawn, pairs)


def _tied(ordered: Floats, right: Bools) -> tuple[Ints, Ints]:
    """Places of candidates in a ranking that share their score with one that is right where they are wrong, or the
    reverse, and the group of equal scores of each.
    """
    group = np.cumsum(np.r_[False, ordered[1:] != ordered[:-1]])
    size, hits = np.bincount(group), np.bincount(group, right)
    tied = np.flatnonzero(((hits > 0) & (hits < size))[group])
    return tied, group[tied]


def classification_interval(metric: str, scores: Floats, labels: Ints, *, na: bool) -> Interval | None:
    """Of a metric of `classification`, drawing sentences; None if there are none. `scores` (S, R), `labels` (S,)."""
    classes = scores.shape[1]
    cell = labels * classes + scores.argmax(axis=1)  # of the confusion matrix

    def drawn(weight: Floats) -> float:
        counts = np.bincount(cell, weight, minlength=classes**2).reshape(classes, classes).astype(np.int64)
        return classification.metrics_of(counts, na=na)[metric]

    count = int((labels >= int(na)).sum())
    return _ends(_bootstrap(drawn, len(labels)), count or len(labels)) if len(labels) else None


def share_interval(hits: int, of: int) -> Interval:
    """The 95 % interval of a share, `hits` out of `of`, by Clopper and Pearson: its ends are the shares under which as
    many hits, or as few, are found once in 40 times.
    """
    tail, counts = _ENDS[0] / 100, np.arange(of + 1)
    log_factorials = np.r_[0.0, np.cumsum(np.log(np.arange(1, of + 1)))]
    log_ways = log_factorials[of] - log_factorials[counts] - log_factorials[of - counts]

    def at_least(wanted: int, share: float) -> float:
        """The probability of so many hits or more, if each is one with probability `share`, in (0, 1)."""
        terms = np.exp(log_ways + counts * np.log(share) + (of - counts) * np.log1p(-share))
        return float(terms[wanted:].sum())

    low = _share_where(lambda share: at_least(hits, share), tail) if hits else 0.0
    high = _share_where(lambda share: 1 - at_least(hits + 1, share), tail, falling=True) if hits < of else 1.0
    return low, high


def _share_where(chance: Callable[[float], float], wanted: float, *, falling: bool = False) -> float:
    """By bisection, the share at which a chance that rises with it, or falls, is as wanted."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if (chance(middle) < wanted) != falling:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def trivial_rankings(metric: str, shape: tuple[int, ...], facts: Ints, train_labels: Ints) -> dict[str, float]:
    """The metric of two rankings that know nothing of the text: `constant`, all candidates alike, and `frequency`, the
    relations of every pair by how often train has them. `shape` (P, R) and `facts` (F, 2) as for `heldout.rank`.
    """
    often = np.bincount(train_labels, minlength=shape[1])[: shape[1]].astype(np.float64)
    answers = {"constant": np.zeros(shape), "frequency": np.broadcast_to(often, shape)}
    found = {name: heldout.rank(scores, facts).metrics() for name, scores in answers.items()}
    return {name: metrics[metric] for name, metrics in found.items() if metric in metrics}


def trivial_labels(metric: str, labels: Ints, train_labels: Ints, classes: int, *, na: bool) -> dict[str, float]:
    """The metric of two answers that know nothing of the text: `majority`, the most frequent label of train for all,
    and `related`, its most frequent relation for all. Without NA they are one.
    """
    often = np.bincount(train_labels, minlength=classes)[:classes]
    answers = {"majority": int(often.argmax())}
    if na and classes > 1:
        answers["related"] = int(often[1:].argmax()) + 1
    counts = {name: np.zeros((classes, classes), np.int64) for name in answers}
    for name, answer in answers.items():
        counts[name][:, answer] = np.bincount(labels, minlength=classes)
    return {name: classification.metrics_of(table, na=na)[metric] for name, table in counts.items()}


def constant_ranking(metric: str, ranking: Ranking) -> dict[str, float]:
    """The metric of all candidates alike, where nothing is known but how many there are and how many are facts."""
    alike = Ranking(np.array([float(ranking.total)]), np.array([float(ranking.facts)])) if ranking.total else ranking
    metrics = alike.metrics()
    return {"constant": metrics[metric]} if metric in metrics else {}


def _bootstrap(score: Callable[[Floats], float], size: int) -> Floats:
    """The scores of all draws from `size` that are evaluated. A draw without any that is to be found has none."""
    draw = np.random.default_rng(_SEED)
    draws = (np.bincount(draw.integers(0, size, size), minlength=size).astype(float) for _ in range(_DRAWS))
    return np.array([score(weight) for weight in draws])


def _ends(scores: Floats, count: int) -> Interval:
    """The interval of the scores of draws, where `count` are to be found."""
    low, high = np.nanpercentile(scores, _ENDS)
    chance = (_ENDS[0] / 100) ** (1 / count)  # of which all are right once in 40 times
    return float(min(low, chance) if low == 1 else low), float(max(high, 1 - chance) if high == 0 else high)
