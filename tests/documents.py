"""For tests of the readers of documents."""

from collections.abc import Callable, Iterator
from pathlib import Path

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
