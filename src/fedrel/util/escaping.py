"""Untrusted text (names, sentences, error messages) made safe to print.

A terminal obeys what it is sent: an escape sequence in a file name can rewrite the lines above it, a carriage return
can overwrite a line, and a bidirectional override can make one name look like another. Such characters are replaced by
their escape sequences. Letters of every language are left alone.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 2_000  # characters of one string that are printed
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, format characters, surrogates, line and paragraph separators
_MARKS = "\u061c\u200e\u200f"  # direction marks: they affect only the characters next to them
_JOINERS = "\u200c\u200d"  # needed to write Persian, Indic scripts and emoji
_SIGNS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_ODD = re.compile(r"[^\x20-\x7e]")  # candidates for escaping


def shown(text: str, most: int = LONGEST) -> str:
    """The text as one harmless line of at most `most` characters: invisible characters become Python escapes (`\\x1b`,
    `\\n`, `\\u202e`), and a longer text is cut and ends in "…".
    """
    cut = len(text) > most
    clean = _ODD.sub(_spelt, text[:most])
    if len(clean) > most or cut:
        return clean[: max(most - 1, 0)] + "…"
    return clean


def shown_lines(text: str) -> str:
    """The text with invisible characters as Python escapes, except for line feeds; nothing is cut."""
    return text if text.isprintable() else "\n".join(_ODD.sub(_spelt, line) for line in text.split("\n"))


def json_escaped(text: str) -> str:
    """Equivalent JSON text with invisible characters as JSON escapes. Outside its strings, valid JSON has none but line
    ends, which stay.
    """
    return "\n".join(_ODD.sub(_in_json, line) for line in text.split("\n"))


def _spelt(match: re.Match[str]) -> str:
    character = match[0]
    if _is_visible(character, match.string[match.start() - 1 : match.start()]):
        return character
    return character.encode("unicode_escape").decode("ascii")


def _in_json(match: re.Match[str]) -> str:
    if _is_visible(match[0], match.string[match.start() - 1 : match.start()]):
        return match[0]
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place] << 8 | units[place + 1]:04x}" for place in range(0, len(units), 2))


def _is_visible(character: str, before: str) -> bool:
    if unicodedata.category(character) not in _HIDDEN or character in _SIGNS:
        return True
    # After a letter of a script that needs them, joiners and marks change how text looks; elsewhere they are invisible.
    if not before or before.isascii():
        return False
    if character in _MARKS:
        return unicodedata.bidirectional(before) in ("R", "AL")
    return character in _JOINERS and unicodedata.category(before)[0] in "LMS"
