"""From documents with gold relations to labelled sentences: each pair of entities in each sentence, and its label.

A pair that no relation joins, in whichever order, is labelled NA and is there once, where relations join entities of
such types somewhere in the data (a drug and a disease, but not two dates): with the types of head and tail as relations
have them, in the order of the text if they have both. A sentence has at most `max_pairs` of them, those of the nearest
entities first. Two mentions of one entity are no pair.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from fedrel.corpus.checks import check_length, sentence_tokens
from fedrel.corpus.rules import UNDIRECTED, Rules, digest
from fedrel.corpus.sentences import sentence_spans
from fedrel.corpus.tokens import token_span
from fedrel.corpus.types import NA, Annotation, Document, Instance, Mention, Skipped
from fedrel.errors import UserError

ITSELF = "the relation joins an entity with itself"
TWICE = "the relation is stated twice for the same two mentions"
APART = "the two entities stand in different sentences"
OTHER_TYPES = "the relation joins entities of other types than data.directions says"
TOO_MANY = "the pair has no relation, and its sentence has data.max_pairs nearer ones"
TOO_FAR = "the pair without a relation is further apart than data.max_distance"
_MOST_TOKENS = 2_000_000  # of all pairs of one sentence without a relation together

Types = set[tuple[str, str]]  # of head and tail
_Joined = tuple[Annotation, str, Annotation, str, str]  # head, relation, tail; which entities are meant, if any


def instances(
    read: Callable[[], Iterable[Document]],
    skip: Skipped,
    rules: Rules | None = None,
    saw: Callable[[Document, int], None] = lambda document, sentences: None,
) -> Iterator[Instance]:
    """Every pair of entities in a sentence with its label. `read` is called twice, for two passes over the documents;
    if it reports to this same `skip`, what it leaves out is counted once. `saw` is told each document in which
    relations are marked, and of how many sentences it is.
    """
    rules = rules or Rules()
    before = skip.reasons.copy(), skip.examples.copy(), skip.broken.copy(), skip.broken_examples.copy()
    types = _related_types(read(), rules)
    skip.reasons, skip.examples, skip.broken, skip.broken_examples = before
    copies: Counter[str] = Counter()  # of each text
    for document in read():
        where = document.where or document.id
        if document.annotations is None:
            skip(where, "no entities are marked in the document")
        elif document.relations is None:
            skip(where, "no relations are marked in the document")
        else:
            found = _Pairs(document, document.annotations, rules, skip)
            copies[found.key] += 1
            saw(document, len(found.sentences))
            yield from found.instances(document.relations, types, copies[found.key])


def _related_types(documents: Iterable[Document], rules: Rules) -> Types:
    found: Types = set()
    for document in documents:
        types: defaultdict[str, set[str]] = defaultdict(set)
        for annotation in document.annotations or ():
            for name in (annotation.key, *annotation.entities):
                types[name].add(annotation.type)
        for head, relation, tail in document.relations or ():
            if relation != NA:
                found |= _types_of(relation, types[head], types[tail], rules)
    return found


def _types_of(relation: str, heads: set[str], tails: set[str], rules: Rules) -> Types:
    declared = rules.types(relation)
    if declared:
        return {declared}
    forth = {(head, tail) for head in heads for tail in tails}
    return forth | {(tail, head) for head, tail in forth} if rules.direction(relation) == UNDIRECTED else forth


class _Pairs:
    """The pairs of one document."""

    def __init__(self, document: Document, annotations: tuple[Annotation, ...], rules: Rules, skip: Skipped) -> None:
        self.document, self.rules, self.skip = document, rules, skip
        self.where = document.where or document.id
        self.key = digest(document.text)
        self.sentences = sentences_of(document)
        self.starts = [start for start, _ in self.sentences]
        self.mentions = sorted(annotations, key=lambda it: (it.start, it.end))
        self.named: defaultdict[str, list[Annotation]] = defaultdict(list)  # by entity, and by key where no entity is
        for annotation in self.mentions:
            for name in dict.fromkeys(annotation.entities):
                self.named[name].append(annotation)
        entities = set(self.named)
        for annotation in self.mentions:
            if annotation.key not in entities:
                self.named[annotation.key].append(annotation)

    def instances(self, relations: Iterable[tuple[str, str, str]], types: Types, copy: int) -> Iterator[Instance]:
        """Every pair with its label. Entities of two documents with the same text differ by the number of the copy."""
        stated = self._stated(relations)
        inside: defaultdict[int, list[Annotation]] = defaultdict(list)
        for annotation in self.mentions:
            inside[self._home(annotation)].append(annotation)
        for number, members in sorted(inside.items()):
            if len(members) == 1 and number not in stated:
                continue
            try:
                words = _Words(self.document, self.sentences[number], self.where, copy)
            except UserError as error:
                self.skip.bad(error, self.where)
                continue
            joined = stated.get(number, [])
            negatives: Iterable[_Joined] = ()
            if not self.document.listed:
                negatives = self._unrelated(
                    members, {frozenset((h.key, t.key)) for h, _, t, _, _ in joined}, types, words
                )
            for head, relation, tail, *meant in chain(joined, negatives):
                try:
                    one, other = (words.mention(it, name) for it, name in zip((head, tail), meant, strict=True))
                except UserError as error:
                    self.skip.bad(error, self.where)
                    continue
                yield Instance(words.tokens, one, other, relation, self.document.id, document=self.key)

    def _home(self, annotation: Annotation) -> int:
        return bisect_right(self.starts, annotation.start) - 1

    def _stated(self, relations: Iterable[tuple[str, str, str]]) -> dict[int, list[_Joined]]:
        """The mentions that relations join, by sentence, each pair once for each relation: of a mention of several
        entities, once for each that a relation means, since these are as many facts.
        """
        found: defaultdict[int, dict[tuple[str, str, str, str, str], _Joined]] = defaultdict(dict)
        for head, relation, tail in relations:
            close = [
                (one, other)
                for one in self.named[head]
                for other in self.named[tail]
                if one.key != other.key and self._home(one) == self._home(other)
            ]
            if not close:
                self.skip(self.where, ITSELF if head == tail else APART)
            for one, other in close:
                ends = self._directed(relation, (one, head), (other, tail))
                if ends is None:
                    self.skip(self.where, OTHER_TYPES)
                    continue
                (first, meant), (second, also) = ends
                meant, also = _entity(first, meant), _entity(second, also)
                here, key = found[self._home(one)], (first.key, relation, second.key, meant, also)
                if key in here:
                    self.skip(self.where, TWICE)
                here.setdefault(key, (first, relation, second, meant, also))
        return {number: list(joined.values()) for number, joined in found.items()}

    def _directed(
        self, relation: str, head: tuple[Annotation, str], tail: tuple[Annotation, str]
    ) -> tuple[tuple[Annotation, str], tuple[Annotation, str]] | None:
        """Head and tail of a relation as its direction wants them; None if their types do not fit."""
        if self.rules.direction(relation) == UNDIRECTED:
            in_order = (head[0].start, head[0].end) <= (tail[0].start, tail[0].end)
            return (head, tail) if in_order else (tail, head)
        declared = self.rules.types(relation)
        if declared is None or (head[0].type, tail[0].type) == declared:
            return head, tail
        return (tail, head) if (tail[0].type, head[0].type) == declared else None

    def _unrelated(
        self, inside: list[Annotation], joined: set[frozenset[str]], types: Types, words: _Words
    ) -> Iterator[_Joined]:
        """Pairs without a relation in the order of the text; if there are too many, those of the nearest mentions."""
        most = min(self.rules.max_pairs, max(1, _MOST_TOKENS // max(1, len(words.tokens))))
        found: list[tuple[int, int]] = []
        for seen, (first, second) in enumerate(_nearest_first(len(inside))):
            one, other = inside[first], inside[second]
            if frozenset((one.key, other.key)) in joined or _is_one_entity(one, other):
                continue
            forth, back = (one.type, other.type) in types, (other.type, one.type) in types
            if not forth and not back:
                continue
            if self.rules.max_distance and words.between(one, other) > self.rules.max_distance:
                self.skip(self.where, TOO_FAR)
            elif len(found) == most:
                self.skip(self.where, TOO_MANY, len(inside) * (len(inside) - 1) // 2 - seen)
                break
            else:
                found.append((first, second))
        for first, second in sorted(found):
            one, other = inside[first], inside[second]
            head, tail = (one, other) if (one.type, other.type) in types else (other, one)
            yield head, NA, tail, "", ""


def _nearest_first(count: int) -> Iterator[tuple[int, int]]:
    """Neighbours among so many mentions, then those with one between them, and so on."""
    return ((first, first + step) for step in range(1, count) for first in range(count - step))


def _entity(mention: Annotation, name: str) -> str:
    """The entity that a relation means by a mention, which it may call by its key; empty: the mention itself."""
    return name if name in mention.entities else mention.entities[0] if len(mention.entities) == 1 else ""


def _is_one_entity(one: Annotation, other: Annotation) -> bool:
    if one.id and one.id == other.id:
        return True
    return bool(set(one.entities) & set(other.entities))


class _Words:
    """The tokens of one sentence. UserError if there are too many."""

    def __init__(self, document: Document, span: tuple[int, int], where: str, copy: int) -> None:
        start, end = span
        self.where, self.copy = where, copy
        if document.tokens is None:
            self.tokens, begins, ends = sentence_tokens(document.text[start:end], where)
            self.begins, self.ends = [start + it for it in begins], [start + it for it in ends]
        else:
            first = bisect_left(document.tokens, (start, start))
            last = bisect_left(document.tokens, (end, end))
            inside = document.tokens[first:last]
            self.tokens = [document.text[begin:stop] for begin, stop in inside]
            self.begins, self.ends = [begin for begin, _ in inside], [stop for _, stop in inside]
        check_length(len(self.tokens), where)
        self._spans: dict[str, tuple[int, int]] = {}

    def mention(self, it: Annotation, meant: str = "") -> Mention:
        """An annotation as a mention; of one with several entities, the one that is meant."""
        start, end = self._span(it)
        named = meant if meant in it.entities else ""
        if it.id:
            return Mention(named or it.id, start, end, it.type)
        local = named or (it.entities[0] if it.entities else it.key)
        return Mention("", start, end, it.type, local if self.copy == 1 else f"{local} of copy {self.copy}")

    def between(self, one: Annotation, other: Annotation) -> int:
        """How many tokens stand between two mentions."""
        (a, b), (c, d) = self._span(one), self._span(other)
        return max(0, max(a, c) - min(b, d))

    def _span(self, it: Annotation) -> tuple[int, int]:
        if it.key not in self._spans:
            self._spans[it.key] = token_span(self.begins, self.ends, it.start, it.end, f"{self.where}: {it.key}")
        return self._spans[it.key]


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
