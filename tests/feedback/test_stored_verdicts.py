"""What counts where several people judged one sentence."""

import pytest

from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Verdict
from fedrel.feedback.stored_verdicts import counted

R, S, T = "born_in", "lives_in", "works_at"
RELATIONS = ("NA", R, S, T)


def said(user: str, verdict: str, relation: str = R, corrected: str | None = None, decides: bool = False) -> Verdict:
    return Verdict("k", relation, "m", verdict, user, "", None, corrected, decides)


@pytest.mark.parametrize(
    ("verdicts", "counts"),
    [
        ([], None),
        ([said("a", UNKNOWN)], None),
        ([said("a", RIGHT)], (R, True)),
        ([said("a", WRONG)], (R, False)),
        ([said("a", RIGHT), said("b", WRONG)], None),
        ([said("a", RIGHT), said("b", WRONG), said("c", RIGHT)], (R, True)),
        ([said("a", WRONG), said("a", WRONG, S)], (S, False)),
        ([said("a", WRONG), said("a", RIGHT, S), said("b", RIGHT, S), said("b", RIGHT)], (S, True)),
        # what is named instead is stated
        ([said("a", WRONG, R, S)], (S, True)),
        ([said("a", WRONG, R, S), said("b", WRONG, R, T), said("c", WRONG, R, T)], (T, True)),
        ([said("a", RIGHT), said("b", RIGHT), said("c", WRONG, R, S)], (R, True)),
        ([said("a", WRONG, R, "unheard of")], (R, False)),
        # a decision counts instead of the verdicts on that relation, however many
        ([said("a", RIGHT), said("b", RIGHT), said("z", WRONG, decides=True)], (R, False)),
        ([said("z", RIGHT, decides=True), said("a", WRONG), said("b", WRONG)], (R, True)),
        ([said("a", RIGHT), said("b", WRONG), said("z", WRONG, R, S, decides=True)], (S, True)),
        ([said("a", RIGHT), said("b", RIGHT), said("z", UNKNOWN, decides=True)], None),
        ([said("z", WRONG, decides=True), said("a", RIGHT, S)], (S, True)),
        ([said("z", RIGHT, decides=True), said("a", RIGHT, S), said("b", RIGHT, S)], (R, True)),
        ([said("y", RIGHT, decides=True), said("z", WRONG, decides=True)], (R, False)),
    ],
)
def test_what_counts(verdicts, counts):
    assert counted(verdicts, RELATIONS) == counts
