"""Replies that are out of line: who is left out, who is not, and what is said of them."""

import json
from dataclasses import asdict, dataclass, replace
from statistics import median_low

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.poisoning import LIES, SMALL, SPLITS, Lying, certain, run, times
from fedrel import config
from fedrel.algorithms import Evidence, FedAvg, LazyMIL
from fedrel.algorithms.feddyn import FedDyn
from fedrel.algorithms.scaffold import Scaffold
from fedrel.config import Robust
from fedrel.engines.screening import Screen, Suspicion, summary, usual_of_key
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.learning.named import Named, table_patch
from fedrel.protocol.records import number_in
from fedrel.protocol.replies import LOG_ODDS
from fedrel.protocol.round import broadcast
from fedrel.protocol.tasks import task
from tests.algorithms.tiny import experiment
from tests.parity.consortium import Consortium, read, write_world

WEIGHTS = Named(words=torch.ones(6, 2), other=torch.zeros(3))


def trained(size, sentences=10.0, loss=1.0):
    """An update of this length, all of it the same way; half of it in a row of the word table."""
    part = size / 2**0.5
    patch = table_patch("words", torch.tensor([2], dtype=torch.int32), torch.tensor([[1 + part, 1.0]]), 1.0)
    return {"weights": Named(**patch, other=torch.tensor([part, 0, 0])), "sentences": sentences, "loss": loss}


def screen(platforms=5, algorithm=None, *, held=10, **settings):
    found = []
    names = {f"p{number}": held for number in range(platforms)}
    return Screen(Robust(**settings), algorithm or FedAvg(), names, found.append), found


def ask(replies, round_=0, task_="train"):
    return replace(broadcast(task_, replies, weights=WEIGHTS), round=round_, model=WEIGHTS)


def pass_by(screen_, replies, round_=0, task_="train"):
    used = screen_(ask(replies, round_, task_), replies)
    screen_.settle()
    return used


def test_replies_in_line_are_handed_on_as_they_are():
    look, found = screen()
    replies = {f"p{number}": trained(1 + number / 10) for number in range(5)} | {"p5": {}}
    assert pass_by(look, replies) is replies and found == []


def test_who_sends_ten_times_the_median_at_first_is_left_out_and_named():
    look, found = screen()
    replies = {f"p{number}": trained(10.0 if number == 3 else 1.0) for number in range(5)}
    used = pass_by(look, replies, round_=3)
    assert list(used) == ["p0", "p1", "p2", "p4"] and used["p0"] is replies["p0"]
    [one] = found
    assert (one.platform, one.round, one.task, one.what, one.limit, one.left_out) == (
        "p3",
        4,
        "train",
        "length",
        4,
        True,
    )
    assert one.value == pytest.approx(10)
    assert str(one) == "left out: p3, round 4: its update is 10 times as long as the median; the limit is 4"


def test_training_that_went_wrong_is_forgiven_and_a_habit_is_not():
    look, found = screen()

    def play(round_, size, loss):
        replies = {f"p{number}": trained(size, loss=loss) if number == 0 else trained(1.0) for number in range(5)}
        return "p0" in pass_by(look, replies, round_)

    assert all(play(round_, 7.9, loss=3.1) for round_ in range(6))  # up to twice the limit
    assert play(6, 30, loss=3.1) and play(7, 30, loss=3.1)
    assert not play(8, 30, loss=3.1)  # three of the last five
    assert not play(9, 2.1, loss=3.1)  # who was left out must fit better than others
    assert play(10, 1.9, loss=1) and play(11, 3.9, loss=1)
    assert not play(12, 4.1, loss=2.9)  # its loss does not explain it
    assert play(13, 1, loss=1)
    assert not play(14, 41, loss=1e6)  # beyond ten times the limit nothing explains it
    assert [(it.round, it.limit) for it in found] == [(9, 4), (10, 2), (13, 4), (15, 4)]


