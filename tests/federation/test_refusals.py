"""Who is refused, and that they are told why, that they never take part, and that the others go on."""

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
from fedrel.errors import ShutOutError, UserError
from fedrel.federation.codec import encode
from fedrel.federation.engines.nvflare import provisioning
from fedrel.federation.engines.nvflare.kits import Kit, Role, open_kit
from fedrel.federation.engines.nvflare.remarks import Remarks
from fedrel.federation.engines.remote import Failure
from fedrel.federation.protocol import named_in
from fedrel.privacy.ledger import Ledger
from fedrel.privacy.ledger import read as read_ledger
from tests.deployment import FEDREL, Deployment, free_port
from tests.kits import a_job, ask, certify
from tests.parity.consortium import Consortium, read, write_world
from tests.processes import descendants

PLATFORMS = ("p0", "p1")
NODE = """
import sys
from pathlib import Path
from fedrel.federation.engines.nvflare.kits import Kit
from fedrel.federation.engines.nvflare.node import Node
folder, name, port = sys.argv[1:]
kit = Kit(Path(folder), name, "platform", "localhost", int(port))
Node(kit, {"data": ""}, lambda line: print(line, flush=True)).run()
"""

# -------------------------------------------------------------------- before anything is sent: the kit itself is wrong


@pytest.fixture
def kits(tmp_path):
    folder = tmp_path / "kits"
    provisioning.new(folder, host="localhost", port=free_port(), platforms=["a", "b"])
    provisioning.new(tmp_path / "other", host="localhost", port=free_port(), platforms=["a"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("")
    return folder


def without_certificate(kits: Path) -> None:
    (kits / "a" / "startup" / "client.crt").unlink()


def of_another_authority(kits: Path) -> None:
    take(kits.parent / "other" / "a", kits / "a")


def of_another_platform(kits: Path) -> None:
    take(kits / "b", kits / "a")


def expired(kits: Path) -> None:
    certify(kits, kits / "a", since=timedelta(days=-9), until=timedelta(days=-2))


def take(source: Path, target: Path) -> None:
    for name in ("client.crt", "client.key"):
        shutil.copy(source / "startup" / name, target / "startup")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (without_certificate, "the kit is not complete"),
        (of_another_authority, "a certificate of another federation"),
        (of_another_platform, "the certificate of b, and this is the kit of a"),
        (expired, "expired on"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_kit_that_is_wrong_does_not_even_start(wrong, why, check, kits, tmp_path, refused):
    wrong(kits)
    sentence = refused("platform", "start", kits / "a", "--data", tmp_path / "data", *check)
    assert why in sentence


def test_a_check_tells_that_nobody_answers(kits, tmp_path, fedrel):
    outcome = fedrel("platform", "start", kits / "a", "--data", tmp_path / "data", "--check")
    assert outcome.code == 2
    assert "is the coordinator running, and is the port open from here?" in outcome.err


def test_a_platforms_kit_commands_nothing(kits, refused):
    assert "a platform's kit cannot command the federation" in refused("status", kits / "a")


# ------------------------------------------------------------------------- what the coordinator asks for is not there


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("refusals") / "world")


def test_a_task_that_is_not_of_the_method_is_refused_and_written_down(world, tmp_path):
    consortium = Consortium(world, tmp_path / "homes", read(world, "method.name=fedavg"))
    consortium.begin()
    for task in ("read_all_text", "predict", "__init__"):
        answer = consortium.ask("p0", task, 0, encode({}))
        assert isinstance(answer, Failure)
        assert f"there is no task '{task}' in this method" in answer.why
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


# ------------------------------------------------------------------------------------------------- what a log means


@pytest.mark.parametrize(
    ("role", "line", "said"),
    [
        ("platform", "FederatedClient - INFO - Successfully registered client:a for project x.", "a is connected"),
        (
            "platform",
            "conn_manager - ERROR - Connector [CH00001 ACTIVE tcp://h:1] failed with exception "
            "SSLCertVerificationError: [SSL] certificate verify failed: self-signed certificate (_ssl.c:1006)",
            "h:1 is not the coordinator of this federation (self-signed certificate)",
        ),
        (
            "platform",
            "conn_manager - ERROR - Connector [CH00001 ACTIVE tcp://h:1] failed with exception ConnectionRefusedError: "
            "[Errno 111] Connection refused",
            "nobody answers at h:1",
        ),
        (
            "coordinator",
            "conn_manager - ERROR - Error processing frame: CommError: Code: BAD_DATA Error: connection CN00002 "
            "authenticated as 'b' but claimed endpoint 'a' requires identity 'a'",
            "refused somebody with the certificate of b who says to be a",
        ),
        ("coordinator", "door - WARNING - refused 10.0.0.7: it has no certificate", "refused 10.0.0.7: it has"),
        ("coordinator", "ClientManager - INFO - Client: New client a@10.0.0.7 joined. Sent token.", "a joined"),
    ],
)
def test_a_line_of_the_log_is_said_in_plain_words_and_once(role, line, said, tmp_path):
    heard: list[str] = []
    log = tmp_path / "node.log"
    log.write_text("what was there before is not news\n")
    remarks = Remarks(Kit(tmp_path, "a", role, "h", 1), log, heard.append)
    with log.open("a") as file:
        file.write(f"2026-01-01 - {line}\nsomething else\n2026-01-01 - {line[:30]}")
    remarks()
    remarks()
    assert len(heard) == 1 and heard[0].startswith(said)


def heard_of(tmp_path: Path, role: Role, *lines: str) -> list[str]:
    heard: list[str] = []
    log = tmp_path / "node.log"
    remarks = Remarks(Kit(tmp_path, "a", role, "h", 1), log, heard.append)
    log.write_text("".join(f"{line}\n" for line in lines))
    remarks()
    return heard


def test_what_the_training_process_writes_into_the_log_is_not_taken_for_nvflares_word(tmp_path):
    lines = ["begin: train.jsonl:3: registration rejected: no JSON", "Successfully registered client:a"]
    assert heard_of(tmp_path, "platform", *lines) == []


def test_a_node_whose_name_is_shut_out_ends_with_the_reason(tmp_path):
    with pytest.raises(ShutOutError, match="the coordinator refuses a: Client 'a' is disabled"):
        heard_of(tmp_path, "platform", "Authenticator - ERROR - registration rejected: Client 'a' is disabled")


def test_a_refusal_that_may_pass_is_not_taken_for_one_for_good(tmp_path):
    why = "Maximum number of clients reached"
    with pytest.raises(UserError, match=f"the coordinator refuses a: {why}") as caught:
        heard_of(tmp_path, "platform", f"Authenticator - ERROR - registration rejected: {why}")
    assert caught.value.code == 2


def test_one_connection_that_replaces_another_is_no_news_and_many_are(tmp_path):
    line = "sfm_endpoint - INFO - Connection CN1 is evicted for CN2 from endpoint a for exceeding limit 1"
    assert heard_of(tmp_path, "coordinator", line, line, line) == []
    assert heard_of(tmp_path, "coordinator", *[line] * 9) == ["a connects again and again: is its kit in use twice?"]


def test_a_node_tells_of_what_its_platform_refused(tmp_path, capsys):
    departures = Departures(tmp_path / "ledger.jsonl")
    with Ledger.open(tmp_path / "ledger.jsonl") as ledger:
        ledger.refuse(run="r", round=1, task="train", why="its policy allows only feded")
    departures()
    assert capsys.readouterr().err == "r: round 1, train: refused: its policy allows only feded\n"


# ---------------------------------------------------------------------------------------- at the coordinator's door


@pytest.fixture(scope="module")
def federation(world, tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("federation"), world, PLATFORMS) as running:
        provisioning.add(running.kits, "eve", "viewer")
        wait_for(lambda: said(running, "coordinator").count(" joined") >= 2, running)
        yield running


def said(federation: Deployment, name: str) -> str:
    path = federation.folder / f"{name}.log"
    return path.read_text() if path.exists() else ""


def wait_for(condition, federation: Deployment, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, federation.story()
        time.sleep(0.3)


def port_of(federation: Deployment) -> int:
    return open_kit(federation.kits / "p0").port


@contextlib.contextmanager
def posing(federation: Deployment, kit: Path, name: str):
    """A node that does not look at its own kit before it starts; what it says is in LOG."""
    log = federation.folder / f"{kit.name}.log"
    with log.open("w") as file:
        command = [sys.executable, "-c", NODE, str(kit), name, str(port_of(federation))]
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
    done = subprocess.run(
        [FEDREL, "status", str(federation.kits / "admin"), "--json"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return sorted(json.loads(done.stdout)["connected"])


def knock(port: int, *, certificate: Path | None = None, authority: Path) -> str:
    """What a stranger with these hears at the door."""
    context = ssl.create_default_context(cafile=authority / "startup" / "rootCA.pem")
    if certificate is not None:
        context.load_cert_chain(certificate / "startup" / "client.crt", certificate / "startup" / "client.key")
    with (
        socket.create_connection(("localhost", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        try:
            return repr(secure.recv(1))
        except (ssl.SSLError, OSError) as error:
            return str(getattr(error, "reason", None) or error)


@pytest.mark.slow
def test_strangers_are_refused_and_the_coordinator_says_who_and_why(federation, tmp_path):
    kits, port = federation.kits, port_of(federation)
    other = tmp_path / "other"
    provisioning.new(other, host="localhost", port=port, platforms=["p0"])
    late = shutil.copytree(kits / "p0", tmp_path / "late")
    certify(kits, late, since=timedelta(days=-9), until=timedelta(days=-2))
    assert "CERTIFICATE_REQUIRED" in knock(port, authority=kits / "p0")
    assert "UNKNOWN_CA" in knock(port, certificate=other / "p0", authority=kits / "p0")
    assert "EXPIRED" in knock(port, certificate=late, authority=kits / "p0")
    with socket.create_connection(("localhost", port), timeout=20) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    for why in (
        "it has no certificate",
        "its certificate is not of this federation, or not valid now: unable to get local issuer certificate",
        "its certificate is not of this federation, or not valid now: certificate has expired",
        "it speaks plain text, not TLS",
    ):
        wait_for(lambda why=why: f"refused 127.0.0.1: {why}" in said(federation, "coordinator"), federation, 20)
    assert connected(federation) == ["p0", "p1"]


@pytest.mark.slow
def test_who_connects_and_says_nothing_keeps_nobody_out(federation):
    port = port_of(federation)
    with contextlib.ExitStack() as silent:
        for _ in range(5):
            silent.enter_context(socket.create_connection(("localhost", port), timeout=20))
        assert open_kit(federation.kits / "p0").greet(timeout=8) == "TLSv1.3"
        wait_for(lambda: "it said nothing for 10 seconds" in said(federation, "coordinator"), federation, 30)


@pytest.mark.slow
def test_a_platform_with_the_certificate_of_another_never_takes_part(federation, tmp_path):
    """And neither does one with a kit of another federation; the run goes on with those who belong to it."""
    kits, port = federation.kits, port_of(federation)
    impostor = shutil.copytree(
        kits / "p0", tmp_path / "impostor", ignore=shutil.ignore_patterns("ledger", "*.log", ".*")
    )
    take(kits / "p1", impostor)
    provisioning.new(tmp_path / "other", host="localhost", port=port, platforms=["p9"])
    foreign = (tmp_path / "other" / "p9").rename(tmp_path / "foreign")
    check = [FEDREL, "platform", "start", str(foreign), "--data", str(federation.world / "p2"), "--check"]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 2
    assert "is not the coordinator of this federation" in checked.stderr
    with posing(federation, impostor, "p0"), posing(federation, foreign, "p9"):
        wait_for(
            lambda: "refused somebody with the certificate of p1 who says to be p0" in said(federation, "coordinator"),
            federation,
        )
        result = federation.train("among-themselves", "method.name=fedavg", "extractor.embeddings=trainable")
        assert result["rounds"] == 3
        wait_for(lambda: "it does not take this node for p0" in said(federation, "impostor"), federation)
        wait_for(lambda: "is not the coordinator of this federation" in said(federation, "foreign"), federation)
    status = federation.status("among-themselves")
    assert set(status["platforms"]) == {"p0", "p1"}
    assert not any(it["failures"] for it in status["platforms"].values())
    for kit in (impostor, foreign):
        assert not (kit / "ledger").exists()
    assert connected(federation) == ["p0", "p1"]


@pytest.mark.slow
def test_who_may_only_look_starts_and_stops_nothing(federation):
    kit, experiment = str(federation.kits / "eve"), str(federation.world / "experiment.toml")
    for command in (["submit", kit, experiment, "--name", "eves"], ["submit", kit, "--resume", "among-themselves"]):
        done = subprocess.run([FEDREL, *command], capture_output=True, text=True, timeout=90)
        assert done.returncode == 2, done.stderr
        assert "this identity has no right to submit a run; ask for a kit with the role admin" in done.stderr
    assert federation.status("eves")["state"] == "unknown"
    shown = subprocess.run([FEDREL, "status", kit, "--json"], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and sorted(json.loads(shown.stdout)["connected"]) == ["p0", "p1"]


@pytest.mark.slow
def test_a_job_that_carries_code_or_names_other_classes_runs_nowhere(federation, tmp_path):
    marker = tmp_path / "code-ran"
    code = a_job(tmp_path / "code")
    (code / "app" / "custom").mkdir()
    (code / "app" / "custom" / "code.py").write_text(f"open({str(marker)!r}, 'w')")
    for job, why in ((code, "BYOC not permitted"), (a_job(tmp_path / "classes"), "")):
        number = ask(federation.kits / "admin", "submit", job)
        wait_for(lambda number=number: "FINISHED" in str(ask(federation.kits / "admin", "meta", number)), federation)
        meta = ask(federation.kits / "admin", "meta", number)
        assert meta["status"] != "FINISHED:COMPLETED" and why in str(meta.get("job_deploy_detail"))
    assert not marker.exists()
    wait_for(lambda: "refused a job that carries code" in said(federation, "coordinator"), federation, 20)
    classes = "refused a job that names nvflare.app_common"
    wait_for(lambda: any(classes in said(federation, name) for name in ("coordinator", *PLATFORMS)), federation, 20)
    assert connected(federation) == ["p0", "p1"]


@pytest.mark.slow
def test_a_platform_that_was_shut_out_is_told_so_and_ends(federation):
    """The last test here: the coordinator is started anew."""
    provisioning.revoke(federation.kits, "p1")
    federation.nodes["coordinator"].terminate()
    federation.nodes["coordinator"].wait(60)
    federation.start("coordinator")
    wait_for(lambda: "p0 is back" in said(federation, "coordinator"), federation)
    wait_for(lambda: "the coordinator does not know p1 any more" in said(federation, "p1"), federation)
    assert connected(federation) == ["p0"]
    federation.nodes["p1"].terminate()
    federation.nodes["p1"].wait(60)
    federation.start("p1")
    assert federation.nodes["p1"].wait(120) == ShutOutError.code
    assert "the coordinator refuses p1: Client 'p1' is disabled" in said(federation, "p1")
    assert connected(federation) == ["p0"]
