"""Runs with differential privacy: the same in a federation as in one process, resumed as uninterrupted, and stopped in
time."""

import json

import pytest
import torch

from fedrel import config
from fedrel.engines.remote import TooFewError
from fedrel.errors import UserError
from fedrel.experiment.assembly import complete, prepare
from fedrel.experiment.budget import Budget
from fedrel.experiment.execution import NOISE, Execution
from fedrel.learning.named import Named
from fedrel.privacy.account import Account
from fedrel.privacy.accounting import epsilon_of
from fedrel.privacy.ledger import read as read_ledger
from fedrel.protocol import sum_messages as say
from fedrel.protocol.codec import decode, encode
from tests.parity.consortium import PLATFORMS, Consortium, read, write_world
from tests.parity.test_secure_sums import losing, trained

NOISY = ("method.name=none", "privacy.sums=secure", "robust.screening=off", "training.restarts=0")
SENTENCE = (*NOISY, "dp.unit=sentence", "training.lr=20.0")
PLATFORM = (*NOISY, "dp.unit=platform", "dp.clip=0.3")
UNITS = {"sentence": SENTENCE, "platform": PLATFORM}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("world") / "world")


def consortium_of(world, folder, *settings):
    return Consortium(world, folder / "homes", read(world, *settings))


def account_of(consortium, name="p0"):
    return Account.open(consortium.home(name).account)


@pytest.mark.parametrize(
    "settings", [SENTENCE, PLATFORM, (*SENTENCE, "method.name=fedadam"), (*PLATFORM, "method.name=moon")]
)
def test_a_federation_adds_the_same_noise_as_one_process(settings, world, tmp_path):
    together = Execution(prepare(read(world, *settings)), tmp_path / "together")
    learnt = trained(together)
    consortium = consortium_of(world, tmp_path, *settings)
    consortium.begin()
    apart = trained(consortium.execution(tmp_path / "apart"))
    consortium.close()
    assert all(torch.equal(learnt[name], value) for name, value in apart.items())
    result = together.finish()
    assert result["dp"]["epsilon"] == pytest.approx(8.0)
    assert result["dp"]["public_noise"]
    account = account_of(consortium)
    assert len(account.answers) == result["dp"]["rounds"] == 3
    assert account.epsilon(result["dp"]["unit"], 1e-5) == pytest.approx(8.0)


def test_what_leaves_is_nothing_but_noisy_weights(world, tmp_path):
    consortium = consortium_of(world, tmp_path, *PLATFORM, "training.rounds=1")
    said = {}
    ask = consortium.ask

    def listening(name, task, round_, payload):
        answer = ask(name, task, round_, payload)
        said.setdefault(task, {})[name] = decode(answer) if not hasattr(answer, "why") else answer.why
        return answer

    consortium.ask = listening
    consortium.begin()
    assert said["begin"]["p0"] == {"sentences": 0.0, "words": 0.0, "unknown_words": 0.0}
    trained(consortium.execution(tmp_path / "run"))
    consortium.close()
    assert {*said} == {"begin", "train", *say.STEPS}
    entries = [json.loads(line) for line in (consortium.home("p0").ledger).read_text().splitlines()]
    [summand] = [entry for entry in entries if entry["task"] == say.MASK]
    inside = {field["name"].partition("/")[0] for field in summand["fields"]} - {"(header)", "masked"}
    assert inside == {"weights"}


def test_two_runs_that_nobody_fixes_have_other_noise_and_a_resumed_one_the_same(world, tmp_path):
    settings = (*SENTENCE, "engine.public_seeds=false")
    whole = Execution(prepare(read(world, *settings)), tmp_path / "whole")
    key = tmp_path / "whole" / "checkpoint" / NOISE
    assert len(key.read_bytes()) == 32
    assert key.stat().st_mode & 0o077 == 0
    cut = Execution(prepare(read(world, *settings)), tmp_path / "cut")
    cut.setup.sites.noise_secret = key.read_bytes()
    (tmp_path / "cut" / "checkpoint" / NOISE).write_bytes(key.read_bytes())
    learnt = trained(whole)
    next(cut.rounds())
    resumed = Execution(prepare(read(world, *settings)), tmp_path / "cut", resume=True)
    assert all(torch.equal(learnt[name], value) for name, value in trained(resumed).items())
    other = trained(Execution(prepare(read(world, *settings)), tmp_path / "other"))
    assert not any(torch.equal(learnt[name], value) for name, value in other.items())
    whole.finish()
    assert not key.exists()


