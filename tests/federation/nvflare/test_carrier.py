"""A FLARE federation carries our messages: the weights are the same as in one process, and FLARE can read no secret."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("nvflare")
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.protocol.checkpoint import load
from tests.deployment import Deployment
from tests.federation.nvflare.callbacks import COMMANDS, REQUESTS, STREAMS, each
from tests.federation.nvflare.flare import Flare
from tests.parity.consortium import read, write_world

pytestmark = pytest.mark.slow
PLATFORMS = ("p0", "p1")
SETTINGS = ("method.name=evidence", "extractor.embeddings=trainable", "training.rounds=2")
ROOT = os.getuid() == 0
NOBODY = 65534 if ROOT else None  # the user FLARE runs as, where a test can choose


@pytest.fixture
def place():
    """A folder that another user can enter, with a path short enough for sockets; files in it may be private."""
    folder = Path(tempfile.mkdtemp(prefix="fedrel-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Both:
    """Our nodes, and a FLARE federation between them."""

    def __init__(self, folder: Path, *, guarded: bool) -> None:
        world = write_world(folder / "world", "partition.platforms=2")
        (folder / "world").chmod(0o700)
        self.sockets = folder / "sockets"
        (folder / "ours").mkdir()
        self.nodes = Deployment(folder / "ours", world, PLATFORMS)
        self.flare = Flare(folder / "flare", PLATFORMS, user=NOBODY, guarded=guarded)
        for name in ("coordinator", *PLATFORMS):
            site = "server" if name == "coordinator" else name
            self.flare.relay(site, self.sockets / name / "relay.sock")

    def start(self, name: str) -> None:
        user = ["--relay-user", str(NOBODY)] if NOBODY else []
        self.nodes.start(name, "--carrier", "nvflare", "--relay", str(self.sockets / name), *user)

    def said(self, name: str) -> str:
        return (self.nodes.folder / f"{name}.log").read_text()

    def wait_until(self, name: str, words: str, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while words not in self.said(name):
            assert time.monotonic() < until, f"{words}\n{self.nodes.story()}\n{self.flare.story()}"
            time.sleep(0.1)

    def __enter__(self) -> Both:
        try:
            self.flare.__enter__()
            self.flare.wait_for_clients()
            self.job = self.flare.submit()
            for name in ("coordinator", *PLATFORMS):
                self.start(name)
            for name in PLATFORMS:
                self.wait_until("coordinator", f"{name} connected via FLARE site {name}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.__exit__()
        self.flare.__exit__()


def together(world, folder):
    execution = Execution(prepare(read(world, *SETTINGS)), folder)
    for _ in execution.rounds():
        pass
    return execution.state["weights"], execution.finish()


def test_the_weights_are_the_same_through_a_guarded_flare_of_another_user(place, tmp_path):
    with Both(place, guarded=True) as both:
        weights, result = together(both.nodes.world, tmp_path / "together")
        apart = both.nodes.train("run", *SETTINGS)
        learnt = load(both.nodes.runs / "run" / "checkpoint").state["weights"]
        assert all(torch.equal(learnt[name], value) for name, value in weights.items())
        assert apart["test"] == result["test"]
        assert ("read this text" in both.said("p0")) == (NOBODY is None)

        # the restart of a platform's node is noticed, and the node found again
        both.nodes.nodes["p1"].terminate()
        both.nodes.nodes["p1"].wait(30)
        both.wait_until("coordinator", "p1 disconnected: its node ended")
        both.start("p1")
        again = both.nodes.train("again", *SETTINGS)
        assert again["test"] == result["test"]

        # a job aborted during a run is replaced by the next one, and the run continues
        given = [part for setting in (*SETTINGS, "training.rounds=40") for part in ("--set", setting)]
        both.nodes.submit(str(both.nodes.world / "experiment.toml"), *given, "--name", "third")
        both.nodes.wait("third", lambda status: status["round"] >= 2)
        both.flare.ask("abort", both.job)
        both.wait_until("coordinator", "p0 disconnected: the FLARE job has gone")
        assert both.nodes.status("third")["round"] < 40
        both.flare.submit()
        ended = both.nodes.wait("third", lambda status: status["state"] in ("done", "failed"), 200)
        assert ended["state"] == "done", both.nodes.story()
        refused = {(line["channel"], line["topic"]) for line in both.flare.refusals()}
        assert refused <= {("aux_communication", f"ObjectStreamer.{it}") for it in ("Request", "Abort")}  # logs


def test_nvflare_registers_what_is_known(place):
    """Every callback of every NVFlare process while the relay's job runs."""
    probe = place / "probe"
    probe.mkdir()
    both = Both(place, guarded=False)
    if NOBODY:
        os.chown(probe, NOBODY, NOBODY)
    path = [str(Path(__file__).parent / "probe"), both.flare.environment.get("PYTHONPATH", "")]
    both.flare.environment |= {"FLARE_PROBE": str(probe), "PYTHONPATH": os.pathsep.join(path)}
    with both:
        pass
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for log in probe.glob("*.jsonl"):
        for line in map(json.loads, log.read_text().splitlines()):
            if not line["cell"].startswith("_admin_"):
                found.setdefault((line["kind"], _role(line["cell"])), set()).add((line["channel"], line["topic"]))
    assert {role: pairs for (kind, role), pairs in found.items() if kind == "request"} == REQUESTS
    assert {role: pairs for (kind, role), pairs in found.items() if kind == "stream"} == STREAMS
    assert found["command", "client"] == {("admin", command) for command in COMMANDS}


