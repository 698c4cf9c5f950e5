"""How pages put names into words, and in which direction text runs."""

from __future__ import annotations

import re
import unicodedata

Part = tuple[str, str]  # role (head, tail, "head tail" where they overlap, or empty), text


def readable(relation: str) -> str:
    """The last part of a relation's name as words: "place of birth" for `/people/person/place_of_birth`."""
    last = re.split(r"[/#]", relation.rstrip("/#"))[-1]
    return re.sub(r"[_\s]+", " ", last).strip() or relation


def direction(found: list[Part]) -> str:
    """The text direction of a sentence, "ltr" or "rtl", by its first strong letter. A browser's own detection would
    skip the names, which are isolated.
    """
    kinds = (unicodedata.bidirectional(letter) for _, text in found for letter in text)
    return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


def sure(confidence: float) -> str:
    """A confidence for a person to read; what is nearly certain is not called certain."""
    return f"{confidence:.0%}" if 0.005 <= confidence < 0.995 else "over 99%" if confidence > 0.5 else "under 1%"