def test_a_repeated_round_repeats_its_noise_and_counts_once(world, tmp_path):
    settings = (*PLATFORM, "training.rounds=1", "engine.public_seeds=false")
    consortium = consortium_of(world, tmp_path, *settings)
    consortium.engine.carry = losing("p1", say.MASK)(consortium)
    consortium.begin()
    execution = consortium.execution(tmp_path / "lossy")
    with pytest.raises(TooFewError):
        trained(execution)
    consortium.attempt += 1
    trained(execution)
    consortium.close()
    assert len(account_of(consortium).answers) == 1
    assert consortium.failures == [("p1", "no answer")]


def test_other_weights_for_the_same_round_are_another_answer_and_one_too_many(world, tmp_path):
    """A coordinator that asks a round again, with other weights, to take the noise away."""
    consortium = consortium_of(world, tmp_path, *PLATFORM, "training.rounds=1")
    asked = []
    ask = consortium.ask
    consortium.ask = lambda name, task, round_, payload: (
        asked.append((name, task, bytes(payload))),
        ask(name, task, round_, payload),
    )[1]
    consortium.begin()
    trained(consortium.execution(tmp_path / "run"))
    name, task, payload = next(it for it in asked if it[1] == "train")
    message = decode(bytearray(payload))
    other, close = ({**message, "weights": factor * message["weights"]} for factor in (1.5, 1 + 1e-6))
    refused = [ask(name, task, 0, encode(it)).why for it in (other, close)]
    consortium.close()
    assert "does not follow" in refused[0], "from what was added up"
    assert "privacy budget is spent" in refused[1], "as close as rounding could be, and another question"
    assert len(account_of(consortium).answers) == 1


def test_a_run_stops_before_its_budget_is_exceeded(world, tmp_path):
    noise = 1.2
    for unit, settings in UNITS.items():
        execution = Execution(prepare(read(world, *settings, f"dp.noise={noise}", "dp.epsilon=6")), tmp_path / unit)
        epsilons = [progress.line["epsilon"] for progress in execution.rounds()]
        assert epsilons == pytest.approx([epsilon_of(rounds**0.5 / noise, 1e-5) for rounds in (1, 2)])
        assert epsilon_of(3**0.5 / noise, 1e-5) > 6
        assert execution.finish()["rounds"] == 2


def test_a_platform_refuses_what_its_account_over_runs_has_no_room_for(world, tmp_path):
    settings = (*SENTENCE, "engine.public_seeds=false", "dp.epsilon=4")
    for run, begins in (("first", True), ("second", False)):
        consortium = Consortium(world, tmp_path / "homes", read(world, *settings), run=run)
        for name in PLATFORMS:
            consortium.home(name).policy.write_text("[settings]\nepsilon = 5.0\n")
        consortium.begin()
        if begins:
            trained(consortium.execution(tmp_path / run))
        consortium.close()
        assert [name for name, why in consortium.failures if "over all runs" in why] == ([] if begins else [*PLATFORMS])
    assert account_of(consortium).epsilon("sentence", 1e-5) == pytest.approx(4.0)


REFUSED = {
    ("method.name=evidence",): "evidence sends more than weights",
    ("method.name=lazy-mil",): "lazy-mil sends more than weights",
    ("method.name=scaffold",): "scaffold sends more than weights",
    ("method.name=feedback", "dp.unit=platform"): "does not say that it works",
    ("method.name=moon",): "each sentence counts by itself",
    ("method.name=att",): "trains on bags",
    ("method.name=none", "privacy.sums=off"): 'set privacy.sums = "secure"',
    ("method.name=none", "training.restarts=1"): "set training.restarts = 0",
    ("method.name=none", "dp.noise=0.1"): "a single round gives away",
}


@pytest.mark.parametrize("settings", REFUSED)
def test_what_noise_would_not_hide_is_refused_in_a_sentence(settings, world):
    with pytest.raises(UserError, match=REFUSED[settings]):
        prepare(read(world, *NOISY, "dp.unit=sentence", *settings))


