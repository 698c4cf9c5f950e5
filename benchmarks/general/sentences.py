"""Sentences about nobody, from the phrase book: names are markers of their types from the start, so that the model
cannot learn a name. Every two names of a sentence are an example: of the relation that the sentence states, or of none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fedrel.alignment.known_names import ANY, AWARD, ORGANISATION, PERSON, PLACE, TYPES, WORK
from fedrel.corpus.types import NA
from fedrel.corpus.world_phrases import Template, Tokens, templates
from fedrel.extraction.general import SIGNATURES, fits, marker

BOOK = Path(__file__).with_name("phrases.toml")
HELD_OUT = 6  # every sixth template is for dev
# How often the recogniser cannot tell the type of a name, roughly as it does in the wild
_UNTYPED = {PERSON: 0.15, PLACE: 0.12, ORGANISATION: 0.4, WORK: 0.35, AWARD: 0.05}
_ARTICLE = {PERSON: 0.0, PLACE: 0.12, ORGANISATION: 0.35, WORK: 0.15, AWARD: 0.6}  # how often "the" stands before it
_SHARES = {"true": 0.42, "not": 0.24, "corrupted": 0.14, "several": 0.1, "neutral": 0.05, "negated": 0.05}
_OPENER, _CLOSER, _APPOSITIVE, _TITLE, _AND, _WHO, _CLAUSE = 0.2, 0.22, 0.12, 0.06, 0.12, 0.08, 0.22
_MOST_NA = 4  # pairs without a relation kept of a sentence
_APPOSITIVE_BEFORE = {"was", "is", "has", "had", "married", "died", "lives", "lived", "founded", "wrote", "directed"}
_FILLERS = (
    "spoke first",
    "disagreed",
    "was there",
    "won",
    "is well known",
    "met {person}",
    "was late",
    "returned to {place}",
)
_CLAUSES = (", while", ";", ", and", ", but", ", whereas")
_SLOT = re.compile(r"\{(\w+)\}(\w*)")


@cache
def _raw() -> dict[str, Any]:
    return tomllib.loads(BOOK.read_text(encoding="utf-8"))


@cache
def function_words() -> frozenset[str]:
    """Words that carry no meaning of their own."""
    return frozenset(_raw()["function_words"].split())


class Example(NamedTuple):
    """A sentence, the places of head and tail in it, and the relation between them."""

    tokens: Tokens
    head: int
    tail: int
    relation: str


@dataclass
class _Draft:
    """A sentence in the making: words, the types of the names among them, and facts as pairs of places."""

    tokens: list[str] = field(default_factory=list)
    names: dict[int, tuple[str, str]] = field(default_factory=dict)  # place → slot and type
    facts: dict[tuple[str, str], str] = field(default_factory=dict)  # slots → relation


class Book:
    """A part of the phrase book: "train", without the templates that are held out; "dev", those alone; or "all".

    `strange` are words for sentences that look like a fact and say nothing of the kind.
    """

    def __init__(self, part: str, strange: Sequence[str], rng: Random) -> None:
        raw = _raw()
        self._rng, self._strange = rng, strange
        self._suffixed = {end: [word for word in strange if word.endswith(end)] for end in ("ed", "ing", "er", "s")}
        self._fill = {name: words.split() for name, words in raw["fill"].items()}
        self._around = {name: templates(texts) for name, texts in raw["around"].items()}
        self._symmetric = {it["name"] for it in raw["relations"] if it.get("symmetric")}
        self.true: list[tuple[str, list[tuple[Template, tuple[str, str]]]]] = []
        self._not: list[tuple[list[Template], list[tuple[str, str]]]] = []
        for it in raw["relations"]:
            heads, tails = it["head"].split(), it["tail"].split()
            pairs = [(head, tail) for head in heads for tail in tails]
            true = [
                (reading, pair)
                for reading in _kept(it["true"], part)
                for pair in (pairs if "true_place" not in it else pairs[:1])
            ]
            true += [(reading, pairs[-1]) for reading in _kept(it.get("true_place", []), part)]
            self.true.append((it["name"], true))
            if kept := _kept(it["not"], part):
                self._not.append((kept, pairs))
        self._neutral = [(_kept(it["not"], "all"), [tuple(it["types"])]) for it in raw["neutral"]]
        self._several = [(_kept(it["texts"], "all"), it["facts"]) for it in raw["several"]]

    def examples(self, sentences: int) -> Iterator[Example]:
        for _ in range(sentences):
            [kind] = self._rng.choices(list(_SHARES), list(_SHARES.values()))
            yield from self._examples(self._surrounded(self._core(kind)))

    def _core(self, kind: str) -> _Draft:
        rng = self._rng
        if kind == "several":
            texts, facts = rng.choice(self._several)
            draft = self._filled(rng.choice(rng.choice(texts)), {})
            for fact in facts:
                head, relation, tail = fact.split()
                self._state(draft, head, relation, tail)
            return draft
        if kind in ("not", "neutral"):
            texts, types = rng.choice(self._not if kind == "not" else self._neutral)
            head, tail = rng.choice(types)
            return self._filled(rng.choice(rng.choice(texts)), {"h": head, "t": tail})
        relation, true = rng.choice(self.true)
        readings, (head, tail) = rng.choice(true)
        template = rng.choice(readings)
        if kind == "corrupted" and any(word not in function_words() and word[0] != "{" for word in template):
            return self._filled(self._corrupted(template), {"h": head, "t": tail, "h2": head, "t2": tail})
        if kind == "negated" and (negated := self._negated(template)):
            return self._filled(negated, {"h": head, "t": tail, "h2": head, "t2": tail})
        draft = self._stated(relation, template, head, tail)
        if _is_plain(template) and (how := rng.random()) < _AND + _WHO:
            self._add_verb(draft, relation, head, behind=how < _AND)
        return draft

    def _negated(self, template: Tokens) -> Tokens | None:
        """The same, but denied or doubted; None: this cannot be."""
        rng = self._rng
        if template[-1] == ",":
            return None
        if _is_plain(template) and rng.random() < 0.6:
            be = template[1] in ("is", "was", "are", "were", "has")
            no = rng.choice(["not", "never"]) if be else "never"
            return (*template[: 1 + be], no, *template[1 + be :])
        return (*rng.choice(rng.choice(self._around["doubts"])), *template)

    def _stated(self, relation: str, template: Tokens, head: str, tail: str, mark: str = "") -> _Draft:
        slots = {f"{side}{number}": type_ for side, type_ in (("h", head), ("t", tail)) for number in ("", "2")}
        draft = self._filled(template, slots, mark)
        for one in ("h", "h2"):
            for other in ("t", "t2"):
                self._state(draft, one + mark, relation, other + mark)
        return draft

    def _state(self, draft: _Draft, head: str, relation: str, tail: str) -> None:
        draft.facts[head, tail] = relation
        if relation in self._symmetric:
            draft.facts[tail, head] = relation

    def _add_verb(self, draft: _Draft, relation: str, head: str, *, behind: bool) -> None:
        """A second verb of the same subject: "… was born in Ulm and studied at …", or "…, who studied at …, was …"."""
        rng = self._rng
        for _ in range(8):
            other, true = rng.choice(self.true)
            readings, types = rng.choice(true)
            template = rng.choice(readings)
            if types[0] != head or other == relation or not _is_plain(template):
                continue
            second = self._stated(other, template, *types, mark="+")
            if second.names.get(0, ("", ""))[0] != "h+":
                continue  # there is a title before it
            verb = _Draft(second.tokens[1:], {at - 1: it for at, it in second.names.items() if at})
            verb.facts = {tuple("h" if it == "h+" else it for it in pair): how for pair, how in second.facts.items()}  # type: ignore[misc]
            if behind:
                _append(draft, _Draft(rng.choice(["and", ", and", "and later", ", then"]).split()))
                _append(draft, verb)
            else:
                place = next(at for at, (slot, _) in draft.names.items() if slot == "h") + 1
                inside = _Draft([",", "who"])
                _append(inside, verb)
                inside.tokens.append(",")
                inserted = _inserted(draft, place, inside)
                draft.tokens, draft.names, draft.facts = inserted.tokens, inserted.names, inserted.facts
            return

    def _corrupted(self, template: Tokens) -> Tokens:
        """With strange words in the place of all that carry meaning, of the same ending where there are such."""
        found = []
        for word in template:
            if word in function_words() or word[0] == "{":
                found.append(word)
            else:
                alike = next((words for end, words in self._suffixed.items() if word.endswith(end)), self._strange)
                found.append(self._rng.choice(alike))
        return tuple(found)

    def _filled(self, template: Tokens, types: dict[str, str], mark: str = "") -> _Draft:
        rng, draft = self._rng, _Draft()
        for token in template:
            match = _SLOT.match(token)
            if not match:
                draft.tokens += ["'", "s"] if token == "'s" else [token]
                continue
            slot, rest = match.groups()
            bare = slot.rstrip("0123456789")
            if slot in types or bare in TYPES:
                type_ = types.get(slot, bare)
                if type_ == PERSON and rng.random() < _TITLE:
                    draft.tokens += self._phrase("titles").tokens
                if rng.random() < _ARTICLE[type_] and draft.tokens[-1:] != ["the"]:
                    draft.tokens.append("the")
                name = slot + mark if slot in types or slot != bare else f"other{len(draft.tokens)}{mark}{rng.random()}"
                draft.names[len(draft.tokens)] = (name, type_)
                draft.tokens.append(marker(ANY if rng.random() < _UNTYPED[type_] else type_))
            else:
                draft.tokens.append(rng.choice(self._fill[slot]) + rest)
        return draft

    def _phrase(self, kind: str) -> _Draft:
        return self._filled(self._rng.choice(self._rng.choice(self._around[kind])), {})

    def _surrounded(self, core: _Draft) -> _Draft:
        rng, draft = self._rng, _Draft()
        if rng.random() < _OPENER:
            _append(draft, self._phrase("openers"))
        elif rng.random() < _CLAUSE / 3:
            _append(draft, self._clause("^"))
            draft.tokens += rng.choice(_CLAUSES).split()
        place = next((at for at, (slot, type_) in core.names.items() if slot == "h" and type_ == PERSON), None)
        followed_by = core.tokens[place + 1 : place + 2] if place is not None else []
        if place is not None and _APPOSITIVE_BEFORE.intersection(followed_by) and rng.random() < _APPOSITIVE:
            core = _inserted(core, place + 1, self._phrase("appositives"))
        _append(draft, core)
        if draft.tokens[-1] == ",":
            _append(draft, self._filled(tuple(rng.choice(_FILLERS).split()), {}))
        elif rng.random() < _CLAUSE:
            draft.tokens += rng.choice(_CLAUSES).split()
            _append(draft, self._clause("*"))
        elif rng.random() < _CLOSER:
            _append(draft, self._phrase("closers"))
        if rng.random() < 0.95:
            draft.tokens.append(".")
        return draft

    def _clause(self, mark: str) -> _Draft:
        """Another sentence, on others: it states a relation, or none."""
        rng = self._rng
        if rng.random() < 0.4:
            texts, pairs = rng.choice(self._not)
            head, tail = rng.choice(pairs)
            return self._filled(rng.choice(rng.choice(texts)), {"h": head, "t": tail}, mark=mark)
        relation, true = rng.choice(self.true)
        readings, types = rng.choice(true)
        return self._stated(relation, rng.choice(readings), *types, mark=mark)

    def _examples(self, draft: _Draft) -> Iterator[Example]:
        tokens, without = tuple(draft.tokens), []
        for head, (one, _) in draft.names.items():
            for tail, (other, _) in draft.names.items():
                types = tokens[head][1:-1], tokens[tail][1:-1]
                if head == tail or not any(fits(relation, *types) for relation in SIGNATURES):
                    continue
                relation = draft.facts.get((one, other))
                if relation is None:
                    without.append(Example(tokens, head, tail, NA))
                elif fits(relation, *types):
                    yield Example(tokens, head, tail, relation)
        yield from without if len(without) <= _MOST_NA else self._rng.sample(without, _MOST_NA)


def _kept(texts: Sequence[str], part: str) -> list[Template]:
    every = templates(texts)
    if part == "all":
        return list(every)
    held_out = {at for at in range(len(every)) if at % HELD_OUT == HELD_OUT - 2}
    return [it for at, it in enumerate(every) if (at in held_out) == (part == "dev")]


def _is_plain(template: Tokens) -> bool:
    """Whether it is a subject and its verb."""
    return template[0] == "{h}" and template[1] not in (",", "(", "and", "'s", "of") and template[-1] != ","


def _append(draft: _Draft, other: _Draft) -> None:
    shift = len(draft.tokens)
    draft.tokens += other.tokens
    draft.names |= {place + shift: it for place, it in other.names.items()}
    draft.facts |= other.facts


def _inserted(core: _Draft, at: int, other: _Draft) -> _Draft:
    draft = _Draft(core.tokens[:at], {place: it for place, it in core.names.items() if place < at}, dict(core.facts))
    _append(draft, other)
    _append(draft, _Draft(core.tokens[at:], {place - at: it for place, it in core.names.items() if place >= at}))
    return draft


def meaningful_words() -> set[str]:
    """The words of the phrase book that carry the meaning of a true sentence."""
    raw = _raw()
    texts = [text for it in raw["relations"] for text in (*it["true"], *it.get("true_place", []))]
    texts += [text for it in raw["several"] for text in it["texts"]]
    return set(re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", " ".join(texts)))) - function_words()
