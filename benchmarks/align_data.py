"""Invented names, text and triples for benchmarks/align.py: of realistic shapes and frequencies, always the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 60_000  # words of the running text
FIRST_NAMES = 3_000
WORDS_PER_NAME = 14  # in the text, about one name to so many other words
DOCUMENT = 500  # words
CHANGED_CASE = 0.1  # share of the mentions written in capitals or small letters throughout

_ONSETS = (*"bdfgklmnprstv", "st", "br", "th", "sh")
_SYLLABLES = [onset + vowel + coda for onset in _ONSETS for vowel in "aeiou" for coda in ("", "n", "r", "s")]


def words(count: int, seed: int) -> list[str]:
    """Different words, the short ones first as the frequent ones are."""
    draw = np.random.default_rng(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        lengths = draw.integers(1, 5, count).tolist()
        for length, syllables in zip(lengths, draw.integers(0, len(_SYLLABLES), (count, 4)).tolist(), strict=True):
            made["".join(_SYLLABLES[s] for s in syllables[:length])] = None
    return sorted(islice(made, count), key=len)


def names(count: int) -> Iterator[str]:
    """People, places, organisations, abbreviations and works, each name once."""
    draw = np.random.default_rng(2)
    common = words(VOCABULARY, seed=1)
    last_names = max(1_000, count // 8)
    # Names are seldom among the commonest words, so their words are the longer half of twice as many.
    first = [word.capitalize() for word in words(2 * FIRST_NAMES, seed=3)[FIRST_NAMES:]]
    last = [word.capitalize() for word in words(2 * last_names, seed=4)[last_names:]]
    seen: set[str] = set()
    while len(seen) < count:
        kind, a, b, c = draw.random(), *draw.random(3)
        one, other = last[int(a * len(last))], last[int(b * len(last))]
        if kind < 0.5:
            name = f"{first[int(c * len(first))]} {one}"
        elif kind < 0.6:
            name = f"{first[int(c * len(first))]} {other[0]}. {one}"
        elif kind < 0.7:
            name = f"{one} {['Corp', 'University', 'County', '& Sons'][int(c * 4)]}"
        elif kind < 0.8:
            name = f"{one}-{other}" if c < 0.5 else f"{one} of {other}"
        elif kind < 0.9:
            consonants = "".join(letter for letter in one + other if letter not in "aeiou").upper()
            name = f"{consonants[: 2 + int(c * 4)]}{int(b * 100) or ''}"  # no word of the text has no vowel
        elif kind < 0.95:  # a work, named with words that stand in every text
            name = " ".join(common[int(x**4 * VOCABULARY)].capitalize() for x in (a, b, c))
        else:
            name = one
        if name not in seen:
            seen.add(name)
            yield name


def documents(known: list[str], megabytes: float) -> list[str]:
    """Text with a Zipf-like distribution of words and of the names among them."""
    draw = np.random.default_rng(5)
    common = words(VOCABULARY, seed=1)
    count = int(megabytes * 1_000_000 / 8)  # a first guess at the number of words; the end is cut off below
    ends = [". ", ", ", " ", " ", " ", " ", " ", " ", " ", " "]
    texts, size = [], 0
    while size < megabytes * 1_000_000:
        chosen = _zipf(len(common), count, draw)
        mentioned = _zipf(len(known), count // WORDS_PER_NAME + 1, draw)
        case = draw.random(len(mentioned))
        ending = draw.integers(0, len(ends), count)
        for begin in range(0, count, DOCUMENT):
            pieces = []
            sentence_begins = True
            for i in range(begin, min(begin + DOCUMENT, count)):
                word = common[chosen[i]]
                if i % WORDS_PER_NAME == 0:
                    at = i // WORDS_PER_NAME
                    word = known[mentioned[at]]
                    if case[at] < CHANGED_CASE:
                        word = word.upper() if case[at] < CHANGED_CASE / 2 else word.lower()
                pieces.append(word[0].upper() + word[1:] if sentence_begins else word)
                pieces.append(ends[ending[i]])
                sentence_begins = ending[i] == 0
            texts.append("".join(pieces))
            size += len(texts[-1])
            if size >= megabytes * 1_000_000:
                break
    return texts


def _zipf(kinds: int, count: int, draw: np.random.Generator) -> NDArray[np.intp]:
    weights = np.cumsum(1 / (np.arange(kinds) + 2.7))  # (kinds,)
    chosen: NDArray[np.intp] = np.searchsorted(weights, draw.random(count) * weights[-1])
    return chosen


def write_kb(folder: Path, known: list[str], triples: int) -> None:
    """One entity for each name, of ten types; triples of a hundred relations."""
    draw = np.random.default_rng(6)
    with (folder / "entities.tsv").open("w", encoding="utf-8") as file:
        file.writelines(f"Q{number}\ttype{number % 10}\t{name}\n" for number, name in enumerate(known))
    with (folder / "triples.tsv").open("w", encoding="utf-8") as file:
        for begin in range(0, triples, 1_000_000):
            size = min(1_000_000, triples - begin)
            heads, tails = draw.integers(0, len(known), (2, size)).tolist()
            relations = _zipf(100, size, draw).tolist()
            file.writelines(
                f"Q{head}\trelation{relation}\tQ{tail}\n"
                for head, relation, tail in zip(heads, relations, tails, strict=True)
            )