def test_a_round_that_came_to_nothing_is_not_remembered():
    look, _ = screen()
    replies = {f"p{number}": trained(10.0 if number == 0 else 1.0) for number in range(5)}
    look(ask(replies), replies)
    look.forget()
    assert look.past == {}
    pass_by(look, replies)
    assert list(look.past["weights"]) == list(replies)


def test_what_is_remembered_goes_through_a_file():
    one, _ = screen()
    replies = {f"p{number}": trained(30.0, loss=9.0) if number == 0 else trained(1.0) for number in range(5)}
    assert "p0" in pass_by(one, replies, 1) and "p0" in pass_by(one, replies, 2)
    other, _ = screen()
    other.past = json.loads(json.dumps(one.past))
    assert other.past == one.past
    assert list(pass_by(one, replies, 3)) == list(pass_by(other, replies, 3)) == ["p1", "p2", "p3", "p4"]


def test_two_platforms_are_compared_and_reported_but_neither_left_out():
    look, found = screen(2)
    replies = {"p0": trained(1.0), "p1": trained(100.0)}  # 1.98 times what lies in the middle: nobody can tell
    assert pass_by(look, replies) is replies and found == []


def test_few_at_a_time_are_compared_with_those_before_them():
    look, _ = screen(20)
    for round_ in range(3):
        pass_by(look, {f"p{2 * round_ + 1}": trained(1.0), f"p{2 * round_ + 2}": trained(1.0)}, round_)
    replies = {"p0": trained(10.0), "p9": trained(1.0)}
    assert list(pass_by(look, replies, 3)) == ["p9"]
    assert list(pass_by(look, replies, 40)) == ["p0", "p9"]  # what was long ago says nothing any more


def test_who_points_against_the_others_in_the_first_rounds_is_left_out():
    for round_, expected in ((0, ["p1", "p2", "p3", "p4"]), (3, ["p0", "p1", "p2", "p3", "p4"])):
        look, found = screen()
        replies = {f"p{number}": trained(-1.0 if number == 0 else 1.0) for number in range(5)}
        assert list(pass_by(look, replies, round_)) == expected
        assert [(it.what, it.platform) for it in found] == [("direction", "p0")] * (round_ == 0)
    assert "points against the others' (cosine" in str(Suspicion("p0", 1, "train", "direction", -0.9, -0.5, True))


def test_a_claim_beyond_what_was_announced_is_left_out():
    look, found = screen(held=10)
    replies = {f"p{number}": trained(1.0, 1e9 if number == 1 else 10.0) for number in range(5)}
    assert "p1" not in pass_by(look, replies)
    [one] = found
    assert str(one) == "left out: p1, round 1: it says it trained on 1000000000 sentences, and that it holds 10"


@dataclass(frozen=True)
class ByTrust(FedAvg):
    @task(weights="model", trust="weight", loss="loss")
    def train(self, site, message): ...


def test_a_claim_is_whatever_a_mean_may_be_weighted_by():
    look, found = screen(algorithm=ByTrust(), held=10)
    replies = {f"p{number}": {"weights": trained(1.0)["weights"], "trust": 10.5, "loss": 1e9} for number in range(5)}
    assert pass_by(look, replies) == {}
    assert {it.what for it in found} == {"claim"}


def test_who_announces_a_billion_counts_for_ten_times_the_median():
    look, found = screen(held=10)
    look.announced["p1"] = 10**9
    replies = {f"p{number}": trained(1.0, 1e9 if number == 1 else 10.0) for number in range(5)}
    used = pass_by(look, replies)
    assert {who: number_in(reply, "sentences") for who, reply in used.items()} == {
        **dict.fromkeys(replies, 10.0),
        "p1": 100.0,
    }
    assert used["p1"]["weights"] is replies["p1"]["weights"] and set(used["p1"]) == set(replies["p1"])
    [one] = found
    assert str(one) == "reported: p1, round 1: it says it holds 1e+08 times the median; the limit is 10"


