"""A run that diverges says so and begins again with a smaller learning rate."""

import json
import math

import pytest

from fedrel.errors import DivergedError
from fedrel.experiment.divergence import LossLimit

SMALL = [
    *("data.size=600", "method.name=none", "partition.platforms=2", "training.rounds=5", "training.patience=2"),
    *("extractor.filters=8", "engine.workers=1"),
]


def settings(*more: str) -> list[str]:
    return [part for setting in (*SMALL, *more) for part in ("--set", setting)]


def test_the_limit_is_far_beyond_guessing():
    limit = LossLimit(5)
    assert limit.guessing == pytest.approx(math.log(5))
    assert not limit.exceeded(2 * math.log(5))
    assert limit.exceeded(14.0) and limit.exceeded(math.nan) and not limit.exceeded(None)
    limit.require(99.0, 2, 7, 0.1)
    with pytest.raises(
        DivergedError, match=r"a loss of 99 in round 7, where guessing has 1\.6; lower training\.lr, which"
    ):
        limit.require(99.0, 3, 7, 0.1)


def test_a_run_begins_again_until_it_learns(fedrel, tmp_path):
    done = fedrel("run", *settings("training.lr=60"), "--out", tmp_path / "r")
    assert done.code == 0, done
    assert "training diverges: a loss of" in done.err
    assert "beginning again with training.lr=18" in done.err
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    rates = [it["lr"] for it in result["restarts"]]
    assert rates == pytest.approx([60 * 0.3**n for n in range(len(rates))])
    lines = [json.loads(line) for line in (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()]
    assert lines[0]["round"] == 1
    assert lines[0]["lr"] == pytest.approx(60 * 0.3 ** len(rates))
    before = tmp_path / "r" / "diverged-1"
    assert sorted(it.name for it in before.iterdir()) == [
        "experiment.toml",
        "ledger.jsonl",
        "metrics.jsonl",
        "why.json",
    ]
    assert (before / "ledger.jsonl").read_text().count("\n") > 0, "what left a platform is not forgotten"
    assert "begun again with a smaller learning rate" in (tmp_path / "r" / "report.html").read_text()


def test_without_restarts_it_is_one_sentence(fedrel, tmp_path):
    done = fedrel("run", *settings("training.lr=60", "training.restarts=0"), "--out", tmp_path / "r")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("fedrel: training diverges: a loss of ")


def test_a_run_that_learns_is_left_alone(fedrel, tmp_path):
    assert fedrel("run", *settings("training.lr=0.1"), "--out", tmp_path / "r").code == 0
    assert "restarts" not in json.loads((tmp_path / "r" / "result.json").read_text())


def test_compare_warns_of_rows_that_are_one_and_of_preparation_that_never_ends(fedrel, tmp_path):
    more = settings("training.lr=0.1")
    more[more.index("method.name=none")] = "training.epochs=1"
    done = fedrel("compare", "--methods", "none,lazy-mil", "--seeds", "1", *more, "--out", tmp_path / "c")
    assert done.code == 0, done
    told = " ".join(done.out.split())
    assert "warning: none and lazy-mil are one and the same in default: every score is equal" in told
    assert "warning: lazy-mil: its 10 preparatory rounds were not over after" in told


def test_compare_warns_of_training_that_diverged(fedrel, tmp_path):
    more = settings("training.lr=60")
    more[more.index("method.name=none")] = "training.epochs=1"
    done = fedrel("compare", "--methods", "none", "--seeds", "1", *more, "--out", tmp_path / "c", "--json")
    [warning] = json.loads(done.out)["warnings"]
    assert warning.startswith("none: training diverged (a loss of ")


def test_a_run_of_preparation_alone_says_so(fedrel, tmp_path):
    more = settings("training.lr=0.1")
    more[more.index("method.name=none")] = "method.name=lazy-mil"
    done = fedrel("run", *more, "--out", tmp_path / "r")
    assert "warning: all 5 rounds are preparation, of which the method wants 10" in done.err
