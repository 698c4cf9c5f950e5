"""What a report says of a method: what it does, and how it came to select the sentences that are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedrel.algorithms import METHODS

_ELECTED = (
    "For every fact, the platforms elect one sentence: the one, on whichever platform, that the final model finds most "
    "likely to express the fact. It is selected, the others are rejected."
)
_BEST_OF_BAG = (
    "Each platform takes, of its own sentences for a fact, the one that the final model finds most likely to express "
    "it: that one is selected, the others are rejected, and other platforms have no part in it."
)
_STANDING_OUT = (
    "Selected is what states its fact, by an absolute bar: a sentence must stand out, with its names hidden, from "
    "sentences of pairs without a fact, by so much as its relation calls for. Several sentences of a fact may pass, or "
    "none. What trains is decided apart from this: whatever comes within a margin of the best evidence that any "
    "platform has shown for the fact."
)
_WITHIN_MARGIN = (
    "Selected is what comes, with its names hidden, within a margin of the best evidence that any platform has for the "
    "fact. Several sentences of a fact may be selected."
)
_ANY = "Selected are the sentences that the method would select with the final model; the others are rejected."


def what_it_does(name: str) -> str:
    """A method in half a sentence; empty for one that is not installed here."""
    return METHODS[name].summary if name in METHODS else ""


def how_it_selects(settings: Mapping[str, Any]) -> str:
    """How a method, with the settings of its section, selects sentences."""
    name = settings.get("name")
    if name == "lazy-mil":
        return _ELECTED
    if name == "evidence":
        return _STANDING_OUT if settings.get("early", 1) else _WITHIN_MARGIN
    if name in ("one", "feedback") or settings.get("denoiser") == "one":
        return _BEST_OF_BAG
    return _ANY


def what_selection_measures(settings: Mapping[str, Any]) -> str:
    """Of which sentences the precision of selection is told, over rounds."""
    if settings.get("name") == "evidence" and settings.get("early", 1):
        return "selected as stating their fact"
    return "selected for training"
