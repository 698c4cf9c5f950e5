"""Sentences that a report quotes: examples of what was selected, and mistakes on test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from fedrel.errors import UserError


def mistakes(details: Path, found: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """What is wrong on test, by kind; nothing where the run does not quote test."""
    try:
        kinds = [(kind, [_mistake(it) for it in found[kind]]) for kind in ("wrong", "missed")] if found else []
        return [(kind, rows) for kind, rows in kinds if rows]
    except (KeyError, TypeError, ValueError, IndexError):
        raise UserError(f"{details}: unreadable (mistakes is not in fedrel's format)") from None


def _mistake(found: Mapping[str, Any]) -> dict[str, Any]:
    first = found["sentences"][0]
    head, tail = (" ".join(first["tokens"][slice(*first[role])]) for role in ("head", "tail"))
    sentences = [list(parts_of(sentence)) for sentence in found["sentences"]]
    return {**found, "confidence": float(found["confidence"]), "head": head, "tail": tail, "sentences": sentences}


def example_of(example: Mapping[str, Any]) -> dict[str, Any]:
    """A fact with the names from its first selected sentence: the ids of a knowledge base say little to a reader."""
    first = example["selected"][0]
    sentences = [
        {**sentence, "selected": group == "selected", "parts": list(parts_of(sentence))}
        for group in ("selected", "rejected")
        for sentence in example[group]
    ]
    head, tail = (" ".join(first["tokens"][slice(*first[role])]) for role in ("head", "tail"))
    return {
        "head": head or example["head"],
        "tail": tail or example["tail"],
        "relation": example["relation"],
        "ids": (example["head"], example["tail"]),
        "sentences": sentences,
    }


def parts_of(sentence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The sentence as parts (role, text); the role is head, tail, "head tail" where they overlap, or ""."""

    def role(place: int) -> str:
        return " ".join(role for role in ("head", "tail") if sentence[role][0] <= place < sentence[role][1])

    for name, places in groupby(range(len(sentence["tokens"])), role):
        yield name, " ".join(sentence["tokens"][place] for place in places)
