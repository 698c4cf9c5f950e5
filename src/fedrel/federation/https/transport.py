"""A platform's network process: fetches requests from the coordinator and delivers the replies.

It sees only signed bytes. Of the platform's files it can read its own TLS key and nothing else: not the text, the
signing and blinding keys, the ledger or the policy. Uses only the standard library.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.federation.channel import Channel, ClosedError, Message, started
from fedrel.federation.https import messages
from fedrel.federation.https.client import Answer, Link, UnreachableError
from fedrel.sandbox import Limits, confine, python_paths
from fedrel.version import installed_version

_FULL = 2.0  # seconds before a reply is sent again to a coordinator whose disk is full


@dataclass
class Transport:
    """Two threads, one that polls for requests and one that sends replies, between the node and the coordinator."""

    channel: Channel
    told: dict[str, Any]
    session: str = field(default_factory=lambda: secrets.token_hex(16))
    have: int = 0  # the last request that was received completely
    ended: threading.Event = field(default_factory=threading.Event)
    replies: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)
    state: str = ""

    def link(self) -> Link:
        """A new connection to the coordinator; each thread needs its own."""
        return Link(self.told["host"], self.told["port"], Path(self.told["tls"]))

    def say(self, state: str, **more: Any) -> None:
        """Tells the node about a change of state: "connected", or the reason why not."""
        if state != self.state:
            self.state = state
            self.channel.send({"do": "state", "state": state, **more})

    def poll(self) -> None:
        """Polls until the node ends. One poll is always open: it tells the coordinator that we are connected."""
        link, failures, version = self.link(), 0, installed_version()
        while not self.ended.is_set():
            try:
                found = link.poll(self.session, self.have, version, Path(self.told["spool"]))
            except UnreachableError as error:
                self.say(str(error))
                self.ended.wait(messages.RETRY[min(failures, len(messages.RETRY) - 1)])
                failures += 1
                continue
            failures = 0
            if not isinstance(found, Answer):
                self.say("connected")
                self.have = found.id
                try:
                    self.channel.send({"do": "request", "id": found.id, "head": found.head}, found.payload)
                except ValueError:  # re-encoded with escapes, it is longer than what was received
                    self.say("the head of the coordinator's request is too long")
            elif found.status == 204:
                self.say("connected")
            else:
                self.say(found.why, final=found.final)
                self.ended.wait(messages.RETRY[-1])
        link.close()

    def answer(self) -> None:
        """Sends replies, one at a time. A reply is dropped once a newer request has arrived."""
        link = self.link()
        while not self.ended.is_set():
            try:
                message = self.replies.get(timeout=0.2)
            except queue.Empty:
                continue
            number, failures = message.header["id"], 0
            while not self.ended.is_set() and self.have <= number:
                try:
                    answer = link.reply(number, message.header["head"], message.payload)
                except UnreachableError:
                    self.ended.wait(messages.RETRY[min(failures, len(messages.RETRY) - 1)])
                    failures += 1
                    continue
                if answer.status != 507:
                    if answer.status != 200:
                        self.channel.send({"do": "unwanted", "id": number, "why": answer.why})
                    break
                self.ended.wait(_FULL)
        link.close()

    def leave(self) -> None:
        """Tells the coordinator not to wait for this platform."""
        with contextlib.suppress(UnreachableError):
            self.link().call("POST", messages.LEAVE, b'{"session": "%s"}' % self.session.encode())

    def run(self) -> None:
        """Starts the threads and handles the node's messages, until the node ends."""
        for work in (self.poll, self.answer):
            threading.Thread(target=self._guarded, args=(work,), daemon=True).start()
        with contextlib.suppress(ClosedError):
            while not self.ended.is_set():
                message = self.channel.receive(0.5)
                if message is None:
                    continue
                if message.header["do"] == "reply":
                    self.replies.put(message)
                elif message.header["do"] == "end":
                    self.leave()
                    break
        self.ended.set()

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except ClosedError:
            pass  # the node has gone
        finally:
            self.ended.set()


def main() -> None:
    """`python -m fedrel.federation.https.transport DESCRIPTOR`: started by a platform's node."""
    channel, told = started("`fedrel platform start`")
    tls, spool = Path(told["tls"]), Path(told["spool"])
    limits = Limits(read=(*python_paths(), tls, spool), write=(spool,), network="client", programs=False)
    protection = confine(limits)
    channel.send({"do": "confined", "problems": list(protection.problems)})
    Transport(channel, told).run()


if __name__ == "__main__":
    main()
