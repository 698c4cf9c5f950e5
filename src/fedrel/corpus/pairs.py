"""From documents with gold relations to labelled sentences: each pair of entities in each sentence, and its label.

A pair that no relation joins is labelled NA, where relations join entities of such types somewhere in the data
(a drug and a disease, but not two dates). Pairs have an order, head and tail; of two entities of one type only the
order of the text is taken, and neither if a relation joins the two, in whichever order.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations

from fedrel.corpus.sentences import sentence_spans
from fedrel.corpus.tokens import token_span, tokenize
from fedrel.corpus.types import NA, Annotation, Document, Instance, Mention, Skipped

Types = set[tuple[str, str]]  # of head and tail


def instances(read: Callable[[], Iterable[Document]], skip: Skipped) -> Iterator[Instance]:
    """Every pair of entities in a sentence with its label. `read` is called twice, for two passes over the documents;
    if it reports to this same `skip`, what it leaves out is counted once.
    """
    before = skip.reasons.copy(), skip.examples.copy()
    types = _related_types(read())
    skip.reasons, skip.examples = before
    for document in read():
        where = document.where or document.id
        if document.annotations is None:
            skip(where, "no entities are marked in the document")
        elif document.relations is None:
            skip(where, "no relations are marked in the document")
        else:
            yield from _instances(document, document.annotations, document.relations, types, skip)


def _related_types(documents: Iterable[Document]) -> Types:
    found: Types = set()
    for document in documents:
        type_of = {annotation.key: annotation.type for annotation in document.annotations or ()}
        found.update((type_of[head], type_of[tail]) for head, _, tail in document.relations or ())
    return found


def _instances(
    document: Document,
    annotations: tuple[Annotation, ...],
    relations: tuple[tuple[str, str, str], ...],
    types: Types,
    skip: Skipped,
) -> Iterator[Instance]:
    where = document.where or document.id
    sentences = sentences_of(document)
    starts = [start for start, _ in sentences]
    home = {it.key: bisect_right(starts, it.start) - 1 for it in annotations}
    members: defaultdict[int, list[Annotation]] = defaultdict(list)
    for annotation in sorted(annotations, key=lambda it: (it.start, it.end)):
        members[home[annotation.key]].append(annotation)
    stated: defaultdict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for head, relation, tail in relations:
        if home[head] == home[tail]:
            stated[home[head]].append((head, relation, tail))
        else:
            skip(where, "the two entities stand in different sentences")
    for number, inside in sorted(members.items()):
        if len(inside) == 1 and number not in stated:
            continue
        start, end = sentences[number]
        tokens, begins, ends = tokenize(document.text[start:end])
        mentions = {
            it.key: Mention(
                it.id or f"{document.id}#{it.key}",
                *token_span(begins, ends, it.start - start, it.end - start, f"{where}: {it.key}"),
                it.type,
            )
            for it in inside
        }
        joined = {(head, tail) for head, _, tail in stated[number]}
        unrelated = ((head, NA, tail) for head, tail in _unrelated(inside, joined, types))
        for head, relation, tail in chain(stated[number], unrelated):
            yield Instance(tokens, mentions[head], mentions[tail], relation, document.id)


def _unrelated(inside: list[Annotation], joined: set[tuple[str, str]], types: Types) -> Iterator[tuple[str, str]]:
    for first, second in combinations(inside, 2):
        forth, back = (first, second), (second, first)
        alike = first.type == second.type
        if alike and (second.key, first.key) in joined:
            continue
        for head, tail in (forth,) if alike else (forth, back):
            if (head.type, tail.type) in types and (head.key, tail.key) not in joined:
                yield head.key, tail.key


def sentences_of(document: Document, language: str = "en") -> list[tuple[int, int]]:
    """The spans of the sentences in order. Those that an annotation bridges are one: no splitter is always right."""
    spans = sentence_spans(document.text, language) if document.sentences is None else document.sentences
    found: list[tuple[int, int]] = []
    for start, end in sorted([*spans, *((it.start, it.end) for it in document.annotations or ())]):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
