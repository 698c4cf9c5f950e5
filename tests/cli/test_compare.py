"""`fedrel compare` on tiny worlds: tables, reuse, and bad tables."""

import re
from pathlib import Path

import pytest

from fedrel.cli import console
from fedrel.sweeps.publishing import published
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
        ('columns = [{label = "a", seeds = 0}]', "c.toml: seeds of a must be a whole number of at least 1"),
        ("seeds = 0", "c.toml: compare.seeds must be a whole number of at least 1"),
        ('seeds = "3"', "c.toml: compare.seeds must be a whole number of at least 1"),
        ('rows = ["one", "one"]', 'c.toml: "one" is listed twice'),
        ('columns = [{label = "a"}, {label = "a"}]', 'c.toml: "a" is listed twice'),
        ('rows = ["one"]\nreference = "none"', 'c.toml: compare.reference = "none" is not a row'),
        ('metric = "acu"', 'c.toml: "acu" is not a metric; did you mean "auc"?'),
        ("metric = 3", 'c.toml: "3" is not a metric'),
        ("metrics = 3", "c.toml:2: compare.metrics must be a list"),
        ('metrics = ["ap", "acu"]', 'c.toml: "acu" is not a metric; did you mean "auc"?'),
        ('metric = "ap"\nmetrics = ["auc"]', 'c.toml: compare.metric = "ap" is not among compare.metrics'),
        ('metric = "micro_f1"', 'by training.metric = "ap" have no "micro_f1"; set training.metric to a score of'),
        ('metric = "rounds_to_target"', "c.toml: rounds_to_target needs compare.target, the dev score to reach"),
        ("target = -1", "c.toml:2: compare.target = -1.0: must be above 0"),
        ("scale = 0", "c.toml:2: compare.scale = 0.0: must be above 0"),
        ('statistic = "mode"', 'c.toml:2: compare.statistic = "mode" is none of mean, median'),
        ('figure = "pie"', 'c.toml:2: compare.figure = "pie" is none of'),
        ("paper = 3", "c.toml:2: compare.paper must be text, not 3"),
        ("data = 3", "c.toml:2: compare.data must be text, not 3"),
        ('rows = [{label = "a", paper = 3}]', "c.toml: paper of a must be a section of numbers by column"),
        ('rows = [{label = "a", paper = {default = "3"}}]', "paper of a: '3' is neither a number nor [number,"),
        ('rows = [{label = "a", paper = {default = [1, 2, 3]}}]', "paper of a: [1, 2, 3] is neither a number"),
        (
            'rows = [{label = "a", paper = {default = {acu = 3}}}]',
            'paper of a: "acu" is not a metric; did you mean "auc"?',
        ),
        ('rows = [{label = "a", paper = {b = 3}}]', 'c.toml: row "a": no column "b"'),
        ('rows = ["on"]', 'method.name = "on" is no method; did you mean "one"?'),
        ('rows = [{label = "a", set = ["training.lr=-1"]}]', "a, default: training.lr = -1.0: must be above 0"),
        ('rows = [{label = "a", set = ["training.lr"]}]', "write it as section.key=value"),
        ('rows = [{label = "a", columns = ["b"]}]', 'c.toml: row "a": no column "b"'),
        ("[training]\nlr = -1", "c.toml:3: training.lr = -1.0: must be above 0"),
    ],
)
def test_a_bad_comparison_is_refused_before_anything_runs(refused, tmp_path, section, says):
    assert says in refused("compare", compare_file(tmp_path, section), "--out", "c")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("", "c.toml: there is no quick scale; define one in a section [compare.quick]"),
        ("quick = 3", "c.toml:2: compare.quick must be a section"),
        ("[compare.quick]\nseed = 1", 'c.toml:3: unknown key "compare.quick.seed"; did you mean "seeds"?'),
        ("[compare.quick]\nseeds = 0", "c.toml:3: compare.quick.seeds must be a whole number of at least 1"),
        ("[compare.quick]\nset = 3", 'c.toml:3: compare.quick.set must be a list of "key=value"'),
        ("[compare.quick]\nrows = [3]", "c.toml:3: compare.quick.rows must be a list of labels of rows"),
        ('[compare.quick]\nrows = ["on"]', 'c.toml: compare.quick.rows: no "on"; did you mean "one"?'),
        ('[compare.quick]\ncolumns = ["C"]', 'c.toml: compare.quick.columns: no "C"; there is default'),
        ('[compare.quick]\nset = ["training.lr=-1"]', "training.lr = -1.0: must be above 0"),
    ],
)
def test_a_bad_quick_scale_is_refused(refused, tmp_path, section, says):
    assert says in refused("compare", compare_file(tmp_path, section), "--quick", "--out", "c")


