"""For tests of the readers of documents."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fedrel.corpus import Document, Skipped
from fedrel.errors import UserError

Read = Callable[[Path, Skipped], Iterator[Document]]


def everything(read: Read, path: Path) -> tuple[list[Document], Skipped]:
    skipped = Skipped()
    return list(read(path, skipped)), skipped


def covered(document: Document) -> dict[str, str]:
    """The words that each annotation marks."""
    return {it.key: document.text[it.start : it.end] for it in document.annotations or ()}


def refusal(read: Read, path: Path) -> str:
    with pytest.raises(UserError) as caught:
        everything(read, path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def broken(read: Read, path: Path) -> tuple[list[Document], str]:
    """What is read around the one broken row of a file, and the sentence about that row, which is also what a strict
    reader refuses it with.
    """
    found, skipped = everything(read, path)
    assert skipped.broken.total() == 1
    [sentence] = skipped.broken_examples
    assert "\n" not in sentence
    assert next(iter(skipped.broken)) in skipped.reasons
    with pytest.raises(UserError) as caught:
        list(read(path, Skipped(strict=True)))
    assert str(caught.value) == sentence
    return found, sentence


def place(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Writes the files, byte for byte."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


# A word has no white space in it, and does not begin like a byte order mark; anything else goes.
words = st.text(min_size=1, max_size=6).filter(lambda it: it.split() == [it] and it[0] != "\ufeff")


# Any value of JSON, with numbers that no offset should be.
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 30)
    | st.sampled_from([1.5, -(10**30), "", " ", "a", "text", "T1"])
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def with_another_value(draw: Callable[..., Any], value: object) -> object:
    """A JSON value in which something, somewhere, is something else or missing."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        rest = {name: it for name, it in value.items() if name != key}
        return rest if draw(st.integers(0, 4)) == 0 else {**rest, key: with_another_value(draw, value[key])}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], with_another_value(draw, value[place]), *value[place + 1 :]]
    return draw(json_values)