def test_a_platform_that_was_left_out_counts_for_no_more_when_it_comes_back():
    look, _ = screen(held=10)
    look.announced["p1"] = 10**9
    for size in (10.0, 1.0):
        replies = {f"p{n}": trained(size, 1e9) if n == 1 else trained(1.0) for n in range(5)}
        used = pass_by(look, replies, 3)
    assert number_in(used["p1"], "sentences") == 100


def test_of_two_platforms_one_cannot_say_alone_what_is_usual():
    look, _ = screen(2, held=10)
    look.announced["p1"] = 10**9
    used = pass_by(look, {"p0": trained(1.0), "p1": trained(1.0, 1e9)})
    assert number_in(used["p1"], "sentences") == 100


@pytest.mark.parametrize(("screening", "told"), [("report", 3), ("off", 0)])
def test_a_policy_may_only_report_or_not_look(screening, told):
    look, found = screen(screening=screening)
    look.announced["p2"] = 10**9
    odd = {0: trained(10.0), 1: trained(1.0, 11.0), 2: trained(1.0, 1e9)}
    replies = {f"p{number}": odd.get(number, trained(1.0)) for number in range(5)}
    assert pass_by(look, replies, 3) is replies
    assert len(found) == told and not any(it.left_out for it in found)


def test_numbers_that_are_none_are_endless():
    look, found = screen()
    broken = trained(1.0)
    broken["weights"] = Named({**broken["weights"], "other": torch.full((3,), torch.nan)})
    replies = {f"p{number}": trained(1.0) for number in range(4)} | {"p4": broken}
    assert "p4" not in pass_by(look, replies)
    json.loads(json.dumps([asdict(it) for it in found], allow_nan=False))


def test_every_model_in_a_reply_is_looked_at():
    look, found = screen(algorithm=Scaffold())

    def reply(size, change):
        whole = Named(words=WEIGHTS["words"] + size, other=WEIGHTS["other"] + size)
        return {"weights": whole, "change": WEIGHTS.zeros() + Named(whole - WEIGHTS) * change, "sentences": 10.0}

    replies = {f"p{number}": reply(1.0, 100.0 if number == 0 else 1.0) for number in range(5)}
    assert "p0" not in pass_by(look, replies, 3)
    assert [it.what for it in found] == ["length"]
    look, found = screen(algorithm=FedDyn())
    replies = {f"p{number}": reply(10.0 if number == 0 else 1.0, 1.0) for number in range(5)}
    assert "p0" not in pass_by(look, replies, 3)


# ------------------------------------------------------------------------------------------------------------ evidence


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), min_size=1, max_size=12))
def test_what_is_usual_for_a_fact(entries):
    key = torch.tensor([key for key, _ in entries])
    value = torch.tensor([float(value) for _, value in entries])
    usual, holders = usual_of_key(key, value)
    for place, (own, _) in enumerate(entries):
        same = [value for key, value in entries if key == own]
        assert usual[place] == median_low(same) and holders[place] == len(same)


@pytest.mark.parametrize(("algorithm", "task_", "field"), [(Evidence(), "show", "best"), (LazyMIL(), "score", "score")])
def test_who_says_that_all_of_its_facts_are_certain_is_not_believed(algorithm, task_, field):
    draw = torch.Generator().manual_seed(1)
    group = "evidence" if field == "best" else "ballot"

    def reply(certain, keys):
        z = torch.full((30,), 27.0) if certain else torch.randn(30, generator=draw)
        return {group: Named({"key": torch.arange(keys, keys + 30), field: z})}

    look, found = screen(3, algorithm=algorithm)
    replies = {"p0": reply(True, 0), "p1": reply(False, 0), "p2": reply(False, 5)}
    used = pass_by(look, replies, 0, task_)
    assert used["p0"][group][field].tolist() == [-LOG_ODDS] * 30
    assert torch.equal(used["p0"][group]["key"], replies["p0"][group]["key"])  # it is told what others have
    assert used["p1"] is replies["p1"] and used["p2"] is replies["p2"]
    assert [(it.platform, it.what) for it in found] == [("p0", "evidence")]
    alone = {"p0": reply(True, 0), "p1": reply(False, 100), "p2": reply(False, 200)}
    assert pass_by(look, alone, 0, task_) is alone  # about facts that nobody else holds it decides alone anyway


