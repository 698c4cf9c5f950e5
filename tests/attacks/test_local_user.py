"""An ordinary user of a node's machine, without a kit. The attacks run in a process of that user.

| attack | what happens |
|---|---|
| reads the kit, the spool, the ledger, the memory, the cache | permission denied |
| connects to any listener: ports, sockets in files, abstract sockets | no port but the coordinator's; no TLS |
| signals, traces, reads memory, environment and open files of the nodes | permission denied |
| puts a folder or a link where a node will write | refused, with a reason |
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.place import Place
from tests.attacks.wire import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="to become another user takes root"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
NOBODY = 65534


@pytest.fixture(scope="module")
def nodes(place) -> Place:
    """With a platform's node too, whose training process is running."""
    place.start("p0")
    place.start("p1")
    assert until(lambda: {"p0", "p1"} <= set(place.look()["connected"]), 60.0), place.story()
    place.train("seen-by-others", "training.rounds=1", "engine.min_platforms=2")
    return place


def as_nobody(code: str, *arguments: object) -> dict[str, str]:
    """Runs code as that user, with the standard library only. Returns what it prints, parsed as JSON."""
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", code, *(str(it) for it in arguments)],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


READ = """
import json, os, sys
found = {}
for top in sys.argv[1:]:
    for folder, folders, files in os.walk(top, onerror=lambda error: None):
        for name in files:
            path = os.path.join(folder, name)
            try:
                open(path, "rb").read(1)
                found[path] = "read"
            except OSError as error:
                found[path] = "denied"
        for name in folders + files:
            path = os.path.join(folder, name)
            if os.access(path, os.W_OK) and not os.path.islink(path):
                found[path] = "written"
    if not os.access(top, os.R_OK | os.X_OK):
        found[top] = "denied"
print(json.dumps(found))
"""


def test_no_kit_can_be_read(nodes):
    found = as_nobody(READ, *(nodes.kits / name for name in ("ca", "coordinator", "p0", "p1", "admin", "viewer")))
    assert found and set(found.values()) == {"denied"}


def test_neither_cache_nor_spool_can_be_read(nodes, cache):
    """The test's own folders are closed too; here the modes of the cache itself are tested."""
    loose = [path for path in (cache, *cache.rglob("*")) if path.stat().st_mode & 0o077 and path.parent == cache]
    assert not [path for path in loose if path.is_dir() and path.stat().st_mode & 0o007], loose
    found = as_nobody(READ, nodes.kits / "p0" / "spool", nodes.kits / "coordinator" / "spool", cache)
    assert set(found.values()) == {"denied"}


def test_no_file_of_a_run_can_be_changed(nodes):
    """Results have the modes of the umask: others may read them, but cannot write them."""
    found = as_nobody(READ, nodes.runs)
    assert found and "written" not in found.values()
    text = {str(path): path.read_bytes() for path in nodes.runs.rglob("*") if path.is_file()}
    sentence = json.loads((nodes.world / "p0" / "train.jsonl").read_text().splitlines()[0])
    words = sentence.get("text") or " ".join(sentence["token"])
    assert not [path for path, content in text.items() if words.encode() in content], "a platform's text is there"


