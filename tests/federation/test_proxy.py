"""A platform behind an HTTP proxy: it asks for a tunnel, and TLS goes through it end to end."""

import contextlib
import socket
import threading

import pytest

from fedrel.federation.https import messages
from fedrel.federation.https.client import Link, UnreachableError
from fedrel.federation.kits import provisioning
from tests.coordinator_server import CoordinatorServer
from tests.deployment import free_port


class Proxy:
    """A proxy that opens tunnels, or refuses to, and records the requests."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 go on\r\n\r\n") -> None:
        self.answer: bytes = answer
        self.asked: list[str] = []
        self.sockets: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for it in (self.listener, *self.sockets):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
            it.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.sockets.append(near)
                threading.Thread(target=self._tunnel, args=(near,), daemon=True).start()

    def _tunnel(self, near):
        head = b""
        while b"\r\n\r\n" not in head:
            head += near.recv(4096)
        self.asked.append(head.decode())
        near.sendall(self.answer)
        if b" 200 " not in self.answer:
            near.close()
            return
        host, port = head.split()[1].decode().rsplit(":", 1)
        far = socket.create_connection((host, int(port)))
        self.sockets.append(far)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source, sink):
    with contextlib.suppress(OSError):
        while piece := source.recv(2**16):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    provisioning.new(folder / "kits", host="localhost", port=free_port(), platforms=["a"])
    with CoordinatorServer(folder / "kits", folder) as opened:
        yield opened


@pytest.fixture
def link(server):
    made = Link(server.kit.host, server.kit.port, server.kits / "a" / "tls")
    yield made
    made.close()


def leave(link):
    return link.call("POST", messages.LEAVE, b'{"session": ""}')


def test_a_platform_uses_the_proxy_of_its_environment(server, link, monkeypatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:pa%20ss@127.0.0.1:{proxy.port}")
        assert leave(link).status == 200
    [asked] = proxy.asked
    assert asked.startswith(f"CONNECT {server.kit.host}:{server.kit.port} ")
    assert "Proxy-Authorization: Basic dXNlcjpwYSBzcw==" in asked


def test_a_host_in_no_proxy_is_called_directly(server, link, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "localhost")
    with Proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert leave(link).status == 200 and proxy.asked == []


@pytest.mark.parametrize("address", ["http://", "ftp://127.0.0.1:1", "http://127.0.0.1:99999", "https://127.0.0.1:1"])
def test_an_invalid_proxy_is_reported(address, link, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", address)
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(UnreachableError, match="HTTPS_PROXY is not a proxy address"):
        leave(link)


def test_a_refusing_proxy_is_named(link, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "")
    with Proxy(b"HTTP/1.1 403 no\r\n\r\n") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(UnreachableError, match=f"the proxy 127.0.0.1:{proxy.port} refused the connection"):
            leave(link)
