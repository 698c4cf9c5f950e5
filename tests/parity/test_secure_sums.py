"""Runs whose coordinator sees sums alone: the same weights as in one process, and nothing opened for a liar."""

import pytest
import torch

from fedrel.engines.remote import Failure, TooFewError
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.privacy.ledger import read as read_ledger
from fedrel.protocol import sum_messages as say
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.round import Ask
from fedrel.protocol.summed import Units
from tests.parity.consortium import PLATFORMS, Consortium, read, write_world

SECURE = ("privacy.sums=secure", "robust.screening=off")
SUMMED = {
    "none": ["extractor.embeddings=trainable"],
    "feddyn": ["extractor.embeddings=trainable"],
    "moon": [],
    "fedadam": [],
    "evidence": ["method.narrowing=0", "method.early=1", "privacy.slots=512"],
    "feedback": [],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("world") / "world")


def trained(execution):
    for _ in execution.rounds():
        pass
    return execution.state["weights"]


def apart(world, folder, *settings, change=None):
    """A federation's weights, with `change` in the place of what its platforms are asked and answer."""
    consortium = Consortium(world, folder / "homes", read(world, *SECURE, *settings))
    if change is not None:
        consortium.carry = change(consortium)
        consortium.engine.carry = consortium.carry
    try:
        consortium.begin()
        return consortium, trained(consortium.execution(folder / "apart"))
    finally:
        consortium.close()


@pytest.mark.parametrize("method", SUMMED)
def test_a_federation_opens_the_same_sums_as_one_process(method, world, tmp_path):
    settings = [f"method.name={method}", *SUMMED[method]]
    together = trained(Execution(prepare(read(world, *SECURE, *settings)), tmp_path / "together"))
    _, learnt = apart(world, tmp_path, *settings)
    assert together.keys() == learnt.keys()
    assert all(torch.equal(learnt[name], value) for name, value in together.items())


@pytest.mark.parametrize("method", [method for method in SUMMED if method != "evidence"])
def test_sums_give_the_plain_means_but_for_the_last_digits(method, world, tmp_path):
    settings = [f"method.name={method}", *SUMMED[method], "robust.screening=off", "training.rounds=1"]
    plain = trained(Execution(prepare(read(world, *settings)), tmp_path / "plain"))
    summed = trained(Execution(prepare(read(world, *SECURE, *settings)), tmp_path / "summed"))
    assert all(torch.allclose(summed[name], value, rtol=0, atol=2e-6) for name, value in plain.items())


# -- platforms that fall silent ---------------------------------------------------------------------------------


def losing(name, lost_at, times=1):
    """A change of `apart`: a platform does not answer these requests, the first so many times."""

    def change(consortium):
        left, carry = [times], consortium.carry

        def lossy(task, round_, messages, most):
            arrived = carry(task, round_, messages, most)
            if task == lost_at and left[0]:
                left[0] -= 1
                arrived[name] = Failure("no answer")
            return arrived

        return lossy

    return change


@pytest.mark.parametrize("step", [say.AGREE, say.REVEAL])
def test_whoever_falls_silent_after_its_numbers_arrived_is_in_the_sum(step, world, tmp_path):
    settings = ["method.name=none", "training.rounds=1"]
    _, whole = apart(world, tmp_path / "whole", *settings)
    _, learnt = apart(world, tmp_path / "lossy", *settings, change=losing("p1", step))
    assert all(torch.equal(learnt[name], value) for name, value in whole.items())


@pytest.mark.parametrize("step", ["train", say.SHARE, say.MASK])
def test_with_too_few_left_nothing_is_opened_and_the_round_can_be_repeated(step, world, tmp_path):
    settings = ["method.name=none", "training.rounds=1"]
    _, whole = apart(world, tmp_path / "whole", *settings)
    consortium = Consortium(world, tmp_path / "homes", read(world, *SECURE, *settings))
    consortium.engine.carry = losing("p1", step)(consortium)
    consortium.begin()
    execution = consortium.execution(tmp_path / "lossy")
    with pytest.raises(TooFewError, match="train was not added up: 2 platforms"):
        trained(execution)
    consortium.attempt += 1
    learnt = trained(execution)
    consortium.close()
    assert all(torch.equal(learnt[name], value) for name, value in whole.items())


