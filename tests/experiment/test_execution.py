"""Whole runs on a tiny world: the folder they leave, resuming, and what they may look at."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrel import config
from fedrel.data.store import pair_bags
from fedrel.errors import DivergedError, UserError
from fedrel.evaluation.heldout import rank
from fedrel.experiment.assembly import prepare, read_experiment
from fedrel.experiment.execution import Execution
from fedrel.experiment.saved import load_model
from tests.helpers import vocabulary_of

TINY = [
    "data.size=600",
    "partition.platforms=4",
    "training.rounds=4",
    "training.fraction=0.5",
    "extractor.filters=8",
    "method.name=lazy-mil",
    "method.warmup=1",
]
PARTS = ("selected", "rejected")
EXACT = ("rounds", "best_round", "dev", "test", "selection", "bytes")


def tiny(*settings) -> config.Experiment:
    return config.read(None, [*TINY, *settings])


def finish(experiment, folder, **options):
    execution = Execution(prepare(experiment), folder, **options)
    for _ in execution.rounds():
        pass
    return execution.finish()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, finish(tiny(), folder)


def test_a_method_that_remembers_goes_on_where_it_was(tmp_path):
    own = [it for it in TINY if not it.startswith("method.")]
    remembering = config.read(None, [*own, "method.name=evidence", "method.narrowing=0"])
    whole = finish(remembering, tmp_path / "whole")
    for progress in Execution(prepare(remembering), tmp_path / "cut").rounds():
        if progress.line["round"] == 2:
            break
    resumed = finish(config.read(tmp_path / "cut" / "experiment.toml"), tmp_path / "cut", resume=True)
    assert {key: resumed[key] for key in EXACT} == {key: whole[key] for key in EXACT}


@pytest.mark.parametrize("cut", [0, 1, 3, 4])
def test_a_resumed_run_equals_an_uninterrupted_one(finished, tmp_path, cut):
    folder = tmp_path / "cut"
    execution = Execution(prepare(tiny()), folder)
    if cut:
        for progress in execution.rounds():
            if progress.line["round"] == cut:
                break
    result = finish(config.read(folder / "experiment.toml"), folder, resume=True)
    assert {key: result[key] for key in EXACT} == {key: finished[1][key] for key in EXACT}
    assert (folder / "model" / "weights.safetensors").read_bytes() == (
        finished[0] / "model" / "weights.safetensors"
    ).read_bytes()
    assert (folder / "ledger.jsonl").read_text() == (finished[0] / "ledger.jsonl").read_text()
    assert [line["round"] for line in lines(folder / "metrics.jsonl")] == [1, 2, 3, 4]


def test_a_round_that_was_cut_off_leaves_no_trace(finished, tmp_path):
    folder = tmp_path / "cut"
    execution = Execution(prepare(tiny()), folder)
    next(execution.rounds())
    # As a kill between the log and the checkpoint would leave it: a logged round that does not count, half a line.
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"round": 2}) + '\n{"rou')
    with (folder / "ledger.jsonl").open("a") as file:
        file.write(json.dumps({"round": 2, "platform": "p0"}) + "\n")
    result = finish(config.read(folder / "experiment.toml"), folder, resume=True)
    assert {key: result[key] for key in EXACT} == {key: finished[1][key] for key in EXACT}
    assert (folder / "ledger.jsonl").read_text() == (finished[0] / "ledger.jsonl").read_text()


def test_the_ledger_holds_every_byte_that_went_up(finished):
    folder, result = finished
    ledger = lines(folder / "ledger.jsonl")
    assert sum(line["bytes"] for line in ledger) == result["bytes"]["up"]
    by_round = {line["round"]: line["bytes"]["up"] for line in lines(folder / "metrics.jsonl")}
    for number, total in by_round.items():
        assert sum(line["bytes"] for line in ledger if line["round"] == number) == total
    assert set(ledger[0]) == {"round", "platform", "task", "field", "shape", "bytes"}


def test_the_test_split_is_not_read_before_the_end(tmp_path):
    execution = Execution(prepare(tiny("data.seed=77")), tmp_path / "run")
    stored = execution.setup.dataset.folder
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    columns = list(stored.glob("test.*.npy"))
    assert columns
    for column in columns:
        column.rename(hidden / column.name)
    try:
        for _ in execution.rounds():
            pass
        with pytest.raises(FileNotFoundError):
            execution.finish()
    finally:
        for column in columns:
            (hidden / column.name).rename(column)
    assert execution.finish()["test"]["ap"] > 0


def test_the_vocabulary_comes_from_training_text_alone():
    setup = prepare(tiny("extractor.min_count=1"))
    train = {setup.dataset.words[i].lower() for i in np.unique(setup.dataset.train.tokens)}
    assert set(vocabulary_of(setup).words[2:]) == train


def test_every_sentence_lives_on_exactly_one_platform():
    setup = prepare(tiny())
    rows = np.concatenate([setup.sites[name].shard.rows for name in setup.sites])
    assert sorted(rows.tolist()) == list(range(len(setup.dataset.train)))


STOPPING = ["method.warmup=0", "training.rounds=30", "training.patience=2", "training.lr=0.01"]


def test_early_stopping_keeps_the_best_dev_round(tmp_path):
    result = finish(tiny(*STOPPING, "data.size=2000"), tmp_path / "run")
    dev = [line["dev"]["ap"] for line in lines(tmp_path / "run" / "metrics.jsonl")]
    assert result["best_round"] == int(np.argmax(dev)) + 1
    assert result["rounds"] == min(result["best_round"] + 2, 30)
    assert result["dev"]["ap"] == max(dev)


def test_a_dev_set_of_few_facts_stops_a_run_but_does_not_choose_its_round(tmp_path):
    setup = prepare(tiny(*STOPPING))
    assert len(setup.dataset.dev.facts) < 30
    result = finish(tiny(*STOPPING), tmp_path / "run")
    dev = [line["dev"]["ap"] for line in lines(tmp_path / "run" / "metrics.jsonl")]
    assert result["rounds"] == int(np.argmax(dev)) + 1 + 2 < 30
    assert result["best_round"] == result["rounds"] and result["dev"]["ap"] == dev[-1] < max(dev)
    assert any("and the last round is kept" in line for line in result["too_little"])


def test_rounds_of_warm_up_are_no_results_and_do_not_wear_patience_out(tmp_path):
    settings = ["method.warmup=5", "training.rounds=8", "training.patience=2", "training.lr=0.001"]
    result = finish(tiny(*settings), tmp_path / "run")
    assert result["best_round"] > 5
    assert result["selection"] is not None


def test_a_method_that_still_changes_is_not_given_up(tmp_path):
    own = [it for it in TINY if not it.startswith("method.")]
    settings = ["method.name=evidence", "method.narrowing=0.6", "training.rounds=10", "training.patience=1"]
    result = finish(config.read(None, [*own, *settings, "training.lr=1e-12"]), tmp_path / "run")
    assert result["best_round"] == 7  # of equal rounds the last, but patience counts from the first
    assert result["rounds"] == 7  # six in which the margin narrows, and one of patience


def test_changed_data_is_not_gone_on_with(tmp_path):
    next(Execution(prepare(tiny()), tmp_path / "run").rounds())
    with pytest.raises(UserError, match="the data has changed"):
        Execution(prepare(tiny("data.seed=5")), tmp_path / "run", resume=True)


def test_a_step_that_wipes_the_weights_out_is_refused():
    with pytest.raises(UserError, match="must be below 1"):
        prepare(tiny("training.lr=1", "training.weight_decay=1"))


def test_the_server_cannot_blind_facts():
    setup = prepare(tiny())
    with pytest.raises(RuntimeError, match="no key"):
        setup.hub.fact_keys()


def test_the_saved_model_gives_the_reported_scores(finished):
    folder, result = finished
    saved = load_model(folder / "model")
    dataset = prepare(tiny()).dataset
    rows, starts = pair_bags(dataset.test)
    shard = saved.encoding.pack(dataset.test, rows, starts, saved.encoding.numbers(dataset.words))
    saved.model.load(saved.weights, shard)
    again = rank(saved.model.score_bags(shard).numpy(), dataset.test.facts).metrics()
    assert again == result["test"]


@pytest.mark.parametrize("embeddings", ["trainable", "frozen"])
@pytest.mark.parametrize("method", ["none", "one", "ave", "att", "att-own", "att-ra", "centralised"])
def test_every_method_runs_to_a_result(method, embeddings, tmp_path):
    settings = [f"method.name={method}", f"extractor.embeddings={embeddings}", "training.rounds=2"]
    experiment = config.read(None, [*(s for s in TINY if not s.startswith("method")), *settings])
    result = finish(experiment, tmp_path / "run")
    assert 0 < result["test"]["ap"] <= 1
    words = [line for line in lines(tmp_path / "run" / "ledger.jsonl") if "words" in line["field"]]
    assert bool(words) == (embeddings == "trainable")
    assert load_model(tmp_path / "run" / "model").relations[0] == "NA"


def test_the_other_extractor_runs_too(tmp_path):
    assert finish(tiny("extractor.kind=cnn", "extractor.window=5", "extractor.activation=relu"), tmp_path / "run")


def test_a_loss_that_is_no_number_names_the_platform_and_keeps_the_checkpoint(tmp_path):
    experiment = tiny()
    execution = Execution(prepare(experiment), tmp_path / "run")
    next(execution.rounds())
    broken = replace(experiment, training=replace(experiment.training, lr=1e30, lr_auto=False, weight_decay=0.0))
    setup = prepare(broken)
    resumed = Execution(setup, tmp_path / "run", resume=True)
    with pytest.raises(DivergedError, match=r"round 2, platform p\d: .*training\.lr"):
        list(resumed.rounds())
    result = finish(experiment, tmp_path / "run", resume=True)  # the last good round is still there
    assert result["rounds"] == 4


def test_a_damaged_checkpoint_is_refused_in_words(tmp_path):
    execution = Execution(prepare(tiny()), tmp_path / "run")
    next(execution.rounds())
    path = tmp_path / "run" / "checkpoint" / "round.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(UserError, match=r"round\.safetensors: damaged"):
        Execution(prepare(tiny()), tmp_path / "run", resume=True)


def test_damaged_best_weights_are_refused_before_more_rounds_are_trained(tmp_path):
    execution = Execution(prepare(tiny()), tmp_path / "run")
    rounds = execution.rounds()
    while not next(rounds).best_round:
        pass
    path = tmp_path / "run" / "checkpoint" / "best.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"best\.safetensors: damaged"):
        Execution(prepare(tiny()), tmp_path / "run", resume=True)


def test_selection_is_measured_where_the_truth_is_known(finished):
    folder, result = finished
    by_round = {line["round"]: line["selection"] for line in lines(folder / "metrics.jsonl")}
    assert by_round[1] is None  # warm-up
    assert by_round[2]["precision"] > 0
    assert result["selection"] == by_round[result["best_round"]]


def test_a_denoiser_that_chooses_within_bags_is_measured_in_every_round(tmp_path):
    own = [it for it in TINY if not it.startswith(("method.", "training.fraction"))]
    result = finish(config.read(None, [*own, "method.name=one"]), tmp_path / "run")
    by_round = [line["selection"] for line in lines(tmp_path / "run" / "metrics.jsonl")]
    assert len({it["precision"] for it in by_round}) > 1  # chosen anew
    assert result["selection"] == by_round[result["best_round"] - 1]  # everybody is active: the same sentences


def test_the_page_shows_whom_remembered_evidence_keeps_and_rejects(tmp_path):
    own = [it for it in TINY if not it.startswith("method.")]
    settings = [
        "method.name=evidence",
        "method.narrowing=0.5",
        "method.rounding=0",
        "method.early=0",
        "extractor.hide_names=0",
    ]
    finish(config.read(None, [*own, *settings]), tmp_path / "run")
    shown = json.loads((tmp_path / "run" / "details.json").read_text())["examples"]
    assert shown
    for fact in shown:
        kept, rejected = ([math.log(it["score"] / (1 - it["score"])) for it in fact[part]] for part in PARTS)
        assert max(kept) - min(kept) <= 1 + 1e-4
        assert max(rejected) < max(kept) - 1 + 1e-4


def test_threads_do_not_leak_randomness():
    torch.manual_seed(9)
    expected = torch.rand(1)
    torch.manual_seed(9)
    prepare(tiny())
    assert torch.equal(torch.rand(1), expected)


def test_platforms_may_hold_one_fact_or_sentence(tmp_path):
    """numpy takes a tensor of one element, as an index, for a number."""
    result = finish(tiny("partition.platforms=300", "training.rounds=1", "method.warmup=0"), tmp_path / "run")
    assert 0 < result["selection"]["precision"] <= 1


def test_an_extractor_that_nobody_provides_is_refused(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text('seed = 1\n[extractor]\nkind = "pcn"\n')
    with pytest.raises(UserError, match=r'e.toml:3: extractor.kind = "pcn" is no extractor; did you mean "pcnn"'):
        read_experiment(path)
    with pytest.raises(UserError, match=r'extractor.kind = "nonsense" is no extractor; there is bag, bert'):
        prepare(tiny("extractor.kind=nonsense"))
