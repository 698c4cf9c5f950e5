"""What the address of a page asks for; what makes no sense in it is ignored."""

from __future__ import annotations

from collections.abc import Mapping


def number_in(query: Mapping[str, str], name: str) -> int | None:
    """A whole number, or None."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def share_in(query: Mapping[str, str], name: str, default: float) -> float:
    """A number from 0 to 1, or the default."""
    try:
        value = float(query.get(name, ""))
    except ValueError:
        return default
    return value if 0 <= value <= 1 else default
