"""A compromised network process: an attacker's code runs in it, under the limits that the process has set itself.

The code replaces the real work in a process that has gone through the real `main`, with a node's real first message.

| attack | what happens |
|---|---|
| reads text, signing and blinding keys, policy, ledger, the user's home | permission denied |
| writes anywhere but to its own spool; starts a program; forks and tries again | permission denied |
| signals, traces or reads the memory of the worker or the node | permission denied |
| opens a port, other kinds of sockets (platform); any socket at all (coordinator) | permission denied |
| sends the node invalid messages | named in the audit trail; the process is replaced, the node survives |

Also, in a short run under strace: what the two processes of a platform open.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedrel.federation.channel import Channel, ClosedError
from fedrel.federation.kits import provisioning
from fedrel.sandbox import available
from tests.attacks.place import Place
from tests.attacks.wire import until
from tests.deployment import FEDREL, free_port
from tests.processes import descendants

slow = pytest.mark.slow
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(available().problems), reason="this machine cannot confine a process wholly"
)

# The attacks, which replace the real work. `attempt(name, function)` records whether each succeeded.
CODE = """
import ctypes, json, os, socket, subprocess, sys
from pathlib import Path
from fedrel.federation.https import MODULE as module

WANTED = json.loads(sys.argv[1])  # the channel is the last argument
found = {}

def attempt(name, function):
    try:
        function()
        found[name] = "possible"
    except (OSError, ValueError) as error:
        found[name] = type(error).__name__

def pry():
    libc = ctypes.CDLL(None, use_errno=True)
    def call(*arguments):
        if libc.syscall(*arguments) < 0:
            raise OSError(ctypes.get_errno(), "")
    for path in WANTED["secret"]:
        attempt(f"read {path}", lambda: Path(path).read_bytes() if Path(path).is_file() else os.listdir(path))
    for path in WANTED["elsewhere"]:
        attempt(f"write {path}", lambda: (Path(path) / "mine").write_text("x"))
    for pid in WANTED["pids"]:
        attempt(f"signal {pid}", lambda: os.kill(pid, 0))
        attempt(f"trace {pid}", lambda: call(101, 16, pid, 0, 0))
        attempt(f"seize {pid}", lambda: call(101, 0x4206, pid, 0, 0))
        attempt(f"descriptor of {pid}", lambda: call(438, os.pidfd_open(pid), 3, 0))
        attempt(f"memory of {pid}", lambda: open(f"/proc/{pid}/mem", "rb"))
        attempt(f"environment of {pid}", lambda: open(f"/proc/{pid}/environ", "rb").read())
        attempt(f"root of {pid}", lambda: os.listdir(f"/proc/{pid}/root/"))
        attempt(f"files of {pid}", lambda: os.listdir(f"/proc/{pid}/fd"))
    attempt("program", lambda: subprocess.run(["/bin/true"]))
    attempt("shell", lambda: os.execv("/bin/sh", ["sh", "-c", "true"]))
    def listening():
        with socket.socket() as it:
            it.bind(("127.0.0.1", 0))
            it.listen()
    attempt("port", listening)
    attempt("local socket", lambda: socket.socket(socket.AF_UNIX).close())
    attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close())
    attempt("netlink", lambda: socket.socket(16, socket.SOCK_RAW).close())
    attempt("packets", lambda: socket.socket(17, socket.SOCK_RAW).close())
    attempt("tcp", lambda: socket.socket().close())
    attempt("namespace", lambda: call(272, 0x10000000))
    attempt("mount", lambda: call(165, b"x", b"/", b"tmpfs", 0, 0))
    attempt("ring", lambda: call(425, 8, 0))
    attempt("shared memory", lambda: call(29, 0, 4096, 0o1600))

def forked():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        found.clear()
        pry()
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    mine = json.loads(b"".join(iter(lambda: os.read(reading, 65536), b"")))
    os.waitpid(child, 0)
    return {f"forked: {name}": value for name, value in mine.items()}

def compromised(channel):
    pry()
    found.update(forked())
    attempt("own spool", lambda: (Path(WANTED["spool"]) / "x").write_text("x"))
    attempt("own key", lambda: Path(WANTED["tls"], "node.key").read_bytes())
    spool = Path(WANTED["spool"]) / "found.json"
    spool.write_text(json.dumps(found))
    channel.send({"do": "found"})
"""
TRANSPORT = (
    CODE.replace("MODULE", "transport")
    + """
module.Transport.run = lambda self: compromised(self.channel)
module.main()
"""
)
SERVER = (
    CODE.replace("MODULE", "server")
    + """
async def serve(channel, listener, told):
    compromised(channel)
