"""What every test gets: a cache of its own, and Hypothesis without a clock."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from typer.testing import CliRunner

from fedrel.cli.app import app
from tests.browsers import launched

# Busy machines are slow at times, and a test that fails should fail again.
settings.register_profile("fedrel", deadline=None, derandomize=True)
settings.load_profile("fedrel")


torch.set_num_threads(1)  # tests run side by side

# A shell that starts the tests in its background has Ctrl-C ignored, and so would the programs that they interrupt
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory) -> Iterator[Path]:
    """Data sets are built here, once for all tests, and never in the user's own cache."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("FEDREL_CACHE")
    os.environ["FEDREL_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["FEDREL_CACHE"]
    else:
        os.environ["FEDREL_CACHE"] = before


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def fedrel() -> Callable[..., Outcome]:
    """The command line in this process: `fedrel("run", "--set", …)`. An exception that escapes fails the test."""

    def call(*arguments: object) -> Outcome:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def refused(fedrel: Callable[..., Outcome], tmp_path, monkeypatch) -> Callable[..., str]:
    """Calls `fedrel` in a folder of its own, and gives back the one sentence of its refusal."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> str:
        before = contents(tmp_path)
        outcome = fedrel(*arguments)
        sentences = [line for line in outcome.err.splitlines() if line.startswith("fedrel: ")]
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert len(sentences) == 1, outcome.err
        assert outcome.err.endswith(sentences[0] + "\n")
        assert contents(tmp_path) == before, "something was written"
        return sentences[0].removeprefix("fedrel: ")

    return call


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """A browser without pages."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> Callable[..., list[object]]:
    """An audit by axe-core, from the package index of npm: the serious faults of accessibility of a page."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    got = npm and subprocess.run([npm, "pack", "axe-core@4.14.1"], cwd=folder, capture_output=True, timeout=120)
    if not got or got.returncode:
        pytest.skip("axe-core cannot be had here: install npm to test accessibility")
    shutil.unpack_archive(folder / "axe-core-4.14.1.tgz", folder)
    script = (folder / "package" / "axe.min.js").read_text(encoding="utf-8")

    def audit(page) -> list[object]:
        page.evaluate(script)
        found = page.evaluate("axe.run()")["violations"]
        serious = [it for it in found if it["impact"] in ("serious", "critical")]
        return [(it["id"], [node["html"] for node in it["nodes"][:3]]) for it in serious]

    return audit
