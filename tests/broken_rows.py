"""For tests of readers: what is said of a broken row, which is counted while the rest is read."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from fedrel.corpus import Skipped
from fedrel.errors import UserError

Item = TypeVar("Item")


def with_a_broken_row(read: Callable[[Path, Skipped], Iterable[Item]], path: Path) -> tuple[str, list[Item]]:
    """The sentence about the one broken row there is, and everything else that is read. The same sentence is raised
    where no broken row is tolerated.
    """
    skip = Skipped()
    found = list(read(path, skip))
    assert skip.broken.total() == 1, skip.broken
    [sentence] = skip.broken_examples
    assert sentence in skip.examples
    assert "\n" not in sentence
    with pytest.raises(UserError) as caught:
        list(read(path, Skipped(strict=True)))
    assert str(caught.value) == sentence
    return sentence, found
