"""Parties that are refused get a reason and never take part, and the others continue."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from fedrel.cli.nodes import Departures
from fedrel.engines.remote import Failure
from fedrel.errors import ShutOutError, UserError
from fedrel.federation.https.session import connect, greet
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.audit import read as read_audit
from fedrel.federation.nodes.platform import PlatformNode
from fedrel.privacy.ledger import Ledger
from fedrel.privacy.ledger import read as read_ledger
from fedrel.protocol.codec import encode
from fedrel.protocol.records import named_in
from tests.coordinator_server import serial_shown
from tests.deployment import FEDREL, Deployment, free_port
from tests.kits import certificate_in, certify, take
from tests.parity.consortium import Consortium, read, write_world
from tests.processes import descendants

PLATFORMS = ("p0", "p1")
NODE = """
import sys
from pathlib import Path
from fedrel.federation.kits.kit import Kit
from fedrel.federation.nodes.platform import PlatformNode
folder, federation, name, port = sys.argv[1:]
kit = Kit(Path(folder), federation, name, "platform", "localhost", int(port))
PlatformNode(kit, Path(folder), "", lambda line: print(line, flush=True)).run()
"""

# ---------------------------------------------------------- before anything is sent: the kit itself is invalid


@pytest.fixture
def kits(tmp_path):
    folder = tmp_path / "kits"
    provisioning.new(folder, host="localhost", port=free_port(), platforms=["a", "b"])
    provisioning.new(tmp_path / "other", host="localhost", port=free_port(), platforms=["a"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("")
    return folder


def without_certificate(kits: Path) -> None:
    (kits / "a" / "tls" / "node.crt").unlink()


def of_another_authority(kits: Path) -> None:
    take(kits.parent / "other" / "a", kits / "a")


def of_another_platform(kits: Path) -> None:
    take(kits / "b", kits / "a")


def expired(kits: Path) -> None:
    certify(kits, kits / "a", since=timedelta(days=-9), until=timedelta(days=-2))


def open_to_others(kits: Path) -> None:
    (kits / "a" / "sign" / "sign.key").chmod(0o644)


def without_blinding_key(kits: Path) -> None:
    (kits / "a" / "local" / "blinding.key").unlink()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (without_certificate, "the kit is incomplete"),
        (of_another_authority, "a certificate of another federation"),
        (of_another_platform, "a certificate of b (platform) in the kit of a (platform)"),
        (expired, "expired on"),
        (open_to_others, "other users of this machine can read this key"),
        (without_blinding_key, "copy the key from another platform's kit"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_node_with_an_invalid_kit_does_not_start(wrong, why, check, kits, tmp_path, refused):
    wrong(kits)
    sentence = refused("platform", "start", kits / "a", "--data", tmp_path / "data", *check)
    assert why in sentence


def test_a_check_reports_that_nothing_answers(kits, tmp_path, fedrel):
    outcome = fedrel("platform", "start", kits / "a", "--data", tmp_path / "data", "--check")
    assert outcome.code == 2
    assert "is the coordinator running, and is the port open from here?" in outcome.err


def test_a_platforms_kit_cannot_send_commands(kits, refused):
    assert "a platform's kit cannot command the federation" in refused("status", kits / "a")


# ------------------------------------------------------------------------- requests for something that does not exist


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("refusals") / "world")


def test_a_task_that_the_method_does_not_have_is_refused_and_recorded(world, tmp_path):
    consortium = Consortium(world, tmp_path / "homes", read(world, "method.name=fedavg"))
    consortium.begin()
    for task in ("read_all_text", "predict", "__init__"):
        answer = consortium.ask("p0", task, 0, encode({}))
        assert isinstance(answer, Failure)
        assert f"this method has no task '{task}'" in answer.why
    consortium.close()
    entries = list(read_ledger(tmp_path / "homes/p0/ledger/ledger.jsonl"))
    assert [(it.task, bool(it.refused)) for it in entries] == [
        ("begin", False),
        ("read_all_text", True),
        ("predict", True),
        ("__init__", True),
    ]


def test_a_method_that_is_not_installed_is_refused_with_its_name(world, tmp_path):
    consortium = Consortium(world, tmp_path / "homes", read(world, "method.name=fedavg"))
    text = named_in(consortium.coordination.agreement, "experiment")["text"]
    changed = bytes(text.numpy()).replace(b'name = "fedavg"', b'name = "fedzzz"')
    text.copy_(torch.frombuffer(bytearray(changed), dtype=torch.uint8))
    consortium.begin()
    consortium.close()
    assert len(consortium.failures) == 3
    assert all('method.name = "fedzzz" is no method' in why for _, why in consortium.failures)


def test_a_method_that_is_not_installed_is_not_submitted(kits, world, refused):
    sentence = refused("submit", kits / "admin", world / "experiment.toml", "--set", "method.name=fedzzz")
    assert 'method.name = "fedzzz" is no method' in sentence


# ------------------------------------------------------------------------------------------ what a node reports


def test_a_revoked_platforms_node_ends_with_the_reason(made):
    heard: list[str] = []
    node = PlatformNode(open_kit(made / "a"), made, "", heard.append)
    node._state("connected", final=False)
    node._state("another node is running with the kit of a; stop it first", final=False)  # may be temporary
    assert heard == ["a is connected", "another node is running with the kit of a; stop it first"]
    with pytest.raises(ShutOutError, match="the coordinator refuses a: a has been revoked") as caught:
        node._state("a has been revoked", final=True)
    assert caught.value.code == 3
    (made / "a" / "audit.jsonl").unlink()


def test_a_node_reports_what_its_platform_refused(tmp_path, capsys):
    departures = Departures(tmp_path / "ledger.jsonl")
    with Ledger.open(tmp_path / "ledger.jsonl") as ledger:
        ledger.refuse(run="r", round=1, task="train", why="its policy allows only feded")
    departures()
    assert capsys.readouterr().err == "r: round 1, train: refused: its policy allows only feded\n"


# ---------------------------------------------------------------------------------------- at the coordinator


@pytest.fixture(scope="module")
def federation(world, tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("federation"), world, PLATFORMS) as running:
        provisioning.add(running.kits, "eve", "viewer")
        wait_for(lambda: said(running, "coordinator").count(" connected") >= 2, running)
        yield running


def said(federation: Deployment, name: str) -> str:
    path = federation.folder / f"{name}.log"
    return path.read_text() if path.exists() else ""


def wait_for(condition, federation: Deployment, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, federation.story()
        time.sleep(0.1)


def port_of(federation: Deployment) -> int:
    return open_kit(federation.kits / "p0").port


@contextlib.contextmanager
def posing(federation: Deployment, kit: Path, name: str):
    """A node that does not check its own kit when it starts; its output is in LOG."""
    log = federation.folder / f"{kit.name}.log"
    about = json.loads((kit / "kit.json").read_text())
    with log.open("w") as file:
        command = [sys.executable, "-c", NODE, str(kit), about["federation"], name, str(port_of(federation))]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        everything = [process.pid, *descendants(process.pid)]
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        for pid in everything:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def connected(federation: Deployment) -> list[str]:
    with connect(open_kit(federation.kits / "admin")) as session:
        return sorted(session.look()["connected"])


def copied(kit: Path, target: Path) -> Path:
    """A copy of the kit as it was created."""
    ignored = shutil.ignore_patterns("ledger", "memory", "spool", "*.log", "audit.jsonl", ".*")
    return Path(shutil.copytree(kit, target, ignore=ignored))


def test_a_viewer_can_neither_start_nor_stop_runs(federation):
    experiment = (federation.world / "experiment.toml").read_text()
    with connect(open_kit(federation.kits / "eve")) as session:
        wait_for(lambda: sorted(session.look()["connected"]) == ["p0", "p1"], federation)
        for forbidden in (
            lambda: session.submit("eves", experiment),
            lambda: session.submit("eves", ""),
            lambda: session.stop("eves"),
        ):
            with pytest.raises(UserError, match=r"refuses eve: /v1/(submit|stop) is not for the role viewer"):
                forbidden()
    assert federation.status("eves")["state"] == "unknown"
    refused = [it for it in read_audit(federation.kits / "coordinator") if it["event"] == "refused"]
    assert {it["name"] for it in refused} == {"eve"}
    assert {it["address"] for it in refused} == {"127.0.0.1"}


def test_a_renewed_certificate_is_used_without_a_restart(federation):
    admin = ssl.create_default_context(cafile=federation.kits / "admin/tls/ca.pem")
    admin.load_cert_chain(federation.kits / "admin/tls/node.crt", federation.kits / "admin/tls/node.key")
    before, pids = serial_shown(port_of(federation), admin), federation.processes("coordinator")
    provisioning.renew(federation.kits)
    wanted = certificate_in(federation.kits / "coordinator").serial_number
    wait_for(lambda: serial_shown(port_of(federation), admin) == wanted, federation, 10)
    assert wanted != before
    assert federation.processes("coordinator") == pids
    wait_for(lambda: "a renewed certificate is in use" in said(federation, "coordinator"), federation, 10)
    assert connected(federation) == ["p0", "p1"]  # nobody was disconnected
    assert " disconnected" not in said(federation, "coordinator")


@pytest.mark.slow
def test_silent_connections_do_not_block_others(federation):
    port = port_of(federation)
    with contextlib.ExitStack() as silent:
        for _ in range(5):
            silent.enter_context(socket.create_connection(("localhost", port), timeout=20))
        began = time.monotonic()
        greet(open_kit(federation.kits / "p0"))
        assert time.monotonic() - began < 5
        wait_for(lambda: "no TLS handshake within 10 seconds" in said(federation, "coordinator"), federation, 30)


@pytest.mark.slow
def test_a_platform_with_anothers_certificate_never_takes_part(federation, tmp_path):
    """Nor does one with a kit of another federation; the run continues with its members."""
    kits, port = federation.kits, port_of(federation)
    impostor = copied(kits / "p0", tmp_path / "impostor")
    take(kits / "p1", impostor)
    provisioning.new(tmp_path / "other", host="localhost", port=port, platforms=["p9"])
    foreign = (tmp_path / "other" / "p9").rename(tmp_path / "foreign")
    check = [FEDREL, "platform", "start", str(foreign), "--data", str(federation.world / "p2"), "--check"]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 2
    assert "is not the coordinator of this federation" in checked.stderr
    with posing(federation, impostor, "p0"), posing(federation, foreign, "p9"):
        wait_for(lambda: "another node is running with the kit of p1" in said(federation, "coordinator"), federation)
        result = federation.train("among-themselves", "method.name=fedavg", "extractor.embeddings=trainable")
        assert result["rounds"] == 3
        wait_for(
            lambda: "another node is running with the kit of p1; stop it first" in said(federation, "impostor"),
            federation,
        )
        wait_for(lambda: "is not the coordinator of this federation" in said(federation, "foreign"), federation)
    status = federation.status("among-themselves")
    assert set(status["platforms"]) == {"p0", "p1"}
    assert not any(it["failures"] for it in status["platforms"].values())
    for kit in (impostor, foreign):
        assert not (kit / "ledger").exists()
    assert connected(federation) == ["p0", "p1"]


@pytest.mark.slow
def test_a_stolen_tls_key_alone_cannot_answer_for_a_platform(federation, tmp_path):
    """p1's TLS key was stolen while p1 is away: the thief gets requests, but its replies do not count as p1's."""
    federation.nodes["p1"].terminate()
    federation.nodes["p1"].wait(60)
    thief = copied(federation.kits / "p0", tmp_path / "thief")
    take(federation.kits / "p1", thief, "tls/node.crt", "tls/node.key")
    about = json.loads((thief / "kit.json").read_text())
    (thief / "kit.json").write_text(json.dumps({**about, "name": "p1"}))
    (thief / "train.jsonl").write_bytes((federation.world / "p1" / "train.jsonl").read_bytes())
    with posing(federation, thief, "p1"):
        wait_for(lambda: "p1 is connected" in said(federation, "thief"), federation)
        settings = ["method.name=fedavg", "extractor.embeddings=trainable", "engine.min_platforms=1"]
        result = federation.train("robbed", *settings, "training.rounds=1")
        assert result["rounds"] == 1
    status = federation.status("robbed")
    assert status["platforms"]["p1"]["failures"] and not status["platforms"]["p0"]["failures"]
    assert "p1" not in json.dumps([json.loads(line) for line in ledger_of(federation, "robbed")])
    federation.start("p1")
    wait_for(lambda: connected(federation) == ["p0", "p1"], federation)


def ledger_of(federation: Deployment, run: str) -> list[str]:
    return (federation.runs / run / "ledger.jsonl").read_text().splitlines()


@pytest.mark.slow
def test_an_invalid_experiment_fails_and_the_next_one_runs(federation):
    with connect(open_kit(federation.kits / "admin")) as session:
        session.submit("no-toml", "this is no experiment")
        session.submit("no-method", '[method]\nname = "fedzzz"\n')
        session.submit("centralised", '[method]\nname = "centralised"\n')
        for run, why in (("no-toml", "not valid TOML"), ("no-method", "no method"), ("centralised", "")):
            status = federation.wait(run, lambda status: status["state"] in ("failed", "done"))
            assert status["state"] == "failed" and why in status["why"]
            assert status["attempt"] == 1
    federation.train("after-them", "method.name=fedavg", "extractor.embeddings=trainable", "training.rounds=1")


@pytest.mark.slow
def test_a_revoked_platform_is_disconnected_at_once_and_ends(federation):
    """Must be the last test in this file. A run is active, and continues with the other platform."""
    settings = ["training.rounds=200", "training.patience=1000", "engine.min_platforms=1", "engine.deadline=600"]
    given = [part for setting in (*settings, "method.name=fedavg") for part in ("--set", setting)]
    federation.submit(str(federation.world / "experiment.toml"), *given, "--name", "long")
    federation.wait("long", lambda status: status["round"] >= 2)
    provisioning.revoke(federation.kits, "p1")
    began = time.monotonic()
    wait_for(lambda: "p1 disconnected: revoked" in said(federation, "coordinator"), federation, 10)
    assert time.monotonic() - began < 5
    assert federation.nodes["p1"].wait(20) == ShutOutError.code
    assert "the coordinator refuses p1: p1 has been revoked" in said(federation, "p1")
    now = federation.status("long")["round"]
    federation.wait("long", lambda status: status["round"] > now + 2)
    assert connected(federation) == ["p0"]
    federation.start("p1")
    assert federation.nodes["p1"].wait(120) == ShutOutError.code
    with connect(open_kit(federation.kits / "admin")) as session:
        session.stop("long")
    federation.wait("long", lambda status: status["state"] == "stopped", 30)
