"""Markdown as HTML that can do no harm: no HTML of its own, no pictures, no scripts, links only to the web."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from fedrel.errors import UserError
from fedrel.util.escaping import shown_lines

_LONGEST = 200_000  # characters
_BELOW = 2  # headings of a text on a page are below those of the page
_LINKS = ("https://", "http://", "mailto:", "#")


def read_markdown(path: Path) -> Markup:
    """A file as HTML. Raises UserError if it cannot be read, is not UTF-8, or is too long to be read beside a page."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not text in UTF-8; save it as such") from None
    if len(text) > _LONGEST:
        raise UserError(f"{path}: {len(text):,} characters; nobody reads more than {_LONGEST:,} beside a page")
    return rendered(text)


def rendered(text: str) -> Markup:
    """Markdown (CommonMark and tables) as HTML. HTML in it is shown as text, pictures as their description; headings
    begin at the third level.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(shown_lines("\n".join(text.expandtabs(4).splitlines())))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + _BELOW)}"
        if token.children is not None:
            token.children = [_harmless(it) for it in token.children]
    return Markup(reader.renderer.render(tokens, reader.options, {}))


def _harmless(token: Token) -> Token:
    """The piece, a picture replaced by its description, a link by one that tells its target nothing."""
    if token.type == "image":
        return Token("text", "", 0, content=token.content)
    if token.type == "link_open":
        if not str(token.attrs.get("href", "")).lower().startswith(_LINKS):
            return Token("link_open", "a", 1)
        token.attrs |= {"rel": "noopener noreferrer", "target": "_blank"}
    return token
