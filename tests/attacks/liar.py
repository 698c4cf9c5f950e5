"""A process with a platform's complete kit that sends false replies. Each lie is used once, in turn."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fedrel.federation.https.client import Answer, Fetched, Link, UnreachableError
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.signing import Reply, Request, Signer, _signed, sha256
from fedrel.learning.model import WORDS
from fedrel.learning.named import FACTOR, ROWS, VALUES, Named
from fedrel.protocol.codec import Record, decode, encode
from fedrel.protocol.records import named_in
from tests.attacks.wire import Wire, context, framed

SENTENCES = 40  # how many it claims to have
EVIL = "[/x]\x1b[2J\x1b]0;owned\x07\u202e<script>alert(1)</script>\r\n{{7*7}}"


class Asked(NamedTuple):
    id: int
    request: Request
    digest: str  # of the request's text
    message: Record


class Liar(threading.Thread):
    """`lies`: by task, functions of (liar, asked) that send something; once they are used up, it is honest."""

    def __init__(self, kit: Path, lies: dict[str, list[Callable[[Liar, Asked], Any]]]) -> None:
        super().__init__(daemon=True)
        self.kit = open_kit(kit)
        self.signer = Signer.of(self.kit)
        self.lies = {task: list(those) for task, those in lies.items()}
        self.ended = threading.Event()
        self.answers: dict[str, list[Any]] = {}  # the coordinator's answers, by lie
        self.sent: list[tuple[dict[str, Any], bytes]] = []  # honest replies, to be sent again
        self.problems: list[BaseException] = []

    def run(self) -> None:
        link, have = Link("localhost", self.kit.port, self.kit.folder / "tls"), 0
        while not self.ended.is_set():
            try:
                found = link.poll("f" * 32, have, "0", self.kit.folder)
            except UnreachableError:
                self.ended.wait(0.3)
                continue
            if isinstance(found, Fetched):
                have = found.id
                try:
                    self._answer(found)
                except BaseException as error:
                    self.problems.append(error)
            elif found.status != 204:
                self.ended.wait(0.3)
        link.close()

    def _answer(self, found: Fetched) -> None:
        request = Request(**json.loads(found.head["text"]))
        message = decode(found.payload.read(2**30))
        asked = Asked(found.id, request, sha256(found.head["text"].encode()), message)
        waiting = self.lies.get(request.task, [])
        if waiting:
            lie = waiting.pop(0)
            self.answers[lie.__name__] = [lie(self, asked)]
        else:
            self.say(asked, self.honest(asked))

    # -- honest parts, for lies to modify --------------------------------------------------------------------------

    def honest(self, asked: Asked) -> Record:
        if asked.request.task == "begin":
            return {"sentences": SENTENCES, "words": 100.0, "unknown_words": 1.0}
        weights = named_in(asked.message, "weights")
        same = Named({name: tensor.clone() for name, tensor in weights.items() if name != WORDS})
        if WORDS in weights:
            same[WORDS + ROWS] = torch.zeros(0, dtype=torch.int32)
            same[WORDS + VALUES] = torch.zeros((0, weights[WORDS].shape[1]))
            same[WORDS + FACTOR] = torch.ones(1, dtype=torch.float64)
        return {"weights": same, "sentences": SENTENCES, "loss": 1.0}

    def reply(self, asked: Asked, payload: bytes = b"", **other: Any) -> Reply:
        made: dict[str, Any] = {"federation": self.kit.federation, "platform": self.kit.name, "answers": asked.digest}
        made |= {"state": "done", "why": "", "bytes": len(payload), "sha256": sha256(payload), **other}
        return Reply(**made)

    def say(self, asked: Asked, record: Record | bytes, **other: Any) -> Answer:
        """Sends any content with a valid signature."""
        payload = record if isinstance(record, bytes) else bytes(encode(record))
        head = {"envelope": self.signer.sign(self.reply(asked, payload, **other)).as_json()}
        self.sent.append((head, payload))
        return self.post(asked.id, framed(head, payload))

    def post(self, number: int, body: bytes, length: str = "") -> Any:
        with Wire(self.kit.port, context(self.kit.folder / "tls"), timeout=30.0) as wire:
            return wire.ask("POST", f"/v1/reply/{number}", body, length=length)

    def signed(self, text: str, kind: str = "reply") -> dict[str, str]:
        """An envelope with any text and a valid signature."""
        certificate = (self.kit.folder / "sign" / "sign.crt").read_text()
        return {"text": text, "certificate": certificate, "signature": self.signer.key.sign(_signed(kind, text)).hex()}

    def odd_certificate(self) -> str:
        """Its own certificate, with a version that does not exist."""
        der = x509.load_pem_x509_certificate((self.kit.folder / "sign" / "sign.crt").read_bytes())
        content = der.public_bytes(Encoding.DER)
        place = content.index(bytes.fromhex("a003020102")) + 4
        odd = base64.encodebytes(content[:place] + b"\x07" + content[place + 1 :]).decode()
        return f"-----BEGIN CERTIFICATE-----\n{odd}-----END CERTIFICATE-----\n"

    def as_json(self, asked: Asked, payload: bytes = b"", **other: Any) -> str:
        return json.dumps(asdict(self.reply(asked, payload, **other)))
