"""CrowdTruth's medical relations: workers' answers beside the expert's labels."""

import os
from pathlib import Path

import pytest

from fedrel.corpus import Skipped
from fedrel.corpus.crowdtruth import Judgment, judgments
from fedrel.errors import UserError
from fedrel.feedback.estimates import GradedVerdict, estimate_users

DATA = Path(os.environ.get("FEDREL_REAL_DATA") or Path(__file__).parents[3] / "shared" / "data")
SENTENCES = [
    "sent_id\tterm1\tterm2\tsentence",
    's1\tFLU\tFEVER\tFLU brings "FEVER".',
    "s2\tPILL\tFLU\tA PILL ends FLU.",
    's3\tFEVER\tFLU\tFLU brings "FEVER".',  # the first one's text again
    "s4\tA\tB\tNobody asked an expert.",
]
ANSWERS = [
    "sent_id\tworker\tanswer",
    "s1\tw1\t[SYMPTOM]|[CAUSES]",
    "s1\tw2\t[NONE]",
    "s1\tw2\t[CAUSES]",  # the second time
    "s3\tw1\t[NONE]",  # and this too
    "s3\tw3\t[CAUSES]",
    "s2\tw1\t[TREATS]",
    "s4\tw1\t[CAUSES]",
]
EXPERT = [
    "SID,expert,sentence",
    '1,1,"FLU brings ""FEVER""."',
    "2,-1,A PILL ends FLU.",
    "3,NA,Nobody asked an expert.",
    "4,1,Nobody judged this.",
]


def write(folder: Path, sentences=SENTENCES, answers=ANSWERS, expert=EXPERT) -> Path:
    names = {"relex_sentences.tsv": sentences, "relex_judgments.tsv": answers, "ground_truth_cause.csv": expert}
    for name, lines in names.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_an_answer_is_a_verdict_on_a_prediction(tmp_path):
    assert list(judgments(write(tmp_path), "cause")) == [
        Judgment("w1", "s1", "cause", right=True, correct=True),
        Judgment("w2", "s1", "cause", right=False, correct=True),
        Judgment("w3", "s1", "cause", right=True, correct=True),
        Judgment("w1", "s2", "cause", right=False, correct=False),
    ]


@pytest.mark.parametrize(
    ("part", "lines", "sentence"),
    [
        ("expert", ["SID,expert,sentence", "1,2,x"], r'cause.csv:2: expert is "2"; it must be 1, -1 or NA'),
        ("expert", [*EXPERT, "5,1,A PILL ends FLU."], r"cause.csv:6: the expert says both"),
        ("expert", ["SID,sentence"], r'cause.csv:1: the column "expert" is missing'),
        ("sentences", [*SENTENCES, "s5\tA"], r"sentences.tsv:6: 2 cells where the first line names 4 columns"),
        ("answers", [*ANSWERS, "s1\tw1\tCAUSES"], r'judgments.tsv:9: "CAUSES" is no answer'),
    ],
)
def test_damage_is_told_by_line(tmp_path, part, lines, sentence):
    with pytest.raises(UserError, match=sentence):
        list(judgments(write(tmp_path, **{part: lines}), "cause"))


def test_broken_rows_are_counted_and_the_rest_read(tmp_path):
    skip = Skipped()
    write(tmp_path, [*SENTENCES, "s5\tA"], [*ANSWERS, "s1\tw1\tCAUSES"], [*EXPERT, "5,2,A PILL ends FLU."])
    assert len(list(judgments(tmp_path, "cause", skip))) == 4
    assert skip.broken.total() == skip.total == 3
    with pytest.raises(UserError, match="the expert says both"):
        list(judgments(write(tmp_path, expert=[*EXPERT, "5,1,A PILL ends FLU."]), "cause", skip))


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        list(judgments(tmp_path, "treat"))
    with pytest.raises(UserError, match='"likes" has no expert labels; there is cause, treat'):
        list(judgments(tmp_path, "likes"))


@pytest.mark.parametrize(
    ("relation", "sentences", "workers", "count", "gamma", "delta"),
    [("cause", 565, 291, 8_614, 0.229, 0.914), ("treat", 330, 272, 5_089, 0.548, 0.933)],
)
def test_the_real_workers(relation, sentences, workers, count, gamma, delta):
    folder = DATA / "crowdtruth-medical"
    if not folder.is_dir():
        pytest.skip("crowdtruth-medical is not at hand; set FEDREL_REAL_DATA to the folder that holds it")
    found = list(judgments(folder, relation))
    assert len({it.sentence for it in found}) == sentences
    estimates = estimate_users(GradedVerdict(it.user, "right" if it.right else "wrong", it.correct) for it in found)
    assert (len(found), len(estimates.users)) == (count, workers)
    assert estimates.pooled.gamma.value == pytest.approx(gamma, abs=5e-4)
    assert estimates.pooled.delta.value == pytest.approx(delta, abs=5e-4)
