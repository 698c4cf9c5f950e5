import io
from pathlib import Path

import pytest
from rich.console import Console

from fedrel.errors import UserError
from fedrel.feedback.store import Store
from fedrel.sweeps import comparison, settings
from fedrel.sweeps.tables import comparison_table, paired, scores, spread, summarise


def read(tmp_path, text, **options):
    path = tmp_path / "table.toml"
    path.write_text(text)
    settings = {"settings": [], "methods": [], "vary": [], "seeds": None, "metric": None} | options
    return comparison.read(path, **settings)


def cells_of(scores_, metric="ap"):
    """Finished cells as the summary reads them, from {(row, column): [score of seed 1, …]}."""
    return [
        {"row": row, "column": column, "seed": seed, "draw": "", "scores": {metric: value}}
        for (row, column), values in scores_.items()
        for seed, value in enumerate(values, 1)
    ]


def report_of(asked, cells):
    return {
        "metric": asked.metric,
        "metrics": asked.metrics,
        "reference": asked.reference,
        "quick": asked.quick,
        "dev_metric": "ap",
        **vars(asked.look),
        "summary": summarise(asked, cells),
        "cells": cells,
    }


def printed(report):
    console = Console(width=200, file=io.StringIO())
    console.print(comparison_table(report))
    return console.file.getvalue()


def test_a_table_is_rows_times_columns_times_seeds(tmp_path):
    asked = read(
        tmp_path,
        """
        [compare]
        rows = ["one", {label = "few", set = ["method.name=none"], columns = ["a"]}]
        [[compare.columns]]
        label = "a"
        set = ["training.fraction=0.5"]
        seeds = 3
        [[compare.columns]]
        label = "b"
        seeds = 1
        """,
    )
    cells = asked.cells()
    assert [(c.row, c.column, c.seed) for c in cells if c.row == "few"] == [("few", "a", s) for s in (1, 2, 3)]
    assert [(c.column, c.seed, c.experiment.training.fraction) for c in cells if c.row == "one"] == [
        *(("a", s, 0.5) for s in (1, 2, 3)),
        ("b", 1, 1.0),
    ]
    assert len({c.name for c in cells}) == len(cells)


def test_settings_of_one_method_are_not_for_another(tmp_path):
    asked = read(tmp_path, '[method]\nname = "lazy-mil"\nwarmup = 4\n[compare]\nrows = ["lazy-mil", "one"]\nseeds = 1')
    lazy, one = asked.cells()
    assert lazy.experiment.method == {"name": "lazy-mil", "na": "local", "rounding": 2.0, "warmup": 4}
    assert one.experiment.method == {"name": "one"}


