"""`fedrel compare` on tiny worlds: tables, reuse, and bad tables."""

from pathlib import Path

import pytest

from tests.cli.test_cli import TINY, sets, strict


def compare_file(tmp_path: Path, section: str) -> str:
    (tmp_path / "c.toml").write_text(f"[compare]\n{section}\n")
    return "c.toml"


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("colums = []", 'c.toml:2: unknown key "compare.colums"; did you mean "columns"?'),
        ('referenc = "x"', 'c.toml:2: unknown key "compare.referenc"; did you mean "reference"?'),
        ("rows = [{set = []}]", "c.toml: a row needs a label"),
        ("rows = [3]", "c.toml: a row needs a label"),
        ("rows = 5", "c.toml:2: compare.rows must be a list"),
        ('rows = "one"', "c.toml:2: compare.rows must be a list"),
        ("columns = 5", "c.toml:2: compare.columns must be a list"),
        ('columns = [{set = ["seed=1"]}]', "c.toml: a column needs a label"),
        ('columns = ["C = 1"]', "c.toml: a column needs a label"),
        ('rows = [{label = "a", set = "seed=1"}]', "c.toml: a row (a): set must be a list"),
        ('rows = [{label = "a", sets = []}]', 'c.toml: a row (a): unknown key "sets"; did you mean "set"?'),
        ('columns = [{label = "a", seed = 3}]', 'c.toml: a column (a): unknown key "seed"; did you mean "seeds"?'),
        ('columns = [{label = "a", seeds = 0}]', "c.toml: seeds of a must be a whole number from 1"),
        ("seeds = 0", "c.toml: compare.seeds must be a whole number from 1"),
        ('seeds = "3"', "c.toml: compare.seeds must be a whole number from 1"),
        ('rows = ["one", "one"]', 'c.toml: "one" is there twice'),
        ('columns = [{label = "a"}, {label = "a"}]', 'c.toml: "a" is there twice'),
        ('rows = ["one"]\nreference = "none"', 'c.toml: compare.reference = "none" is no row'),
        ('metric = "acu"', 'c.toml: "acu" is no metric; did you mean "auc"?'),
        ("metric = 3", 'c.toml: "3" is no metric'),
        ('rows = ["on"]', 'method.name = "on" is no method; did you mean "one"?'),
        ('rows = [{label = "a", set = ["training.lr=-1"]}]', "a, default: training.lr = -1.0: must be above 0"),
        ('rows = [{label = "a", set = ["training.lr"]}]', "write it as section.key=value"),
        ('rows = [{label = "a", columns = ["b"]}]', 'c.toml: row "a" wants the column "b"'),
        ("[training]\nlr = -1", "c.toml:3: training.lr = -1.0: must be above 0"),
    ],
)
def test_a_bad_comparison_is_refused_before_anything_runs(refused, tmp_path, section, says):
    assert says in refused("compare", compare_file(tmp_path, section), "--out", "c")


def test_compare_must_be_a_section(refused, tmp_path):
    (tmp_path / "c.toml").write_text("compare = 3\n")
    assert refused("compare", "c.toml") == "c.toml: compare must be a section"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--vary", "training.fraction"], "--vary training.fraction: write it as key=value,value"),
        (["--vary", "training.fraction="], "--vary training.fraction=: write it as key=value,value"),
        (["--vary", "training.fraction=0.1,0.1"], '"fraction = 0.1" is there twice'),
        (["--vary", "training.fraction=0.5,0"], "training.fraction = 0.0: must be above 0"),
        (["--vary", "training.fraction=0.5,"], "training.fraction must be a number, not ''"),
        (["--vary", "training.fractions=0.5"], 'unknown key "training.fractions"'),
        (["--vary", "=1"], "write it as"),
        (["--methods", "one,lazymil"], 'method.name = "lazymil" is no method; did you mean "lazy-mil"?'),
        (["--methods", "one,one"], '"one" is there twice'),
        (["--metric", "f1"], '"f1" is no metric'),
        (["--set", "training.lr=-1"], "--set: training.lr = -1.0: must be above 0"),
        (["--set", "extractor.window=2", "--methods", "one"], "extractor.window = 2: must be odd"),
    ],
)
def test_a_bad_option_of_a_comparison_is_refused(refused, options, says):
    assert says in refused("compare", *options, "--out", "c")


def test_a_small_comparison_is_made_once_and_used_again(fedrel, tmp_path):
    folder = tmp_path / "c [1]"
    call = ["compare", "--methods", "lazy-mil,none", "--vary", "training.fraction=0.67,1", "--seeds", 2, "--jobs", 2]
    call += [*TINY, *sets("training.rounds=1"), "--out", folder]
    first = fedrel(*call)
    assert first.code == 0
    assert first.out.splitlines()[-3:] == [
        f"figure  {folder}/pr.png",
        f"figure  {folder}/pr-fraction-1.png",
        f"result  {folder}/compare.json   (again: fedrel show {folder})",
    ]
    for word in ("lazy-mil", "none", "fraction = 0.67", "fraction = 1", "(n=2)"):
        assert word in first.out
    assert "8 runs, 2 side by side" in first.err
    assert "8/8  " in first.err
    assert (folder / "pr.png").read_bytes().startswith(b"\x89PNG")
    report = strict((folder / "compare.json").read_text())
    assert [(it["row"], it["column"], it["n"]) for it in report["summary"]] == [
        (row_, column, 2) for column in ("fraction = 0.67", "fraction = 1") for row_ in ("lazy-mil", "none")
    ]
    for entry in report["summary"]:
        mine = [
            it["test"]["ap"] for it in report["cells"] if (it["row"], it["column"]) == (entry["row"], entry["column"])
        ]
        assert entry["mean"] == pytest.approx(sum(mine) / 2)
    written = {path: path.stat().st_mtime_ns for path in (folder / "cells").rglob("*")}
    again = fedrel(*call, "--json")
    assert "8 of 8 runs are finished already and are used again" in again.err
    assert "side by side" not in again.err
    assert {path: path.stat().st_mtime_ns for path in (folder / "cells").rglob("*")} == written
    assert strict(again.out)["cells"] == report["cells"]
    assert strict(fedrel("show", folder, "--json").out)["summary"] == report["summary"]
    assert fedrel("show", folder).out == first.out.split("figure  ")[0]


def test_one_run_serves_two_columns_that_are_the_same_and_a_cut_off_one_goes_on(fedrel, tmp_path):
    call = ["compare", "--methods", "none", "--vary", "training.fraction=1,1.0", "--seeds", 1, "--jobs", 1]
    call += [*TINY, *sets("training.rounds=1"), "--out", tmp_path]
    assert fedrel(*call).code == 0
    [cell] = (tmp_path / "cells").iterdir()
    result = (cell / "result.json").read_text()
    (cell / "result.json").unlink()
    assert fedrel(*call).code == 0
    assert strict((cell / "result.json").read_text())["test"] == strict(result)["test"]
    (cell / "result.json").write_text("{")
    broken = fedrel(*call)
    assert broken.code == 2
    assert "result.json: unreadable" in broken.err