def test_nothing_listens_but_the_coordinators_port(nodes):
    """Checks all sockets of our processes: no other port, no socket in a file, no abstract socket."""
    pids = [pid for name in ("coordinator", "p0", "p1") for pid in nodes.processes(name).values()]
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink())
            if target.startswith("socket:"):
                inodes.add(target[8:-1])
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[9] in inodes and parts[3] == "0A":
                ports.add(int(parts[1].rpartition(":")[2], 16))
    assert ports == {nodes.port}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        parts = line.split()
        assert not (parts[6] in inodes and len(parts) > 7), f"a socket with a name: {parts[7]}"
    udp = [line.split()[9] for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    assert not inodes & set(udp)


KNOCK = """
import json, socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
found = {}
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5, source_address=("127.9.9.9", 0)) as plain:
        with context.wrap_socket(plain) as secured:
            secured.sendall(b"GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            found["answer"] = secured.recv(100).decode()
except OSError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def test_the_coordinators_port_answers_nothing_without_a_certificate(nodes):
    found = as_nobody(KNOCK, nodes.port)
    assert not found.get("answer")
    nodes.named("127.9.9.9", "no certificate")


PRY = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
found = {}
def tried(name, attempt):
    try:
        attempt()
        found[name] = "possible"
    except OSError as error:
        found[name] = "denied"
def traced(pid):
    for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
        if libc.ptrace(request, pid, 0, 0) == 0:
            return
    raise PermissionError
def peeked(pid):
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    here = ctypes.create_string_buffer(8)
    if libc.process_vm_readv(pid, ctypes.byref(Part(ctypes.addressof(here), 8)), 1,
                             ctypes.byref(Part(0x400000, 8)), 1, 0) < 0:
        raise PermissionError
def taken(pid):
    handle = libc.syscall(434, pid, 0)
    if handle < 0 or libc.syscall(438, handle, 3, 0) < 0:
        raise PermissionError
for pid in map(int, sys.argv[1:]):
    tried(f"{pid} signal", lambda: os.kill(pid, 15))
    tried(f"{pid} trace", lambda: traced(pid))
    tried(f"{pid} memory by call", lambda: peeked(pid))
    tried(f"{pid} descriptor", lambda: taken(pid))
    for name in ("mem", "environ", "maps", "stack", "syscall"):
        tried(f"{pid} {name}", lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
    tried(f"{pid} fd", lambda: os.listdir(f"/proc/{pid}/fd"))
    tried(f"{pid} fd 3", lambda: open(f"/proc/{pid}/fd/3", "rb").read(1))
    tried(f"{pid} root", lambda: os.listdir(f"/proc/{pid}/root/"))
    tried(f"{pid} cwd", lambda: os.listdir(f"/proc/{pid}/cwd/"))
    tried(f"{pid} priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    tried(f"{pid} affinity", lambda: os.sched_setaffinity(pid, {0}))
    tried(f"{pid} limits", lambda: __import__("resource").prlimit(pid, 7, (3, 3)))
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", ["coordinator", "p0"])
def test_no_process_of_a_node_can_be_inspected(nodes, name):
    before = nodes.processes(name)
    found = as_nobody(PRY, *before.values())
    assert found and set(found.values()) == {"denied"}, [key for key, value in found.items() if value != "denied"]
    assert nodes.processes(name) == before
    nodes.still_works()


def test_command_lines_contain_no_secret(nodes):
    """All users can read command lines: they contain no key, no text and no challenge."""
    secrets = [spelt for path in nodes.kits.rglob("*.key") for spelt in _spelt(path.read_bytes())]
    assert len(secrets) > 4
    for name in ("coordinator", "p0"):
        for pid in nodes.processes(name).values():
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            assert not any(secret in line for secret in secrets)


def _spelt(key: bytes) -> list[str]:
    """How a command line could have a key: the first line within PEM, or bytes in hexadecimal or base64."""
    if key.startswith(b"-----"):
        return [key.decode().splitlines()[1]]
    return [key.hex(), base64.b64encode(key).decode()]


@pytest.mark.parametrize("what", ["folder", "link", "open folder"])
def test_a_cache_of_another_user_is_not_used(nodes, tmp_path_factory, what):
    """As in a shared folder like /tmp, where another user creates the folder first."""
    shared = tmp_path_factory.mktemp("shared")
    for path in (shared, *shared.parents[:2]):
        path.chmod(0o755)
    theirs = shared / "cache"
    if what == "link":
        (shared / "real").mkdir()
        os.chown(shared / "real", NOBODY, NOBODY)
        theirs.symlink_to(shared / "real")
        os.chown(theirs, NOBODY, NOBODY, follow_symlinks=False)
    else:
        theirs.mkdir()
        theirs.chmod(0o777 if what == "open folder" else 0o755)
        if what == "folder":
            os.chown(theirs, NOBODY, NOBODY)
    nodes.environments["p2"] = {"FEDREL_CACHE": str(theirs)}
    nodes.start("p2")
    try:
        assert until(lambda: "p2" in nodes.look()["connected"], 30.0), nodes.story()
        run = f"cached-{what.replace(' ', '-')}"
        nodes.submit(
            str(nodes.world / "experiment.toml"),
            *("--set", "training.rounds=1", "--set", "engine.min_platforms=2", "--name", run, "--follow"),
            check=False,
        )
        assert nodes.status(run)["state"] == "done", nodes.story()
        assert not list(theirs.iterdir()), "something of ours lies in their folder"
    finally:
        nodes.nodes["p2"].terminate()
        nodes.nodes["p2"].wait(30)
    said = (nodes.folder / "p2.log").read_text() + (nodes.kits / "p2" / "node.log").read_text()
    assert "belongs to another user" in said or "others can write there" in said, said
