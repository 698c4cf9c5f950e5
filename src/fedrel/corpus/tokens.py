"""Tokens with character offsets."""

import re

from fedrel.errors import UserError

_TOKEN = re.compile(r"\w+|[^\w\s]")


def tokenize(text: str) -> tuple[list[str], list[int], list[int]]:
    """Words and punctuation marks, and the offsets at which each begins and ends."""
    found = [(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]
    return [f[0] for f in found], [f[1] for f in found], [f[2] for f in found]


def count_tokens(text: str) -> int:
    """How many tokens there are, without keeping them."""
    return sum(1 for _ in _TOKEN.finditer(text))


def token_span(begins: list[int], ends: list[int], start: int, end: int, where: str) -> tuple[int, int]:
    """The tokens, first and last + 1, that overlap with the characters start … end; UserError if none does."""
    touched = [i for i, (b, e) in enumerate(zip(begins, ends, strict=True)) if b < end and e > start]
    if not touched:
        raise UserError(f"{where} position {start}..{end} touches no word of the text")
    return touched[0], touched[-1] + 1
