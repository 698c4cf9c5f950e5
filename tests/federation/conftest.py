"""Federations that are created once per session, since key generation is slow."""

import shutil
from pathlib import Path

import pytest

from fedrel.federation.kits import provisioning
from tests.kits import PLATFORMS


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Kits that no test changes."""
    folder = tmp_path_factory.mktemp("made") / "federation"
    provisioning.new(folder, host="localhost", port=8999, platforms=PLATFORMS)
    return folder


@pytest.fixture
def federation(made, tmp_path) -> Path:
    """A copy that a test may change, in another place than where it was created."""
    return Path(shutil.copytree(made, tmp_path / "elsewhere" / "copy"))


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another federation, which also has a platform named a."""
    folder = tmp_path_factory.mktemp("other") / "federation"
    provisioning.new(folder, host="localhost", port=8999, platforms=["a"])
    return folder