def test_of_enough_platforms_the_sum_of_those_who_stayed_is_that_of_a_run_without_the_others(world, tmp_path):
    settings = ["method.name=none", "training.rounds=1", "privacy.least=2"]
    policy = "[settings]\nmin_summed = 2\n"

    def lenient(consortium):
        for name in PLATFORMS:
            consortium.home(name).policy.write_text(policy)
        return consortium

    _, learnt = apart(world, tmp_path / "lossy", *settings, change=lambda it: losing("p1", say.MASK)(lenient(it)))
    _, without = apart(world, tmp_path / "out", *settings, change=lambda it: losing("p1", "train")(lenient(it)))
    assert all(torch.equal(learnt[name], value) for name, value in without.items())


# -- what leaves, and who is told what --------------------------------------------------------------------------


def test_no_number_of_a_platform_is_in_what_it_sends(world, tmp_path):
    consortium, _ = apart(world, tmp_path, "method.name=none", "training.rounds=2")
    entries = list(read_ledger(consortium.home("p0").ledger))
    assert [entry.task for entry in entries[1:6]] == ["train", *say.STEPS]
    sent = {entry.task: {field.name for field in entry.fields if field.bytes} - {"(header)"} for entry in entries}
    assert sent["train"] == {"offer/one"} and sent[say.MASK] == {"masked/numbers"}
    (masked,) = [entry for entry in entries if entry.task == say.MASK and entry.round == 1]
    inside = {field.name for field in masked.fields if not field.bytes}
    assert {"weights/classifier.weight", "sentences", "loss"} <= inside


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["method.name=fedatt"], "fedatt looks at the reply of every platform"),
        (["method.name=fedcmc", "extractor.bias=false"], "fedcmc looks at the reply of every platform"),
        (["method.name=scaffold", "training.optimizer=sgd"], "scaffold sends change, which cannot be added up"),
        (["method.name=lazy-mil"], "lazy-mil sends ballot, which cannot be added up"),
        (["method.name=feded"], "feded sends log, which cannot be added up"),
        (["method.name=none", "robust.aggregation=median"], 'robust.aggregation = "median" compares single updates'),
        (["method.name=none", "robust.screening=report"], 'robust.screening = "report" looks at single updates'),
        (["method.name=none", "engine.kind=ray"], 'engine.kind = "ray" hands every reply to one process'),
        (["method.name=none", "privacy.least=4"], "3 platforms take part in a round, and no sum over fewer than 4"),
        (["method.name=none", "training.fraction=0.4"], "1 platform takes part in a round, and no sum over fewer"),
    ],
)
def test_what_needs_single_replies_is_refused_before_anything_runs(settings, sentence, world):
    with pytest.raises(UserError) as error:
        prepare(read(world, *SECURE, *settings))
    assert sentence in str(error.value) and "\n" not in str(error.value)


# -- a coordinator that lies ------------------------------------------------------------------------------------


class Liar:
    """A coordinator that asks a consortium's platforms itself, request by request."""

    def __init__(self, world, folder, *settings, policy=""):
        self.consortium = Consortium(world, folder, read(world, *SECURE, "method.name=none", *settings))
        for name in PLATFORMS:
            self.consortium.home(name).policy.write_text(policy)
        self.consortium.begin()
        setup = self.consortium.coordination.setup
        self.weights = setup.weights
        self.units = setup.hub.layout(Ask("train", {name: {} for name in PLATFORMS}, model=setup.weights)).units

    def ask(self, name, task, message, round_=0):
        answer = self.consortium.ask(name, task, round_, encode(message))
        return answer if isinstance(answer, Failure) else decode(answer)

    def offers(self, factor=1.0):
        message = say.with_units({"weights": factor * self.weights}, self.units)
        return {name: say.one_in(self.ask(name, "train", message), say.OFFER) for name in PLATFORMS}

    def until_masked(self, names=PLATFORMS):
        offers = say.many(say.OFFERS, {name: it for name, it in self.offers().items() if name in names})
        shares = {name: say.many_in(self.ask(name, say.SHARE, offers), say.SHARES) for name in names}
        for name in names:
            sent = {other: it[name] for other, it in shares.items() if other != name}
            self.ask(name, say.MASK, say.many(say.SHARES, sent))

    def signed(self, stayed):
        told = say.names(say.STAYED, stayed)
        return {name: self.ask(name, say.AGREE, told) for name in stayed}


@pytest.fixture
def liar(world, tmp_path):
    found = Liar(world, tmp_path)
    yield found
    found.consortium.close()


def test_who_asks_for_the_reply_itself_is_refused(liar):
    answer = liar.ask("p0", "train", {"weights": liar.weights})
    assert isinstance(answer, Failure) and "it replies to train in a sum alone" in answer.why


