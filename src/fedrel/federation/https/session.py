"""An admin's session with the coordinator: status, and starting, resuming and stopping runs."""

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
    """Calls the coordinator with the kit of an admin or viewer. All calls raise UserError if it cannot be reached or
    refuses, and ShutOutError if it refuses permanently.
    """

    kit: Kit
    link: Link

    def look(self) -> dict[str, Any]:
        """The coordinator's status. `runs`: a list, unfinished ones first. `connected`: address and version of each
        connected platform, by name. `challenge`: for an admin's next command.
        """
        answer = self._call("GET", messages.STATUS, most=messages.MOST_STATUS)
        try:
            found = json.loads(answer.content)
            return {key: found[key] for key in ("runs", "connected", "challenge")}
        except (KeyError, TypeError, ValueError, RecursionError):
            raise UserError(f"{self.kit.host}:{self.kit.port}: not an answer of a coordinator") from None

    def state(self, run: str) -> dict[str, Any] | None:
        """The status of one run; None if the coordinator has no such run."""
        return next((it for it in self.look()["runs"] if it["run"] == run), None)

    def submit(self, run: str, experiment: str) -> int:
        """Starts a run, or resumes it if `experiment` is empty. Returns its place in the queue; 0: running or next."""
        return int(self._command("submit", messages.SUBMIT, run, experiment)["place"])

    def stop(self, run: str) -> None:
        """Stops a run."""
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
        for last in (False, True):  # the coordinator may have closed an idle connection
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
    """A session with the kit of an admin or viewer; other kits raise UserError."""
    if kit.role in ("platform", "coordinator"):
        raise UserError(f"{kit.folder}: a {kit.role}'s kit cannot command the federation; use the admin's")
    link = Link(kit.host, kit.port, kit.folder / "tls")
    try:
        yield Session(kit, link)
    finally:
        link.close()


def greet(kit: Kit) -> None:
    """Calls the coordinator once with a platform's kit. Raises UserError with the reason if it does not accept it."""
    link = Link(kit.host, kit.port, kit.folder / "tls")
    try:
        answer = link.call("POST", messages.LEAVE, b'{"session": ""}')
    except UnreachableError as error:
        raise UserError(str(error)) from None
    finally:
        link.close()
    if answer.status != 200:
        raise UserError(f"the coordinator at {kit.host}:{kit.port} refuses {kit.name}: {answer.why}")
