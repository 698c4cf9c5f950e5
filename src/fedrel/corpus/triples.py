"""Sentences with triples of words, as JSON lines or a JSON array, in the layouts in which NYT and WebNLG circulate.

    {"sentText": "Ann Lee sings in Bonn .", "articleId": "a.xml", "sentId": "1",
     "relationMentions": [{"em1Text": "Ann Lee", "em2Text": "Bonn", "label": "/people/person/place_lived"}],
     "entityMentions": [{"start": 0, "text": "Ann Lee", "label": "PERSON"}, …]}
    {"text": "Ann Lee sings in Bonn .", "triple_list": [["Ann Lee", "place_lived", "Bonn"]]}
    {"text": "Ann sings in Bonn .", "relation_list": [{"subject": "Ann", "predicate": "lives", "object": "Bonn"}]}
    {"sentext": "Ann sings in Bonn .", "relations": [{"em1": "Ann", "rtext": "place_lived", "em2": "Bonn"}]}

The first is that of Ren et al. (CoType) and of the NYT24 and NYT29 made from it, the second that of CasRel, the third
that of TPLinker, the fourth that of NYT10 and NYT11 by Takanobu et al. A row is one sentence, whatever is in it.

Places are not told (a "start" counts entities, and spans of TPLinker are all that were found), so an entity is where
its words first stand as whole words: of an entity within the words of another, where it stands by itself if it does.
Head and tail that have the same words are the first two places. A triple whose words are not in the sentence is broken;
one that is there twice, as many in NYT are, counts once. In WebNLG and NYT as CasRel has them, an entity is its last
word; nothing can be done about that. Where a row labels pairs "None", those are all its pairs without a relation.

NYT has the labels of distant supervision and WebNLG those of people. Published work evaluates both sentence by
sentence, so both are taken as gold. Entities have no ids, and types in the first layout only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from fedrel.corpus.checks import EMPTY, sentence_tokens
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import (
    EXTENSIONS,
    json_files,
    list_in,
    name_of,
    reader,
    shown_keys,
    text_of,
    type_of,
)
from fedrel.corpus.tokenised import Relation, once
from fedrel.corpus.tokens import tokenize
from fedrel.corpus.types import NA, Annotation, Document, Skipped
from fedrel.errors import UserError

_TEXTS = ("sentText", "sentext", "text")
_TRIPLES: dict[str, tuple[Any, Any, Any]] = {  # where a row has them, and in them head, relation and tail
    "relationMentions": ("em1Text", "label", "em2Text"),
    "triple_list": (0, 1, 2),
    "relation_list": ("subject", "predicate", "object"),
    "relations": ("em1", "rtext", "em2"),
}
_ENTITIES = {"entityMentions": "label", "entity_list": "type"}  # where a row has them, and in them the type
_NONE = {"None", NA}

Words = tuple[str, ...]
Span = tuple[int, int]  # tokens


class _Sentence:
    """A text in which words are found."""

    def __init__(self, text: str, where: str) -> None:
        self.tokens, self._begins, self._ends = sentence_tokens(text, where)
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, token in enumerate(self.tokens):
            self._places[token].append(place)

    def spans(self, words: Words) -> Iterator[Span]:
        """Every place where these words stand, in order."""
        for place in self._places.get(words[0], ()):
            if tuple(self.tokens[place : place + len(words)]) == words:
                yield place, place + len(words)

    def first_places(self, names: Iterable[Words]) -> dict[Words, Span]:
        """Where each of the names that are there first stands outside of longer ones; within them if nowhere else."""
        found: dict[Words, Span] = {}
        taken: set[int] = set()
        for words in sorted(names, key=lambda it: (-len(it), it)):
            alone = next((it for it in self.spans(words) if taken.isdisjoint(range(*it))), None)
            if span := alone or next(self.spans(words), None):
                found[words] = span
                taken.update(range(*span))
        return found

    def characters(self, span: Span) -> Span:
        return self._begins[span[0]], self._ends[span[1] - 1]


def _document(row: dict[str, Any], name: str, where: str, skip: Skipped) -> Document | None:
    text = next((row[key] for key in _TEXTS if isinstance(row.get(key), str)), None)
    if text is None:
        raise UserError(f"{where}: none of {_listed(_TEXTS)} holds the sentence")
    types = _types(row, where, skip)
    triples = list(_triples(row, where, skip))
    if not text.strip():
        skip(where, EMPTY)
        return None
    sentence = _Sentence(text, where)
    ends = {words for head, _, tail in triples for words in (head, tail)}
    places = sentence.first_places(ends | types.keys())
    for _ in types.keys() - places.keys() - ends:
        skip(where, "the entity is not in the text as whole words")
    marks = _Marks(sentence, types, places)
    relations = tuple(once(_relations(triples, marks, where, skip), where, skip))
    start = len(text) - len(text.lstrip())
    return Document(
        _name(row, name),
        text,
        marks.annotations(),
        relations,
        where,
        ((start, len(text.rstrip())),),
        listed=any(relation == NA for _, relation, _ in triples),
    )


class _Marks:
    """The annotations of a sentence, by place."""

    def __init__(self, sentence: _Sentence, types: dict[Words, str], places: dict[Words, Span]) -> None:
        self._sentence, self._types, self._places = sentence, types, places
        self._marked = {span: words for words, span in places.items()}

    def ends(self, head: Words, tail: Words) -> tuple[Span, Span] | None:
        """The places of head and tail, which are in the text; None if they are the same."""
        if head != tail:
            return self._places[head], self._places[tail]
        second = next((it for it in self._sentence.spans(head) if it[0] >= self._places[head][1]), None)
        if second is None:
            return None
        self._marked.setdefault(second, head)
        return self._places[head], second

    def missing(self, *names: Words) -> Words | None:
        return next((words for words in names if words not in self._places), None)

    @staticmethod
    def key(span: Span) -> str:
        return f"T{span[0]}-{span[1]}"

    def annotations(self) -> tuple[Annotation, ...]:
        return tuple(
            Annotation(self.key(span), *self._sentence.characters(span), self._types.get(words, ""))
            for span, words in sorted(self._marked.items())
        )


def _relations(triples: list[tuple[Words, str, Words]], marks: _Marks, where: str, skip: Skipped) -> Iterator[Relation]:
    related = {(head, tail) for head, relation, tail in triples if relation != NA}
    for head, relation, tail in triples:
        if (missing := marks.missing(head, tail)) is not None:
            words = shortened(" ".join(missing))
            skip.bad(
                UserError(f'{where}: the relation joins "{words}", which is not in the text as whole words'), where
            )
        elif relation == NA and (head, tail) in related:
            skip(where, "the relation is none, of words that a relation joins")
        elif (ends := marks.ends(head, tail)) is None:
            skip(where, "the relation joins words with themselves that are in the text once")
        else:
            yield marks.key(ends[0]), relation, marks.key(ends[1])


def _types(row: dict[str, Any], where: str, skip: Skipped) -> dict[Words, str]:
    """The entities that a row lists, by their words."""
    found: dict[Words, str] = {}
    for key, type_ in _ENTITIES.items():
        for number, entity in enumerate(list_in(row, key, where) if row.get(key) is not None else ()):
            try:
                words = _words(entity, "text", f"the entity {number}", where)
            except UserError as error:
                skip.bad(error, where)
            else:
                found.setdefault(words, type_of(entity.get(type_)))
    return found


def _triples(row: dict[str, Any], where: str, skip: Skipped) -> Iterator[tuple[Words, str, Words]]:
    """The triples of a row, with NA for what is labelled as none."""
    key = next((key for key in _TRIPLES if key in row), None)
    if key is None:
        raise UserError(f"{where}: none of {_listed(_TRIPLES)} holds the triples")
    first, name, second = _TRIPLES[key]
    for number, triple in enumerate(list_in(row, key, where)):
        what = f"the relation {number}"
        try:
            head, tail = (_words(triple, end, what, where) for end in (first, second))
            label = triple[name] if isinstance(triple, list) else triple.get(name)
            relation = text_of(label, f"{what}: its name", where)
        except UserError as error:
            skip.bad(error, where)
        else:
            yield head, NA if relation in _NONE else relation, tail


def _words(item: Any, key: str | int, what: str, where: str) -> Words:
    """The words of an entity, at least one, which an item has under this key, or a list in this place."""
    if isinstance(key, int):
        if not isinstance(item, list) or len(item) != 3:
            raise UserError(f"{where}: {what} must be a list of three, head, relation and tail")
        found = item[key]
    elif isinstance(item, dict):
        found = item.get(key)
    else:
        raise UserError(f"{where}: {what} is no object")
    name = key if isinstance(key, str) else ("head", "relation", "tail")[key]
    return tuple(tokenize(text_of(found, f'{what}: "{name}"', where))[0])


def _name(row: dict[str, Any], default: str) -> str:
    article, sentence = (name_of(row.get(key), "") for key in ("articleId", "sentId"))
    return f"{article}#{sentence}" if article and sentence else article or name_of(row.get("id"), default)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _by_content(sample: Sample) -> str | None:
    found = shown_keys(sample) & {"sentText", "sentext", "relationMentions", "triple_list", "relation_list"}
    return f"JSON with {_listed(sorted(found))}" if found else None


read = reader(_document)

FORMAT = Format(
    what='NYT24, NYT29 and WebNLG, JSON with "sentText" or "text" and triples of words',
    documents=read,
    gold=True,
    keys=(frozenset(("sentText", "relationMentions")), frozenset(("text", "triple_list"))),
    by_content=_by_content,
    extensions=EXTENSIONS,
    candidates=json_files,
)
