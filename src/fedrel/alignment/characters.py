"""How Python classifies every character (lower case, space, word, letter, capital): a table for compiled code."""

import re
import sys
from functools import cache

import numpy as np
from numpy.typing import NDArray

# An entry holds the folded character in its lowest bits, and these flags above them:
FOLDED = 0x1FFFFF
WORD = 1 << 24  # \w: part of a run that is one token
SPACE = 1 << 25  # \s: in no token; a character that is neither is a token of its own
LETTER = 1 << 26
CAPITAL = 1 << 27

_BLOCK = 256  # characters tested together: few blocks hold one that changes when folded


@cache
def characters() -> NDArray[np.uint32]:
    """The table, (1,114,112,). It is built with `re` and `str`, so it agrees with corpus.tokens in every Python."""
    table = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    every = table.tobytes().decode(f"utf-32-{sys.byteorder[0]}e", "surrogatepass")
    for begin in range(0, len(every), _BLOCK):
        block = every[begin : begin + _BLOCK]
        if block.lower() != block:
            table[begin : begin + _BLOCK] = [ord(fold(character)) for character in block]
    for run in re.finditer(r"\s+", every):
        table[run.start() : run.end()] |= SPACE
    for run in re.finditer(r"\w+", every):
        kinds = [WORD | LETTER * c.isalpha() | CAPITAL * (c.isalpha() and c.isupper()) for c in run[0]]
        table[run.start() : run.end()] |= np.array(kinds, np.uint32)
    return table


def fold(character: str) -> str:
    """The lower case of a character, or the character itself if that has two (as İ does): offsets must not shift."""
    lower = character.lower()
    return lower if len(lower) == 1 else character
