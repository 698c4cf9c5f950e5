"""Workloads of a federation's processes, under the limits those processes set."""

import functools
import http.server
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request

import pytest

from tests.sandbox.confined import needs_files, needs_filter, program, run

pytestmark = [needs_files, needs_filter]
CLIENT = "read=(*python_paths(), Path(sys.argv[1])), network='client', programs=False"
WORKER = "read=None, write=(Path(sys.argv[1]),), network='none', programs=True"


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """A self-signed certificate for this machine."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("openssl is missing")
    folder = tmp_path_factory.mktemp("kit")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def https(kit, tmp_path):
    """The port of a server whose folder holds one file."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "answer").write_text("42")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kit / "certificate.pem", kit / "key.pem")
    handler = functools.partial(Quiet, directory=tmp_path / "served")
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


FETCH = """
import http.client, ssl
kit, port, data = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
ssl.create_default_context()  # the system's certificates can be read
context = ssl.create_default_context(cafile=kit / "certificate.pem")
connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=30)
connection.request("GET", "/answer")
answer = connection.getresponse().read().decode()
connection.close()
print(json.dumps([answer, attempt(open, data / "text"), attempt(os.listdir, data)]))
"""


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "text").write_text("private")
    return folder


def test_https_client(kit, https, data):
    assert run(FETCH, kit, https, data, limits=CLIENT) == ["42", "EACCES", "EACCES"]


MULTIPLY = """
import numpy, torch
torch.set_num_threads(2)
product = torch.ones(300, 300) @ torch.ones(300, 300)
torch.save(product, Path(sys.argv[1], "product.pt"))
saved = torch.load(Path(sys.argv[1], "product.pt"), weights_only=True)
print(json.dumps([float(product.sum()), float(numpy.ones(3).sum()), float(saved[0, 0])]))
"""


def test_worker_with_torch(tmp_path):
    assert run(MULTIPLY, tmp_path, limits=WORKER) == [300.0**3, 3.0, 300.0]


def test_torch_needs_no_more_than_python_paths(tmp_path):
    limits = "read=python_paths(), write=(Path(sys.argv[1]),), programs=False"
    assert run(MULTIPLY, tmp_path, limits=limits, cwd=tmp_path) == [300.0**3, 3.0, 300.0]


def test_aiohttp_server(data):
    pytest.importorskip("aiohttp")
    code = """
import asyncio
from aiohttp import web
async def main():
    done = asyncio.Event()
    async def answer(request):
        done.set()
        return web.json_response(attempt(open, Path(sys.argv[1], "text")))
    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await done.wait()
    await runner.cleanup()
asyncio.run(main())
"""
    limits = "read=python_paths(), network='server', programs=False"
    command = [sys.executable, "-c", program(code, limits), data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as response:
            assert json.load(response) == "EACCES"
        assert process.wait(30) == 0


@pytest.fixture
def traced(tmp_path):
    """A wrapper command that records a program's system calls, and the path of the record."""
    strace = shutil.which("strace")
    log = tmp_path / "calls"
    if not strace or subprocess.run([strace, "-o", log, "true"], capture_output=True).returncode:
        pytest.skip("strace is missing or not permitted")
    return (strace, "-f", "-o", log, "-e", "trace=%file,%network"), log


def test_strace_sees_a_client_open_no_data(kit, https, data, traced):
    wrapper, log = traced
    run(FETCH, kit, https, data, limits=CLIENT, wrapper=wrapper)
    calls = log.read_text().splitlines()
    assert any(re.search(r"connect\(.*AF_INET.* = (0|-1 EINPROGRESS)", line) for line in calls)
    opened = [line for line in calls if re.search(r"\bopen(at2?)?\(", line) and f'"{data}' in line]
    assert len(opened) == 2 and all("= -1 EACCES" in line for line in opened)
    assert not any(re.search(r"\b(bind|listen|accept4?)\(", line) and " = 0" in line for line in calls)


def test_strace_sees_a_worker_create_only_socket_pairs(traced, tmp_path):
    wrapper, log = traced
    code = MULTIPLY + "import asyncio\nasyncio.run(asyncio.sleep(0))\n"
    run(code, tmp_path, limits=WORKER, wrapper=wrapper)
    calls = re.findall(r"\b(socket|socketpair|connect|bind|listen|accept4?)\(", log.read_text())
    assert set(calls) == {"socketpair"}


def test_names_are_looked_up_without_sockets_of_the_system():
    """The C library asks local services first, and carries on if it cannot reach them."""
    code = "print(json.dumps(socket.getaddrinfo('localhost', 80, type=socket.SOCK_STREAM)[0][4][0]))"
    assert run(code, limits="read=python_paths(), network='client'") in {"127.0.0.1", "::1"}
    assert socket.gethostbyname("localhost") == "127.0.0.1"


@pytest.mark.parametrize("shared", [False, True])
def test_a_process_pool_needs_the_shared_memory_folder(tmp_path, shared):
    code = """
from fedrel.util.parallel import map_in_order
try:
    print(json.dumps(list(map_in_order(lambda item: item * 2, [1, 2, 3], 2))))
except PermissionError:
    print(json.dumps("refused"))
"""
    more = ["/dev/shm"] if shared else []
    assert run(code, tmp_path, *more, limits="write=tuple(map(Path, sys.argv[1:]))") == (
        [2, 4, 6] if shared else "refused"
    )
