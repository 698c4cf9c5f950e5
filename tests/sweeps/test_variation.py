"""Errors over worlds and splits, and what dev chooses, in a table."""

import pytest

from fedrel.errors import UserError
from fedrel.sweeps.tables import summarise
from tests.sweeps.test_comparison import printed, read, report_of

BOTH = """
[compare]
rows = ["none", {label = "few", set = ["method.name=one"], choose = {"training.lr" = [0.1, 1.0]}}]
seeds = 2
worlds = [11, 12, 13]
"""


def draws(asked):
    return [(cell.draw, cell.seed, cell.experiment.data.seed) for cell in asked.cells() if cell.row == "none"]


def test_worlds_of_a_file_are_values_of_data_seed(tmp_path):
    asked = read(tmp_path, BOTH)
    assert draws(asked) == [(str(w), s, w) for w in (11, 12, 13) for s in (1, 2)]
    few = [cell for cell in asked.cells() if cell.row == "few"]
    assert [(cell.option, cell.experiment.training.lr) for cell in few[::6]] == [
        (("training.lr=0.1",), 0.1),
        (("training.lr=1.0",), 1.0),
    ]
    assert few[0].label == "few, training.lr=0.1, default, 11, seed 1"
    assert len({cell.name for cell in asked.cells()}) == 6 + 12


def test_so_many_worlds_are_ones_that_nobody_has_looked_at(tmp_path):
    assert draws(read(tmp_path, "", worlds="3")) == [("11", 1, 11), ("12", 1, 12), ("13", 1, 13)]
    assert draws(read(tmp_path, BOTH, worlds="4,5")) == [("4", 1, 4), ("5", 1, 5)]
    assert draws(read(tmp_path, BOTH, worlds="4,5", seeds=2))[:2] == [("4", 1, 4), ("4", 2, 4)]


def test_splits_are_folders_below_the_path_of_the_data(tmp_path):
    text = '[data]\nsource = "opennre"\npath = "gad"\n[compare]\nrows = ["none"]\nsplits = ["1", "2"]\nseeds = 1\n'
    assert [cell.experiment.data.path for cell in read(tmp_path, text).cells()] == ["gad/1", "gad/2"]
    asked = read(tmp_path, text, data=tmp_path)
    assert [cell.experiment.data.path for cell in asked.cells()] == [f"{tmp_path}/gad/1", f"{tmp_path}/gad/2"]


@pytest.mark.parametrize(
    ("section", "options", "says"),
    [
        ("worlds = 3", {}, r"table\.toml:2: compare\.worlds must be a list of numbers"),
        ("worlds = [1]", {}, r"compare\.worlds: two or more are needed"),
        ("worlds = [1, 1]", {}, r"compare\.worlds: two or more are needed, each once"),
        ("splits = [1, 2]", {}, r"compare\.splits must be a list of folders"),
        ('splits = ["..", "a"]', {}, r'compare\.splits: "\.\." is no folder below data\.path'),
        ('splits = ["a", "b"]\nworlds = [1, 2]', {}, "name one of them"),
        ("", {"worlds": "x"}, r"--worlds: how many, or which"),
        ("", {"worlds": "1"}, r"--worlds: two or more"),
        ("", {"worlds": "3", "splits": "a,b"}, "name one of them"),
        ("", {"splits": "a,b"}, "splits are folders of data, and this is the built-in world"),
        ('[data]\nsource = "opennre"', {"worlds": "2"}, "worlds are of the built-in data, and this reads files"),
    ],
)
def test_what_cannot_vary_is_refused(tmp_path, section, options, says):
    with pytest.raises(UserError, match=says):
        read(tmp_path, f"[compare]\n{section}\n", methods=["none"], **options).cells()


def test_methods_without_attention_have_no_such_choice(tmp_path):
    asked = read(tmp_path, "", methods=["none", "att"], seeds=1, choose=["evaluation.bags=max,attention"])
    assert [(cell.row, cell.experiment.evaluation.bags) for cell in asked.cells()] == [
        ("none", "max"),
        ("att", "max"),
        ("att", "attention"),
    ]
    alone = read(tmp_path, "", methods=["none"], seeds=1, choose=["evaluation.bags=attention"])
    with pytest.raises(UserError, match=r'none, default: evaluation\.bags = "attention": method\.name = "none" has no'):
        alone.cells()


def test_errors_are_over_worlds_and_seeds_are_averaged(tmp_path):
    asked = read(tmp_path, "", methods=["none", "one"], seeds=2, worlds="3", metric="ap")
    scores = {"none": [0.5, 0.7, 0.6, 0.8, 0.9, 0.9], "one": [0.4, 0.6, 0.6, 0.6, 0.8, 0.6]}  # worlds .1 .1 .2 ahead
    cells = [
        {"row": row, "column": "default", "seed": 1 + n % 2, "draw": str(11 + n // 2), "scores": {"ap": score}}
        for row, found in scores.items()
        for n, score in enumerate(found)
    ]
    none, one = summarise(asked, cells)
    assert (none["n"], none["runs"]) == (3, 3)
    assert none["mean"] == pytest.approx((0.6 + 0.7 + 0.9) / 3)
    assert none["std"] == pytest.approx(0.1527525)
    ahead = one["reference_ahead"]
    assert (ahead["n"], ahead["p"]) == (3, None)
    assert ahead["mean"] == pytest.approx(0.4 / 3)
    assert ahead["standard_error"] == pytest.approx(0.1 / 3)
    report = report_of(asked, cells) | {"variation": {"over": "worlds", "draws": ["11", "12", "13"], "seeds": 2}}
    assert "± standard deviation over worlds (11, 12, 13; 2 seeds, averaged each)" in printed(report)


PUBLISHED = """
[compare]
rows = [
  {label = "new", set = ["method.name=one"], paper = {default = 30}},
  {label = "old", set = ["method.name=none"], paper = {default = 20}},
  {label = "better", set = ["method.name=ave"], paper = {default = 40}},
  {label = "unknown", set = ["method.name=att"]},
]
"""


def verdicts(tmp_path, scores, **options):
    asked = read(tmp_path, PUBLISHED, metric="ap", **options)
    cells = [
        {"row": row, "column": "default", "seed": seed, "draw": "", "scores": {"ap": value}}
        for row, values in scores.items()
        for seed, value in enumerate(values, 1)
    ]
    summary = {entry["row"]: entry["verdict"] for entry in summarise(asked, cells)}
    return summary, printed(report_of(asked, cells))


def test_a_table_with_a_papers_numbers_has_verdicts(tmp_path):
    """Both the old and the better row are .1 to .3 behind the new one."""
    new = [0.5, 0.6, 0.7, 0.8, 0.9]
    behind = [0.3, 0.5, 0.4, 0.6, 0.8]
    found, text = verdicts(tmp_path, {"new": new, "old": behind, "better": behind, "unknown": behind})
    assert found["new"] is found["unknown"] is None
    assert (found["old"]["claim"], found["old"]["verdict"]) == ("ahead", "confirmed")
    assert (found["better"]["claim"], found["better"]["verdict"]) == ("behind", "refuted")
    assert found["old"]["interval"] == pytest.approx([0.18 - 2.7764 * 0.0374166, 0.18 + 2.7764 * 0.0374166])
    assert "new ahead: confirmed" in text
    assert "new behind: refuted" in text
    assert "not seen if it holds zero" in " ".join(text.split())


def test_few_seeds_decide_nothing(tmp_path):
    found, _ = verdicts(tmp_path, {"new": [0.5, 0.6, 0.7], "old": [0.1, 0.2, 0.31]})
    assert found["old"]["verdict"] == "not decided"
