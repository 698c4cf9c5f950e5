"""A hostile coordinator: a small HTTPS server with the coordinator's TLS key that real platforms connect to, and that
sends them anything. With the signing key too, its requests are valid.
"""

from __future__ import annotations

import json
import queue
import secrets
import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.experiment.parties import Coordination, coordinate, federated
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes import audit
from fedrel.federation.signing import Envelope, Reply, Request, Signer, Verifier, sha256
from fedrel.privacy import ledger
from fedrel.protocol.codec import Record, decode, encode
from fedrel.protocol.records import number_in
from tests.attacks.wire import framed, until
from tests.deployment import FEDREL, Deployment, free_port

Told = Callable[[BaseHTTPRequestHandler], None]


class Tyrant:
    """A hostile coordinator with one platform, p0: a real node with its own policy."""

    def __init__(self, folder: Path, world: Path, *settings: str) -> None:
        self.folder, self.world = folder, world
        self.port = free_port()
        provisioning.new(folder / "kits", host="localhost", port=self.port, platforms=["p0", "p1"])
        self.victim = folder / "kits" / "p0"
        self.kit = open_kit(folder / "kits" / "coordinator")
        self.signer, self.verifier = Signer.of(self.kit), Verifier.of(self.kit)
        self.numbers = iter(range(1, 10**9))
        self.attempt = 1
        self.orders: queue.Queue[Told] = queue.Queue()
        self.replies: dict[int, tuple[dict[str, Any], bytes]] = {}
        table, _ = config.read_table(world / "experiment.toml")
        self.table = federated(config.override(table, [f"data.path={world}", *settings]))
        self.server = self._serve()
        self.node: subprocess.Popen[bytes] | None = None

    def coordination(self, *settings: str) -> Coordination:
        experiment = config.parse(config.override(self.table, settings))
        return coordinate(experiment, self.world / "coordinator", ["p0", "p1"])

    def agreement(self, *settings: str) -> Record:
        """The agreement that an honest coordinator would send."""
        return dict(self.coordination(*settings).agreement)

    # -- the server -----------------------------------------------------------------------------------------------

    def _serve(self) -> ThreadingHTTPServer:
        tyrant = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/poll":
                    try:
                        tyrant.orders.get(timeout=0.5)(self)
                    except queue.Empty:
                        self.send_response(204)
                        self.send_header("Content-Length", "0")
                        self.end_headers()
                    return
                if self.path.startswith("/v1/reply/"):
                    length = int.from_bytes(content[:4], "little")
                    number = int(self.path.rpartition("/")[2])
                    tyrant.replies[number] = (json.loads(content[4 : 4 + length]), content[4 + length :])
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass

        server = Quiet(("127.0.0.1", self.port), Handler)
        secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secured.load_cert_chain(self.kit.folder / "tls" / "node.crt", self.kit.folder / "tls" / "node.key")
        server.socket = secured.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def start(self) -> None:
        with (self.folder / "p0.log").open("ab") as log:
            command = [FEDREL, "platform", "start", str(self.victim), "--data", str(self.world / "p0")]
            self.node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        assert until(lambda: any(it["event"] == "connected" for it in self.trail()), 60.0), self.story()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        if self.node is not None:
            self.node.terminate()
            self.node.wait(30)

    # -- requests -------------------------------------------------------------------------------------------------

    def request(self, task: str, payload: bytes = b"", **other: Any) -> Request:
        made: dict[str, Any] = {"federation": self.kit.federation, "run": "run", "run_id": "0" * 32, "to": "p0"}
        made |= {"task": task, "round": 0, "attempt": self.attempt, "number": next(self.numbers), "seconds": 60.0}
        return Request(**(made | {"bytes": len(payload), "sha256": sha256(payload)} | other))

    def order(self, head: Any, payload: bytes = b"", *, number: int | str | None = None, length: int = 0) -> int:
        """Sets the answer to the next poll. Returns its number."""
        chosen = secrets.randbelow(10**9) + 10**6 if number is None else number
        body = framed(head, payload)

        def told(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Fedrel-Request", str(chosen))
            handler.send_header("Content-Length", str(length or len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self.orders.put(told)
        return int(chosen) if str(chosen).isdigit() else 0

    def raw(self, told: Told) -> None:
        self.orders.put(told)

    def heard(self, number: int, seconds: float = 60.0) -> tuple[dict[str, Any], bytes]:
        found = until(lambda: self.replies.get(number), seconds)
        assert found, f"no reply\n{self.story()}"
        return found

    def ask(self, task: str, record: Record | bytes = b"", **other: Any) -> tuple[Reply | None, bytes]:
        """Sends a signed request. Returns the platform's signed reply, or only "refused"."""
        payload = record if isinstance(record, bytes) else bytes(encode(record))
        return self.opened(self.order(self.signer.sign(self.request(task, payload, **other)).as_json(), payload))

    def opened(self, number: int) -> tuple[Reply | None, bytes]:
        head, payload = self.heard(number)
        if "envelope" not in head:
            assert head == {"failed": "refused by the platform"}, head
            assert payload == b""
            return None, b""
        return self.verifier.open(Envelope.from_json(head["envelope"]), Reply, role="platform", name="p0"), payload

    # -- what the platform records ----------------------------------------------------------------------------------

    def trail(self) -> list[dict[str, Any]]:
        return list(audit.read(self.victim))

    def refusals(self) -> list[str]:
        path = self.victim / "ledger" / "ledger.jsonl"
        return [it.refused for it in ledger.read(path) if it.refused] if path.exists() else []

    def left(self) -> list[Any]:
        """The replies in the platform's ledger."""
        path = self.victim / "ledger" / "ledger.jsonl"
        return [it for it in ledger.read(path) if not it.refused] if path.exists() else []

    def story(self) -> str:
        parts = [self.folder / "p0.log", self.victim / "node.log"]
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in parts if path.exists())

    def processes(self) -> dict[str, int]:
        assert self.node is not None
        found = Deployment.__new__(Deployment)
        found.nodes = {"p0": self.node}
        return found.processes("p0")

    def still_works(self, agreement: Record) -> None:
        """An honest request is answered."""
        reply, payload = self.ask("begin", agreement, run_id=secrets.token_hex(16))
        assert reply is not None and reply.state == "done", (reply, self.story())
        assert number_in(decode(bytearray(payload)), "sentences") > 0
        assert self.node is not None and self.node.poll() is None
