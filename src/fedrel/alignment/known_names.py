"""Lists of well-known names and of words that betray what a name is of, from names.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

PERSON, PLACE, ORGANISATION, WORK, AWARD = TYPES = ("person", "place", "organisation", "work", "award")
EVENT = "event"  # found, so that it is taken for nothing else, and of no use in a relation
ANY = "name"  # of a type that nothing betrays

_PARTICIPLE = r"-(?:based|born|bred|led|owned|educated|trained)\b"  # behind a place: Zurich-based
_WORD = re.compile(rf"[^\W_]+(?:(?!{_PARTICIPLE})['’\-][^\W_]+)*|&")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a sentence, text[start:end], without the `'s` of a possessive."""

    text: str
    start: int
    end: int
    possessive: bool = False
    gap: str = ""  # what stands between it and the next word

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()


def words_of(text: str) -> list[Word]:
    """The words of a text. Hyphens and apostrophes may stand in a word; punctuation marks stand between words."""
    found = list(_WORD.finditer(text))
    nexts = [*(match.start() for match in found[1:]), len(text)]
    return [_word(it[0], it.start(), text[it.end() : next_]) for it, next_ in zip(found, nexts, strict=False)]


def _word(text: str, start: int, gap: str) -> Word:
    for ending in ("'s", "’s"):
        if text.endswith(ending) and len(text) > len(ending):
            bare = text[: -len(ending)]
            return Word(bare, start, start + len(bare), possessive=True, gap=gap)
    return Word(text, start, start + len(text), gap=gap)


@dataclass(frozen=True)
class KnownNames:
    """What is known of names without a knowledge base."""

    given: frozenset[str]
    surnames: frozenset[str]
    types: dict[str, tuple[str, ...]]  # of whole names, without the article: a name may be one of several
    phrases: dict[str, list[tuple[str, ...]]]  # names of several words by their first, the longest first
    betraying: dict[str, str]  # words of a name, and the type that they betray
    titles: frozenset[str]
    not_names: frozenset[str]
    openers: frozenset[str]
    particles: frozenset[str]
    in_titles: frozenset[str]
    cues: dict[str, frozenset[str]]  # words around a name, by what they betray of it

    def longest(self, words: Sequence[Word], at: int) -> int:
        """How many words from here on are a listed name of several words; 0: none is."""
        for phrase in self.phrases.get(words[at].text, ()):
            some = words[at : at + len(phrase)]
            if phrase == tuple(_spelt(some)) and all(is_near(word) for word in some[:-1]):
                return len(phrase)
        return 0


def is_near(word: Word) -> bool:
    """Whether the next word follows after a blank, perhaps behind the full stop of an abbreviation."""
    return word.gap.isspace() or (word.gap.strip() == "." and len(word.text) <= 3)


def _spelt(words: Sequence[Word]) -> Iterator[str]:
    for word in words[:-1]:
        yield word.text + "'s" * word.possessive
    yield words[-1].text


def without_article(name: str) -> str:
    """A name without the article that it begins with."""
    for article in ("The ", "the ", "A ", "An "):
        if name.startswith(article) and len(name) > len(article):
            return name[len(article) :]
    return name


@cache
def known_names() -> KnownNames:
    raw = tomllib.loads(resources.files("fedrel.alignment").joinpath("names.toml").read_text("utf-8"))
    lists = {name: [" ".join(it.split()) for it in text.split(",")] for name, text in raw["lists"].items()}
    types: dict[str, tuple[str, ...]] = {}
    for type_, listed in ((ORGANISATION, "organisations"), (PLACE, "places"), (WORK, "works")):
        for name in lists[listed]:
            bare = without_article(name)
            types[bare] = (*types.get(bare, ()), type_)
    betraying = {word: type_ for type_, word in _betraying(lists)}
    return KnownNames(
        given=frozenset(lists["given"]),
        surnames=frozenset(lists["surnames"]),
        types=types,
        phrases=_by_first([*lists["organisations"], *lists["places"], *lists["works"]]),
        betraying=betraying,
        titles=frozenset(lists["person_titles"]),
        not_names=frozenset(lists["not_names"]),
        openers=frozenset(lists["openers"]),
        particles=frozenset(raw["joins"]["particles"].split()),
        in_titles=frozenset(raw["joins"]["in_titles"].split()),
        cues={name: frozenset(words.split()) for name, words in raw["cues"].items()},
    )


def _betraying(lists: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for type_, name in (
        (ORGANISATION, "organisation_words"),
        (PLACE, "place_words"),
        (AWARD, "award_words"),
        (EVENT, "event_words"),
    ):
        yield from ((type_, word) for word in lists[name])


def _by_first(names: Iterable[str]) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        for form in {name, without_article(name)}:
            words = words_of(form)
            if len(words) > 1:
                found.setdefault(words[0].text, []).append(tuple(_spelt(words)))
    for phrases in found.values():
        phrases.sort(key=len, reverse=True)
    return found