def test_a_roster_without_enough_platforms_or_with_invented_ones_gets_no_shares(liar):
    offers = liar.offers()
    few = liar.ask("p0", say.SHARE, say.many(say.OFFERS, {name: offers[name] for name in ("p0", "p1")}))
    assert isinstance(few, Failure) and "2 platforms where 3 to 1000 are needed" in few.why
    invented = liar.ask("p1", say.SHARE, say.many(say.OFFERS, {**offers, "p2": offers["p1"]}))
    assert isinstance(invented, Failure) and "the offer of p2 is not its own" in invented.why


def test_offers_of_another_round_are_refused(liar):
    old = liar.offers()
    fresh = {
        name: say.one_in(liar.ask(name, "train", say.with_units({"weights": liar.weights}, liar.units), 1), "offer")
        for name in ("p0", "p2")
    }
    answer = liar.ask("p0", say.SHARE, say.many(say.OFFERS, {**fresh, "p1": old["p1"]}), 1)
    assert isinstance(answer, Failure) and "the offer of p1 is not its own, or for another sum" in answer.why


def test_nobody_signs_that_all_but_one_dropped_out_nor_a_second_set(liar):
    liar.until_masked()
    for name, stayed in (("p0", ["p0"]), ("p1", ["p0", "p1"])):
        answer = liar.ask(name, say.AGREE, say.names(say.STAYED, stayed))
        assert isinstance(answer, Failure) and "platforms stayed where 3 are needed" in answer.why
        again = liar.ask(name, say.AGREE, say.names(say.STAYED, PLATFORMS))
        assert isinstance(again, Failure), "what was refused once is over"


def test_nothing_is_revealed_without_the_signatures_of_enough(liar):
    liar.until_masked()
    signatures = {name: say.one_in(reply, say.AGREEMENT) for name, reply in liar.signed(PLATFORMS).items()}
    copied = dict.fromkeys(PLATFORMS, signatures["p0"])
    answer = liar.ask("p0", say.REVEAL, say.many(say.SIGNATURES, copied))
    assert isinstance(answer, Failure) and "1 platforms agree on who stayed, 2 are needed" in answer.why


def test_different_rosters_for_different_platforms_open_nothing(world, tmp_path):
    """With two of three platforms allowed, one is told of two others, and they of each other alone."""
    liar = Liar(world, tmp_path, "privacy.least=2", policy="[settings]\nmin_summed = 2\n")
    offers, shares = liar.offers(), {}
    for name, told in (("p0", PLATFORMS), ("p1", ("p1", "p2")), ("p2", ("p1", "p2"))):
        reply = liar.ask(name, say.SHARE, say.many(say.OFFERS, {it: offers[it] for it in told}))
        shares[name] = say.many_in(reply, say.SHARES)
    copied = {name: shares["p1"]["p2"] for name in ("p1", "p2")}  # nobody made shares for p0 in its own roster
    answer = liar.ask("p0", say.MASK, say.many(say.SHARES, copied))
    liar.consortium.close()
    assert isinstance(answer, Failure) and "were not made for this sum" in answer.why


@pytest.mark.parametrize("what", ["weights", "units"])
def test_platforms_that_are_asked_different_things_are_in_no_sum(what, liar):
    """With other weights, or units, for all others, their numbers could vanish beside those of one platform."""
    offers = {}
    for name in PLATFORMS:
        other = name != "p0"
        weights = (1.01 if other and what == "weights" else 1.0) * liar.weights
        units = Units(3, 2**25) if other and what == "units" else liar.units
        reply = liar.ask(name, "train", say.with_units({"weights": weights}, units))
        offers[name] = say.one_in(reply, say.OFFER)
    for name in PLATFORMS:
        answer = liar.ask(name, say.SHARE, say.many(say.OFFERS, offers))
        assert isinstance(answer, Failure) and "is not its own, or for another sum" in answer.why


def test_a_second_sum_of_a_round_is_over_the_same_platforms_or_none(world, tmp_path):
    liar = Liar(world, tmp_path, "privacy.least=2", policy="[settings]\nmin_summed = 2\n")
    liar.until_masked()
    assert not any(isinstance(it, Failure) for it in liar.signed(PLATFORMS).values())
    liar.consortium.attempt += 1
    liar.until_masked(("p0", "p1"))
    answers = liar.signed(("p0", "p1"))
    liar.consortium.close()
    assert all("over other platforms may have been opened before" in it.why for it in answers.values())
