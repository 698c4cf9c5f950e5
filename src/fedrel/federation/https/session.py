"""What an admin can ask a coordinator: who is there, start a run, how is it doing, stop it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedrel.errors import ShutOutError, UserError
from fedrel.federation.https import messages
from fedrel.federation.https.client import Answer, Link, UnreachableError
from fedrel.federation.kits.kit import Kit
from fedrel.federation.signing import Command, Signer


@dataclass
class Session:
    kit: Kit
    link: Link

    def look(self) -> dict[str, Any]:
        """`runs`: their statuses, those at work first. `connected`: platforms by name, with address and version."""
        answer = self._call("GET", messages.STATUS, most=messages.MOST_STATUS)
        try:
            found = json.loads(answer.content)
            return {key: found[key] for key in ("runs", "connected", "challenge")}
        except (KeyError, TypeError, ValueError, RecursionError):
            raise UserError(f"{self.kit.host}:{self.kit.port} answers in a way that nobody understands") from None

    def state(self, run: str) -> dict[str, Any] | None:
        """What the coordinator says of one run; none if it knows no such run."""
        return next((it for it in self.look()["runs"] if it["run"] == run), None)

    def submit(self, run: str, experiment: str) -> int:
        """Starts, or without an experiment goes on with, a run; its place in the queue, 0 being at work."""
        return int(self._command("submit", messages.SUBMIT, run, experiment)["place"])

    def stop(self, run: str) -> None:
        self._command("stop", messages.STOP, run)

    def _command(self, do: str, path: str, run: str, experiment: str = "") -> dict[str, Any]:
        command = Command(self.kit.federation, str(self.look()["challenge"]), do, run, experiment)
        body = json.dumps(Signer.of(self.kit).sign(command).as_json()).encode()
        if len(body) > messages.MOST_COMMAND:
            raise UserError(f"the experiment is too long: {len(experiment):,} characters")
        found: dict[str, Any] = json.loads(self._call("POST", path, body).content)
        return found

    def _call(self, method: str, path: str, body: bytes = b"", *, most: int = 2**20) -> Answer:
        where = f"{self.kit.host}:{self.kit.port}"
        for last in (False, True):  # a connection that lay idle may have been closed at the other end
            try:
                answer = self.link.call(method, path, body, most=most)
                break
            except UnreachableError as error:
                if last:
                    raise UserError(f"cannot reach the coordinator at {where}: {error}") from None
        if answer.status == 403:
            why = f"the coordinator refuses {self.kit.name}: {answer.why}"
            raise ShutOutError(why) if answer.final else UserError(why)
        if answer.status != 200:
            raise UserError(answer.why)
        return answer


@contextmanager
def connect(kit: Kit) -> Iterator[Session]:
    if kit.role in ("platform", "coordinator"):
        raise UserError(f"{kit.folder}: a {kit.role}'s kit cannot command the federation; use the admin's")
    link = Link(kit.host, kit.port, kit.folder / "tls")
    try:
        yield Session(kit, link)
    finally:
        link.close()


def greet(kit: Kit) -> None:
    """Calls the coordinator once, with a platform's kit; a sentence says why it is not let in."""
    link = Link(kit.host, kit.port, kit.folder / "tls")
    try:
        answer = link.call("POST", messages.LEAVE, b'{"session": ""}')
    except UnreachableError as error:
        raise UserError(str(error)) from None
    finally:
        link.close()
    if answer.status != 200:
        raise UserError(f"the coordinator at {kit.host}:{kit.port} refuses {kit.name}: {answer.why}")
