"""Splits without labels, such as the test data of a shared task: they can neither be trained on nor evaluated on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedrel.corpus.format import Format
from fedrel.corpus.lines import each_object
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError


def is_unlabelled(path: Path, form: Format) -> bool:
    """Whether there is something in a file or folder, and no label. One that cannot be read is not unlabelled: whoever
    reads it says what is wrong.
    """
    if not form.labelled:
        return False
    try:
        if form.unlabelled:
            return form.unlabelled(path)
        return form.documents is not None and _states_nothing(path, form)
    except UserError:
        return False


def _states_nothing(path: Path, form: Format) -> bool:
    assert form.documents
    found = False
    for document in form.documents(path, Skipped()):
        if document.relations:
            return False
        found = True
    return found


def without_key(key: str) -> Callable[[Path], bool]:
    """`unlabelled` of a format whose rows are JSON objects: files in which no object has something under this key."""

    def unlabelled(path: Path) -> bool:
        found = False
        for _, labelled in each_object(path, Skipped(), lambda row, where: bool(row.get(key))):
            if labelled:
                return False
            found = True
        return found

    return unlabelled