def test_a_cell_is_another_when_the_data_is(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.jsonl").write_text("1")
    text = f'[data]\nsource = "opennre"\npath = "{data}"\n[compare]\nrows = ["one"]\nseeds = 1'
    before = read(tmp_path, text).cells()[0].name
    (data / "train.jsonl").write_text("2")
    settings.fingerprint.cache_clear()
    assert read(tmp_path, text).cells()[0].name != before


def test_summary_pairs_seeds(tmp_path):
    asked = read(tmp_path, "", methods=["lazy-mil", "one"], seeds=3)
    cells = cells_of({("lazy-mil", "default"): [0.8, 0.9, 0.7], ("one", "default"): [0.6, 0.8, 0.6]})
    lazy, one = summarise(asked, cells)
    assert lazy["mean"] == pytest.approx(0.8)
    assert lazy["std"] == pytest.approx(0.1)
    assert lazy["reference_ahead"] is None
    assert one["median"] == 0.6
    assert one["reference_ahead"]["mean"] == pytest.approx(0.4 / 3)
    assert one["reference_ahead"]["standard_error"] == pytest.approx(0.0577350 / 3**0.5)
    assert one["reference_ahead"]["clear"]


def test_one_run_has_no_deviation():
    assert spread([0.5]) == {"n": 1, "runs": 1, "mean": 0.5, "median": 0.5, "std": None}
    assert paired([0.1])["clear"] is False


PAPER = """
[compare]
rows = [
  {label = "ours", set = ["method.name=one"], paper = {a = [21.5, 0.2], b = {ap = 30, max_f1 = 40}}},
  "none",
]
columns = [{label = "a"}, {label = "b"}]
metrics = ["ap", "max_f1"]
paper = "Somebody et al., table 9; BERT"
scale = 100
statistic = "median"
seeds = 3
"""


def test_the_numbers_of_a_paper_stand_beside_ours(tmp_path):
    asked = read(tmp_path, PAPER)
    cells = [
        {"row": row, "column": column, "seed": seed, "scores": {"ap": 0.2 + seed / 10, "max_f1": 0.5}}
        for column in "ab"
        for row in ("ours", "none")
        for seed in (1, 2, 3)
    ]
    report = report_of(asked, cells)
    by_place = {(entry["row"], entry["column"]): entry for entry in report["summary"]}
    assert by_place["ours", "a"]["paper"] == {"ap": {"value": 21.5, "std": 0.2}}
    assert by_place["ours", "b"]["paper"]["max_f1"] == {"value": 40.0, "std": None}
    assert by_place["none", "b"]["paper"] == {}
    text = printed(report)
    assert "test ap, median ± standard deviation over seeds, times 100" in text
    assert "ap 40.00 ± 10.00 (n=3) · paper 21.5 ± 0.2" in text
    assert "max_f1 50.00 ± 0.00 · paper 40" in text
    assert "paper: Somebody et al., table 9; BERT" in text
    assert "quick" not in text


COST = """
[compare]
rows = [
  {label = "ours", set = ["method.name=one"], paper = {default = 9}},
  "none",
  {label = "slow", set = ["method.name=att"]},
]
metric = "rounds_to_target"
target = 0.7
seeds = 2
"""


def rounds(*dev_scores):
    bytes_ = {"up": 100, "down": 10}
    return [
        {"round": number, "dev": {"ap": score}, "bytes": bytes_, "cohort": ["p0", "p1"]}
        for number, score in enumerate(dev_scores, 1)
    ]


def test_a_target_is_reached_on_dev_or_not_at_all(tmp_path):
    asked = read(tmp_path, COST)
    assert scores(asked, {"test": {}}, rounds(0.1, 0.8, 0.9), {}, "ap") == {"rounds_to_target": 2}
    assert scores(asked, {"test": {}}, rounds(0.1, 0.2), {}, "ap") == {"rounds_to_target": None}
    asked = read(tmp_path, COST.replace('"rounds_to_target"', '"bytes_to_target"'))
    assert scores(asked, {"test": {}}, rounds(0.1, 0.8, 0.9), {}, "ap") == {"bytes_to_target": 200}
    asked = read(tmp_path, COST.replace('"rounds_to_target"', '"upload_per_platform"'))
    assert scores(asked, {"test": {}}, rounds(0.1, 0.8, 0.9), {}, "ap") == {"upload_per_platform": 50}


def test_runs_that_never_reach_the_target_are_counted_and_never_best(tmp_path):
    asked = read(tmp_path, COST)
    places = {("ours", "default"): [4, 6], ("none", "default"): [1, None], ("slow", "default"): [None, None]}
    report = report_of(asked, cells_of(places, "rounds_to_target"))
    ours, none, slow = report["summary"]
    assert (ours["mean"], none["mean"], none["n"], none["runs"], slow["mean"]) == (5, 1, 1, 2, None)
    assert none["reference_ahead"]["mean"] == -3  # fewer rounds are better, so the reference is behind
    text = printed(report)
    assert "rounds to a dev ap of 0.7" in text
    assert "5.0 ± 1.4 (2 of 2 reached it)" in text
    assert "1.0 (1 of 2 reached it)" in text
    assert "— (0 of 2 reached it)" in text
    assert "paper 9" in text


def test_scores_of_single_classes_come_from_the_details(tmp_path):
    asked = read(tmp_path, '[compare]\nrows = ["one"]\nmetric = "f1:a/b"\nmetrics = ["f1:a/b", "f1:c", "ap:d"]')
    details = {"classes": [{"relation": "a/b", "f1": 0.25}], "relations": [{"relation": "d", "ap": 0.5}]}
    assert scores(asked, {"test": {}}, [], details, "micro_f1") == {"f1:a/b": 0.25, "f1:c": None, "ap:d": 0.5}


def test_a_score_that_this_data_does_not_have_is_refused(tmp_path):
    asked = read(tmp_path, '[compare]\nrows = ["one"]\nmetric = "micro_f1"')
    with pytest.raises(UserError, match=r'"micro_f1" is not a score of this kind of data; there is ap, auc'):
        scores(asked, {"test": {"ap": 1.0, "auc": 1.0}}, [], {}, "ap")


QUICK = """
[data]
source = "opennre"
[training]
rounds = 50
[compare]
rows = ["one", "none", "att"]
columns = [{label = "a", set = ["data.path=a"]}, {label = "b", set = ["data.path=b", "training.rounds=60"]}]
reference = "att"
metric = "ap"
seeds = 9
data = "the A and B sets from the library"
[compare.quick]
rows = ["one", "none"]
columns = ["b"]
seeds = 2
metric = "auc"
set = ["data.source=world", "data.size=600", "training.rounds=2", "training.metric=auc"]
"""


def test_the_quick_scale_goes_on_top(tmp_path):
    asked = read(tmp_path, QUICK, quick=True)
    assert (asked.metric, asked.reference, asked.quick) == ("auc", "one", True)
    cells = asked.with_data(asked.cells())
    assert [(c.row, c.column, c.seed) for c in cells] == [(r, "b", s) for r in ("one", "none") for s in (1, 2)]
    experiment = cells[0].experiment
    assert (experiment.data.source, experiment.data.path, experiment.data.size) == ("world", "", 600)
    assert experiment.training.rounds == 2
    report = report_of(asked, cells_of({("one", "b"): [0.1, 0.2]}, "auc"))
    text = printed(report)
    assert text.startswith("QUICK SCALE: test auc")
    assert "not comparable with the paper's numbers" in text


def test_the_users_settings_and_data_win_over_the_quick_scale(tmp_path):
    asked = read(tmp_path, QUICK, quick=True, settings=["training.rounds=7"], data=tmp_path / "sets")
    experiment = asked.cells()[0].experiment
    assert asked.metric == "ap"
    assert experiment.training.rounds == 7
    assert experiment.training.metric == "ap"
    assert (experiment.data.source, experiment.data.path) == ("opennre", str(tmp_path / "sets" / "b"))


WITH_DATA = (
    QUICK
    + """
[compare.quick.with_data]
rows = ["none", "att"]
columns = ["a"]
seeds = 3
metric = "auc"
set = ["data.dev=0.3", "training.rounds=4", "training.metric=auc"]
"""
)


def test_a_quick_scale_made_for_data_takes_its_place(tmp_path):
    asked = read(tmp_path, WITH_DATA, quick=True, settings=["training.rounds=7"], data=tmp_path / "sets")
    assert (asked.metric, asked.reference) == ("auc", "att")
    assert [(c.row, c.column, c.seed) for c in asked.cells()] == [
        (r, "a", s) for r in ("none", "att") for s in (1, 2, 3)
    ]
    experiment = asked.cells()[0].experiment
    assert (experiment.training.rounds, experiment.training.metric, experiment.data.dev) == (7, "auc", 0.3)
    assert experiment.data.path == str(tmp_path / "sets" / "a")
    assert experiment.data.size != 600, "nothing of the scale without data"
    without = read(tmp_path, WITH_DATA, quick=True).cells()
    assert without == read(tmp_path, QUICK, quick=True).cells()


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("[compare.quick]\nwith_data = 3", r"table\.toml:\d+: compare\.quick\.with_data must be a section"),
        ("[compare.quick.with_data]\nseed = 3", r'unknown key "compare\.quick\.with_data\.seed"; did you mean "seeds"'),
        ("[compare.quick.with_data]\nset = 3", r"table\.toml:\d+: compare\.quick\.with_data\.set must be a list of"),
    ],
)
@pytest.mark.parametrize("data", [None, Path("sets")])
def test_a_bad_quick_scale_for_data_is_refused_whether_it_is_used_or_not(tmp_path, section, says, data):
    with pytest.raises(UserError, match=says):
        read(tmp_path, f'[compare]\nrows = ["one"]\n{section}\n', quick=True, data=data)


