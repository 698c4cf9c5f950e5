"""From the lines of printed pages to paragraphs: words and sentences that go on in the next line are joined again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SHORT = 0.75  # of the usual length: a line that ends there ends something, if what follows does not go on
_RUNNING = 3  # pages, and a third of them all, on which a line at the edge makes it a running head
_WORDS = (20, 3)  # that the outermost line and the next one may have to be running heads: a title, a number
_NUMBER = re.compile(r"\d+")
_HYPHENATED = re.compile(r"\w+-\w+")
_LAST_WORD = re.compile(r"(\w+)-$")
_FIRST_WORD = re.compile(r"\w+")
_BULLET = re.compile(r"[•‣◦▪●■]")
_ITEM = re.compile(r"[–—*-]\s|\(?\d{1,3}[.)]\s")  # as may also stand within a sentence
_ENDED = re.compile(r"""[.!?:…]["'”’»)\]]*$""")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # scripts without blanks between words


@dataclass(frozen=True)
class Page:
    """A page with its number and its lines, without white space around them; an empty one is a gap."""

    number: int
    lines: Sequence[str]


@dataclass(frozen=True)
class _Line:
    text: str
    page: int
    short: bool  # shorter than those that fill its page
    gap: bool  # comes after an empty line, or on a new page


def joined(pages: Sequence[Page]) -> Iterator[tuple[str, int]]:
    """The lines of all pages, each with what separates it from the next and with its page: nothing where a word goes
    on, a blank where a sentence may, an empty line after a paragraph. Running heads are left out, as are the hyphens
    that divide words, except of words that are also written with one within a line.
    """
    pages = _without_running_heads(pages)
    compounds = {word.lower() for page in pages for line in page.lines for word in _HYPHENATED.findall(line)}
    before: _Line | None = None
    for line in _lines(pages):
        if before is not None:
            yield _separated(before, line, compounds), before.page
        before = line
    if before is not None:
        yield before.text + "\n\n", before.page


def _lines(pages: Sequence[Page]) -> Iterator[_Line]:
    for page in pages:
        lengths = sorted(len(line) for line in page.lines if line)
        usual = lengths[len(lengths) * 4 // 5] if lengths else 0
        gap = True
        for text in page.lines:
            if text:
                yield _Line(text, page.number, len(text) < _SHORT * usual, gap)
            gap = not text


def _separated(line: _Line, following: _Line, compounds: set[str]) -> str:
    text, goes_on = line.text, following.text[0].islower()
    if (last := _LAST_WORD.search(text)) and (first := _FIRST_WORD.match(following.text)):
        whole = f"{last[1]}-{first[0]}".lower()
        is_divided = goes_on and not last[1][-1].isdigit() and whole not in compounds
        return text[:-1] if is_divided else text
    ended = line.short or following.gap or _ENDED.search(text)
    if _BULLET.match(following.text) or (ended and _ITEM.match(following.text)):
        return text + "\n\n"
    if following.gap and (_ENDED.search(text) or not goes_on):
        return text + "\n\n"
    if line.short and not goes_on:
        return text + "\n\n"
    return text if _WIDE.match(text[-1]) and _WIDE.match(following.text[0]) else text + " "


def _without_running_heads(pages: Sequence[Page]) -> list[Page]:
    """The pages without lines that stand at the edge of many of them, numbers aside, and are no sentences: titles, page
    numbers. A second line at an edge must be short, so that forms and letters of one wording keep theirs.
    """
    found = [_trimmed(page) for page in pages]
    least = max(_RUNNING, -(-len(pages) // 3))
    for most in _WORDS:
        for edge in (0, -1):
            seen = Counter(_shape(page.lines[edge]) for page in found if page.lines)
            running = {
                shape
                for shape, count in seen.items()
                if count >= least and len(shape.split()) <= most and not _ENDED.search(shape)
            }
            found = [_without(it, edge) if it.lines and _shape(it.lines[edge]) in running else it for it in found]
    return found


def _without(page: Page, edge: int) -> Page:
    return _trimmed(Page(page.number, page.lines[1:] if edge == 0 else page.lines[:-1]))


def _trimmed(page: Page) -> Page:
    """Without empty lines at its edges."""
    filled = [place for place, line in enumerate(page.lines) if line]
    return Page(page.number, page.lines[filled[0] : filled[-1] + 1] if filled else [])


def _shape(line: str) -> str:
    return _NUMBER.sub("0", line)