module.serve = serve
module.main()
"""
)


@pytest.fixture(scope="module")
def nodes(place) -> Place:
    place.start("p0")
    assert until(lambda: "p0" in place.look()["connected"], 60.0), place.story()
    return place


@pytest.fixture(scope="module")
def trained(nodes) -> Place:
    """With a platform whose training process is running."""
    nodes.train("before", "training.rounds=1", "engine.min_platforms=1")
    assert "worker" in nodes.processes("p0")
    return nodes


def compromise(code: str, kit: Path, wanted: dict[str, Any], folder: Path) -> dict[str, str]:
    """Starts the process as a node would. Returns which attacks succeeded."""
    told = {"do": "start", "tls": str(kit / "tls"), "spool": str(folder), "host": "localhost", "port": free_port()}
    wanted |= {"spool": str(folder), "tls": str(kit / "tls")}
    channel, theirs = Channel.pair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, json.dumps(wanted), str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stderr=subprocess.PIPE,
        )
    channel.send({**told, "federation": "x"})
    with contextlib.suppress(ClosedError):
        while (message := channel.receive(60.0)) is not None and message.header["do"] != "found":
            assert not message.header.get("problems"), message.header
    _, said = process.communicate(timeout=30)
    channel.close()
    assert (folder / "found.json").exists(), said.decode()
    found: dict[str, str] = json.loads((folder / "found.json").read_text())
    return found


def secrets_of(nodes: Place, name: str) -> dict[str, Any]:
    kit = nodes.kits / name
    secret = [
        kit / it for it in ("sign/sign.key", "local", "ledger", "memory", "kit.json", "members.json", "audit.jsonl")
    ]
    secret += [
        nodes.world / "p0" / "train.jsonl",
        nodes.world / "coordinator",
        nodes.kits / "admin" / "tls" / "node.key",
    ]
    secret += [Path("/root"), Path("/home"), Path("/tmp"), nodes.runs, Path("/etc/shadow"), Path("/proc/1/environ")]
    pids = [pid for party in ("coordinator", "p0") for pid in nodes.processes(party).values()]
    elsewhere = [kit, kit / "tls", nodes.runs, nodes.world / "p0", Path("/tmp"), Path("/dev/shm"), Path.home()]
    return {
        "secret": [str(path) for path in secret if path.exists()],
        "elsewhere": [str(path) for path in elsewhere if path.exists()],
        "pids": pids,
    }


ALLOWED = {"own spool", "own key"}


def test_a_platforms_compromised_network_process_reaches_nothing(nodes, tmp_path):
    found = compromise(TRANSPORT, nodes.kits / "p0", secrets_of(nodes, "p0"), tmp_path)
    possible = {name for name, how in found.items() if how == "possible"}
    assert possible == ALLOWED | {"tcp", "forked: tcp"}
    assert len(found) > 80
    nodes.still_works()


@slow
def test_a_compromised_network_process_cannot_reach_the_training_process(trained, tmp_path):
    found = compromise(TRANSPORT, trained.kits / "p0", secrets_of(trained, "p0"), tmp_path)
    worker = trained.processes("p0")["worker"]
    assert {how for name, how in found.items() if name.endswith(f" {worker}")} <= {"PermissionError", "OSError"}
    assert len([name for name in found if name.endswith(f" {worker}")]) == 16


@slow
def test_the_coordinators_compromised_network_process_reaches_nothing(trained, tmp_path):
    found = compromise(SERVER, trained.kits / "coordinator", secrets_of(trained, "coordinator"), tmp_path)
    possible = {name for name, how in found.items() if how == "possible"}
    assert possible == ALLOWED, "it can make a connection of its own" if "tcp" in possible else possible
    trained.still_works()


# -- invalid messages to its node -------------------------------------------------------------------------------------

MESSAGES = [
    {"do": "nonsense"},
    {},
    {"do": "request"},
    {"do": "request", "id": "x", "head": {}},
    {"do": "request", "id": 1, "head": None},
    {"do": "request", "id": float("nan"), "head": {}},
    {"do": "state"},
    {"do": "state", "state": "\x1b[2J[/x]\u202e" + "x" * 50_000},
    {"do": "unwanted"},
    {"do": "confined", "problems": 5},
    {"do": "confined", "problems": ["\x1b[2J"] * 100},
    {"do": ["request"]},
    "not an object",
    None,
]
TELLER = """
import json, sys, socket
from fedrel.federation.channel import Channel
message = json.loads(r'''MESSAGE''')
channel = Channel.inherited(int(sys.argv[1]))
channel.receive(30.0)
channel._end.send(json.dumps(message).encode())
channel.receive(3.0)
"""


@slow
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: json.dumps(message)[:40])
def test_a_platforms_node_survives_any_message_of_its_network_process(world, tmp_path, message):
    """The real node, with another program instead of its network process."""
    provisioning.new(tmp_path / "kits", host="localhost", port=free_port(), platforms=["p0"])
    module = tmp_path / "code" / "teller.py"
    module.parent.mkdir()
    module.write_text(TELLER.replace("MESSAGE", json.dumps(message)))
    starter = (
        "from fedrel.federation.nodes import platform; platform.TRANSPORT = 'teller'; "
        f"from fedrel.cli.__main__ import main; import sys; sys.argv = ['fedrel', 'platform', 'start', "
        f"{str(tmp_path / 'kits' / 'p0')!r}, '--data', {str(world / 'p0')!r}]; main()"
    )
    paths = os.pathsep.join([str(module.parent), *sys.path])
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(
            [sys.executable, "-c", starter], stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": paths}
        )
    trail = tmp_path / "kits" / "p0" / "audit.jsonl"
    try:
        assert until(lambda: trail.exists() and "transport ended" in trail.read_text(), 30.0), (
            tmp_path / "log"
        ).read_text()
        assert node.poll() is None, (tmp_path / "log").read_text()
        said = (tmp_path / "log").read_text()
        assert "Traceback" not in said and not {"\x1b", "\u202e"} & set(said)
        assert trail.read_text().isascii()
    finally:
        node.terminate()
        node.wait(20)


# -- under strace -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def traced(world) -> Iterator[dict[str, list[str]]]:
    """A short run with a platform under strace: by process, its system calls after it set its limits."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace")
    with tempfile.TemporaryDirectory(prefix="fedrel-traced-") as folder:
        place = Place(Path(folder), world, ("p0",))
        try:
            place.listen()
            output = Path(folder) / "calls"
            command = [
                strace,
                *("-s", "300"),
                "-ff",
                "-qq",
                "-e",
                "trace=openat,open,socket,connect,bind,execve,clone,clone3,fork,vfork",
                "-o",
                str(output),
            ]
            command += [FEDREL, "platform", "start", str(place.kits / "p0"), "--data", str(world / "p0")]
            with (place.folder / "p0.log").open("ab") as log:
                place.nodes["p0"] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            if not until(lambda: "p0" in place.look()["connected"], 90.0):
                pytest.skip(f"strace cannot follow it here: {place.story()[-500:]}")
            place.train("traced", "training.rounds=1", "engine.min_platforms=1")
        finally:
            for pid in descendants(place.nodes["p0"].pid) if "p0" in place.nodes else ():
                os.kill(pid, signal.SIGTERM)  # the node itself, not strace
                place.nodes["p0"].wait(60)
                break
            place.__exit__()
        yield {path.name: path.read_text(errors="replace").splitlines() for path in Path(folder).glob("calls.*")}


