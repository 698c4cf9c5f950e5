"""Sentences that people might type, with the facts that they state: judged.tsv, written by hand. Every other line is
for choosing (dev), the others are opened once (test).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedrel.alignment.recogniser import normalised
from fedrel.evaluation.calibration import ece, sigmoid
from fedrel.extraction.extract import RelationExtractor
from fedrel.extraction.facts import Fact

FILE = Path(__file__).with_name("judged.tsv")
SYMMETRIC = ("spouse_of", "sibling_of")
THRESHOLDS = (0.5, 0.9)

Triple = tuple[str, str, str]


class Judged(NamedTuple):
    text: str
    facts: frozenset[Triple]


class Scores(NamedTuple):
    """The extractor's candidate facts in sentences, one of a pair each: their log-odds, and whether they are right."""

    log_odds: npt.NDArray[np.float64]
    right: npt.NDArray[np.bool_]
    facts: int  # that there are

    def at(self, confidence: float) -> dict[str, float]:
        """Precision and recall of what is held for at least so likely."""
        held = sigmoid(self.log_odds) >= confidence
        right = int((held & self.right).sum())
        return {
            "held": int(held.sum()),
            "precision": round(right / max(int(held.sum()), 1), 3),
            "recall": round(right / max(self.facts, 1), 3),
        }

    def summary(self) -> dict[str, object]:
        by = {f"{confidence:g}": self.at(confidence) for confidence in THRESHOLDS}
        error = round(ece(sigmoid(self.log_odds), self.right), 3)
        return {"facts": self.facts, "candidates": len(self.right), **by, "calibration_error": error}


def read(part: str, path: Path = FILE) -> list[Judged]:
    """The sentences of "dev" or "test"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_judged(line) for number, line in enumerate(lines) if (number % 2 == 0) == (part == "dev")]


def _judged(line: str) -> Judged:
    text, _, facts = line.partition("\t")
    return Judged(
        text, frozenset(_triple(*(it.strip() for it in fact.split("|"))) for fact in facts.split(";") if fact.strip())
    )


def _triple(head: str, relation: str, tail: str) -> Triple:
    one, other = normalised(head), normalised(tail)
    if relation in SYMMETRIC:
        one, other = sorted((one, other))
    return one, relation, other


def candidates(extractor: RelationExtractor, text: str) -> Iterator[Fact]:
    """The best candidate of every pair of names; of relations that hold both ways, one of the two."""
    best: dict[tuple[str, str], Fact] = {}
    for fact in extractor.extract([text], min_confidence=0):
        one, _, other = _triple(fact.head, fact.relation, fact.tail)
        key = (one, other) if fact.relation in SYMMETRIC else (fact.head, fact.tail)
        if key not in best or fact.log_odds > best[key].log_odds:
            best[key] = fact
    yield from best.values()


def score(extractor: RelationExtractor, sentences: Sequence[Judged]) -> Scores:
    log_odds, right, facts = [], [], 0
    for text, stated in sentences:
        facts += len(stated)
        for fact in candidates(extractor, text):
            log_odds.append(fact.log_odds)
            right.append(_triple(fact.head, fact.relation, fact.tail) in stated)
    return Scores(np.array(log_odds), np.array(right, bool), facts)


def mistakes(extractor: RelationExtractor, sentences: Sequence[Judged], confidence: float = 0.5) -> Iterator[str]:
    """Every sentence of which a fact is missed or wrong, with what is."""
    for text, stated in sentences:
        found = {
            _triple(it.head, it.relation, it.tail): it.confidence
            for it in extractor.extract([text], min_confidence=confidence)
        }
        missed, wrong = stated - found.keys(), found.keys() - stated
        if missed or wrong:
            all_ = {
                _triple(it.head, it.relation, it.tail): it.confidence
                for it in extractor.extract([text], min_confidence=0)
            }
            lines = [f"  missed {' | '.join(it)}  {all_.get(it, -1):.3f}" for it in sorted(missed)]
            lines += [f"  wrong  {' | '.join(it)}  {found[it]:.3f}" for it in sorted(wrong)]
            yield "\n".join([text, *lines])
