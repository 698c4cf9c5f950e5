"""`fedrel watch` refuses what makes no sense in one sentence, and a run says what it is doing."""

import json

import pytest

from fedrel import config
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.divergence import begin_again
from fedrel.experiment.execution import Execution
from fedrel.watch.folder import RunFolder
from fedrel.watch.view import view
from tests.watch.small_runs import begin

SMALL = ["data.size=600", "training.rounds=3", "partition.platforms=3", "extractor.filters=8", "extractor.word_dim=5"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere: no run in this folder; a run writes it once its data are prepared"),
        (["folder"], "folder: no run in this folder; a run writes it once its data are prepared"),
        (["run", "--token", "short"], "--token: at least 12 characters"),
        (["run", "--host", "0.0.0.0"], "--host 0.0.0.0: others could read your text"),
        (["kit"], "kit/kit.json: "),
    ],
)
def test_a_mistake_is_one_sentence(refused, tmp_path, arguments, says):
    (tmp_path / "folder").mkdir()
    begin(tmp_path / "run")
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "kit.json").write_text("{")
    assert refused("watch", *arguments).startswith(says)


@pytest.fixture
def experiment():
    return config.read(None, [*SMALL, "training.metric=ap", "engine.workers=1"])


def shown(folder):
    return view([RunFolder(folder).look(2e9)], None, 2e9).runs[0]


def test_a_run_says_what_it_is_doing_and_where_it_was_left(experiment, tmp_path):
    told = []
    folder = tmp_path / "run"
    execution = Execution(prepare(experiment), folder, tick=told.append)
    assert shown(folder).state == "starting"
    rounds = execution.rounds()
    next(rounds)
    run = shown(folder)
    assert (run.state, run.done, len(run.platforms)) == ("running", "1 of 3", 3)
    assert {"show p0", "train p2", "dev"} <= set(told), "whoever else listens still does"
    rounds.close()
    assert shown(folder).state == "stopped"
    resumed = Execution(prepare(experiment), folder, resume=True)
    assert [(it.what, it.round) for it in shown(folder).events] == [("resumed", 1)]
    for _ in resumed.rounds():
        pass
    resumed.finish()
    assert shown(folder).state == "done" and not (folder / "progress.json").exists()


def test_a_run_that_failed_says_why(experiment, tmp_path):
    def fail(ask):
        raise UserError("too few platforms")

    execution = Execution(prepare(experiment), tmp_path / "run")
    execution._exchange = fail
    with pytest.raises(UserError):
        next(execution.rounds())
    assert (shown(tmp_path / "run").state, shown(tmp_path / "run").why) == ("failed", "too few platforms")
    execution.close()


def test_a_run_that_begins_again_finds_a_free_folder(experiment, tmp_path):
    folder = tmp_path / "run"
    Execution(prepare(experiment), folder)
    again = begin_again(experiment, folder, DivergedError("a loss of 90"))
    Execution(prepare(again), folder)
    assert json.loads((folder / "progress.json").read_text())["state"] == "starting"
    assert [it.why for it in shown(folder).events] == ["a loss of 90"]
