"""How far reviewers agree: Cohen's κ of two, Krippendorff's α of all, and the sentences on which they do not.

What is compared is whether the sentence states the relation that was shown: right, or wrong. Answers of "don't know"
and sentences that a reviewer has not judged are missing values. Decisions of an adjudicator are not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from fedrel.feedback.store import UNKNOWN, Verdict

_BANDS = (  # κ: Landis & Koch 1977
    (0.81, "almost perfect"),
    (0.61, "substantial"),
    (0.41, "moderate"),
    (0.21, "fair"),
    (0.0, "slight"),
)
RELIABLE, TENTATIVE = 0.8, 0.667  # α: Krippendorff 2004


@dataclass(frozen=True)
class Pair:
    """Two reviewers, and what they have both judged."""

    users: tuple[str, str]
    both: int
    same: int
    kappa: float | None  # None: they have judged nothing in common, or gave one and the same answer throughout

    @property
    def words(self) -> str:
        """What κ means, for a person to read."""
        if not self.both:
            return "nothing in common"
        if self.kappa is None:
            return "the same answer throughout: κ says nothing"
        if self.kappa < 0:
            return "less than by chance"
        return next(words for least, words in _BANDS if round(self.kappa, 2) >= least)


@dataclass(frozen=True)
class Dispute:
    """A prediction on which reviewers disagree, with their latest verdicts, and the decision if there is one."""

    key: str
    relation: str
    verdicts: tuple[Verdict, ...]
    decision: Verdict | None


@dataclass(frozen=True)
class Agreement:
    """How far the reviewers of a store agree."""

    reviewers: Mapping[str, int]  # answers that are right or wrong, by user
    pairs: tuple[Pair, ...]
    alpha: float | None  # None: nothing was judged by two, or all answers are the same
    shared: int  # predictions judged by two or more
    named: int  # of those that two or more call wrong and name another relation for
    same_name: int  # of these, how many have one and the same name
    disputes: tuple[Dispute, ...]

    @property
    def open(self) -> int:
        """Disputes without a decision."""
        return sum(it.decision is None for it in self.disputes)

    @property
    def words(self) -> str:
        """What α means, for a person to read."""
        if not self.shared:
            return "No prediction was judged by two reviewers yet, so nothing can be said of agreement."
        if self.alpha is None:
            return "All answers are the same, so chance explains the agreement: judge more, and more varied, sentences."
        if self.alpha >= RELIABLE:
            return "The answers are reliable (α of .8 or more)."
        if self.alpha >= TENTATIVE:
            return "The answers allow tentative conclusions (α between .667 and .8)."
        return (
            "The answers are too unreliable to build on (α below .667): talk about the sentences on which you "
            "disagree, and write down in guidelines what you decide."
        )


def cohen(pairs: Iterable[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's κ (1960) of two people's answers to the same questions: (observed − expected) / (1 − expected). None
    without an answer, or if both give one and the same answer throughout.
    """
    answers = list(pairs)
    if not answers:
        return None
    ones, others = Counter(it for it, _ in answers), Counter(it for _, it in answers)
    observed = sum(one == other for one, other in answers) / len(answers)
    expected = sum(count * others[it] for it, count in ones.items()) / len(answers) ** 2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def krippendorff(units: Iterable[Sequence[Hashable]]) -> float | None:
    """Krippendorff's α for nominal answers by any number of people, of whom some may not have answered: the answers to
    each question, those that are missing left out. None if no question has two answers, or if all are the same.
    """
    paired = [list(it) for it in units if len(it) > 1]
    totals = Counter(answer for unit in paired for answer in unit)
    n = sum(totals.values())
    expected = n * n - sum(count * count for count in totals.values())  # ordered pairs of different answers
    if not expected:
        return None
    observed = sum(
        (len(unit) ** 2 - sum(count * count for count in Counter(unit).values())) / (len(unit) - 1) for unit in paired
    )
    return 1 - (n - 1) * observed / expected


def agreement(verdicts: Iterable[Verdict]) -> Agreement:
    """Of standing verdicts."""
    given = list(verdicts)
    judged = _by_question(given)
    reviewers = Counter(user for answers in judged.values() for user in answers)
    pairs = []
    for one, other in combinations(sorted(reviewers), 2):
        both = [(it[one].verdict, it[other].verdict) for it in judged.values() if one in it and other in it]
        pairs.append(Pair((one, other), len(both), sum(a == b for a, b in both), cohen(both)))
    names = [
        found
        for answers in judged.values()
        if len(found := [it.corrected for it in answers.values() if it.corrected is not None]) > 1
    ]
    return Agreement(
        reviewers=dict(sorted(reviewers.items())),
        pairs=tuple(pairs),
        alpha=krippendorff([it.verdict for it in answers.values()] for answers in judged.values()),
        shared=sum(len(answers) > 1 for answers in judged.values()),
        named=len(names),
        same_name=sum(len(set(found)) == 1 for found in names),
        disputes=tuple(disputes(given)),
    )


def disputes(verdicts: Iterable[Verdict]) -> list[Dispute]:
    """The predictions that some call right and others wrong, or for which they name different relations instead, in the
    order in which they were first judged.
    """
    given = list(verdicts)
    decisions = {(it.key, it.relation): it for it in given if it.decides}
    found = []
    for asked, answers in _by_question(given).items():
        said = {it.verdict for it in answers.values()}
        names = {it.corrected for it in answers.values() if it.corrected is not None}
        if len(said) > 1 or len(names) > 1:
            found.append(Dispute(*asked, tuple(answers.values()), decisions.get(asked)))
    return found


def _by_question(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], dict[str, Verdict]]:
    """By sentence and relation, then by user: the latest verdict on it if that is right or wrong."""
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for it in verdicts:
        if not it.decides:
            answers = found.setdefault((it.key, it.relation), {})
            answers.pop(it.user, None)
            answers[it.user] = it
    return {
        asked: known
        for asked, answers in found.items()
        if (known := {user: it for user, it in answers.items() if it.verdict != UNKNOWN})
    }