USERS = """
[method]
name = "feedback"
[partition]
server = 0.1
[feedback]
users = "table"
[extractor]
kind = "bag"
[compare]
rows = [{label = "users"}, {label = "nobody", set = ["method.name=fedavg"]}]
data = "what there is"
seeds = 1
"""


def test_a_row_whose_users_are_not_there_is_left_out(tmp_path):
    table = tmp_path / "users.csv"
    asked = read(tmp_path, USERS, settings=[f"feedback.table={table}"])
    assert [cell.row for cell in asked.with_data(asked.cells())] == ["nobody"]
    with pytest.raises(UserError, match=r"users\.csv: no such file \(feedback\.table, a table of users\)"):
        asked.with_data(asked.cells()[:1])
    table.write_text("user,gamma,delta\na,0.5,0.5\n")
    assert [cell.row for cell in asked.with_data(asked.cells())] == ["users", "nobody"]


def test_a_run_is_not_used_again_when_its_users_have_changed(tmp_path):
    table = tmp_path / "users.csv"
    table.write_text("user,gamma,delta\na,0.5,0.5\n")
    cell = read(tmp_path, USERS, settings=[f"feedback.table={table}"]).cells()[0]
    before = cell.name
    assert cell.name == before
    table.write_text("user,gamma,delta\na,0.5,0.6\n")
    assert cell.name != before


