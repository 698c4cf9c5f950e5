"""A run that diverges in a real federation begins again with a smaller learning rate; its first uploads are kept."""

import json

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
    assert status["why"].startswith("round 1 was repeated 5 times with the same outcome: p1: refused: weights/")
