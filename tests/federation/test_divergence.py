"""A run that diverges in a real federation begins again with a smaller learning rate; its first uploads are kept."""

import json
import re

import pytest

from fedrel.privacy.ledger import read as read_ledger
from tests.deployment import Deployment
from tests.parity.consortium import write_world

PLATFORMS = ("p0", "p1")


@pytest.mark.slow
def test_a_run_begins_again_under_the_same_name_with_a_smaller_rate(tmp_path):
    world = write_world(tmp_path / "world")
    settings = ("method.name=evidence", "training.lr=12", "training.rounds=5", "training.restarts=6")
    with Deployment(tmp_path, world, PLATFORMS) as federation:
        result = federation.train("steep", *settings, "engine.min_platforms=2")
        status = federation.status("steep")
    rates = [it["lr"] for it in result["restarts"]]
    assert rates[0] == 12
    assert rates == pytest.approx([12 * 0.3**n for n in range(len(rates))])
    assert (status["state"], status["round"]) == ("done", result["rounds"])
    lines = [json.loads(line) for line in (federation.runs / "steep" / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(1, result["rounds"] + 1))
    assert lines[0]["lr"] == pytest.approx(12 * 0.3 ** len(rates))
    for name in PLATFORMS:  # of all attempts, since all of it left
        entries = list(read_ledger(federation.kits / name / "ledger" / "ledger.jsonl"))
        begun = [entry for entry in entries if entry.task == "begin" and not entry.refused]
        assert len(begun) == 1 + len(rates)
        assert not any(entry.refused for entry in entries)


@pytest.mark.slow
def test_a_round_that_is_refused_again_and_again_is_given_up(tmp_path):
    """At this rate an update is longer than any that training could give, so it is refused each time."""
    world = write_world(tmp_path / "world")
    settings = ("method.name=evidence", "training.lr=60", "training.rounds=5", "engine.min_platforms=2")
    with Deployment(tmp_path, world, PLATFORMS) as federation:
        given = [part for setting in settings for part in ("--set", setting)]
        federation.submit(str(world / "experiment.toml"), *given, "--name", "steeper")
        status = federation.wait("steeper", lambda status: status["state"] in ("failed", "done"))
    assert status["state"] == "failed"
    found = re.match(r"round 1 was repeated 5 times with the same outcome: (p\d): refused: weights/", status["why"])
    assert found and found[1] in PLATFORMS, status["why"]


@pytest.mark.slow
def test_a_round_that_a_platform_refuses_again_and_again_is_given_up(tmp_path):
    world = write_world(tmp_path / "world")
    federation = Deployment(tmp_path, world, PLATFORMS)
    (federation.kits / "p1" / "local" / "policy.toml").write_text('[fields]\nforbid = ["loss"]\n')
    with federation:
        given = ["--set", "method.name=fedavg", "--set", "engine.min_platforms=2"]
        federation.submit(str(world / "experiment.toml"), *given, "--name", "refused")
        status = federation.wait("refused", lambda status: status["state"] in ("failed", "done"))
    assert status["state"] == "failed"
    outcome = (
        "round 1 was repeated 5 times with the same outcome: p1: the platform refuses: its policy forbids the field"
    )
    assert status["why"].startswith(outcome)


@pytest.mark.slow
def test_a_platform_that_trains_on_a_handful_says_nothing_and_the_run_goes_on(tmp_path):
    """One of them wants more sentences behind an update than remembered evidence leaves it in any round."""
    world = write_world(tmp_path / "world")
    held = len((world / "p1" / "train.jsonl").read_text().splitlines())
    federation = Deployment(tmp_path, world, PLATFORMS)
    (federation.kits / "p1" / "local" / "policy.toml").write_text(f"[settings]\nmin_trained = {held}\n")
    with federation:
        settings = ("method.name=evidence", "method.margin=0", "method.narrowing=0", "method.rounding=0")
        result = federation.train("quiet", *settings, "engine.min_platforms=2")
    assert result["rounds"] == 3
    entries = [it for it in read_ledger(federation.kits / "p1" / "ledger" / "ledger.jsonl") if it.task == "train"]
    assert [bool(it.refused) for it in entries] == [True, False] * 3
    assert all([field.name for field in it.fields] == ["(header)"] for it in entries if not it.refused)
