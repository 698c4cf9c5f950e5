"""Where the coordinator has no dev or test set, platforms judge the model by what they hold out, and tell counts."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrel import config
from fedrel.engines.remote import Failure, TooFewError
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.parties import coordinate, federated
from fedrel.learning.named import Named
from fedrel.protocol.codec import decode, encode
from fedrel.report.page import write_report
from tests.deployment import Deployment
from tests.parity.consortium import PLATFORMS, Consortium, read, write_world

# The view of a finished model is chosen on dev, which would ask platforms twice more; test_views.py has that
LAZY = ("method.name=lazy-mil", "method.warmup=1", "extractor.embeddings=trainable", "extractor.hide_names=0")
LAYOUTS = ("carved", "files", "mixed", "public dev", "public test")


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("public") / "world")


def lay_out(public, folder, layout):
    """The same world with what the coordinator judged by among the platforms, or nowhere."""
    world = shutil.copytree(public, folder)
    for split in ("dev", "test"):
        if layout == f"public {split}":
            continue
        file = world / "coordinator" / f"{split}.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        having = {"files": PLATFORMS, "mixed": PLATFORMS[:1]}.get(layout, ())
        for number, name in enumerate(having):
            part = sorted({pair_of(line) for line in lines})[number :: len(having)]
            (world / name / f"{split}.jsonl").write_text("".join(line for line in lines if pair_of(line) in set(part)))
        file.unlink()
    return world


def pair_of(line):
    row = json.loads(line)
    return row["h"]["id"], row["t"]["id"]


def run(execution):
    progress = [done.line for done in execution.rounds()]
    return progress, execution.finish()


def together(experiment, folder):
    execution = Execution(prepare(experiment), folder)
    return execution, *run(execution)


@pytest.fixture
def apart(tmp_path):
    """A consortium that has begun."""
    begun = []

    def begin(world, experiment):
        consortium = Consortium(world, tmp_path / f"homes-{len(begun)}", experiment)
        consortium.begin()
        begun.append(consortium)
        return consortium

    yield begin
    for consortium in begun:
        consortium.close()


def without_times(line):
    return {name: value for name, value in line.items() if name not in ("seconds", "sentences_per_second", "selection")}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", ["ap", "micro_f1"])
def test_a_federation_and_one_process_agree_to_the_last_bit(public, apart, tmp_path, layout, metric):
    world = lay_out(public, tmp_path / "world", layout)
    shared = f"data.allow_overlap={'true' if layout == 'mixed' else 'false'}"  # see the note that such data get
    experiment = read(world, *LAZY, f"training.metric={metric}", "training.fraction=0.67", shared)
    alone, lines, result = together(experiment, tmp_path / "together")
    consortium = apart(world, experiment)
    execution = consortium.execution(tmp_path / "apart")
    their_lines, theirs = run(execution)
    assert consortium.failures == []
    assert list(map(without_times, their_lines)) == list(map(without_times, lines))
    for key in ("dev", "test", "best_round", "calibration", "bytes", "held_out"):
        assert theirs[key] == result[key], key
    learnt, other = execution.state["weights"], alone.state["weights"]
    assert all(torch.equal(learnt[name], other[name]) for name in other)
    homes = {"public dev": ("test",), "public test": ("dev",)}.get(layout, ("dev", "test"))
    assert result["held_out"] == {split: {"without": []} for split in homes}
    ledgers = [(tmp_path / folder / "ledger.jsonl").read_text() for folder in ("together", "apart")]
    assert ledgers[0] == ledgers[1]
    assert sum(json.loads(line)["bytes"] for line in ledgers[0].splitlines()) == result["bytes"]["up"]
    assert all("p0" in write_report(tmp_path / folder).read_text() for folder in ("together", "apart"))


def test_plain_texts_are_held_out_too(apart, tmp_path):
    world = tmp_path / "world"
    for name in (*PLATFORMS, "coordinator"):
        rows = [f"{'good' if n % 2 else 'bad'} film, it's number {n} of {name}\t{n % 2}\n" for n in range(80)]
        (world / name).mkdir(parents=True)
        (world / name / "train.tsv").write_text("".join(rows))
    settings = {
        "data": {"source": "classification", "path": str(world), "relations": ["0", "1"]},
        "extractor": {"kind": "text", "embeddings": "trainable", "filters": 8},
        "method": {"name": "fedavg"},
        "training": {"rounds": 2, "metric": "accuracy"},
        "engine": {"workers": 1, "device": "cpu", "public_seeds": True},
    }
    experiment = config.parse(federated(settings))
    _, lines, result = together(experiment, tmp_path / "together")
    their_lines, theirs = run(apart(world, experiment).execution(tmp_path / "apart"))
    assert [line["dev"] for line in their_lines] == [line["dev"] for line in lines]
    assert theirs["test"] == result["test"]
    assert theirs["calibration"] == result["calibration"]
    details = json.loads((tmp_path / "apart" / "details.json").read_text())
    assert np.sum(details["confusion"]["counts"]) == sum(prepare(experiment).dataset.held_out["test"].values()) > 9
    assert theirs["test"]["accuracy"] == np.trace(details["confusion"]["counts"]) / np.sum(
        details["confusion"]["counts"]
    )


# --------------------------------------------------------------------------------------------- what can go wrong


@pytest.fixture(scope="module")
def carved(public, tmp_path_factory):
    return lay_out(public, tmp_path_factory.mktemp("carved") / "world", "carved")


def meddle(consortium, change):
    """`change` sees every answer: task, platform and what arrived."""
    carry = consortium.engine.carry

    def carried(task, round_, messages, most):
        return {name: change(task, round_, name, it) for name, it in carry(task, round_, messages, most).items()}

    consortium.engine.carry = carried


def test_a_platform_that_does_not_answer_is_left_out_and_named(carved, apart, tmp_path, fedrel):
    consortium = apart(carved, read(carved, *LAZY))
    meddle(
        consortium,
        lambda task, round_, name, it: Failure("away") if name == "p1" and task == "rank" and round_ != 1 else it,
    )
    lines, result = run(consortium.execution(tmp_path / "run"))
    assert [line["dev_without"] for line in lines] == [["p1"], [], ["p1"]]
    assert consortium.failures == [("p1", "away")] * 3
    assert result["held_out"]["test"] == {"without": ["p1"]}
    assert "test was scored by the platforms" in (shown := fedrel("show", tmp_path / "run").out)
    assert "without p1" in shown
    assert "not by p1, who did not answer" in write_report(tmp_path / "run").read_text()
    others = apart(carved, read(carved, *LAZY))
    their_lines, _ = run(others.execution(tmp_path / "others"))
    assert their_lines[1]["dev"] == lines[1]["dev"]
    assert their_lines[2]["dev"] != lines[2]["dev"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: it | {"right": -it["right"] - 1}, "refused: ranking/right holds numbers that are no counts"),
        (lambda it: it | {"bin": it["bin"].flip(0)}, "refused: ranking/bin holds numbers that are no places in rising"),
        (lambda it: it | {"bin": it["bin"] + 10**6}, "refused: ranking/bin holds numbers that are no places in rising"),
        (lambda it: it | {"wrong": it["wrong"][1:]}, "refused: ranking/wrong has shape"),
        (lambda it: it | {"right": it["right"].double()}, "refused: ranking/right is of float64 where int32"),
        (lambda it: it | {"pair": it["bin"]}, "refused: 'ranking/pair' is not part of this reply"),
    ],
)
def test_a_histogram_that_is_none_is_refused(carved, apart, tmp_path, change, why):
    consortium = apart(carved, read(carved, *LAZY, "training.rounds=1"))

    def garbled(task, round_, name, it):
        if task != "rank" or name != "p2":
            return it
        return encode({"ranking": Named(change(decode(it)["ranking"]))})

    meddle(consortium, garbled)
    lines, _ = run(consortium.execution(tmp_path / "run"))
    assert lines[0]["dev_without"] == ["p2"]
    platform, told = consortium.failures[0]
    assert platform == "p2"
    assert told.startswith(why)


def test_a_round_that_too_few_could_judge_is_repeated(carved, apart, tmp_path):
    experiment = read(carved, *LAZY)
    undisturbed = apart(carved, experiment).execution(tmp_path / "undisturbed")
    expected = run(undisturbed)
    consortium = apart(carved, experiment)
    away = {("rank", 1), ("rank", 3), ("calibrate", 3)}  # dev of a round, and at the end test and calibration

    def once(task, round_, name, it):
        return Failure("away") if (task, round_) in away else it

    meddle(consortium, once)
    execution = consortium.execution(tmp_path / "run")
    for missing in (("rank", 1), ("calibrate", 3), ("rank", 3)):
        with pytest.raises(TooFewError, match=f"0 of 3 platforms answered {missing[0]}"):
            run(execution)
        away.discard(missing)
        consortium.attempt += 1
    again = run(execution)
    written = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["dev"] for line in written] == [line["dev"] for line in expected[0]]
    for key in ("dev", "test", "best_round", "calibration"):
        assert again[1][key] == expected[1][key]
    learnt, other = execution.state["weights"], undisturbed.state["weights"]
    assert all(torch.equal(learnt[name], other[name]) for name in other)


def test_a_policy_can_keep_the_counts_at_home(carved, tmp_path):
    consortium = Consortium(carved, tmp_path / "homes", read(carved, *LAZY, "training.rounds=1"))
    (tmp_path / "homes" / "p0" / "local").mkdir(parents=True)
    (tmp_path / "homes" / "p0" / "local" / "policy.toml").write_text('[fields]\nforbid = ["ranking"]\n')
    consortium.begin()
    lines, _ = run(consortium.execution(tmp_path / "run"))
    consortium.close()
    assert lines[0]["dev_without"] == ["p0"]
    assert "its policy forbids the field ranking/" in consortium.failures[0][1]


def test_with_public_sentences_nobody_is_asked_and_nobody_can_be(public, apart, tmp_path):
    consortium = apart(public, read(public, *LAZY, "training.rounds=1"))
    lines, result = run(consortium.execution(tmp_path / "run"))
    assert "held_out" not in result
    assert "dev_without" not in lines[0]
    tasks = {json.loads(line)["task"] for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()}
    assert not tasks & {"rank", "classify", "calibrate"}
    message = encode({"weights": consortium.coordination.setup.weights, "test": 0.0})
    assert isinstance(consortium.ask("p0", "rank", 1, message), Failure)


def test_feedback_needs_public_sentences(carved):
    experiment = read(carved, "method.name=feedback", "extractor.embeddings=trainable")
    for build in (prepare, lambda it: coordinate(it, carved / "coordinator", PLATFORMS)):
        with pytest.raises(UserError, match="Feedback needs gold sentences at the coordinator; add a dev file"):
            build(experiment)


def test_a_coordinator_may_have_nothing_at_all(public, apart, tmp_path):
    world = lay_out(public, tmp_path / "world", "carved")
    (world / "coordinator" / "train.jsonl").unlink()
    settings = ["method.name=fedavg", "partition.server=0", "training.rounds=1"]
    with pytest.raises(UserError, match="the coordinator has no text and there are no word vectors"):
        prepare(read(world, *settings, "extractor.embeddings=trainable"))
    experiment = read(world, *settings, "extractor.vectors=glove", "extractor.embeddings=frozen")
    _, lines, result = together(experiment, tmp_path / "together")
    their_lines, theirs = run(apart(world, experiment).execution(tmp_path / "apart"))
    assert their_lines[0]["dev"] == lines[0]["dev"]
    assert theirs["test"] == result["test"]


def test_all_text_in_one_place_is_judged_exactly(carved, tmp_path):
    experiment = read(carved, "method.name=centralised", "extractor.embeddings=trainable", "training.rounds=1")
    experiment = replace(experiment, extractor=replace(experiment.extractor, vocabulary="training"))
    setup = prepare(experiment)
    assert setup.at_home == ()
    assert "held_out" not in together(experiment, tmp_path / "run")[-1]
    assert len(setup.dataset.dev) == sum(setup.dataset.held_out["dev"].values())


def test_an_interrupted_run_goes_on(carved, tmp_path):
    experiment = read(carved, *LAZY)
    _, lines, result = together(experiment, tmp_path / "whole")
    begun = Execution(prepare(experiment), tmp_path / "broken")
    next(begun.rounds())
    resumed = Execution(prepare(experiment), tmp_path / "broken", resume=True)
    more, other = run(resumed)
    assert [line["dev"] for line in more] == [line["dev"] for line in lines[1:]]
    for key in ("test", "calibration", "bytes"):
        assert other[key] == result[key]


def test_what_platforms_hold_out_is_written_to_their_own_folders(carved, tmp_path, fedrel):
    done = fedrel("data", "partition", carved / "experiment.toml", "--out", tmp_path / "again")
    assert done.code == 0
    assert not (tmp_path / "again" / "coordinator" / "dev.jsonl").exists()
    before, after = (prepare(read(world, *LAZY)).dataset for world in (carved, tmp_path / "again"))
    assert (before.held, before.held_out) == (after.held, after.held_out)
    assert before.meta["sentences"] == after.meta["sentences"]
    assert any("each one pair in 10 of its train" in note for note in before.notes)
    assert any("each a file of its own" in note for note in after.notes)


@pytest.mark.slow
def test_a_real_federation_without_public_sentences(carved, tmp_path):
    experiment = read(carved, *LAZY)
    _, lines, result = together(experiment, tmp_path / "together")
    with Deployment(tmp_path, carved) as federation:
        theirs = federation.train("home", *LAZY)
    for key in ("dev", "test", "best_round", "calibration", "held_out"):
        assert theirs[key] == result[key]
    written = (tmp_path / "runs" / "home" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["dev"] for line in written] == [line["dev"] for line in lines]