def _of(traced: dict[str, list[str]], mark: str) -> list[str]:
    """System calls of the process with this command line, including its threads and forks."""
    own = [name for name, lines in traced.items() if any("execve" in line and mark in line for line in lines)]
    assert len(own) == 1, f"{len(own)} processes were started with {mark}"
    calls: list[str] = []
    while own:
        name = own.pop()
        calls += traced[name]
        made = (re.match(r"(?:clone|clone3|fork|vfork)\(.*\) = (\d+)$", line) for line in traced[name])
        own += [f"calls.{it[1]}" for it in made if it and f"calls.{it[1]}" in traced]
    return calls


@slow
def test_the_network_process_opens_no_text_and_no_signing_key(traced, world):
    calls = _of(traced, "https.transport")
    assert any(line.startswith("connect(") and "AF_INET" in line for line in calls), "it has no network"
    for forbidden in (str(world), "/sign/", "p0/local/", "/ledger", "policy.toml", "blinding", "/memory/"):
        assert not [line for line in calls if line.startswith("open") and forbidden in line], forbidden


@slow
def test_the_worker_creates_no_socket(traced, world):
    calls = _of(traced, "nodes.confined")
    assert any(f"{world}/p0" in line for line in calls), "it is not the one that reads the text"
    for line in calls:
        made = re.match(r"(socket|connect|bind)\(.*= (-?\d+)", line)
        assert made is None or int(made[2]) < 0, line


@slow
def test_the_node_itself_has_neither_network_nor_text(traced, world):
    """The node only passes signed messages between its children."""
    calls = _of(traced, "platform")
    both = {*_of(traced, "https.transport"), *_of(traced, "nodes.confined")}
    for line in calls:
        assert line in both or not re.match(r"(socket|connect|bind)\(AF_INET.*= \d+$", line), line
        assert line in both or f"{world}/p0/" not in line or not line.startswith("open"), line
