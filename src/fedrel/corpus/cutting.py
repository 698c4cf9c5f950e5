"""Where a long text is cut: at blank lines, or failing these at line ends, at white space, in the middle of a word."""

import re
from collections.abc import Iterator

_BREAKS = tuple(map(re.compile, (r"\n\r?\n", r"\n[^\S\n]*\n", r"\n", r"\s")))  # the best first


def last_break(text: str, start: int = 0, end: int | None = None) -> int:
    """The best place to cut text[start:end] near its end: after a break of the best kind that is in it."""
    end = len(text) if end is None else end
    for pattern in _BREAKS:
        place = start
        for match in pattern.finditer(text, start, end):
            place = match.end()
        if place > start:
            return place
    return end


def spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Start and end of the pieces of a text, each of at most `longest` characters, which joined are the text."""
    start = 0
    while len(text) - start > longest:
        end = last_break(text, start, start + longest)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)
