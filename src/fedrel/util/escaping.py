"""Text from elsewhere (names, sentences, failures) made safe to show.

A terminal obeys what it is sent: an escape sequence in a file name can rewrite what stands above it, a carriage return
can overwrite a line, and an override of the writing direction can make one name look like another. Such characters are
shown as what they are, spelt out. Letters of all languages stay as they are.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 2_000  # characters of one text that a person is shown
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, directions and joiners, half characters, separators
_MARKS = "\u061c\u200e\u200f"  # of direction: they turn nothing around but what stands beside them
_JOINERS = "\u200c\u200d"  # which Persian, the scripts of India and emoji are written with
_SIGNS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_ODD = re.compile(r"[^\x20-\x7e]")  # what may have to be spelt out


def shown(text: str, most: int = LONGEST) -> str:
    """One line that shows what the text is, and does nothing: what would not be visible is spelt as Python spells it
    (`\\x1b`, `\\n`, `\\u202e`), and what is longer than `most` is cut.
    """
    cut = len(text) > most
    clean = _ODD.sub(_spelt, text[:most])
    if len(clean) > most or cut:
        return clean[: max(most - 1, 0)] + "…"
    return clean


def shown_lines(text: str) -> str:
    """Like `shown`, of text that may have several lines; nothing is cut."""
    return text if text.isprintable() else "\n".join(_ODD.sub(_spelt, line) for line in text.split("\n"))


def json_escaped(text: str) -> str:
    """JSON text that means the same, with whatever would not be visible as an escape of JSON. Between its strings JSON
    has no such characters but line ends.
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
    # After letters of a script that needs them joiners and marks change how text looks; elsewhere they only hide.
    if not before or before.isascii():
        return False
    if character in _MARKS:
        return unicodedata.bidirectional(before) in ("R", "AL")
    return character in _JOINERS and unicodedata.category(before)[0] in "LMS"
