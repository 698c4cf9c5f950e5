"""Replies from elsewhere: what is checked before a round uses them, and how many a round needs."""

from dataclasses import dataclass

import pytest
import torch

from fedrel.algorithms import METHODS, FedAvg
from fedrel.engines.remote import DIVERGED, Failure, Remote, TooFewError
from fedrel.errors import DivergedError
from fedrel.experiment.assembly import prepare
from fedrel.learning.named import Named
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.round import broadcast
from fedrel.protocol.run import run
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.tasks import task
from tests.algorithms.made_up import EVERYONE, a_hub
from tests.algorithms.tiny import experiment
from tests.engines.test_screening import ByTrust

WEIGHTS = Named(a=torch.tensor([1.0, 2.0]))


@dataclass(frozen=True)
class MeanByTrust(ByTrust):
    """Weighs replies by a field of its own."""

    def round(self, hub, state, cohort):
        replies = yield broadcast("train", cohort, weights=state["weights"])
        return {"weights": hub.mean(state["weights"], replies, "weights", by="trust")}


@dataclass(frozen=True)
class Measuring(FedAvg):
    """Its replies hold an array of anything."""

    @task(weights="model", sentences="sentences", loss="loss", seen={"x": "f32 n"})
    def train(self, site, message): ...


def one_round(replies, algorithm=None, *, announced=None, minimum=1):
    """The weights after a round of five platforms, of which some send these replies; and why others were refused."""
    algorithm, refused = algorithm or FedAvg(), {}

    def carry(task, round_, messages, most):
        assert set(messages) == set(EVERYONE)
        assert decode(messages["p0"])["weights"]["a"].tolist() == [1.0, 2.0]
        answers = {platform: Failure("away") for platform in messages}
        return answers | {
            platform: reply if isinstance(reply, Failure) else encode(reply) for platform, reply in replies.items()
        }

    engine = Remote(
        algorithm,
        carry,
        sizes={},
        announced=announced or {},
        minimum=minimum,
        on_failure=lambda ask, platform, why: refused.update({platform: why}),
    )
    sampler, state = Sampler(EVERYONE, 1.0, 1), algorithm.start(WEIGHTS)
    [done] = run(algorithm, engine, sampler, a_hub(), state, range(1))
    return done.state["weights"]["a"].tolist(), refused


def trained(value, sentences=10.0, **fields):
    return {"weights": Named(a=torch.tensor([value, value])), "sentences": sentences, "loss": 0.5} | fields


def test_replies_are_averaged_and_the_others_named():
    found, refused = one_round({"p1": trained(1.0), "p4": trained(4.0, 20.0)})
    assert found == [3.0, 3.0]
    assert refused == {"p0": "away", "p2": "away", "p3": "away"}


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (trained(float("nan")), "weights/a"),
        (trained(1e6), "weights/a"),
        (trained(1.0, -1.0), "sentences"),
        (trained(1.0, text=Named(words=torch.zeros(3))), "'text'"),
        ({"weights": Named(a=torch.zeros(2))}, "sentences"),
        (trained(1.0) | {"weights": Named(a=torch.zeros(100_000))}, "bytes"),  # seen before they are decoded
    ],
)
def test_a_reply_of_another_form_is_refused_and_counts_for_nothing(reply, named):
    found, refused = one_round({"p0": trained(2.0), "p1": reply, "p3": trained(4.0)})
    assert found == [3.0, 3.0]
    assert refused["p1"].startswith("refused: ") and named in refused["p1"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_array_without_a_kind_is_finite(value):
    replies = {
        "p0": trained(2.0, seen=Named(x=torch.zeros(3))),
        "p1": trained(4.0, seen=Named(x=torch.tensor([0, value]))),
    }
    found, refused = one_round(replies, Measuring())
    assert found == [2.0, 2.0] and "seen/x" in refused["p1"]


def test_a_platform_cannot_claim_more_sentences_than_it_announced():
    held = {"p0": 10, "p1": 10}
    found, refused = one_round({"p0": trained(2.0), "p1": trained(4.0, 11.0)}, announced=held)
    assert found == [2.0, 2.0]
    assert refused["p1"].startswith("refused: sentences is 11")
    assert one_round({"p0": trained(2.0), "p1": trained(4.0)}, announced=held)[0] == [3.0, 3.0]


def test_nor_a_weight_beyond_them_whatever_its_field_is_called():
    replies = {
        platform: {"weights": Named(a=torch.full((2,), value)), "trust": trust, "loss": 0.5}
        for platform, value, trust in (("p0", 2.0, 9.5), ("p1", 4.0, 10.5))
    }
    found, refused = one_round(replies, MeanByTrust(), announced={"p0": 10, "p1": 10})
    assert found == [2.0, 2.0]
    assert refused["p1"].startswith("refused: trust is 10.5")
    assert one_round(replies, MeanByTrust(), announced={"p0": 10, "p1": 11})[0] == pytest.approx([3.05, 3.05])


@pytest.mark.parametrize("method", [name for name in METHODS if name != "centralised"])
def test_the_server_of_a_run_weighs_by_checked_fields_alone(method):
    assert prepare(experiment(method, "bag")).hub.weighable == {"sentences"}


def test_a_round_needs_the_minimum_of_replies_and_refused_ones_do_not_count():
    replies = {"p0": trained(2.0), "p1": trained(4.0), "p2": trained(float("inf"))}
    assert one_round(replies, minimum=2)[0] == [3.0, 3.0]
    with pytest.raises(TooFewError, match="2 of 5"):
        one_round(replies, minimum=3)


def test_a_cohort_smaller_than_the_minimum_must_answer_whole():
    everyone = {platform: trained(2.0) for platform in EVERYONE}
    assert one_round(everyone, minimum=9)[0] == [2.0, 2.0]
    with pytest.raises(TooFewError, match="4 of 5"):
        one_round({platform: it for platform, it in everyone.items() if platform != "p3"}, minimum=9)


def test_too_few_replies_because_training_diverged_are_a_divergence():
    replies = {"p0": {"weights": WEIGHTS, "sentences": 1.0, "loss": 0.0}, "p3": Failure(DIVERGED)}
    one_round(replies, minimum=1)
    with pytest.raises(DivergedError, match=r"in round 1 the loss is not a number on p3; lower training\.lr"):
        one_round(replies, minimum=2)
