"""`fedrel tune` on a tiny world: it ranks by dev, keeps test closed, and uses finished trials again."""

import pytest

from fedrel.experiment.execution import Execution
from tests.cli.test_cli import TINY, sets, strict

SEARCH = """
[method]
name = "none"

[tune.space]
"training.lr" = [0.2, 1.0]

[tune.quick]
set = ["training.rounds=1"]
"""


@pytest.fixture
def search(tmp_path):
    path = tmp_path / "search.toml"
    path.write_text(SEARCH)
    return path


def test_a_search_ranks_by_dev_and_its_best_can_be_run(fedrel, search, tmp_path):
    folder = tmp_path / "out"
    call = ["tune", search, *TINY, "--jobs", 1, "--out", folder]
    first = fedrel(*call)
    assert first.code == 0
    report = strict((folder / "tune.json").read_text())
    assert (report["metric"], report["search"], report["quick"]) == ("ap", "grid", False)
    assert report["best"] == report["trials"][0]
    assert [it["score"] for it in report["trials"]] == sorted((it["score"] for it in report["trials"]), reverse=True)
    best = report["best"]["settings"]["training.lr"]
    lines = first.out.splitlines()
    assert lines[-3] == f"--set training.lr={best}"
    assert lines[-2] == f"best    {folder}/best.toml   (test it: fedrel run {folder}/best.toml)"
    assert "2 trials by dev ap; test is not used" in first.out
    for trial in report["trials"]:
        files = {path.name for path in (folder / trial["folder"]).iterdir()}
        assert files == {"experiment.toml", "metrics.jsonl", "ledger.jsonl", "trial.json"}
        lines = [strict(line) for line in (folder / trial["folder"] / "metrics.jsonl").read_text().splitlines()]
        assert trial["dev"] == lines[trial["best_round"] - 1]["dev"]
        assert trial["score"] == max(line["dev"]["ap"] for line in lines)

    again = fedrel(*call, "--json")
    assert "2 of 2 runs are already finished and are reused" in again.err
    assert strict(again.out) == report
    run = fedrel("run", folder / "best.toml", "--out", tmp_path / "run", "--json")
    assert run.code == 0
    assert strict(run.out)["dev"] == report["best"]["dev"]


def test_test_is_never_opened(fedrel, search, tmp_path, monkeypatch):
    """In this process, so that a look at the test split would be seen."""
    from fedrel.data.store import Dataset
    from fedrel.experiment.assembly import prepare
    from fedrel.sweeps.tuning import end_trial, read

    def never(self):
        raise AssertionError("the test split was opened")

    monkeypatch.setattr(Dataset, "test", property(never))
    trial = read(search, settings=TINY[1::2]).trials[0]
    execution = Execution(prepare(trial.experiment), tmp_path / "trial")
    for _ in execution.rounds():
        pass
    assert "best round" in end_trial(execution, tmp_path / "trial")


def test_a_trial_that_was_cut_off_goes_on(fedrel, search, tmp_path):
    from fedrel.experiment.assembly import prepare
    from fedrel.sweeps.tuning import read

    trial = read(search, settings=[*TINY[1::2]]).trials[0]
    folder = tmp_path / "out" / "trials" / trial.name
    next(iter(Execution(prepare(trial.experiment), folder).rounds()))
    assert fedrel("tune", search, *TINY, "--jobs", 1, "--out", tmp_path / "out").code == 0
    lines = [strict(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2]


def test_the_quick_scale_says_that_it_is(fedrel, search, tmp_path):
    small = sets("data.size=600", "partition.platforms=3", "extractor.filters=4")
    done = fedrel("tune", search, *small, "--quick", "--jobs", 1, "--out", tmp_path / "out")
    assert done.code == 0
    assert "QUICK SCALE: 2 trials" in done.out
    assert strict((tmp_path / "out" / "tune.json").read_text())["best"]["rounds"] == 1


def test_a_file_without_a_space_is_refused(refused, tmp_path):
    (tmp_path / "empty.toml").write_text("")
    assert refused("tune", "empty.toml").startswith("empty.toml: [tune.space] is empty; say what to try")
