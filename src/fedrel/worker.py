"""The process in which a platform trains: it owns the data, the model and the memory, and answers `@task`s.

It is a child of the platform's node. If it dies, of too little memory say, one reply is missing and a new one is
started; what it must remember lies on the platform's own disk. Nothing but records of our codec leaves it, past the
platform's policy and into its ledger first.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.algorithms import METHODS
from fedrel.errors import DivergedError, UserError
from fedrel.federation import frames
from fedrel.federation.checkpoint import load_record, save_record
from fedrel.federation.codec import CodecError, Record, decode, encode, fields
from fedrel.federation.frames import Frame
from fedrel.federation.protocol import Ask, answer, tasks
from fedrel.parties import Participant, participate, read_agreed
from fedrel.privacy.blind import of_run
from fedrel.privacy.ledger import Ledger
from fedrel.privacy.policy import Policy

_KEPT_ROUNDS = 2  # of memory: a coordinator that lost a round asks for it again
_SNAPSHOT = re.compile(r"round-(\d+)\.safetensors")


class RefusedError(Exception):
    """The platform will not answer; the sentence is meant for the coordinator."""


@dataclass
class Memory:
    """What a platform remembers between the rounds of one run, as it was after each of the last rounds."""

    folder: Path
    attempt: int = -1
    loaded: bool = False

    def before(self, round_: int, attempt: int, current: Record) -> Record:
        """What is remembered at the start of a round. A coordinator that begins anew, after a crash, may ask for a
        round that was answered before: then what that round changed is forgotten.
        """
        if self.loaded and attempt == self.attempt:
            return current
        self.loaded, self.attempt = True, attempt
        earlier = [number for number in self._rounds() if number < round_]
        return load_record(self._path(max(earlier))) if earlier else {}

    def keep(self, round_: int, memory: Record) -> None:
        if not memory:
            return
        save_record(self._path(round_), memory)
        for number in sorted(self._rounds())[:-_KEPT_ROUNDS]:
            self._path(number).unlink(missing_ok=True)

    def _rounds(self) -> list[int]:
        names = (_SNAPSHOT.fullmatch(path.name) for path in self.folder.glob("round-*.safetensors"))
        return [int(name[1]) for name in names if name]

    def _path(self, round_: int) -> Path:
        return self.folder / f"round-{round_}.safetensors"


@dataclass
class Worker:
    """Answers frames, one after the other."""

    participant: Participant | None = None
    memory: Memory = field(default_factory=lambda: Memory(Path()))
    settings: dict[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    ledger: Ledger | None = None
    sent: Counter[int] = field(default_factory=Counter)  # bytes by round

    def __call__(self, frame: Frame) -> Frame:
        header = frame.header
        try:
            if header["do"] == "begin":
                return self._begin(header, frame.payload)
            return self._task(header, frame.payload)
        except RefusedError as error:
            if self.ledger is not None:
                self.ledger.refuse(run=header["run"], round=_counted(header), task=header["task"], why=str(error))
            return Frame({"refused": str(error)})
        except (UserError, DivergedError, CodecError) as error:
            _say(f"{header['task']}: {error}")
            # What a reader of files says may quote them; it is for the platform's own people.
            return Frame({"failed": "the reason is in the platform's own log"})
        except MemoryError:
            return Frame({"failed": "out of memory"})
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return Frame({"failed": f"{type(error).__name__}; the reason is in the platform's own log"})

    def _begin(self, header: dict[str, Any], payload: bytes | bytearray) -> Frame:
        self.settings = header
        self.policy = Policy.read(Path(header["policy"]), methods=METHODS)
        self.ledger = self.ledger or Ledger.open(Path(header["ledger"]), say=_say)
        self.sent = Counter(self.ledger.sent(header["run"]))
        agreement = decode(payload)
        try:
            read_agreed(agreement)
        except UserError as error:
            raise RefusedError(str(error)) from None
        participant = participate(
            agreement,
            name=header["name"],
            data=Path(header["data"]),
            store=header["store"],
            secret=of_run(Path(header["key"]).read_bytes(), header["run"]),
        )
        if objection := self.policy.objection_to_experiment(participant.experiment, blinded=True):
            raise RefusedError(objection)
        if objection := self.policy.objection_to_size(len(participant.site.shard)):
            raise RefusedError(objection)
        self.participant = participant
        self.memory = Memory(Path(header["memory"]) / header["run"])
        return self._leave(header, participant.summary)

    def _task(self, header: dict[str, Any], payload: bytes | bytearray) -> Frame:
        if self.participant is None:
            return Frame({"failed": "it could not join; the reason is in the platform's own log"})
        algorithm, site = self.participant.algorithm, self.participant.site
        name, round_ = header["task"], header["round"]
        if name not in tasks(algorithm):
            raise RefusedError(f"there is no task {name!r} in this method")
        message = decode(payload)
        site.memory = self.memory.before(round_, header["attempt"], site.memory)
        remembered = dict(site.memory)
        reply = answer(algorithm, site, Ask(name, {}, round_), message)
        try:
            if site.memory.keys() != remembered.keys() or any(site.memory[k] is not remembered[k] for k in remembered):
                self.memory.keep(round_, site.memory)
            return self._leave(header, reply)
        except BaseException:  # what did not leave did not happen
            site.memory = remembered
            raise

    def _leave(self, header: dict[str, Any], reply: Record) -> Frame:
        """Past the policy and into the ledger, or not at all."""
        assert self.ledger is not None
        half = self.participant is not None and self.participant.experiment.engine.transport == "half"
        payload, round_ = encode(reply, half=half), _counted(header)
        found = fields(payload)
        objection = self.policy.objection_to_reply(
            found, sent_this_round=self.sent[round_], sent_this_run=self.sent.total()
        )
        if objection:
            raise RefusedError(objection)
        self.ledger.write(run=header["run"], round=round_, task=header["task"], payload=payload, fields=found)
        self.sent[round_] += len(payload)
        return Frame({}, payload)


def _say(line: str) -> None:
    """Into the platform's own log."""
    print(f"training: {line}", file=sys.stderr, flush=True)


def _counted(header: dict[str, Any]) -> int:
    """As people count: from 1, and 0 is before the first round."""
    return 0 if header["do"] == "begin" else int(header["round"]) + 1


def main() -> None:
    reading, writing = int(sys.argv[1]), int(sys.argv[2])
    worker = Worker()
    while True:
        try:
            asked = frames.receive(reading)
            answer = worker(asked)
            frames.send(writing, Frame({**answer.header, "id": asked.header["id"]}, answer.payload))
        except frames.ClosedError:
            return


if __name__ == "__main__":
    main()