def test_missing_data_is_one_sentence_with_what_to_get(refused, tmp_path):
    (tmp_path / "c.toml").write_text('[data]\nsource = "nyt10"\n[compare]\ndata = "NYT10 from its library"\n')
    get = "; get NYT10 from its library; then name the folder with --data, or try --quick"
    assert refused("compare", "c.toml") == f"no data given{get}"
    assert refused("compare", "c.toml", "--data", "nowhere") == f"nowhere: no such file or folder{get}"


def test_compare_must_be_a_section(refused, tmp_path):
    (tmp_path / "c.toml").write_text("compare = 3\n")
    assert refused("compare", "c.toml") == "c.toml: compare must be a section"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--vary", "training.fraction"], "--vary training.fraction: write it as key=value,value"),
        (["--vary", "training.fraction="], "--vary training.fraction=: write it as key=value,value"),
        (["--vary", "training.fraction=0.1,0.1"], '"fraction = 0.1" is listed twice'),
        (["--vary", "training.fraction=0.5,0"], "training.fraction = 0.0: must be above 0"),
        (["--vary", "training.fraction=0.5,"], "training.fraction must be a number, not ''"),
        (["--vary", "training.fractions=0.5"], 'unknown key "training.fractions"'),
        (["--vary", "=1"], "write it as"),
        (["--methods", "one,lazymil"], 'method.name = "lazymil" is no method; did you mean "lazy-mil"?'),
        (["--methods", "one,one"], '"one" is listed twice'),
        (["--metric", "f1"], '"f1" is not a metric'),
        (["--data", "here"], "--data here: everything here runs on the built-in world; set data.source, or omit"),
        (["--quick"], "compare: there is no quick scale"),
        (["--worlds", "1"], "--worlds: two or more are needed"),
        (["--splits", "a,b"], "splits are folders of data, and this is the built-in world; vary worlds instead"),
        (["--choose", "evaluation.bags=most"], 'evaluation.bags = "most" is none of'),
        (["--publish", "page.md"], "page.md: the page cannot be read"),
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
    assert "8 runs, 2 in parallel" in first.err
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
    assert "8 of 8 runs are already finished and are reused" in again.err
    assert "in parallel" not in again.err
    assert {path: path.stat().st_mtime_ns for path in (folder / "cells").rglob("*")} == written
    assert strict(again.out)["cells"] == report["cells"]
    assert strict(fedrel("show", folder, "--json").out)["summary"] == report["summary"]
    assert fedrel("show", folder).out == first.out.split("figure  ")[0]


