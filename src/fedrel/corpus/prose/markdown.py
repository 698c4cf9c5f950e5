"""Markdown: the text without its markup. Code between fences, front matter and the addresses of links are no text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fedrel.corpus import cutting
from fedrel.corpus.prose import html
from fedrel.corpus.prose.paragraphs import Paragraphs
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

_PIECE = 200_000  # characters parsed at a time: the parser takes some hundred bytes for each
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?:.*\r?\n){0,200}?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_COMPLETES = frozenset(("paragraph_close", "heading_close", "hr"))


def pieces(path: Path, skip: Skipped) -> Iterator[tuple[str, int]]:
    """The text of a file. UserError if it is not UTF-8."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; convert the file to UTF-8") from None
    front = _FRONT_MATTER.match(text)
    for start, end in cutting.spans(text[front.end() :] if front else text, _PIECE):
        begin = front.end() if front else 0
        yield from _texts(text[begin + start : begin + end])


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt  # a machine that only trains may lack it

    # Without the rule for code by indentation: exports of all kinds indent their text.
    return MarkdownIt("commonmark").enable("table").disable("code")


def _texts(part: str) -> Iterator[tuple[str, int]]:
    text = Paragraphs()
    for token in _parser().parse(part):
        if token.type == "inline":
            _add(token.children or (), text)
        elif token.type == "html_block":
            yield from html.texts_in(token.content)
        elif token.type == "tr_open":
            text.begin_row()
        elif token.type in ("td_close", "th_close"):
            text.end_cell()
        elif token.type == "tr_close":
            text.end_row()
        elif token.type in _COMPLETES:
            text.end()
        if done := text.take():
            yield done, 0
    text.end()
    yield text.take(), 0


def _add(tokens: Any, text: Paragraphs) -> None:
    for token in tokens:
        if token.type in ("text", "code_inline", "text_special"):
            text.add(token.content)
        elif token.type == "softbreak":
            text.add(" ")
        elif token.type == "hardbreak" or (token.type == "html_inline" and token.content.lower().startswith("<br")):
            text.break_line()
