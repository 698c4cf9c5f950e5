"""What was reviewed, as data to train on: a data set as it is, and of facts their sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from fedrel.corpus import NA, Instance, opennre
from fedrel.extraction.facts import read_facts
from fedrel.extraction.supporting import Supporting, are_facts, supporting
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import Verdict
from fedrel.feedback.stored_verdicts import AnyRelation, about_nothing, counted, read_verdicts
from fedrel.util.files import write_atomic


@dataclass(frozen=True)
class Reviewed:
    """`data` is a data set, and `unlabelled` are the keys of those of its sentences whose labels nobody but the model
    and its reviewers has given.
    """

    data: Path | None
    unlabelled: frozenset[str] = frozenset()

    @classmethod
    def of(cls, data: Path | None, verdicts: Path) -> Reviewed:
        """The sentences of facts are written beside them. UserError if no verdict of a store (or of a folder of stores)
        is about them.
        """
        if data is None or not are_facts(data):
            return cls(data)
        about: dict[str, list[Verdict]] = {}
        for verdict in read_verdicts(verdicts):
            about.setdefault(verdict.key, []).append(verdict)
        sentences = _by_key(supporting(read_facts(data)))
        if about and not about.keys() & sentences.keys():
            raise about_nothing(verdicts, sum(map(len, about.values())))
        rows = [_labelled(it, about.get(key, ())) for key, it in sentences.items()]
        file = data.with_suffix(".sentences.jsonl")
        write_atomic(file, "".join(opennre.lines(rows)), private=True)
        return cls(file, frozenset(key for key, it in sentences.items() if it.fact.known is None))


def _by_key(found: Iterable[Supporting]) -> dict[str, Supporting]:
    """Each sentence once, with what is known of its pair or else, as the page asks, with what it supports best."""
    best: dict[str, Supporting] = {}
    for it in found:
        key = sentence_key(it.tokens, it.spans)
        if key not in best or _rank(best[key]) < _rank(it):
            best[key] = it
    return best


def _rank(it: Supporting) -> tuple[bool, float]:
    return it.fact.known is True, it.support.score


def _labelled(it: Supporting, verdicts: Iterable[Verdict]) -> Instance:
    """As a knowledge base would label it; where there was none, as people say, or else as the model does."""
    made = replace(it.instance, source=it.support.document)
    if it.fact.known is not None:
        return made if it.fact.known else replace(made, relation=NA)
    decided = counted(verdicts, AnyRelation())
    if decided is None:
        return made
    relation, stated = decided
    return replace(made, relation=relation if stated else NA)
