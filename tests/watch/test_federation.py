"""A real federation, watched with the rights of its admin and of a viewer, while a platform dies and comes back."""

import os
import signal
import time
from contextlib import contextmanager

import pytest

from fedrel.federation.kits import provisioning
from tests.deployment import Deployment
from tests.parity.consortium import write_world
from tests.processes import descendants, start
from tests.review.browser.small_platform import Visitor
from tests.watch.test_server import tiles

SETTINGS = [
    *("data.size=1500", "training.rounds=40", "training.patience=40", "training.epochs=6", "partition.server=0"),
    *("method.name=lazy-mil", "method.warmup=0", "extractor.filters=32", "extractor.embeddings=trainable"),
    *("engine.deadline=120", "engine.min_platforms=2"),
]


@contextmanager
def watching(target):
    """Somebody at the page that the command serves."""
    process = start("watch", target, "--port", 0)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("open "), process.communicate()
        address, _, token = line.split()[1].partition("?")
        visitor = Visitor(address.rstrip("/"))
        visitor.get(f"/?{token}")
        yield visitor
    finally:
        process.kill()
        process.communicate()


def wait_for(visitor, what, seconds=300.0):
    """The page, once these words are in it."""
    until = time.monotonic() + seconds
    while what not in (page := visitor.get()).words:
        assert time.monotonic() < until, f"no {what!r} in {page.words}"
        time.sleep(0.3)
    return page


@pytest.mark.slow
@pytest.mark.timeout(2_000)
def test_watching_a_federation(tmp_path, refused):
    federation = Deployment(tmp_path, write_world(tmp_path / "world", *SETTINGS))
    provisioning.add(federation.kits, "eve", "viewer")
    with federation:
        federation.wait_until_connected()
        with watching(federation.kits / "admin") as admin, watching(federation.kits / "eve") as eve:
            assert "No run yet" in admin.get().words and "p2" in admin.get().words
            federation.submit(str(federation.world / "experiment.toml"), "--name", "run")
            federation.wait("run", lambda status: status["round"] >= 2, 500)  # on a new machine, loops are compiled
            page = wait_for(admin, "of at most 40")
            assert 'id="chart-score"' in page.text and 'id="chart-bytes"' in page.text
            assert "of at most 40" in wait_for(eve, "of at most 40").words, "a viewer may look"
            node = federation.nodes["p2"]
            for pid in [node.pid, *descendants(node.pid)]:
                os.kill(pid, signal.SIGKILL)
            node.wait()
            gone = wait_for(admin, "p2: disconnected")
            assert "1 gone" in gone.words
            federation.start("p2")
            back = wait_for(admin, "p2: connected")
            assert "1 gone" not in back.words
            status = federation.wait("run", lambda status: status["state"] in ("done", "failed", "stopped"), 1_000)
            assert status["state"] == "done", federation.story()
            page = wait_for(admin, "the best was")
            assert f"{status['round']} round" in page.words and "of at most" not in page.words
            assert tiles(page)["test ap"] == f"{status['result']['test']['ap']:.3f}"
            assert [it["round"] for it in status["history"]] == list(range(1, status["round"] + 1))
            assert sum(it["up"] for it in status["history"]) == status["history"][-1]["all_up"]
            assert str(federation.runs / "run") in page.words, "where the report is"
            seen = federation.look()
            assert {it["run"] for it in seen["runs"]} == {"run"}
        with watching(federation.runs / "run") as local:
            assert "p2: disconnected" in local.get().words, "the coordinator's own machine knows as much"
            report = local.get("/report")
            assert report.status == 200 and 'id="mistakes"' not in report.text, "it quotes nobody's sentences"
        assert "cannot command the federation" in refused("watch", federation.kits / "p0")