def test_evidence_of_a_platform_whose_update_was_left_out_keeps_nobody_from_training():
    look, found = screen(algorithm=Evidence())
    shown = {f"p{n}": {"evidence": Named(key=torch.arange(3), best=torch.full((3,), float(n)))} for n in range(5)}
    assert pass_by(look, shown, 0, "show") is shown
    pass_by(look, {f"p{n}": trained(10.0 if n == 4 else 1.0) for n in range(5)}, 0, "train")
    used = pass_by(look, shown, 1, "show")
    assert list(used) == list(shown) and used["p4"]["evidence"]["best"].tolist() == [-LOG_ODDS] * 3
    pass_by(look, {f"p{n}": trained(1.0) for n in range(5)}, 1, "train")
    assert pass_by(look, shown, 2, "show") is shown  # it is heard again
    assert [it.what for it in found] == ["length"]


# ------------------------------------------------------------------------------------------------------- in whole runs

TEN = ["data.size=1500", "partition.platforms=6", "training.rounds=4", "training.epochs=1", "extractor.filters=8"]


@pytest.mark.parametrize("method", ["none", "evidence", "scaffold", "fedatt"])
@pytest.mark.parametrize("kind", list(LIES))
def test_a_lying_platform_is_named_and_the_others_go_on(method, kind):
    setup = prepare(experiment(method, "pcnn", *TEN))
    result = run(setup, frozenset({"p2"}), LIES[kind])
    assert result["suspicions"].keys() == {"p2"}
    assert result["suspicions"]["p2"]["left_out"] >= 3
    assert result["suspicions"]["p2"]["first"].startswith("left out: p2, round 1: ")


def test_who_announced_a_billion_before_it_claims_them_is_left_out_for_its_noise():
    setup = prepare(experiment("none", "pcnn", *TEN))
    setup.sites.sizes["p2"] = 10**9
    result = run(setup, frozenset({"p2"}), LIES["noise"])
    assert result["suspicions"]["p2"]["left_out"] == 4


def test_a_platform_that_is_certain_of_every_fact_is_named():
    result = run(prepare(experiment("evidence", "pcnn", *TEN)), frozenset({"p2"}), certain)
    assert result["suspicions"].keys() == {"p2"}
    assert "the log-odds of its facts are" in result["suspicions"]["p2"]["first"]


def test_without_the_liar_the_weights_are_those_of_the_others_to_the_last_bit(tmp_path):
    weights = []
    for liars, platforms in ((frozenset({"p2"}), None), (frozenset(), ("p0", "p1", "p3", "p4", "p5"))):
        setup = prepare(experiment("none", "pcnn", *TEN))
        if platforms:
            setup = replace(setup, sampler=replace(setup.sampler, platforms=platforms))
        engine = Lying(setup.algorithm, setup.sites)
        engine.liars, engine.lie = liars, times(-10)
        told = []
        execution = Execution(setup, tmp_path / str(len(weights)), engine=engine, on_suspicion=told.append)
        lines = [progress.line for progress in execution.rounds()]
        assert {it.platform for it in told} == liars
        assert all(("suspicions" in line) == bool(liars) for line in lines)
        weights.append(execution.state["weights"])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_run_that_goes_on_remembers_who_lied(tmp_path):
    def lying(out, *, resume=False):
        setup = prepare(experiment("none", "pcnn", *TEN))
        engine = Lying(setup.algorithm, setup.sites)
        engine.liars, engine.lie = frozenset({"p2"}), times(10)
        return Execution(setup, out, resume=resume, engine=engine)

    whole = lying(tmp_path / "whole")
    for _ in whole.rounds():
        pass
    for _ in zip(range(2), lying(tmp_path / "parts").rounds(), strict=False):
        pass
    rest = lying(tmp_path / "parts", resume=True)
    assert rest._screen.past["weights"]["p2"]
    for _ in rest.rounds():
        pass
    assert rest.standing.screened == whole.standing.screened
    results = [execution.finish() for execution in (whole, rest)]
    assert results[0]["suspicions"] == results[1]["suspicions"]
    notes = json.loads((tmp_path / "parts" / "details.json").read_text())["data"]["notes"]
    assert any(note.startswith("p2 was left out of 4 rounds") for note in notes)


