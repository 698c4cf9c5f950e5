"""Finds all names of a knowledge base in text, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedrel.alignment import trie
from fedrel.alignment.characters import characters
from fedrel.errors import UserError

NAMES_AT_ONCE = 4096
CHARACTERS_AT_ONCE = 1 << 17  # of the texts searched in one call: enough to be fast, and fits into the CPU's cache
FEWEST_SLOTS = 1024

_Kind = TypeVar("_Kind", bound=np.generic)


class Match(NamedTuple):
    """A name found in a text, text[start:end], and the numbers of all entities with that name, ascending."""

    start: int
    end: int
    candidates: tuple[int, ...]


_MATCH = partial(tuple.__new__, Match)  # Match._make without its check, for speed


class Gazetteer:
    """Searches text for names, given as (name, number of its entity). Matches do not overlap: from left to right, at
    each token the longest name that begins there is taken, and the search goes on after it.

    Names are compared by the tokens of corpus.tokens: white space between them does not matter, punctuation does. Names
    of up to three characters and names all in capitals match exactly, since "us" and "it" are words; other names match
    in any case. `ignored` counts the names without a letter or digit, which are not searched for. Raises ValueError for
    a negative entity number.
    """

    def __init__(self, names: Iterable[tuple[str, int]]) -> None:
        self.ignored = 0
        self._counts = np.zeros(5, np.int64)
        self._token_slots = np.zeros(FEWEST_SLOTS, np.uint64)
        self._tokens = np.empty((0, 3), np.int32)
        self._token_characters = np.empty(0, np.uint32)
        self._node_slots = np.zeros(FEWEST_SLOTS, np.uint64)
        self._nodes = np.empty((0, 5), np.int32)
        self._forms = np.empty((0, 2), np.int32)
        self._form_characters = np.empty(0, np.uint32)
        form_of: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        entity_of: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        rest = iter(names)
        while batch := list(islice(rest, NAMES_AT_ONCE)):
            forms = self._add([name for name, _ in batch])
            entered = forms >= 0
            form_of.append(forms[entered])
            entity_of.append(np.array([entity for _, entity in batch], np.int64)[entered])
            if (entity_of[-1] < 0).any():
                raise ValueError("an entity number is negative")
        self._offsets, self._entities = _grouped(
            np.concatenate(form_of), np.concatenate(entity_of), int(self._counts[trie.FORMS])
        )

    def find(self, text: str) -> list[Match]:
        """The names in one text, in order."""
        return self._search([text])[0]

    def find_all(self, texts: Sequence[str]) -> list[list[Match]]:
        """The names in each text, in order; for short texts such as sentences, faster than one `find` per text."""
        return [matches for batch in _batches(texts) for matches in self._search(batch)]

    def _trie(self) -> trie.Trie:
        return (
            self._token_slots,
            self._tokens,
            self._token_characters,
            self._node_slots,
            self._nodes,
            self._forms,
            self._form_characters,
        )

    def _add(self, names: list[str]) -> NDArray[np.int64]:
        """Adds names to the trie; returns the form of each, (names,), -1 for one that is ignored."""
        codes, bounds = _encoded(names)
        new = len(codes) + len(names)  # an upper bound for new tokens, nodes, forms and characters
        used = self._counts
        if int(used.max()) + new > np.iinfo(np.int32).max:
            raise UserError("too many names for one gazetteer; split the knowledge base")
        self._token_slots = _with_free_slots(self._token_slots, int(used[trie.TOKENS]) + new)
        self._tokens = _with_room(self._tokens, int(used[trie.TOKENS]), new)
        self._token_characters = _with_room(self._token_characters, int(used[trie.TOKEN_CHARACTERS]), new)
        self._node_slots = _with_free_slots(self._node_slots, int(used[trie.NODES]) + new)
        self._nodes = _with_room(self._nodes, int(used[trie.NODES]), new)
        self._forms = _with_room(self._forms, int(used[trie.FORMS]), new)
        self._form_characters = _with_room(self._form_characters, int(used[trie.FORM_CHARACTERS]), new)
        form_of = np.empty(len(names), np.int64)
        trie.add(codes, bounds, characters(), self._trie(), self._counts, form_of)
        self.ignored += int((form_of < 0).sum())
        return form_of

    def _search(self, texts: Sequence[str]) -> list[list[Match]]:
        codes, bounds = _encoded(texts)
        found = np.zeros(len(texts), np.int64)
        progress = np.zeros(2, np.int64)
        rows = np.empty((len(codes) // 16 + 16, 5), np.int64)
        matches: list[Match] = []
        while progress[0] < len(texts):
            lists = self._offsets, self._entities
            written = trie.search(codes, bounds, characters(), self._trie(), *lists, progress, found, rows)
            if written:
                matches += self._matches(rows[:written])
        if len(texts) == 1:
            return [matches]
        rest = iter(matches)
        return [list(islice(rest, count)) for count in found.tolist()]

    def _matches(self, rows: NDArray[np.int64]) -> Iterator[Match]:
        starts, ends, folded, exact, only = rows.T.tolist()
        candidates: list[tuple[int, ...]] = list(zip(only, strict=True))
        for row in np.flatnonzero(rows[:, trie.ONLY] < 0).tolist():
            candidates[row] = self._candidates(folded[row], exact[row])
        return map(_MATCH, zip(starts, ends, candidates, strict=True))

    def _candidates(self, *forms: int) -> tuple[int, ...]:
        """The entities of some forms, ascending; a form of -1 has none."""
        every: set[int] = set()
        for form in forms:
            if form >= 0:
                every.update(self._entities[self._offsets[form] : self._offsets[form + 1]].tolist())
        return tuple(sorted(every))


def _encoded(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The code points of all texts, concatenated, and their bounds, (texts + 1,)."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    bounds = np.fromiter(accumulate(map(len, texts), initial=0), np.int64, len(texts) + 1)
    return codes, bounds


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text) + 1
        if size > CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _with_room(array: NDArray[_Kind], used: int, new: int) -> NDArray[_Kind]:
    """The array itself, or a longer copy, with capacity for `new` rows after the `used` ones."""
    if used + new <= len(array):
        return array
    longer = np.empty((max(used + new, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


def _with_free_slots(slots: NDArray[np.uint64], entries: int) -> NDArray[np.uint64]:
    """The hash table itself, or a larger copy, at most two thirds full with this number of entries."""
    size = len(slots)
    while entries * 3 > size * 2:
        size *= 2
    if size == len(slots):
        return slots
    larger = np.zeros(size, np.uint64)
    trie.move(slots, larger)
    return larger


def _grouped(
    form_of: NDArray[np.int64], entity_of: NDArray[np.int64], forms: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """offsets (forms + 1,) and entities: those of form f are entities[offsets[f] : offsets[f + 1]], ascending and
    distinct.
    """
    order = np.lexsort((entity_of, form_of))
    form_of, entity_of = form_of[order], entity_of[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (form_of[1:] != form_of[:-1]) | (entity_of[1:] != entity_of[:-1])
    offsets = np.zeros(forms + 1, np.int64)
    np.cumsum(np.bincount(form_of[new], minlength=forms), out=offsets[1:])
    return offsets, entity_of[new]
