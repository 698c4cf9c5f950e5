"""Real sentences to train on beside those of the phrase book: Wikipedia's, labelled by DBpedia (`wiki-ds`).

Such labels are often wrong, and know two of our relations alone. So a sentence is taken only where a model of the
phrase book half agrees: as an example of its label if the model finds that likely enough, and as one of no relation if
the model sees none, or sees one of the two that the labels deny.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.general.labelled import WIKI, rows
from benchmarks.general.sentences import Example
from fedrel.alignment.recogniser import recognise, type_of
from fedrel.corpus.types import NA
from fedrel.extraction.extract import RelationExtractor, Words
from fedrel.extraction.general import blinded

_LIKELY, _UNLIKELY = 0.3, 0.5
_LONGEST = 60  # tokens


def examples(extractor: RelationExtractor, path: Path, most: int) -> Iterator[Example]:
    for document, label in islice(rows(path), most):
        if label not in (*WIKI, NA):
            continue
        found = {it.relation: it.confidence for it in extractor.extract([document], min_confidence=0) if it.head == "h"}
        best = max(found, key=lambda name: found[name], default=NA)
        ours = WIKI[label][0] if label in WIKI else NA
        if ours == NA:
            keep = found.get(best, 0) < _UNLIKELY or (best,) in WIKI.values()
        else:
            keep = found.get(ours, 0) >= _LIKELY
        if not keep or not found:
            continue
        words, marks = Words.of(document.text), document.annotations or ()
        if len(words) > _LONGEST:
            continue
        names = [(mark.start, mark.end, type_of(document.text, mark.start, mark.end)) for mark in marks]
        others = [it for it in recognise([document.text])[0] if all(it.end <= a or b <= it.start for a, b, _ in names)]
        tokens, spans = blinded(words, [*names, *((it.start, it.end, it.type) for it in others)])
        (head, _), (tail, _) = (spans[mark.start, mark.end] for mark in marks)
        if head != tail:
            yield Example(tuple(tokens), head, tail, ours)
