"""Comparisons from Python: the files of `fedrel compare`, reused when they are there."""

import json

import pytest

import fedrel
from tests.api.test_runs import EXPERIMENT
from tests.cli.test_cli import sets

SMALL = EXPERIMENT.with_({"training.rounds": 2})


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> fedrel.ComparisonResult:
    folder = tmp_path_factory.mktemp("comparisons") / "one"
    return fedrel.compare(SMALL, methods=["one", "none"], vary={"training.epochs": [1, 2]}, seeds=2, out=folder)


def without_times(report):
    return {
        **{key: value for key, value in report.items() if key not in ("seconds", "cells")},
        "cells": [{key: value for key, value in cell.items() if key != "seconds"} for cell in report["cells"]],
    }


def test_it_says_what_the_command_line_says(compared, fedrel, tmp_path):
    changes = [f"{section}.{key}={value}" for section, table in SMALL.written.items() for key, value in table.items()]
    options = ("--methods", "one,none", "--vary", "training.epochs=1,2", "--seeds", "2", "--jobs", "1")
    outcome = fedrel("compare", *options, *sets(*changes), "--out", tmp_path / "two")
    assert outcome.code == 0, outcome
    written = json.loads((tmp_path / "two" / "compare.json").read_text())
    ours = json.loads((compared.folder / "compare.json").read_text())
    assert without_times(ours) == without_times(written)
    assert ours == compared.report
    assert [it.name for it in compared.figures] == ["pr.png", "pr-epochs-2.png"]
    assert all(it.is_file() for it in compared.figures)


def test_means_and_runs(compared):
    assert set(compared.means) == {(row, f"epochs = {n}") for row in ("one", "none") for n in (1, 2)}
    cells = [cell for cell in compared.report["cells"] if (cell["row"], cell["column"]) == ("one", "epochs = 2")]
    assert compared.means["one", "epochs = 2"] == pytest.approx(sum(cell["test"]["ap"] for cell in cells) / 2)
    first = fedrel.Run(compared.folder / cells[0]["folder"])
    assert first.scores == cells[0]["test"]
    assert "ap" in repr(compared) and compared.warnings == compared.report["warnings"]


def test_finished_runs_are_reused(compared):
    said: list[str] = []
    again = fedrel.compare(
        SMALL, methods=["one", "none"], vary={"training.epochs": [1, 2]}, seeds=2, out=compared.folder, say=said.append
    )
    assert said == [] and without_times(again.report) == without_times(compared.report)


def test_runs_as_a_table(compared):
    pytest.importorskip("pandas")
    table = compared.to_pandas()
    assert len(table) == 8
    by_cell = table.groupby(["row", "column"])["ap"].mean()
    assert {cell: by_cell[cell] for cell in compared.means} == pytest.approx(compared.means)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"methods": ["on"]}, 'method.name = "on" is no method; did you mean "one"?'),
        ({"methods": ["one", "one"]}, '"one" is listed twice'),
        ({"methods": ["one"], "metric": "acu"}, '"acu" is not a metric'),
        ({"methods": ["one"], "vary": {"training.epoch": [1]}}, 'unknown key "training.epoch"'),
        ({"methods": ["one"], "vary": {"data.relations": [["a", "b"]]}}, "a value with a comma cannot be varied"),
        ({"methods": ["one"], "jobs": 0}, "jobs = 0"),
        ({"quick": True}, "there is no quick scale"),
    ],
    ids=str,
)
def test_a_mistake_is_told_before_anything_runs(arguments, says, tmp_path):
    with pytest.raises(fedrel.UserError) as caught:
        fedrel.compare(SMALL, out=tmp_path / "new", **arguments)
    assert says in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_a_file_with_a_table_is_compared(tmp_path):
    settings = "".join(
        f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for section, table in SMALL.written.items()
    )
    (tmp_path / "c.toml").write_text(f'{settings}[compare]\nrows = ["none"]\nseeds = 1\n')
    result = fedrel.compare(tmp_path / "c.toml", out=tmp_path / "out")
    assert list(result.means) == [("none", "default")]