def test_a_model_to_go_on_from_is_refused():
    with pytest.raises(UserError, match=r"what the model that training\.start names tells of its text, no noise hides"):
        prepare(config.read(None, ["method.name=none", "dp.unit=sentence", "training.start=run"]))


def test_the_noise_is_for_the_platform_that_is_drawn_most_often(world):
    names = tuple(f"p{number}" for number in range(10))
    whole, part = (
        Budget.of(read(world, *SENTENCE, f"training.fraction={fraction}", "training.rounds=40"), names)
        for fraction in (1.0, 0.3)
    )
    assert whole.most == 40
    assert 12 <= part.most < 25
    assert part.noise == pytest.approx(whole.noise * (part.most / 40) ** 0.5)
    assert part.epsilon(part.most) == pytest.approx(8.0)
    assert part.epsilon(part.most) <= 8.0


# -- what platforms work out again from noisy sums --------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        (*SENTENCE, "method.name=fedavgm"),
        (*SENTENCE, "method.name=fedadam"),
        (*PLATFORM, "method.name=fedavgm"),
        (*PLATFORM, "method.name=feddyn"),
    ],
)
def test_a_platform_that_was_started_again_follows_noisy_sums(settings, world, tmp_path):
    """Once before anything is on its disk, and once after: it knows what it must be asked, and is refused nothing."""
    together = trained(Execution(prepare(read(world, *settings)), tmp_path / "together"))
    consortium, again = consortium_of(world, tmp_path, *settings), {(say.FOLLOW, 1), (say.FOLLOW, 2)}
    carry = consortium.carry

    def carrying(task, round_, messages, most):
        if (task, round_) in again:
            again.discard((task, round_))
            consortium.restart("p1")
        return carry(task, round_, messages, most)

    consortium.engine.carry = carrying
    consortium.begin()
    learnt = trained(consortium.execution(tmp_path / "apart"))
    consortium.close()
    assert not again
    assert all(torch.equal(learnt[name], value) for name, value in together.items())
    assert [it.round for it in account_of(consortium, "p1").answers] == [0, 1, 2]
    refused = [it.refused for name in PLATFORMS for it in read_ledger(consortium.home(name).ledger) if it.refused]
    assert refused == []


@pytest.mark.parametrize("place", [-40, -5])  # before four tags: a weight; the last weight, or the sentences
@pytest.mark.parametrize("unit", UNITS)
def test_a_noisy_sum_that_was_made_up_is_refused(unit, place, world, tmp_path):
    """Of the unit `sentence` the number of sentences, which a step is divided by, is told by nobody but the sum."""
    consortium = consortium_of(world, tmp_path, *UNITS[unit])
    carry = consortium.carry

    def forged(payload):
        message = decode(bytearray(payload))
        told = {key: value.clone() for key, value in message[say.SUMS].items()}
        told["0"][place] += 1
        return encode({**message, say.SUMS: Named(told)})

    def lying(task, round_, messages, most):
        if task == say.FOLLOW:
            messages = {name: forged(it) for name, it in messages.items()}
        return carry(task, round_, messages, most)

    consortium.engine.carry = lying
    consortium.begin()
    with pytest.raises(TooFewError, match="train was not added up"):
        trained(consortium.execution(tmp_path / "run"))
    consortium.close()
    refused = [it.refused for name in PLATFORMS for it in read_ledger(consortium.home(name).ledger) if it.refused]
    assert any("the sum of train in round 1 is another one" in it for it in refused), refused
    assert len(account_of(consortium).answers) == 1


@pytest.mark.parametrize("unit", ["sentence", "platform"])
@pytest.mark.parametrize("place", ["folder", "world"])
def test_noise_has_secure_sums_where_nobody_says_otherwise(unit, place, world):
    settings = [f"dp.unit={unit}", "method.name=none", "privacy.sums=auto", "training.restarts=0"]
    found = complete(config.read(None, settings) if place == "world" else read(world, *settings))
    assert (found.privacy.sums, found.robust.screening) == ("secure", "off")
    assert config.read(None, settings[:2]).training.restarts == 0
    with pytest.raises(UserError, match=r'set privacy\.sums = "secure"'):
        complete(config.read(None, [*settings, "privacy.sums=off"]))