def test_nor_when_people_have_said_more(tmp_path):
    path = tmp_path / "verdicts.sqlite"
    with Store.open(path) as store:
        shown = store.show("key", "born_in", 0.5, "model")
        cell = read(tmp_path, USERS, settings=[f"feedback.store={path}"]).cells()[0]
        before = cell.name
        store.give(shown, "anna", "right")
        after = cell.name
    assert before != after == cell.name, "that the file was closed changes nothing"


def test_a_table_is_made_of_the_data_that_is_there(tmp_path):
    (tmp_path / "sets" / "b").mkdir(parents=True)
    asked = read(tmp_path, QUICK, data=tmp_path / "sets", seeds=1)
    assert [(cell.row, cell.column) for cell in asked.with_data(asked.cells())] == [
        (row, "b") for row in ("one", "none", "att")
    ]
    asked = read(tmp_path, QUICK, data=tmp_path / "elsewhere")
    with pytest.raises(
        UserError, match=r"elsewhere/a: no such file or folder; get the A and B sets from the library; then"
    ):
        asked.with_data(asked.cells())
    asked = read(tmp_path, QUICK.replace('"data.path=a"', ""))
    with pytest.raises(UserError, match=r"^no data given; get the A and B sets"):
        asked.with_data(asked.cells()[:1])


def test_data_that_is_one_set_is_the_folder_itself(tmp_path):
    asked = read(tmp_path, '[data]\nsource = "opennre"\n[compare]\nrows = ["one"]\nseeds = 1', data=tmp_path)
    assert asked.cells()[0].experiment.data.path == str(tmp_path)
