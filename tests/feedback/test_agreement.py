"""Agreement by exact numbers, mostly published ones."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.feedback.agreement import agreement, cohen, disputes, krippendorff
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Verdict


def told(both_yes: int, only_one: int, only_other: int, both_no: int) -> list[tuple[str, str]]:
    """Two people's answers from a table of four."""
    return [
        *[("yes", "yes")] * both_yes,
        *[("yes", "no")] * only_one,
        *[("no", "yes")] * only_other,
        *[("no", "no")] * both_no,
    ]


@pytest.mark.parametrize(
    ("table", "kappa"),
    [  # the examples of Wikipedia, "Cohen's kappa": grants, and the same observed agreement with other margins
        ((20, 5, 10, 15), Fraction(4, 10)),
        ((45, 15, 25, 15), Fraction(3, 23)),  # .1304
        ((25, 35, 5, 35), Fraction(7, 27)),  # .2593
    ],
)
def test_kappa_of_published_tables(table, kappa):
    assert cohen(told(*table)) == pytest.approx(float(kappa), abs=1e-12)


def test_kappa_of_psychiatrists():
    """Fleiss, Levin & Paik, Statistical Methods for Rates and Proportions (2003), table 18.1: κ = .23 / .34."""
    table = {("p", "p"): 75, ("p", "n"): 1, ("p", "o"): 4, ("n", "p"): 5, ("n", "n"): 4, ("n", "o"): 1, ("o", "o"): 10}
    assert cohen([pair for pair, count in table.items() for _ in range(count)]) == pytest.approx(0.23 / 0.34)


def units(*observers: str) -> list[list[str]]:
    """The answers to every question from a line for each observer; "." is a missing one."""
    return [[it for it in answers if it != "."] for answers in zip(*observers, strict=True)]


@pytest.mark.parametrize(
    ("observers", "alpha"),
    [  # Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), examples A, B and C
        (("0100000010", "1110010000"), 0.095),
        (("aabbdcccedda", "babbbccceddd"), 0.692),
        (("123321412...", "1233224125.3", ".33323422 51.".replace(" ", ""), "12332441251."), 0.743),
    ],
)
def test_alpha_of_published_answers(observers, alpha):
    assert krippendorff(units(*observers)) == pytest.approx(alpha, abs=5e-4)


def test_what_cannot_be_said_is_none():
    assert cohen([]) is None
    assert cohen([("yes", "yes")] * 5) is None
    assert krippendorff([]) is None
    assert krippendorff([["yes"], ["no"]]) is None, "nothing was judged twice"
    assert krippendorff([["yes", "yes"], ["yes", "yes"], ["no"]]) is None


def test_at_worst_and_at_best():
    assert cohen(told(5, 0, 0, 5)) == 1
    assert cohen(told(0, 5, 5, 0)) == -1
    assert krippendorff([["yes", "yes", "yes"], ["no", "no"]]) == 1


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=2, max_size=2), min_size=1, max_size=30))
def test_the_order_of_people_and_questions_does_not_matter(answers):
    turned = [it[::-1] for it in reversed(answers)]
    for of in (lambda it: cohen(map(tuple, it)), krippendorff):
        one, other = of(answers), of(turned)
        assert (one is None) == (other is None)
        assert one is None or (one == pytest.approx(other) and -1 <= one <= 1)


def said(key: str, user: str, verdict: str, corrected: str | None = None, *, decides: bool = False) -> Verdict:
    return Verdict(key, "r", "m", verdict, user, "", None, corrected, decides)


VERDICTS = [
    said("k1", "anna", RIGHT),
    said("k1", "bert", RIGHT),
    said("k2", "anna", WRONG, "s"),
    said("k2", "bert", WRONG, "t"),
    said("k3", "anna", RIGHT),
    said("k3", "bert", WRONG),
    said("k3", "carl", UNKNOWN),
    said("k4", "anna", WRONG),
    said("k4", "bert", WRONG, "s"),
    said("k5", "carl", RIGHT),
    said("k3", "dora", RIGHT, decides=True),
]


def test_agreement_of_a_store():
    found = agreement(VERDICTS)
    assert found.reviewers == {"anna": 4, "bert": 4, "carl": 1}
    assert [(it.users, it.both, it.same) for it in found.pairs] == [
        (("anna", "bert"), 4, 3),
        (("anna", "carl"), 0, 0),
        (("bert", "carl"), 0, 0),
    ]
    assert found.pairs[0].kappa == pytest.approx(0.5)  # observed 3/4, expected 1/2·1/4 + 1/2·3/4
    assert found.pairs[0].words == "moderate" and found.pairs[1].words == "nothing in common"
    assert found.alpha == pytest.approx(1 - 7 * 2 / (64 - 9 - 25))
    assert (found.shared, found.named, found.same_name, found.open) == (4, 1, 0, 1)
    assert "too unreliable" in found.words


def test_disputes_and_their_decisions():
    assert [(it.key, [v.user for v in it.verdicts], it.decision and it.decision.user) for it in disputes(VERDICTS)] == [
        ("k2", ["anna", "bert"], None),
        ("k3", ["anna", "bert"], "dora"),
    ]


def test_the_latest_verdict_of_a_person_is_theirs():
    assert disputes([said("k", "anna", RIGHT), said("k", "bert", WRONG), said("k", "bert", RIGHT)]) == []


def test_nobody_has_judged():
    found = agreement([])
    assert (found.alpha, found.shared, found.pairs) == (None, 0, ())
    assert "nothing can be said" in found.words
