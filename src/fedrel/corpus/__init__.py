"""Labelled sentences, as every reader yields them."""

from collections.abc import Sequence
from dataclasses import dataclass

NA = "NA"  # the relation of a pair that stands in no fact


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity where it stands in a sentence: tokens[start:end]."""

    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Instance:
    """One sentence with one pair of entities and the (noisy) label of that pair.

    `expressed` is the hidden truth "this sentence says so", known for synthetic data only
    and used only to measure how well a method selects sentences.
    """

    tokens: Sequence[str]
    head: Mention
    tail: Mention
    relation: str
    source: str = ""
    expressed: bool | None = None