def test_a_reply_from_elsewhere_is_looked_at_too(tmp_path):
    """Of three, one whose update is ten times as long."""
    world = write_world(tmp_path / "world")
    there = Consortium(world, tmp_path / "home", read(world, "method.name=fedavg"))
    honest, lie = there.ask, times(10)

    def ask_liar(name, task_, round_, payload):
        from fedrel.protocol.codec import decode, encode

        reply = honest(name, task_, round_, payload)
        if name == "p1" and task_ == "train":
            return encode(lie(decode(reply), decode(payload)["weights"], 0))
        return reply

    there.ask = ask_liar
    there.begin()
    told = []
    execution = Execution(there.coordination.setup, tmp_path / "run", engine=there.engine, on_suspicion=told.append)
    for _ in execution.rounds():
        pass
    there.close()
    assert [(it.platform, it.round, it.what) for it in told] == [("p1", round_, "length") for round_ in (1, 2, 3)]
    assert there.failures == []


@pytest.mark.parametrize("aggregation", ["clipped", "median", "trimmed", "krum"])
@pytest.mark.parametrize("method", ["none", "evidence", "lazy-mil", "feddyn", "scaffold"])
def test_every_method_that_averages_takes_robust_means(method, aggregation):
    given = [f"robust.aggregation={aggregation}", "robust.liars=0.3", "robust.screening=off", "training.rounds=2"]
    setup = prepare(experiment(method, "pcnn", *given))
    result = run(setup, frozenset(), times(1))
    plain = run(prepare(experiment(method, "pcnn", *given[1:])), frozenset(), times(1))
    assert result["calibration"] != plain["calibration"]


def test_a_summary_counts_rounds():
    def one(platform, round_, out):
        return asdict(Suspicion(platform, round_, "train", "length", 10.0, 7.0, out))

    found = summary(
        [one("p1", 1, True), one("p1", 1, False), one("p1", 2, False), one("p1", 3, True), one("p2", 1, False)]
    )
    assert {who: (told["left_out"], told["reported"]) for who, told in found.items()} == {"p1": (2, 1), "p2": (0, 1)}


def test_settings_are_read_from_a_file():
    found = config.parse({"robust": {"screening": "report", "aggregation": "krum", "liars": 0.3}}).robust
    assert found == Robust(screening="report", aggregation="krum", liars=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", list(LIES))
@pytest.mark.parametrize("method", ["none", "evidence"])
def test_the_defaults_protect_from_liars_among_ten(method, kind, count):
    setup = prepare(config.read(None, [*SMALL, f"method.name={method}"]))
    liars = frozenset(list(setup.sites)[:count])
    honest = tuple(name for name in setup.sites if name not in liars)
    alone = run(replace(setup, sampler=replace(setup.sampler, platforms=honest)), frozenset(), times(1))
    found = run(prepare(setup.experiment), liars, LIES[kind])
    assert abs(found["test"]["ap"] - alone["test"]["ap"]) <= 0.02
    assert liars <= {who for who, told in found["suspicions"].items() if told["left_out"] >= 15}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "evidence"])
@pytest.mark.parametrize(
    "split", [split for split in SPLITS if split != "by source"]
)  # there training goes wrong often
def test_honest_platforms_are_left_alone(method, split):
    given = [*SMALL, *SPLITS[split], f"method.name={method}"]
    result = run(prepare(config.read(None, given)), frozenset(), times(1))
    assert "suspicions" not in result
