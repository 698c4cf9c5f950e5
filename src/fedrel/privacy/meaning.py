"""What the fields of replies are, and what they tell whoever receives them, in plain words."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Meaning(NamedTuple):
    fields: str  # a pattern
    what: str
    reveals: str


# The first that fits counts. Every field that a method sends has its line here; a test looks.
MEANINGS = (
    Meaning("(header)", "names and shapes of the fields", "nothing that is not listed here"),
    Meaning("*/words#rows", "which word-embedding rows changed", "which words your text uses"),
    Meaning("*/words#values", "the word-embedding rows that changed", "how your text uses these words"),
    Meaning("*/words#factor", "how far all other rows shrank", "how many steps were trained"),
    Meaning(
        "*/words",
        "the whole word-embedding table",
        "which words your text uses, since their rows changed otherwise than all others; and how",
    ),
    Meaning(
        "weights/*",
        "trained weights",
        "what was learnt from your sentences together; whoever has a sentence may guess whether it was among them",
    ),
    Meaning("change/*", "the change of a mean gradient", "the same as the weights, more directly"),
    Meaning(
        "ballot/key",
        "ballot: a blinded key per fact",
        "how many facts your text has, and which of them other platforms have too; not what the facts are",
    ),
    Meaning("ballot/score", "ballot: a score per fact", "how clearly your best sentence states it"),
    Meaning(
        "evidence/key",
        "a blinded key per fact, the same in every round of a run",
        "how many facts your text has, and which of them other platforms have too, and had before; not what they are",
    ),
    Meaning("evidence/best", "the log-odds of your best sentence for a fact", "how clearly it states the fact"),
    Meaning(
        "log/p",
        "predictions on the coordinator's own sentences",
        "what the model learnt from your text about those sentences; no weights",
    ),
    Meaning(
        "ranking/*",
        "how many right and wrong facts of what you hold out got which score",
        "how many pairs and facts you hold out, and the scores of many, though not whose; whoever has a sentence can "
        "compute its score and see whether you may hold it out",
    ),
    Meaning(
        "confidence/*",
        "how many best guesses on what you hold out got which score, and were right",
        "the same, of one guess a pair or sentence",
    ),
    Meaning(
        "confusion/counts",
        "how many sentences you hold out have each label, by what was predicted",
        "how many of each label you hold out, and where the model errs",
    ),
    Meaning(
        "sentences",
        "how many sentences there are (when a run begins), or were trained on",
        "that number (of feedback: times the users' reliability)",
    ),
    Meaning("words", "how many running words there are", "that number"),
    Meaning("unknown_words", "how many of them the vocabulary lacks", "that number, not the words"),
    Meaning("loss", "mean loss in training", "how well the model fits your sentences"),
)


def meaning(field: str) -> Meaning:
    unknown = Meaning(field, "not known to this version of fedrel", "nobody has said: ask before you let it go")
    return next((said for said in MEANINGS if fnmatchcase(field, said.fields)), unknown)
