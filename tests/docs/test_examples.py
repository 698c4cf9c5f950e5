"""The scripts in examples/ run as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


QUICK = ("method", "train")
SCRIPTS = [it if it.stem in QUICK else pytest.param(it, marks=pytest.mark.slow) for it in EXAMPLES]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "FEDREL_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") >= 3


def test_the_page_lists_every_example():
    page = (EXAMPLES[0].parent / "README.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 4 and all(f"({it.name})" in page for it in EXAMPLES)
