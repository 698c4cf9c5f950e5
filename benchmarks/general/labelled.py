"""The general model on sentences that others labelled, each with one pair of entities given: OpenNRE's format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.general.judged import Scores
from fedrel.corpus import Annotation, Document
from fedrel.extraction.extract import RelationExtractor

# Their relations and ours; "-": ours goes the other way. Several of ours may be what theirs is
WIKI = {"birthPlace": ("born_in",), "spouse": ("spouse_of",)}
NYT = {
    "/people/person/place_of_birth": ("born_in",),
    "/people/deceased_person/place_of_death": ("died_in",),
    "/people/person/place_lived": ("lives_in", "born_in"),
    "/people/person/nationality": ("citizen_of",),
    "/people/person/children": ("-child_of",),
    "/business/person/company": ("works_for", "heads", "founder_of"),
    "/business/company/founders": ("-founder_of",),
    "/business/company/place_founded": (),
    "/location/location/contains": ("-located_in", "-capital_of"),
    "/location/country/capital": ("-capital_of", "-located_in"),
    "/location/neighborhood/neighborhood_of": ("located_in",),
    "/location/country/administrative_divisions": ("-located_in",),
    "/location/administrative_division/country": ("located_in",),
}


class Row(NamedTuple):
    document: Document
    relation: str


def rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            row = json.loads(line)
            text = row["text"] if "text" in row else " ".join(row["token"])
            places = ((side, *row[side]["pos"]) for side in ("h", "t"))
            marks = tuple(Annotation(side, start, end, id=side) for side, start, end in places)
            yield Row(Document(str(number), text, marks, sentences=((0, len(text)),)), row["relation"])


def score(
    extractor: RelationExtractor, path: Path, ours: Mapping[str, tuple[str, ...]], most: int | None = None
) -> Scores:
    """The best of our mapped relations for every sentence's pair, in the direction that is mapped, beside its label."""
    wanted = {name for names in ours.values() for name in names}
    log_odds, right, facts = [], [], 0
    for document, relation in islice(rows(path), most):
        true = ours.get(relation, ())
        facts += bool(true)
        best, name = -np.inf, ""
        for fact in extractor.extract([document], min_confidence=0):
            called = fact.relation if fact.head == "h" else f"-{fact.relation}"
            if called in ("-spouse_of", "-sibling_of"):
                called = called[1:]
            if called in wanted and fact.log_odds > best:
                best, name = fact.log_odds, called
        if name:
            log_odds.append(best)
            right.append(name in true)
    return Scores(np.array(log_odds), np.array(right, bool), facts)