def _role(cell: str) -> str:
    root, _, job = cell.partition(".")
    return ("server" if root == "server" else "client") + (" job" if job else "")


def attacks(texts: list[Path]) -> list[dict[str, Any]]:
    """Every message that p0 answers, and its shell on these files."""
    shell: list[dict[str, Any]] = [
        {"to": "p0", "channel": "admin", "topic": "admin", "command": "sys.shell", "body": f"{word} {path}"}
        for path in texts
        for word in ("head", "cat", "ls -l")
    ]
    others: list[dict[str, Any]] = [
        {"to": "p0", "channel": channel, "topic": topic, "stream": stream, "body": ""}
        for stream, pairs in ((False, REQUESTS["client"]), (True, STREAMS["client"]))
        for channel, topic in each(pairs)
        if channel != "sm__STREAM" and topic not in ("stop", "stop_cell", "change_root") and channel != "return_only"
    ]
    return [*shell, *others]


def lone_flare(place, *, guarded):
    """A server and p0; p1 is the attacker's."""
    flare = Flare(place / "flare", PLATFORMS, user=NOBODY, guarded=guarded)
    flare.clients = ("p0",)
    return flare


def secrets_of(place):
    world = write_world(place / "world", "partition.platforms=2")
    (place / "ours").mkdir()
    nodes = Deployment(place / "ours", world, PLATFORMS)
    (place / "world").chmod(0o700)
    kit = nodes.kits / "p0"
    text = next(path for path in (world / "p0").rglob("*") if path.is_file())
    return [text, kit / "sign" / "sign.key", kit / "tls" / "node.key", kit / "local" / "blinding.key"]


@pytest.mark.parametrize("who", ["the client alone", "client and server"])
def test_with_the_guard_a_peer_reaches_no_callback(place, who):
    texts = secrets_of(place)
    flare = lone_flare(place, guarded=True)
    flare.only = {"p0"} if who == "the client alone" else None
    with flare:
        flare.wait_for_clients()
        tries = attacks(texts)
        found = flare.attack("p1", tries)
    answered = [it for it in found if it["code"] == "ok"]
    assert answered == []
    refused = {(line["channel"], line["topic"]) for line in flare.refusals() if line["origin"] == "p1"}
    assert {(it["channel"], it["topic"]) for it in tries} <= refused


@pytest.mark.skipif(not ROOT, reason="to run FLARE as another user takes root")
def test_without_the_guard_a_peer_gets_a_shell_but_neither_text_nor_keys(place):
    texts = secrets_of(place)
    open_to_all = place / "hello.txt"
    open_to_all.write_text("hello")
    with lone_flare(place, guarded=False) as flare:
        flare.wait_for_clients()
        found = flare.attack("p1", [it for it in attacks([*texts, open_to_all]) if it.get("command")])
    answers = {it["body"]: it["answer"] for it in found}
    assert answers[f"cat {open_to_all}"] == "hello"  # the shell is real
    for path in texts:
        content = path.read_bytes()[:200].decode(errors="replace")
        for word in ("head", "cat"):
            answer = answers[f"{word} {path}"]
            assert content[:20] not in answer
            assert re.search("Permission denied|^$|None", answer), answer
