"""The state of a run, from the folder that it writes."""

import json
import subprocess
import sys

import pytest

from fedrel.errors import UserError
from fedrel.watch.folder import RunFolder
from fedrel.watch.view import view
from tests.watch.small_runs import SUSPICION, add, begin, finish, line, say, status


def shown(watched, now=2e9):
    return view([watched.look(now)], None, now).runs[0]


def test_a_run_is_followed_from_round_to_round(tmp_path):
    folder = begin(tmp_path / "run")
    watched = RunFolder(folder)
    run = shown(watched)
    assert (run.state, run.done, run.doing, run.history, run.platforms) == ("running", "0 of 20", "train p2", [], [])
    for number in range(1, 4):
        add(folder, number)
        say(folder, round=number, best_round=number, doing="dev")
        run = shown(watched)
        assert (run.done, run.best_round, run.score) == (f"{number} of 20", number, number / 40)
        assert [it["round"] for it in run.history] == list(range(1, number + 1))
    assert [(it.name, it.state, it.rounds, it.sent) for it in run.platforms] == [
        ("p0", "active", 2, 1_000),
        ("p1", "active", 2, 1_000),
        ("p2", "idle", 2, 1_000),
    ]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line(4))[:40])
    assert shown(watched).round == 3, "a line that is being written waits"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line(4))[40:] + "\n")
    assert shown(watched).round == 4


def test_a_resumed_run_writes_its_rounds_anew(tmp_path):
    folder = begin(tmp_path / "run")
    watched = RunFolder(folder)
    for number in range(1, 6):
        add(folder, number)
    assert shown(watched).sum("up") == 5_000
    for log in ("metrics.jsonl", "ledger.jsonl"):
        text = (folder / log).read_text().splitlines(keepends=True)
        (folder / "new").write_text("".join(it for it in text if json.loads(it)["round"] <= 3))
        (folder / "new").rename(folder / log)
    say(folder, resumed=[{"time": 5.0, "round": 3}])
    run = shown(watched)
    assert (run.round, run.sum("up"), sum(it.sent for it in run.platforms)) == (3, 3_000, 3_000)
    assert [(it.what, it.round) for it in run.events] == [("resumed", 3)]


def test_outliers_and_attempts_that_diverged_are_faults(tmp_path):
    folder = begin(tmp_path / "run")
    (folder / "diverged-1").mkdir()
    (folder / "diverged-1" / "why.json").write_text('{"lr": 5, "why": "a loss of 90"}')
    watched = RunFolder(folder)
    add(folder, 1, suspicions=[{**SUSPICION, "round": 1}])
    run = shown(watched)
    assert {it.name: it.state for it in run.platforms}["p1"] == "left out"
    assert [(it.what, it.platform) for it in run.events] == [
        ("begun again with a smaller learning rate", ""),
        ("left out", "p1"),
    ]
    assert run.events[1].why == "its update is 9 times as long as the median; the limit is 4"
    add(folder, 2)
    assert {it.name: it.state for it in shown(watched).platforms}["p1"] == "idle"


def test_how_a_run_ended(tmp_path):
    folder = begin(tmp_path / "run")
    watched = RunFolder(folder)
    say(folder, state="failed", why="too few platforms", doing="")
    assert (shown(watched).state, shown(watched).why) == ("failed", "too few platforms")
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    say(folder, pid=int(gone.stdout))
    assert shown(watched).state == "interrupted" and shown(watched).ended
    say(folder, pid=int(gone.stdout), host="elsewhere", beat=2e9 - 45)
    assert shown(watched).state == "running" and shown(watched).is_silent, "it may be at work on another machine"
    (folder / "progress.json").unlink()
    assert shown(watched).state == "interrupted", "an earlier version says nothing of itself"
    say(folder)
    add(folder, 1)
    finish(folder, best=1)
    run = shown(watched)
    assert (run.state, run.done, run.doing, run.best_round) == ("done", "1", "", 1)
    assert run.result["test"] == {"ap": 0.6123} and watched.report == folder / "report.html"


def test_next_to_a_coordinators_run_lies_its_status(tmp_path):
    watched = RunFolder(tmp_path / "together", lambda folder: status(beat=100.0))
    found = watched.look(145.0)
    assert (found["run"], found["silent"]) == ("together", 45.0)


@pytest.mark.parametrize("name", ["metrics.jsonl", "ledger.jsonl", "progress.json", "result.json", "experiment.toml"])
@pytest.mark.parametrize("content", ["", "[", '{"round": "x"}\n', "null\n", "[[]]\n", '{"state": 7, "resumed": {}}\n'])
def test_a_damaged_file_is_passed_over(tmp_path, name, content):
    folder = begin(tmp_path / "run")
    add(folder, 1)
    (folder / name).write_text(content)
    assert shown(RunFolder(folder)).name == "run"


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="no run in this folder"):
        RunFolder(tmp_path)
    (tmp_path / "cells").mkdir()
    with pytest.raises(UserError, match=r"a comparison; watch one of the runs in .*cells"):
        RunFolder(tmp_path)
