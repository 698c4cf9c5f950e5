"""A run's rounds and scores for TensorBoard and MLflow, read back with these themselves; and its mistakes on test."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from fedrel import config
from fedrel.errors import UserError
from fedrel.experiment import loggers
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution

SMALL = ["data.size=600", "training.rounds=2", "partition.platforms=3", "extractor.filters=8", "extractor.word_dim=5"]


def run(folder, *settings, rounds=2):
    """A run of two rounds, cut off after the first and resumed if `rounds` is 1."""
    experiment = config.read(None, [*SMALL, "training.metric=ap", *settings])
    execution = Execution(prepare(experiment), folder)
    for done in execution.rounds():
        if done.line["round"] == rounds < 2:
            break
    if rounds < 2:
        execution = Execution(prepare(experiment), folder, resume=True)
        list(execution.rounds())
    return execution.finish()


def of_metrics(folder, part, name):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["round"]: pytest.approx(line[part][name], rel=1e-6) for line in lines}


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs the extra: tensorboard")
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_what_was_logged(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "run"
    result = run(folder, "report.tensorboard=true", rounds=1)
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    for part, name in (("dev", "ap"), ("bytes", "up"), ("selection", "precision")):
        assert {it.step: it.value for it in events.Scalars(f"{part}/{name}")} == of_metrics(folder, part, name)
    assert [it.step for it in events.Scalars("training/loss")] == [1, 2]
    [tested] = events.Scalars("test/ap")
    assert (tested.step, tested.value) == (result["best_round"], pytest.approx(result["test"]["ap"], rel=1e-6))


@pytest.mark.skipif(find_spec("mlflow") is None, reason="needs the extra: mlflow")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_what_was_logged(tmp_path, monkeypatch):
    from mlflow import MlflowClient

    folder, file = tmp_path / "run", tmp_path / "runs.db"
    result = run(folder, f"report.mlflow={file}", rounds=1)
    client = MlflowClient(tracking_uri=f"sqlite:///{file}")
    known = client.get_experiment_by_name("fedrel")
    [logged] = client.search_runs([known.experiment_id])
    assert logged.info.run_id == json.loads((folder / "mlflow.json").read_text())["run"], "resumed, not begun again"
    assert (logged.info.run_name, logged.info.status) == ("run", "FINISHED")
    assert logged.data.params["training.rounds"] == "2"
    for part, name in (("dev", "ap"), ("bytes", "up"), ("selection", "precision")):
        history = client.get_metric_history(logged.info.run_id, f"{part}/{name}")
        assert {it.step: it.value for it in history} == of_metrics(folder, part, name)
    assert logged.data.metrics["test/ap"] == pytest.approx(result["test"]["ap"])
    assert "dev/p_at_100" in logged.data.metrics


@pytest.mark.parametrize(
    ("setting", "package"), [("report.tensorboard=true", "tensorboard"), ("report.mlflow=runs.db", "mlflow")]
)
def test_a_missing_package_is_told_before_the_run(refused, monkeypatch, setting, package):
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    said = refused("run", "--set", setting, "--out", "run")
    assert said == f'{setting.partition("=")[0]} needs {package}; install it with: pip install "fedrel[{package}]"'


def test_a_logger_that_fails_costs_a_line_not_the_run(tmp_path):
    class Broken:
        name = "report.mlflow"

        def log(self, values, round_):
            raise ConnectionError("the server\nis away")

        def close(self, state):
            raise AssertionError("it was left out")

    told = []
    logging = loggers.Loggers(config.Experiment(), told.append)
    logging._all.append(Broken())
    line = {"round": 1, "dev": {}, "selection": None, "bytes": {}, "cohort": []}
    logging.round(line)
    logging.round(line)
    logging.close("FINISHED")
    assert told == ["report.mlflow: the server is away; the run goes on without it"]


def test_a_federation_logs_nowhere_else():
    loggers.refuse_loggers(config.Experiment())
    with pytest.raises(UserError, match="a federation's runs are not logged elsewhere"):
        loggers.refuse_loggers(config.read(None, ["report.mlflow=http://evil.example"]))


def test_what_a_run_says_of_its_test(tmp_path):
    """Confidences in tenths, relations with precision and recall, and mistakes, each as test has it."""
    folder = tmp_path / "run"
    run(folder)
    details = json.loads((folder / "details.json").read_text())
    setup = prepare(config.read(None, [*SMALL, "training.metric=ap"]))
    test = setup.dataset.test
    assert sum(it["count"] for it in details["reliability"]) == len(np.unique(test.pairs))
    facts = {(int(pair), setup.dataset.relations[relation]) for pair, relation in test.facts}
    for row in details["relations"]:
        assert row["facts"] == sum(relation == row["relation"] for _, relation in facts)
        assert row["recall"] == row["right"] / row["facts"]
    for kind, found in details["mistakes"].items():
        for it in found:
            assert (it["relation"] in it["truth"]) == (kind == "missed")
            for sentence in it["sentences"]:
                assert sentence["tokens"] and 0 <= sentence["head"][0] < sentence["head"][1] <= len(sentence["tokens"])
    assert details["mistakes"]["missed"], "so small a model finds little"
    right = sum(row["right"] for row in details["relations"])
    assert right == sum(row["facts"] for row in details["relations"]) - _missed(setup, folder, details["cut"])


def _missed(setup, folder, cut):
    """How many facts of test the saved model scores below the cut."""
    from fedrel.experiment.saved import load_model

    saved = load_model(folder / "model")
    shard = setup.shard_of(setup.dataset.test)
    saved.model.load(saved.weights, shard)
    scores = saved.model.score_bags(shard).numpy()
    return sum(scores[pair, relation] < cut for pair, relation in setup.dataset.test.facts)