def test_dev_chooses_over_worlds_and_the_table_is_published(fedrel, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table world: made by fedrel compare --publish -->\n<!-- end of table world -->\n")
    call = ["compare", "--methods", "none,ave", "--worlds", 2, "--choose", "evaluation.bags=max,mean", "--jobs", 1]
    call += [*TINY, *sets("training.rounds=1"), "--out", tmp_path / "c"]
    done = fedrel(*call, "--publish", page, "--json")
    assert done.code == 0
    report = strict(done.out)
    assert report["variation"] == {"over": "worlds", "draws": ["11", "12"], "seeds": 1}
    assert len(report["options"]) == 4
    for entry in report["summary"]:
        mine = [it for it in report["options"] if it["row"] == entry["row"]]
        best = max(mine, key=lambda it: it["dev"])
        assert [it["settings"] for it in mine if it["chosen"]] == [entry["chosen"]]
        assert next(it["dev"] for it in mine if it["chosen"]) == best["dev"]
        assert entry["n"] == 2
        shown = [it for it in report["cells"] if it["row"] == entry["row"]]
        assert [(it["draw"], it["seed"], it["option"]) for it in shown] == [
            (w, 1, entry["chosen"]) for w in ("11", "12")
        ]
        result = strict((tmp_path / "c" / shown[0]["folder"] / "result.json").read_text())
        assert entry["chosen"] == [f"evaluation.bags={result['bags']}"]
        assert (result["commit"], result["device"]) == (shown[0]["commit"], shown[0]["device"])
        assert "torch" in result["device"]
    assert published(page) == page.read_text()
    again = "`fedrel compare --methods none,ave --worlds 2 --choose evaluation.bags=max,mean --set data.size=600 --set "
    assert page.read_text().splitlines()[2].startswith(again)
    assert "over worlds (11, 12; 1 seed each)" in page.read_text()
    assert str(tmp_path) not in (tmp_path / "page-world.json").read_text()


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


TABLE = """
[data]
source = "opennre"

[compare]
rows = [{label = "ours", set = ["method.name=one"], paper = {"C = 1" = 21.5}}, "none"]
columns = [{label = "C = 1"}, {label = "elsewhere", set = ["data.path=elsewhere"]}]
metrics = ["ap", "rounds_to_target"]
target = 0.99
scale = 100
seeds = 1
figure = "FIGURE"
paper = "Somebody et al., table 9"
data = "the set from its library"

[compare.quick]
set = [
  "data.source=world", "data.size=600", "training.rounds=2", "partition.platforms=3", "extractor.filters=4",
]
"""


@pytest.mark.parametrize(
    ("figure", "file"), [("rounds", "rounds.png"), ("bars", "bars.png"), ("cases", "cases.md"), ("none", None)]
)
def test_a_table_with_a_papers_numbers_on_the_quick_scale(fedrel, tmp_path, monkeypatch, figure, file):
    monkeypatch.setattr(console.out, "_width", 200)
    (tmp_path / "c.toml").write_text(TABLE.replace("FIGURE", figure))
    out = tmp_path / "out"
    done = fedrel("compare", tmp_path / "c.toml", "--quick", "--jobs", 1, "--out", out)
    assert done.code == 0, done.err
    assert "QUICK SCALE: test ap, mean ± standard deviation over seeds, times 100" in done.out
    assert "paper 21.5" in done.out
    assert "— (0 of 1 reached it)" in done.out
    assert "paper: Somebody et al., table 9" in done.out
    assert f"figure  {out / file}" in done.out if file else "figure" not in done.out
    report = strict((out / "compare.json").read_text())
    assert (report["quick"], report["target"], report["dev_metric"]) == (True, 0.99, "ap")
    first = report["summary"][0]
    assert first["paper"] == {"ap": {"value": 21.5, "std": None}}
    assert first["metrics"]["rounds_to_target"]["runs"] == 1
    if file and file.endswith(".png"):
        assert (out / file).read_bytes().startswith(b"\x89PNG")
        assert (out / "bars.png").exists()  # also beside rounds, since there are two columns
    if figure == "cases":
        text = (out / file).read_text()
        assert "| platform | sentence | expresses it | ours | none |" in text
        assert re.search(r"\| p\d \| .+ \| (yes|no) \| [✓✗] \| ✓ \|", text)


def test_columns_whose_data_is_missing_are_left_out_and_said_so(fedrel, tmp_path):
    (tmp_path / "c.toml").write_text(TABLE.replace("FIGURE", "none"))
    assert fedrel("data", "world", "--out", tmp_path / "sets", "--size", 600).code == 0
    out = tmp_path / "out"
    done = fedrel("compare", tmp_path / "c.toml", "--quick", "--data", tmp_path / "sets", "--jobs", 1, "--out", out)
    assert done.code == 0, done.err
    assert "elsewhere: left out, its data is missing (the set from its library)" in done.err
    cells = strict((out / "compare.json").read_text())["cells"]
    assert [(cell["row"], cell["column"]) for cell in cells] == [("ours", "C = 1"), ("none", "C = 1")]


def test_the_similarity_of_classifier_vectors_is_drawn_for_fedcmc_alone(fedrel, tmp_path):
    text = TABLE.replace("FIGURE", "similarity").replace('"rounds_to_target"', '"auc"')
    (tmp_path / "c.toml").write_text(text)
    call = ["compare", tmp_path / "c.toml", "--quick", "--jobs", 1, "--out", tmp_path / "out"]
    refused = fedrel(*call)
    assert refused.code == 2
    assert 'figure = "similarity" needs a row whose method is fedcmc' in refused.err
    done = fedrel(*call, "--methods", "fedcmc", *sets("extractor.bias=false"))
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "similarity.png").read_bytes().startswith(b"\x89PNG")
