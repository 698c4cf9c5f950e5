"""The table of `fedrel status`, on narrow and wide terminals."""

import io

import pytest
from rich.console import Console

from fedrel.cli import submitting
from fedrel.watch.view import view

RUN = {
    "name": "first",
    "state": "running",
    "platforms": {
        "p0": {"seen": 1.7e9, "bytes": 12_345_678, "failures": 0},
        "p1": {"seen": 1.7e9, "bytes": 99, "failures": 2, "why": "no answer by the deadline"},
    },
}


@pytest.mark.parametrize("width", [72, 80, 99, 100, 140])
def test_nothing_is_cut(width, monkeypatch):
    screen = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr(submitting, "out", screen)
    screen.print(submitting.tables(view([RUN], {"p0": {}}, 1.7e9)))
    said = " ".join(screen.file.getvalue().split())
    assert all(word in said for word in ("p0", "p1", "last reply", "failures", "outliers", "deadline"))
    assert "…" not in said and ("connected" in said) == (width >= 100)
