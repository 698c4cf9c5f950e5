"""One tiny world for all attacks, and the federations that most of them share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.place import Place
from tests.parity.consortium import write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    return write_world(tmp_path_factory.mktemp("attacked") / "world", "data.size=500", "method.name=fedavg")


@pytest.fixture(scope="module")
def place(world) -> Iterator[Place]:
    """A coordinator's node only. Its folder can be entered by all users, so only our own file modes protect it."""
    with tempfile.TemporaryDirectory(prefix="fedrel-attacked-") as folder:
        Path(folder).chmod(0o755)
        made = Place(Path(folder), world)
        try:
            yield made.listen()
        finally:
            made.__exit__()


@pytest.fixture
def works_after(place) -> Iterator[None]:
    """After each attack, the federation still answers, and none of its processes had to be replaced."""
    before = place.children()
    yield
    place.still_works()
    now = place.children()
    assert (now["node"], now["network"]) == (before["node"], before["network"]), place.story()
