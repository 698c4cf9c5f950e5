"""docs/python.md and the notebook show every public name, and a user's type checker agrees with them.

That the page runs is in test_docs.py, with all other pages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import fedrel
from fedrel import api
from tests.docs.test_docs import ROOT, programs

PAGE = ROOT / "docs" / "python.md"
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(it["source"]) for it in found if it["cell_type"] == "code"]


def test_the_page_shows_every_public_name():
    [program] = programs(PAGE)
    assert [name for name in fedrel.__all__ if f"fedrel.{name}" not in program] == []


@pytest.mark.parametrize("name", api.__all__)
def test_the_page_shows_everything_that_a_class_has(name):
    [program] = programs(PAGE)
    part = getattr(fedrel, name)
    if not isinstance(part, type):
        return
    fields = getattr(part, "__dataclass_fields__", {})
    public = {it for it in (*vars(part), *fields) if not it.startswith("_")}
    hidden = {"of"} if name == "Round" else set()  # how it is made, by fedrel itself
    assert {it for it in public - hidden if not re.search(rf"\.{it}\b", program)} <= {"number"}


@pytest.mark.slow
def test_a_users_type_checker_agrees(tmp_path):
    (tmp_path / "page.py").write_text(*programs(PAGE), encoding="utf-8")
    (tmp_path / "notebook.py").write_text("\n".join(cells()), encoding="utf-8")
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    check = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*check, "page.py", "notebook.py"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
    assert "Success" in done.stdout


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    environment = {**os.environ, "FEDREL_CACHE": str(tmp_path / "cache"), "MPLBACKEND": "agg"}
    program = [sys.executable, "-c", "\n".join(cells())]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_notebook_holds_no_output():
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in found["cells"])
