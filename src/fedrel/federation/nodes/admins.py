"""Commands of admins: signed, each with a challenge that is valid for one command."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from fedrel.federation.https import messages
from fedrel.federation.nodes.run_queue import RunQueue
from fedrel.federation.signing import Command, Envelope, ForgedError, Verifier
from fedrel.util.files import run_name

CHALLENGE = 120.0  # seconds for which a challenge is valid
MOST_CHALLENGES = 1000


@dataclass
class Admins:
    """Answers status requests, and carries out commands that an admin has signed."""

    queue: RunQueue
    verifier: Verifier
    challenges: dict[str, float] = field(default_factory=dict)  # challenge: when it was drawn

    def look(self, role: str) -> dict[str, Any]:
        """The runs and, for an admin, a challenge for the next command."""
        now = time.monotonic()
        self.challenges = {it: since for it, since in self.challenges.items() if now - since < CHALLENGE}
        challenge = ""
        if role == "admin":
            challenge = secrets.token_hex(16)
            self.challenges[challenge] = now
            for oldest in list(self.challenges)[:-MOST_CHALLENGES]:
                del self.challenges[oldest]
        return {"runs": self.queue.look(), "challenge": challenge}

    def obey(self, name: str, path: str, content: bytes) -> dict[str, Any]:
        """Carries out a command that the TLS connection attributes to `name`. Raises ForgedError unless that admin has
        signed it for this path with an unused challenge, and UserError if it cannot be carried out.
        """
        command = self.verifier.open(Envelope.from_json(messages.parse(content)), Command, role="admin", name=name)
        if self.challenges.pop(command.challenge, None) is None:
            raise ForgedError("the command's challenge was already used or has expired; try again")
        run_name(command.run)
        if command.do != path.removeprefix("/v1/"):
            raise ForgedError("the command was signed for something else")
        if path == messages.SUBMIT:
            return {"run": command.run, "place": self.queue.submit(name, command.run, command.experiment)}
        self.queue.stop(command.run)
        return {"run": command.run}
