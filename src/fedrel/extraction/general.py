"""The general extractor: a small model that ships with fedrel, for English text about people, places, organisations and
works. It needs no knowledge base: names are recognised by their capitals, and the model sees what they are names of,
never the names. benchmarks/general makes it; docs/general.md says what it is good for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedrel.alignment.kb import KB
from fedrel.alignment.known_names import ANY, AWARD, EVENT, ORGANISATION, PERSON, PLACE, TYPES, WORK
from fedrel.alignment.mentions import Spot, Spotter
from fedrel.alignment.recogniser import recognise, type_of
from fedrel.errors import UserError
from fedrel.extraction.candidates import Span
from fedrel.extraction.extract import RelationExtractor, Words

FOLDER = Path(__file__).parent / "general_model"
LANGUAGE = "en"

# Between which types each relation of the model can hold
SIGNATURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "born_in": ((PERSON,), (PLACE,)),
    "died_in": ((PERSON,), (PLACE,)),
    "lives_in": ((PERSON,), (PLACE,)),
    "citizen_of": ((PERSON,), (PLACE,)),
    "spouse_of": ((PERSON,), (PERSON,)),
    "child_of": ((PERSON,), (PERSON,)),
    "sibling_of": ((PERSON,), (PERSON,)),
    "studied_at": ((PERSON,), (ORGANISATION,)),
    "works_for": ((PERSON,), (ORGANISATION,)),
    "heads": ((PERSON,), (ORGANISATION, PLACE)),
    "founder_of": ((PERSON,), (ORGANISATION,)),
    "member_of": ((PERSON,), (ORGANISATION,)),
    "headquartered_in": ((ORGANISATION,), (PLACE,)),
    "located_in": ((PLACE, ORGANISATION), (PLACE,)),
    "capital_of": ((PLACE,), (PLACE,)),
    "wrote": ((PERSON,), (WORK,)),
    "directed": ((PERSON,), (WORK,)),
    "composed": ((PERSON,), (WORK,)),
    "performed": ((PERSON, ORGANISATION), (WORK,)),
    "acted_in": ((PERSON,), (WORK,)),
    "created": ((PERSON,), (WORK, PLACE)),
    "owns": ((ORGANISATION, PERSON), (ORGANISATION,)),
    "won": ((PERSON,), (AWARD,)),
}

# What knowledge bases and annotators call these types, in small letters
_CALLED = {
    **dict.fromkeys(("per", "people", "human", "man", "woman", "author", "artist", "politician"), PERSON),
    **dict.fromkeys(("loc", "location", "gpe", "city", "town", "country", "region", "state", "settlement"), PLACE),
    **dict.fromkeys(("org", "organization", "company", "university", "school", "institution", "band"), ORGANISATION),
    **dict.fromkeys(("book", "film", "movie", "novel", "song", "album", "painting", "work_of_art"), WORK),
    **dict.fromkeys(("prize",), AWARD),
}


def marker(type_: str) -> str:
    """The word that the model reads in the place of a name of this type."""
    return f"<{type_}>"


MARKERS = tuple(marker(type_) for type_ in (*TYPES, EVENT, ANY))


def fits(relation: str, head: str, tail: str) -> bool:
    """Whether a relation can hold between names of these types; a name of unknown type may be anything."""
    heads, tails = SIGNATURES[relation]
    return (head == ANY or head in heads) and (tail == ANY or tail in tails)


def are_alike(relation: str, other: str) -> bool:
    """Whether two relations can hold between the same types, as far as this model knows them."""
    if relation not in SIGNATURES or other not in SIGNATURES:
        return True
    return all(set(ones) & set(others) for ones, others in zip(SIGNATURES[relation], SIGNATURES[other], strict=True))


def blinded(words: Words, names: Sequence[tuple[int, int, str]]) -> tuple[list[str], dict[Span, Span]]:
    """The tokens of a sentence with a marker in the place of each name (start, end, type), and the place of each
    marker, by start and end. Names may overlap, or share a token: those have one marker, of the first.
    """
    tokens: list[str] = []
    spans: dict[Span, Span] = {}
    done = 0
    for start, end, type_ in sorted(names):
        first, last = words.touched(start, end)
        if first < done:  # shares a token with the one before
            spans[start, end] = (len(tokens) - 1, len(tokens))
            continue
        tokens += words.tokens[done:first]
        spans[start, end] = (len(tokens), len(tokens) + 1)
        tokens.append(marker(type_))
        done = max(last, first)
    return tokens + words.tokens[done:], spans


class GeneralExtractor(RelationExtractor):
    """Reads English text with the general model; `fedrel.load()` returns one."""

    def _spotter(self, kb: KB | None, language: str) -> Spotter:
        if language != LANGUAGE:
            raise UserError(f'the general model reads English, not "{language}"; train one of your own for others')
        return Spotter(kb, language, recognise)

    def _typed(self, text: str, spots: Sequence[Spot], kb: KB | None) -> Sequence[Spot]:
        return [spot._replace(type=_type(text, spot, kb)) for spot in spots]

    def _read(self, text: str, words: Words, spots: Sequence[Spot]) -> tuple[list[str], dict[Span, Span]]:
        ours = [(spot.start, spot.end, spot.type) for spot in spots]
        [others] = recognise([text])
        free = [(it.start, it.end, it.type) for it in others if all(it.end <= a or b <= it.start for a, b, _ in ours)]
        return blinded(words, [*ours, *free])

    def _could_join(self, head: Spot, tail: Spot) -> bool:
        return any(fits(relation, head.type, tail.type) for relation in SIGNATURES)

    def _allows(self, relation: str, head: str, tail: str) -> bool:
        return fits(relation, head, tail)

    def _told(self, head: Spot, tail: Spot) -> tuple[int, int]:
        return (-1, -1)  # the markers say it


def introduction(extractor: GeneralExtractor, *, named: bool) -> str:
    """What a person should know before reading its facts; `named`: the names come from a knowledge base."""
    relations = ", ".join(it for it in extractor.relations if it in SIGNATURES)
    names = "" if named else "; names are found by rules of thumb (a knowledge base, --kb, is better)"
    return f"no --model given: the general one, for English, which extracts {relations}{names}"


def _type(text: str, spot: Spot, kb: KB | None) -> str:
    told = spot.type or (kb.types[spot.numbers[0]] if kb is not None and spot.numbers else "")
    told = told.lower()
    known = _CALLED.get(told, told)
    return known if known in (*TYPES, EVENT, ANY) else type_of(text, spot.start, spot.end)
