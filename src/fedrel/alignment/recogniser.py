"""Names in English text without a knowledge base: spans of capitalised words, with a guess of what each is a name of.

Rules of thumb and short lists (names.toml), nothing learnt: names in lower case are missed, and a name that nothing in
its sentence gives away has no type. A knowledge base is better wherever there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from fedrel.alignment.known_names import (
    ANY,
    AWARD,
    ORGANISATION,
    PERSON,
    PLACE,
    WORK,
    is_near,
    without_article,
    words_of,
)
from fedrel.alignment.name_types import TypedSentence

_LONGEST = 12  # words of a name
_QUOTES = {"“": "”", '"': '"', "«": "»", "‘": "’"}


class Name(NamedTuple):
    """A name in a sentence, text[start:end]. `id` is what it is known by in its document: the name in full, if that is
    there, in small letters.
    """

    start: int
    end: int
    id: str
    type: str


@dataclass(frozen=True)
class _Found:
    first: int  # word
    end: int  # word
    type: str


def recognise(sentences: Sequence[str]) -> list[list[Name]]:
    """The names in every sentence of a document, in order and without overlap."""
    found = [list(_names(sentence)) for sentence in sentences]
    _agree(found)
    return found


def type_of(text: str, start: int, end: int) -> str:
    """What the name text[start:end] of a sentence is of, by what it looks like and what stands around it."""
    words = words_of(text)
    touched = [at for at, word in enumerate(words) if word.start < end and word.end > start]
    return TypedSentence(text, words).type_of(touched[0], touched[-1] + 1) if touched else ANY


def normalised(name: str) -> str:
    """What a name is known by: in small letters, without an article, with single blanks."""
    return without_article(" ".join(name.split())).lower()


def _names(text: str) -> Iterator[Name]:
    words = words_of(text)
    sentence = _Sentence(text, words)
    for it in sentence.found():
        start, end = words[it.first].start, words[it.end - 1].end
        yield Name(start, end, normalised(text[start:end]), it.type)


class _Sentence(TypedSentence):
    """Finds the names in a sentence."""

    def found(self) -> Iterator[_Found]:
        at = 0
        while at < len(self.words):
            end = self._quoted(at) or self._end(at)
            if not end:
                at += 1
                continue
            for it in self._split(at, end):
                first, last = self._stripped(it.first, it.end)
                if first < last:
                    yield replace(it, first=first, end=last, type=it.type or self.type_of(first, last))
            at = end

    def _quoted(self, at: int) -> int:
        """Where a title between quotation marks that begins here ends; 0: none does."""
        start = self.words[at].start
        closing = _QUOTES.get(self.text[start - 1]) if start else None
        if closing is None or not self.words[at].capital:
            return 0
        for end in range(at + 1, min(at + _LONGEST, len(self.words)) + 1):
            after = self.text[self.words[end - 1].end : self.words[end - 1].end + 2]
            if after.lstrip(",.!?")[:1] == closing:
                return end if all(w.capital or w.text in self.known.in_titles for w in self.words[at:end]) else 0
        return 0

    def _end(self, at: int) -> int:
        """Where the name that begins at this word ends; 0: none does."""
        words, known = self.words, self.known
        if listed := known.longest(words, at):
            end = at + listed
            return end if not self._goes_on(end) else self._run(at, end)
        word = words[at]
        if not word.capital:
            return 0
        if word.text in known.not_names and not (
            (word.text in known.given and self._goes_on(at + 1)) or self._is_before_institution(at)
        ):
            return 0
        lower = word.text.lower()
        if word.text in known.given and self._goes_on(at + 1):
            return self._run(at, at + 1)  # Will Smith, April Jones
        if lower in known.openers:
            return self._title(at)
        if self._begins(at) and not self._could_begin(at):
            return 0
        return self._run(at, at + 1)

    def _title(self, at: int) -> int:
        """Where the title of a work ends that begins here with a word that begins no other name; 0: there is none."""
        step = 1 if self._goes_on(at + 1) else self._joined(at, at + 1)
        end = self._run(at, at + 1 + step) if step else 0
        return end if end and self.is_work(at, end) and self.looks(at + 1, end) in (ANY, WORK) else 0

    def _could_begin(self, at: int) -> bool:
        """Whether a capitalised word at the beginning of a sentence is a name: if more than the sentence's beginning
        may have made it a capital.
        """
        text = self.words[at].text
        known = self.known
        if text in known.given or text in known.types or text in known.surnames or self.words[at].possessive:
            return True
        return self._goes_on(at + 1) or not text.endswith(("ly", "ing", "ed"))

    def _begins(self, at: int) -> bool:
        return not at or (any(mark in self.words[at - 1].gap for mark in '.!?:;]“"') and not self._is_initial(at - 1))

    def _is_initial(self, at: int) -> bool:
        text = self.words[at].text
        short = (len(text) == 1 and text.isupper()) or text in self.known.titles or text in ("Jr", "Sr")
        return self.words[at].gap.strip() == "." and short

    def _goes_on(self, at: int) -> bool:
        """Whether the word here continues the name before it."""
        if not 0 < at < len(self.words):
            return False
        one, word = self.words[at - 1], self.words[at]
        near, stop = is_near(one), "." in one.gap and not self._is_initial(at - 1)
        usual = word.text not in self.known.not_names or self._is_before_institution(at)
        return near and not stop and not one.possessive and word.capital and usual

    def _is_before_institution(self, at: int) -> bool:
        """Whether an adjective of a nation or the like belongs to a name: Swiss Patent Office."""
        some = self.words[at : at + 4]
        for one, word in pairwise(some):
            if not word.capital or not is_near(one):
                return False
            if self.known.betraying.get(word.text) in (ORGANISATION, PLACE):
                return True
        return False

    def _run(self, first: int, end: int) -> int:
        """The end of the name that has these words already."""
        words, known = self.words, self.known
        while end < min(len(words), first + _LONGEST):
            beside = words[end].text == "&" or words[end - 1].text == "&"
            if self._goes_on(end) or (beside and self._capital(end + (words[end].text == "&"))):
                end += 1
            elif (step := self._joined(first, end)) > 0:
                end += step
            elif self._is_possessive_title(first, end):
                end += 1
            else:
                break
        while end > first + 1 and not words[end - 1].capital and words[end - 1].text not in known.not_names:
            end -= 1
        return end

    def _capital(self, at: int) -> bool:
        return at < len(self.words) and self.words[at].capital

    def _joined(self, first: int, end: int) -> int:
        """How many words of lower case and the capital after them belong to the name; 0: none."""
        words, known = self.words, self.known
        between = []
        for at in range(end, min(end + 3, len(words))):
            if not is_near(words[at - 1]) or words[at - 1].possessive:
                return 0
            if words[at].capital:
                break
            between.append(words[at].text)
        at = end + len(between)
        if not between or at >= len(words) or not words[at].capital or words[at].text in known.not_names:
            return 0
        if all(word in known.particles for word in between):
            return len(between) + 1
        left, right = words[end - 1].text, words[at].text
        if between in (["in"], ["for"]) and known.betraying.get(left) == AWARD:
            return 2  # the Nobel Prize in Physics
        if between[0] == "of":
            house = known.betraying.get(left) in (ORGANISATION, PLACE, AWARD) and left != "Party"
            if house or left in ("House", "Lord"):
                return len(between) + 1
        if not all(word in known.in_titles for word in between) or not self.is_work(first, at + 1):
            return 0
        if right in known.types and PLACE in known.types[right] and between[0] != "of":
            return 0
        if between == ["and"]:
            plain = {left, right}.isdisjoint(known.given | known.surnames) and not {left, right} & known.types.keys()
            return 2 * plain
        if words[first].text.lower() in known.openers or between[0] == "of" or between[-1] in ("the", "a"):
            return len(between) + 1  # Lost in Translation
        return 0

    def _is_possessive_title(self, first: int, end: int) -> bool:
        """Schindler's List is one name, Apple's Tim Cook are two."""
        word, known = self.words[end - 1], self.known
        if not word.possessive or not self._capital(end) or not word.gap.isspace():
            return False
        whole = self.text[self.words[first].start : word.end]
        if whole in known.types or word.text in known.surnames or end - first > 1:
            return False
        right = self.words[end].text
        return (
            right not in known.given
            and right not in known.types
            and self.is_work(first, end + 1)
            and not known.longest(self.words, end)
        )

    def _split(self, first: int, end: int) -> Iterator[_Found]:
        """London Marie Curie are two names: one known, and one that begins with a given name."""
        words, known = self.words, self.known
        for at in range(first + 1, end):
            left = self.text[words[first].start : words[at - 1].end]
            if (
                left in known.types
                and words[at].text in known.given
                and PLACE in known.types[left]
                and self.whole(first, end) not in known.types
            ):
                yield _Found(first, at, "")
                yield _Found(at, end, "")
                return
        yield _Found(first, end, WORK if self._quoted(first) == end else "")

    def _stripped(self, first: int, end: int) -> tuple[int, int]:
        """Without the titles before it; nothing is left of a title alone."""
        if self.whole(first, end) in self.known.types:
            return first, end
        while first < end and self.words[first].text in self.known.titles:
            first += 1
        return first, end


def _agree(document: list[list[Name]]) -> None:
    """In place: a last name stands for whom the document has last named in full, and a name that is typed once is of
    that type wherever it stands.
    """
    types: dict[str, str] = {}
    for name in (name for names in document for name in names):
        if types.get(name.id, ANY) == ANY:
            types[name.id] = name.type
    full: dict[str, str] = {}  # by last name
    for names in document:
        for place, name in enumerate(names):
            id_, type_ = name.id, types[name.id]
            if type_ in (PERSON, ANY):
                if " " in id_:
                    full[id_.rsplit(" ", 1)[1]] = id_
                elif id_ in full:
                    id_ = full[id_]
                    type_ = PERSON if PERSON in (type_, types[id_]) else type_
            names[place] = name._replace(id=id_, type=name.type if name.type != ANY else type_)
