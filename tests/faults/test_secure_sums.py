"""Secure sums between real processes: a platform is killed in the middle of any exchange, and no sum is wrong."""

import pytest
import torch

from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.privacy.ledger import read as read_ledger
from fedrel.protocol.checkpoint import load
from fedrel.protocol.sum_messages import AGREE, MASK, REVEAL, SHARE
from tests.deployment import Deployment
from tests.faults.runs import ENDED, begin, failures
from tests.parity.consortium import read, write_world

SETTINGS = ("method.name=none", "privacy.sums=secure", "robust.screening=off", "extractor.embeddings=trainable")
# With three platforms in every sum, whoever is missing before its numbers are there has the round repeated
CASES = [
    pytest.param(f"{task}:{when}", marks=[] if (task, when) == (MASK, "after") else pytest.mark.slow)
    for task in ("train", SHARE, MASK, AGREE, REVEAL)
    for when in ("before", "after")
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("sums") / "world")


@pytest.fixture(scope="module")
def together(world, tmp_path_factory):
    """The weights of one process, which adds up the same integers without masks."""
    execution = Execution(prepare(read(world, *SETTINGS)), tmp_path_factory.mktemp("together") / "run")
    for _ in execution.rounds():
        pass
    return execution.state["weights"]


@pytest.mark.slow
def test_a_real_federation_opens_the_same_sums_as_one_process(world, together, tmp_path):
    with Deployment(tmp_path, world) as federation:
        federation.train("run", *SETTINGS)
        assert not any(failures(federation.status("run")).values())
        learnt = load(federation.runs / "run" / "checkpoint").state["weights"]
    assert all(torch.equal(learnt[name], value) for name, value in together.items())


@pytest.mark.parametrize("how", CASES)
def test_a_platform_killed_in_an_exchange_changes_no_sum(how, world, together, tmp_path):
    federation = Deployment(tmp_path, world)
    federation.inject("p1", FEDREL_FAULT=f"die:{how}")
    with federation:
        federation.train("run", *SETTINGS)
        assert failures(federation.status("run"))["p1"], "nothing was killed"
        learnt = load(federation.runs / "run" / "checkpoint").state["weights"]
    assert all(torch.equal(learnt[name], value) for name, value in together.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rounds", "why"),
    [
        ("alone", 0, "1 platforms stayed where 3 are needed"),
        ("rosters", 0, "2 platforms where 3 to 1000 are needed"),
        ("plain", 0, "it replies to train in a sum alone"),
        ("replay", 1, "the offer of p1 is not its own, or for another sum"),
        ("crafted", 1, "in round 2 does not follow from what platforms have sent"),
        ("different", 1, "in round 2 does not follow from what platforms have sent"),
        ("again", 1, "in round 2 does not follow from what platforms have sent"),
        ("forged", 1, "the sum of train in round 1 is another one"),
    ],
)
def test_a_coordinator_that_lies_opens_nothing(kind, rounds, why, world, tmp_path):
    federation = Deployment(tmp_path, world)
    federation.inject("coordinator", FEDREL_FAULT=f"lie:{kind}")
    with federation:
        settings = (*SETTINGS, "engine.deadline=200")  # nobody is late, however busy the machine is
        begin(federation, *(part for setting in settings for part in ("--set", setting)))
        status = federation.wait("run", lambda status: status["state"] in ENDED, 500)
    assert status["state"] == "failed" and status["round"] == rounds
    for name in ("p0", "p1", "p2"):
        entries = list(read_ledger(federation.kits / name / "ledger" / "ledger.jsonl"))
        assert all(entry.round <= rounds for entry in entries if entry.task == REVEAL and not entry.refused), name
    refusals = {entry.refused for entry in read_ledger(federation.kits / "p0" / "ledger" / "ledger.jsonl")}
    assert any(why in refused for refused in refusals), refusals
