"""Learning from verdicts: what is learnt from, what it weighs, and what leaves a platform."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrel import config
from fedrel.engines import simulator
from fedrel.errors import UserError
from fedrel.experiment.assembly import complete, prepare
from fedrel.experiment.execution import Execution
from fedrel.feedback import losses
from fedrel.feedback.judges import SimulatedUsers
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.reliability import half_wrong, trust
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Store
from fedrel.feedback.stored_verdicts import StoredVerdicts
from fedrel.learning.losses import Output
from fedrel.learning.named import Named
from fedrel.protocol.codec import encode
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.site import Notes

WORDS = {"good": ("fine", "great", "lovely", "warm"), "bad": ("poor", "dull", "grim", "cold")}
TINY = ["data.source=classification", "data.dev=0.2", "extractor.kind=bag", "extractor.min_count=1"]
TINY += ["partition.platforms=4", "partition.server=0.2", "training.rounds=3", "training.batch=8", "training.lr=0.05"]
TINY += ["method.name=feedback", "engine.workers=1", "data.allow_overlap=true"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    draw = np.random.default_rng(1)
    for split, count in (("train", 160), ("test", 60)):
        rows = []
        for number in range(count):
            label = ("good", "bad")[number % 2]
            rows.append(f"{' '.join(draw.choice(WORDS[label], 3))} planted{number} {split}\t{label}\n")
        (folder / f"{split}.tsv").write_text("".join(rows))
    return folder


def tiny(texts, *settings) -> config.Experiment:
    return config.read(None, [*TINY, f"data.path={texts}", *settings])


def collected(setup, name="p0"):
    """The platform after its users have spoken, and the message that they saw."""
    flow = setup.algorithm.round(setup.hub, setup.algorithm.start(setup.weights), [name])
    ask = next(flow)
    assert ask.task == "collect"
    assert set(ask.to) == set(setup.sites)
    site = replace(setup.sites[name], notes=Notes())
    assert setup.algorithm.collect(site, ask.to[name]) == {}
    return site, ask.to[name]


def test_users_who_are_always_right_tell_the_truth(texts):
    setup = prepare(tiny(texts))
    site, _ = collected(setup)
    verdicts = named_in(site.memory, "verdicts")
    assert ((verdicts["given"] == site.shard.labels) == (verdicts["verdict"] == 1)).all()


@pytest.mark.parametrize(("use", "wanted"), [("all", [0, 1, 2]), ("positive", [0]), ("self-training", [0, 1, 2, 3])])
def test_what_is_learnt_from(texts, use, wanted):
    setup = prepare(tiny(texts, f"method.use={use}"))
    site, _ = collected(setup)
    said = torch.full((len(site.shard),), -1, dtype=torch.int8)
    said[:3] = torch.tensor([1, 0, 0])
    site.memory["verdicts"] = Named(named_in(site.memory, "verdicts") | {"verdict": said})
    chosen = setup.algorithm.chosen(site, {}).tolist()
    assert chosen == (wanted if use != "self-training" else list(range(len(site.shard))))


def test_the_loss_is_the_papers_mix(texts):
    setup = prepare(tiny(texts, "method.p=0.5"))
    site, message = collected(setup)
    q = named_in(site.memory, "verdicts")["q"]
    given = torch.tensor([0, 1, 1, 0])
    site.memory["verdicts"] = Named(given=given, verdict=torch.tensor([1, 0, 1, 0]), q=q)
    site.round = 3  # t = 2: α = 1 - .25
    logits = torch.randn(4, 2)
    loss = setup.algorithm.loss(site, message)
    assert loss is not None
    found = loss(Output(torch.zeros(4, 1), logits, torch.zeros(4, dtype=torch.int64), torch.arange(4)))
    accepted = torch.nn.functional.cross_entropy(logits[[0, 2]], given[[0, 2]])
    other = torch.nn.functional.cross_entropy(logits[[1, 3]], 1 - given[[1, 3]])  # of two classes, the other one
    torch.testing.assert_close(found, 0.25 * accepted + 0.75 * other)


def test_the_robust_mix_is_finite_whatever_a_batch_holds(texts):
    setup = prepare(tiny(texts, "method.robust=true"))
    site, message = collected(setup)
    loss = setup.algorithm.loss(replace(site, round=2), message)
    for places in ([0], [1, 2], list(range(8))):
        at = torch.tensor(places)
        value = loss(Output(torch.zeros(len(at), 1), torch.randn(len(at), 2) * 50, site.shard.labels[at], at))
        assert torch.isfinite(value)


def test_a_platform_whose_users_accept_nothing_stays_silent(texts):
    setup = prepare(tiny(texts, "method.use=positive"))
    site, message = collected(setup)
    verdicts = named_in(site.memory, "verdicts")
    site.memory["verdicts"] = Named(verdicts | {"verdict": torch.zeros_like(verdicts["verdict"])})
    assert setup.algorithm.train(site, message) == {}
    assert setup.algorithm.train(replace(site, notes=Notes()), message) == {}  # it was away when they were collected


def test_noise_free_feedback_on_two_classes_is_worth_the_labels(texts, tmp_path):
    found = {}
    for name, settings in (("all", []), ("full", ["method.name=fedavg"])):
        execution = Execution(prepare(tiny(texts, "training.rounds=8", *settings)), tmp_path / name)
        for _ in execution.rounds():
            pass
        found[name] = execution.finish()["test"]["accuracy"]
    assert found["all"] > 0.9 and found["full"] > 0.9


# ------------------------------------------------------------------------------------------------- reliability


def test_trust():
    truth = torch.tensor([0, 1] * 10)
    given = torch.tensor([0, 0] * 10)  # every second one is right
    right = (given == truth).to(torch.int8)
    assert trust(given, right, truth) == pytest.approx(11 / 12 + 11 / 12 - 1)
    assert trust(given, 1 - right, truth) == 0.0
    assert trust(given, torch.full_like(right, -1), truth) == 0.0


def test_half_of_the_probes_are_shown_with_a_wrong_label():
    truth = torch.tensor([0, 2, 1, 1, 2])
    assert half_wrong(truth, 3, 7).tolist() == [0, 0, 1, 2, 2, 0, 0]


@pytest.mark.parametrize(("gamma", "delta", "worth"), [(1, 1, True), (1, 0, False), (0, 1, False), (0, 0, False)])
def test_only_users_who_tell_right_from_wrong_are_trusted(texts, gamma, delta, worth):
    settings = ["method.reliability=estimated", f"feedback.gamma={gamma}", f"feedback.delta={delta}"]
    site, _ = collected(prepare(tiny(texts, *settings)))
    trusted = number_in(site.memory, "trust")
    assert trusted > 0.5 if worth else trusted == pytest.approx(0, abs=0.1)  # an odd number is not half and half


def test_an_update_weighs_what_its_users_are_worth(texts):
    weights = {}
    for users, gamma in (("honest", 1.0), ("reversed", 0.0)):
        settings = ["method.reliability=estimated", f"feedback.gamma={gamma}", f"feedback.delta={gamma}"]
        setup = prepare(tiny(texts, *settings))
        site, message = collected(setup)
        reply = setup.algorithm.train(replace(site, round=1), message)
        weights[users] = number_in(reply, "sentences")
    assert weights["reversed"] == 0
    assert weights["honest"] > 0


# ------------------------------------------------------------------------------------------- what leaves, what stays


def test_no_verdict_text_or_user_leaves(texts, tmp_path):
    execution = Execution(prepare(tiny(texts, "feedback.gamma=0.7")), tmp_path / "run")
    for _ in execution.rounds():
        pass
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert {line["field"] for line in lines if line["task"] == "collect"} == {"(header)"}
    fields = {line["field"] for line in lines if line["task"] == "train"}
    assert all(field in ("(header)", "sentences", "loss") or field.startswith("weights/") for field in fields)
    assert "planted" not in (tmp_path / "run" / "ledger.jsonl").read_text()


def test_no_message_holds_a_planted_word_or_a_reviewers_name(texts, tmp_path, monkeypatch):
    """The bytes themselves, in both directions, with verdicts that a person gave."""
    setup = prepare(tiny(texts))
    with Store.open(tmp_path / "p.sqlite") as store:
        for row in setup.sites["p0"].shard.rows.tolist():
            key = sentence_key(setup.dataset.sentence(setup.dataset.train, row), [0, 0, 0, 0])
            store.give(store.show(key, "good", 0.9, "modelofyesterday"), "reviewerann", RIGHT)
    messages = []

    def recorded(record, *rest, **options):
        messages.append(bytes(encode(record, *rest, **options)))
        return bytearray(messages[-1])

    monkeypatch.setattr(simulator, "encode", recorded)
    settings = [f"feedback.store={tmp_path / 'p.sqlite'}", "training.patience=9"]
    execution = Execution(prepare(tiny(texts, *settings)), tmp_path / "run")
    assert len(list(execution.rounds())) == 3
    assert len(messages) > 8
    with Store.open(tmp_path / "p.sqlite") as store:
        keys = [verdict.key.encode() for verdict in store.standing()]
    assert keys
    for secret in (b"planted", b"reviewerann", b"modelofyesterday", *keys):
        assert not any(secret in message for message in messages)


def test_a_resumed_run_remembers_the_verdicts(texts, tmp_path):
    experiment = tiny(texts, "feedback.gamma=0.8", "feedback.delta=0.6", "training.patience=9")
    whole = Execution(prepare(experiment), tmp_path / "whole")
    scores = [progress.line["dev"] for progress in whole.rounds()]
    cut = Execution(prepare(experiment), tmp_path / "cut")
    rounds = cut.rounds()
    next(rounds), next(rounds)
    again = Execution(prepare(experiment), tmp_path / "cut", resume=True)
    assert [progress.line["dev"] for progress in again.rounds()] == scores[2:]


def test_verdicts_of_people_are_found_again_by_their_sentences(texts, tmp_path):
    setup = prepare(tiny(texts))
    train = setup.dataset.train
    rows = setup.sites["p0"].shard.rows.tolist()
    with Store.open(tmp_path / "p0.sqlite") as store:
        for row, label, verdict in ((rows[0], "bad", RIGHT), (rows[1], "good", WRONG), (rows[2], "good", UNKNOWN)):
            key = sentence_key(setup.dataset.sentence(train, row), [0, 0, 0, 0])
            store.give(store.show(key, label, 0.9, "model"), "ann", verdict)
    for path in (tmp_path / "p0.sqlite", tmp_path):
        again = prepare(tiny(texts, f"feedback.store={path}"))
        site = again.sites["p0"]
        predicted = torch.zeros(len(site.shard), dtype=torch.int64)
        given, verdict = site.judge(site.shard, predicted, "collect")
        bad, good = again.dataset.relations.index("bad"), again.dataset.relations.index("good")
        assert given[:2].tolist() == [bad, good]
        assert verdict[:4].tolist() == [1, 0, -1, -1]
        assert (verdict[2:] == -1).all()


def test_where_people_disagree_most_of_them_count(texts, tmp_path):
    setup = prepare(tiny(texts))
    rows = setup.sites["p0"].shard.rows.tolist()
    said = [
        [("good", "ann", RIGHT), ("good", "bert", WRONG)],
        [("good", "ann", RIGHT), ("good", "bert", WRONG), ("bad", "ann", RIGHT)],
        [("bad", "ann", WRONG), ("good", "bert", WRONG), ("bad", "bert", WRONG)],
        [("unheard of", "ann", RIGHT)],
    ]
    with Store.open(tmp_path / "p.sqlite") as store:
        for row, verdicts in zip(rows, said, strict=False):
            key = sentence_key(setup.dataset.sentence(setup.dataset.train, row), [0, 0, 0, 0])
            for label, user, verdict in verdicts:
                store.give(store.show(key, label, 0.9, "model"), user, verdict)
    judge = StoredVerdicts.read(tmp_path / "p.sqlite", setup.dataset, setup.dataset.train)
    bad = setup.dataset.relations.index("bad")
    assert [judge.decided.get(row) for row in rows[:4]] == [None, (bad, 1), (bad, 0), None]


def test_a_store_of_other_sentences_is_refused_and_an_empty_one_is_not(texts, tmp_path):
    with Store.open(tmp_path / "p.sqlite") as store:
        prepare(tiny(texts, f"feedback.store={tmp_path / 'p.sqlite'}"))
        store.give(store.show("another sentence", "good", 0.9, "model"), "ann", RIGHT)
    with pytest.raises(UserError, match=r"p\.sqlite: none of its 1 verdicts is about a sentence of this data"):
        prepare(tiny(texts, f"feedback.store={tmp_path / 'p.sqlite'}"))


def test_reliability_of_people_who_saw_no_probe_is_refused(texts, tmp_path):
    with pytest.raises(UserError, match=r'needs users who judge the server\'s sentences.* leave it "none"'):
        prepare(tiny(texts, f"feedback.store={tmp_path / 'p.sqlite'}", "method.reliability=estimated"))


def test_a_folder_without_a_store_is_refused(texts, tmp_path):
    with pytest.raises(UserError, match=r"no store .* fedrel review creates one"):
        prepare(tiny(texts, f"feedback.store={tmp_path}"))


def test_simulated_users_repeat_themselves(texts):
    setup = prepare(tiny(texts, "feedback.gamma=0.5", "feedback.delta=0.5"))
    judge, shard = setup.sites["p1"].judge, setup.sites["p1"].shard
    assert isinstance(judge, SimulatedUsers)
    predicted = torch.zeros(len(shard), dtype=torch.int64)
    assert judge(shard, predicted, "collect")[1].equal(judge(shard, predicted, "collect")[1])
    other = setup.sites["p2"].judge
    assert isinstance(other, SimulatedUsers) and other.seed != judge.seed


def test_a_seed_model_needs_gold_sentences(texts):
    with pytest.raises(UserError, match=r"set partition\.server = 0\.01"):
        complete(tiny(texts, "partition.server=0"))


def test_the_schedule_begins_with_what_was_accepted():
    assert losses.schedule(0.9, 0) == 0
    assert losses.schedule(0.9, 1) == pytest.approx(0.1)
