"""Sockets that a confined process may open, and what it can do with those it was given."""

import json
import socket
import subprocess
import sys
import threading

import pytest

from fedrel.sandbox import Limits
from tests.sandbox.confined import landlock_version, needs_filter, needs_scopes, program, run

pytestmark = needs_filter

SOCKETS = """
kinds = {
    "tcp": (socket.AF_INET, socket.SOCK_STREAM), "tcp6": (socket.AF_INET6, socket.SOCK_STREAM),
    "udp": (socket.AF_INET, socket.SOCK_DGRAM), "raw": (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "mptcp": (socket.AF_INET, socket.SOCK_STREAM, 262), "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
    "netlink": (socket.AF_NETLINK, socket.SOCK_RAW), "packet": (socket.AF_PACKET, socket.SOCK_RAW),
    "vsock": (40, socket.SOCK_STREAM), "alg": (socket.AF_ALG, socket.SOCK_SEQPACKET),
}
opened = {name: attempt(socket.socket, *kind) for name, kind in kinds.items()}
pairs = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM]
for kind in pairs:
    try:
        for one in socket.socketpair(socket.AF_UNIX, kind):
            one.close()
        opened[kind.name] = "done"
    except OSError as error:
        opened[kind.name] = errno.errorcode[error.errno]
print(json.dumps(opened))
"""


@pytest.fixture
def listener():
    """A local port that says hello."""

    def answer():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"hello")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("network", "allowed"), [("none", set()), ("client", {"tcp", "tcp6", "udp"}), ("server", {"tcp", "tcp6", "udp"})]
)
def test_kinds_of_sockets(network, allowed):
    found = run(SOCKETS, limits=f"network={network!r}")
    if network != "none" and found["tcp6"] == "EAFNOSUPPORT":
        allowed = allowed - {"tcp6"}
        del found["tcp6"]
    assert {name for name, answer in found.items() if answer == "done"} == allowed | {"SOCK_STREAM", "SOCK_SEQPACKET"}
    assert {answer for answer in found.values() if answer != "done"} == {"EACCES"}


def test_any_is_not_limited():
    code = """
with socket.create_server(("127.0.0.1", 0)):
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
print(json.dumps([protection.network, attempt(socket.socket, socket.AF_UNIX)]))
"""
    assert run(code, limits="network='any'") == [False, "done"]


def test_client_connects_but_does_not_listen(listener):
    code = """
with socket.create_connection(("localhost", int(sys.argv[1]))) as connection:
    heard = connection.recv(5).decode()
unbound = socket.socket()
print(json.dumps([
    heard,
    attempt(unbound.bind, ("127.0.0.1", 0)),
    attempt(unbound.listen),
    attempt(unbound.accept),
    attempt(socket.socket(type=socket.SOCK_DGRAM).bind, ("127.0.0.1", 0)),
]))
"""
    limits = "read=python_paths(), network='client', programs=False"
    assert run(code, listener, limits=limits) == ["hello", *["EACCES"] * 4]


def test_none_cannot_connect_even_an_inherited_socket(listener):
    """Landlock refuses TCP too, from Linux 6.7 on."""
    with socket.socket() as given:
        code = """
given = socket.socket(fileno=int(sys.argv[2]))
print(json.dumps([attempt(socket.create_connection, ("127.0.0.1", int(sys.argv[1]))),
                  attempt(given.connect, ("127.0.0.1", int(sys.argv[1])))]))
"""
        own, by_given = run(code, listener, given.fileno(), pass_fds=(given.fileno(),))
    assert own == "EACCES"
    if landlock_version() >= 4:
        assert by_given == "EACCES"


def test_server_answers_with_asyncio():
    code = """
import asyncio
async def main():
    done = asyncio.Event()
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        done.set()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await done.wait()
    server.close()
asyncio.run(main())
"""
    limits = "read=python_paths(), network='server', programs=False"
    command = [sys.executable, "-c", program(code, limits)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as file:
            file.write(b"hello\n")
            file.flush()
            assert file.readline() == b"hello\n"
        assert process.wait(30) == 0


def test_descriptors_still_pass_through_an_inherited_socket(tmp_path):
    """A process without network or files can be handed an open file, and hand one back."""
    (tmp_path / "file").write_text("from outside")
    here, there = socket.socketpair()
    code = """
given = socket.socket(fileno=int(sys.argv[1]))
_, (file,), _, _ = socket.recv_fds(given, 1, 1)
reading, writing = os.pipe()
os.write(writing, os.read(file, 100).upper())
os.close(writing)
socket.send_fds(given, [b"x"], [reading])
print(json.dumps(attempt(open, sys.argv[2])))
"""
    with here, there, (tmp_path / "file").open() as file:
        socket.send_fds(here, [b"x"], [file.fileno()])
        limits = "read=python_paths(), programs=False"
        assert run(code, there.fileno(), tmp_path / "file", limits=limits, pass_fds=(there.fileno(),)) == "EACCES"
        _, (answer,), _, _ = socket.recv_fds(here, 1, 1)
        with open(answer) as text:  # noqa: PTH123
            assert text.read() == "FROM OUTSIDE"


def test_with_an_accelerator_a_local_socket_leads_nowhere(tmp_path):
    """CUDA needs one to start."""
    code = """
outside, inside = (str(Path(sys.argv[1], name)) for name in ("outside", "inside"))
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
answers = [attempt(one.connect, outside), attempt(one.bind, inside), attempt(one.listen), attempt(one.accept)]
print(json.dumps([*answers, attempt(socket.socket), attempt(socket.socket, socket.AF_UNIX)]))
"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / "outside"))
        server.listen()
        found = run(code, tmp_path, limits="write=(Path(sys.argv[1]),), accelerator=True")
    assert found == ["EACCES", "done", "done", "EACCES", "EACCES", "EACCES"]
    with pytest.raises(ValueError, match="accelerator"):
        Limits(network="client", accelerator=True)


@needs_scopes
def test_other_processes_abstract_sockets_are_unreachable():
    """With a socket created before the limits, since none can be created after."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + f"fedrel-{id(server)}")
        server.listen()
        name = json.dumps(server.getsockname().decode())
        code = f"print(json.dumps(attempt(early.connect, {name})))"
        assert run(code, before="early = socket.socket(socket.AF_UNIX)") == "EPERM"
