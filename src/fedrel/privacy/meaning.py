"""What the fields of replies are and what they reveal to whoever receives them, in plain words."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Meaning(NamedTuple):
    """What the fields that match a pattern are and reveal."""

    fields: str  # a shell-style pattern
    what: str
    reveals: str


# The first match counts. A test makes sure that every field a method sends is listed here.
MEANINGS = (
    Meaning("(header)", "names and shapes of the fields", "nothing that is not listed here"),
    Meaning(
        "masked/numbers",
        "everything that the method sends, added up under a mask",
        "only the sum over all platforms of the round, and that only if enough of them agree",
    ),
    Meaning("offer/*", "new keys for one sum, signed", "that you take part in it"),
    Meaning("shares/*", "shares of these keys, encrypted for the other platforms", "nothing"),
    Meaning("agreement/*", "a signature on whose numbers have arrived", "that you agree"),
    Meaning("revealed/*", "shares of others' keys", "together with those of others, the sum and nothing else"),
    Meaning("followed", "up to which round you know what was added up", "whether you were away"),
    Meaning("*/words#rows", "which word-embedding rows changed", "which words your text uses"),
    Meaning("*/words#values", "the word-embedding rows that changed", "how your text uses these words"),
    Meaning("*/words#factor", "how much all other rows shrank", "how many steps were trained"),
    Meaning(
        "*/words",
        "the whole word-embedding table",
        "which words your text uses, since their rows changed differently from all others; and how it uses them",
    ),
    Meaning(
        "weights/*",
        "trained weights",
        "what was learnt from all your sentences; whoever has a sentence may guess whether it was among them",
    ),
    Meaning("change/*", "the change of a mean gradient", "the same as the weights, more directly"),
    Meaning(
        "ballot/key",
        "ballot: a blinded key per fact",
        "how many facts your text has, and which of them other platforms have too; not what the facts are",
    ),
    Meaning("ballot/score", "ballot: a score per fact, rounded", "roughly how clearly your best sentence states it"),
    Meaning(
        "evidence/key",
        "a blinded key per fact, the same in every round of a run",
        "how many facts your text has, and which of them other platforms have too, or had before; not what they are",
    ),
    Meaning(
        "evidence/best",
        "the log-odds of your best sentence for a fact, rounded",
        "roughly how clearly it states the fact",
    ),
    Meaning(
        "background/sentences",
        "how many sentences without a relation were summed up",
        "that number, if there are 30 at least",
    ),
    Meaning(
        "background/*",
        "for every relation: how many of your sentences are labelled with it, and sums of its log-odds, and of their "
        "squares, over these (each rounded) and over your sentences without a relation",
        "how many sentences of each label you hold, and how clearly they state it on average; with fewer than 30 "
        "sentences without a relation nothing is sent",
    ),
    Meaning(
        "log/p",
        "predictions on the coordinator's own sentences",
        "what the model learnt from your text about those sentences; no weights",
    ),
    Meaning(
        "ranking/*",
        "a histogram of the scores of right and wrong facts in what you hold out",
        "how many pairs and facts you hold out, and the scores of many, though not which has which; whoever has a "
        "sentence can compute its score and see whether you may hold it out",
    ),
    Meaning(
        "confidence/*",
        "a histogram of the scores of right and wrong best guesses on what you hold out",
        "the same as ranking, for one guess per pair or sentence",
    ),
    Meaning(
        "confusion/counts",
        "how many of the sentences you hold out have each label, by predicted label",
        "how many of each label you hold out, and where the model errs",
    ),
    Meaning(
        "sentences",
        "how many sentences there are (when a run begins), or were trained on",
        "that number (for the method feedback: times the users' reliability)",
    ),
    Meaning("steps", "how many optimizer steps were made", "that number, and so about how many sentences you hold"),
    Meaning("words", "how many words of running text there are", "that number"),
    Meaning("unknown_words", "how many of them the vocabulary lacks", "that number, not the words"),
    Meaning("loss", "mean loss in training", "how well the model fits your sentences"),
)


def meaning(field: str) -> Meaning:
    """What a field of a reply is and reveals, by its name."""
    unknown = Meaning(field, "not known to this version of fedrel", "unknown: ask before you let it leave")
    return next((said for said in MEANINGS if fnmatchcase(field, said.fields)), unknown)
