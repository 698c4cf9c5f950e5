"""Going on from a finished model: with what is its own, from its own weights, and from nothing that does not fit."""

from dataclasses import replace

import pytest
import torch

from fedrel import Experiment, Run, config, rounds, run
from fedrel.corpus import world
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare, read_experiment
from fedrel.experiment.execution import Execution
from fedrel.experiment.saved import load_model
from fedrel.experiment.starting import IN_FEDERATION, settings_from
from fedrel.learning.model import WORDS
from tests.instances import write

SMALL = {"data.size": 600, "partition.platforms": 2, "extractor.filters": 8, "training.rounds": 1, "training.lr": 0.1}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return run(Experiment().with_(SMALL), out=tmp_path_factory.mktemp("first") / "run").folder


def started(first, *settings):
    return read_experiment(None, settings, start=first)


@pytest.mark.parametrize("method", ["evidence", "none", "att", "fedavgm", "scaffold", "verdicts"])
def test_every_method_begins_with_the_weights_of_the_model(first, method):
    setup = prepare(started(first, f"method.name={method}", "training.optimizer=sgd"))
    saved = load_model(first)
    assert setup.dataset.relations == saved.relations
    assert setup.encoding.vocabulary.words == saved.encoding.vocabulary.words
    for name, value in saved.trained().items():
        assert torch.equal(setup.weights[name], value), name


def test_settings_are_those_of_the_run_but_for_what_is_said(first):
    settings = started(first, "training.rounds=3", "method.name=none")
    before = config.read(first / "experiment.toml")
    assert (settings.data, settings.partition, settings.extractor) == (before.data, before.partition, before.extractor)
    assert settings.method["name"] == "none"
    assert (settings.training.rounds, settings.training.lr) == (3, 0.1)
    assert settings.training.start == str(first)
    assert settings_from(first / "model")["data"]["size"] == 600  # the folder in the run says the same


def test_a_resumed_run_is_the_same_to_the_last_bit(first, tmp_path):
    settings = Experiment(settings_from(first, {"training": {"rounds": 2}, "method": {"name": "none"}}))
    whole = run(settings, out=tmp_path / "whole")
    begun = iter(rounds(settings, out=tmp_path / "cut"))
    next(begun)
    begun.close()
    resumed = run(resume=tmp_path / "cut")
    weights = [load_model(it.folder).weights for it in (whole, resumed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_training_goes_on_where_it_was(first, tmp_path):
    """The first round of a fresh run knows nothing yet; that of one which goes on is no worse than the model."""
    on = run(start=first, out=tmp_path / "on")
    assert on.rounds[0].loss < Run(first).rounds[0].loss


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("extractor.filters=9", "extractor.filters is 8 in .* and 9 here"),
        ("extractor.kind=cnn", 'extractor.kind is "pcnn" in .* and "cnn" here'),
        ("extractor.vocabulary=public", 'extractor.vocabulary is "training"'),
    ],
)
def test_another_extractor_is_refused(first, setting, why):
    with pytest.raises(UserError, match=why):
        prepare(started(first, setting))


def test_other_relations_are_refused_and_fewer_are_not(first, tmp_path):
    made = world.World(size=600)
    relation = made.relations()[1]
    for name, new in (("others", "unheard_of"), ("fewer", "NA")):
        for split in ("train", "dev", "test"):
            rows = [it if it.relation != relation else replace(it, relation=new) for it in made.instances(split)]
            write(tmp_path / name / f"{split}.jsonl", rows)
    setting = ["data.source=opennre", f"data.path={tmp_path / 'others'}"]
    with pytest.raises(UserError, match='the data have "unheard_of", which is none of the 15 relations'):
        prepare(started(first, *setting))
    setup = prepare(started(first, "data.source=opennre", f"data.path={tmp_path / 'fewer'}"))
    assert setup.dataset.relations == load_model(first).relations


def test_a_model_that_is_not_there_is_refused(refused, tmp_path):
    assert "no model in this folder" in refused("run", "--from", tmp_path / "nowhere")


def test_a_federation_refuses_it(first):
    from fedrel.experiment.parties import federated

    with pytest.raises(UserError, match="fedrel run --from") as refusal:
        federated(settings_from(first))
    assert str(refusal.value) == IN_FEDERATION


def test_the_command_line_goes_on(fedrel, first, tmp_path):
    fedrel("run", "--from", first, "--set", "method.name=none", "--out", tmp_path / "next")
    assert config.read(tmp_path / "next" / "experiment.toml").training.start == str(first)
    assert WORDS in load_model(tmp_path / "next").weights


def test_a_feedback_run_needs_no_gold_sentences_if_it_goes_on(first):
    execution = Execution(prepare(started(first, "method.name=feedback", "training.rounds=2")), first.parent / "users")
    assert len(list(execution.rounds())) == 2
    execution.close()
