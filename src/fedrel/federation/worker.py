"""A platform's worker, the process that trains: it holds the data, the model and the memory, and answers `@task`s.

It is a child of the platform's node and has no network. It answers only requests that the coordinator has signed for
this platform, each once. If it dies, for example from lack of memory, one reply is missing and the node starts another;
its memory is on the platform's disk. It sends only records of our codec, which must satisfy the platform's policy and
be written to its ledger first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedrel.algorithms import METHODS
from fedrel.config import Experiment
from fedrel.engines.remote import DIVERGED
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.assembly import plugins_of
from fedrel.experiment.parties import Participant, participate, read_agreed
from fedrel.experiment.sums import SECURE, adds_up, layout_of
from fedrel.federation.channel import Blob, Channel, ClosedError
from fedrel.federation.following import Following
from fedrel.federation.home import Home, Memory, tidy
from fedrel.federation.kits.kit import COORDINATOR, open_kit
from fedrel.federation.noising import Noise, RefusedError
from fedrel.federation.signing import BEGIN, UNREADY, Envelope, ForgedError, Reply, Request, Signer, Verifier, sha256
from fedrel.federation.summing import Proof, Summing
from fedrel.learning.fit import Fitted, Work, fit_alone, rendezvous
from fedrel.privacy.blind import of_agreement
from fedrel.privacy.entries import Field
from fedrel.privacy.ledger import Ledger
from fedrel.privacy.policy import Policy
from fedrel.privacy.secure_sum import NotOpenedError
from fedrel.protocol.codec import CodecError, Payload, Record, decode, encode, fields
from fedrel.protocol.round import Ask
from fedrel.protocol.sum_messages import MASK, REQUESTS, UNITS, BadMessageError, units_of
from fedrel.protocol.summed import Layout, masked, words_of
from fedrel.protocol.tasks import added, answer, filled, form_of, tasks
from fedrel.util.escaping import shown
from fedrel.util.files import private_folder, run_name, write_atomic

MOST_PAYLOAD = 16 * 2**30  # bytes of a request
_RUN_ID = re.compile("[0-9a-f]{32}")
_MOST_TASK = 100  # characters of a task's name
_OFTEN = 60.0  # seconds in which the same refusal is recorded once


class TooLittleError(RefusedError):
    """The policy wants more sentences behind what a training would make known."""


class Outcome(NamedTuple):
    """The outcome of a request: a payload, or a state and the reason."""

    state: str = "done"
    why: str = ""
    payload: Payload = b""
    inside: tuple[Field, ...] = ()  # of a masked summand


@dataclass
class Worker:
    """Answers requests whose origin has been verified, one at a time."""

    home: Home
    participant: Participant | None = None
    run: str = ""  # the run it is ready for
    run_id: str = ""
    memory: Memory = field(default_factory=lambda: Memory(Path()))
    policy: Policy = field(default_factory=Policy)
    ledger: Ledger | None = None
    sent: Counter[int] = field(default_factory=Counter)  # bytes by round
    proof: Proof | None = None  # what it takes part in sums with
    summing: Summing | None = None  # where a run has sums alone
    noise: Noise | None = None  # where a run hides what it adds to sums
    inside: tuple[Field, ...] = ()  # of the sum that is under way, what this platform adds to it
    last: tuple[tuple[object, ...], Outcome] | None = None  # the last request and its outcome, in case that gets lost

    def __call__(self, request: Request, payload: Payload) -> Outcome:
        try:
            self.ledger = self.ledger or Ledger.open(self.home.ledger, say=_say)
            if request.task == BEGIN:
                return self._begin(request, payload)
            return self._task(request, payload)
        except (RefusedError, NotOpenedError) as error:
            self.refuse(request.run, request.round, request.task, str(error))
            return Outcome("refused", str(error))
        except DivergedError as error:
            _say(f"{request.task}: {error}")
            return Outcome("failed", DIVERGED)
        except (UserError, CodecError) as error:
            _say(f"{request.task}: {error}")
            # The message may quote private files, so it stays on the platform.
            return Outcome("failed", "see the platform's own log for the reason")
        except MemoryError:
            return Outcome("failed", "out of memory")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return Outcome("failed", f"{type(error).__name__}; see the platform's own log for the reason")

    def refuse(self, run: str, round_: int, task: str, why: str) -> None:
        """Records a refused request in the ledger."""
        self.ledger = self.ledger or Ledger.open(self.home.ledger, say=_say)
        self.ledger.refuse(run=run, round=_counted(task, round_), task=task, why=why)

    def _begin(self, request: Request, payload: Payload) -> Outcome:
        assert self.ledger is not None
        self.participant, self.last = None, None
        self.policy = Policy.read(self.home.policy, methods=METHODS)
        self.sent = Counter(self.ledger.sent(request.run))
        agreement = decode(payload)
        try:
            asked = read_agreed(agreement, allow=self._require_known_code)
        except UserError as error:
            raise RefusedError(str(error)) from None
        if asked.feedback.users == "table":
            raise RefusedError("feedback.table names a file, and a platform alone decides which files it reads")
        agreed = request.run_id, bytes.fromhex(request.sha256)
        shared = of_agreement(self.home.blinding_key.read_bytes(), *agreed)
        participant = participate(
            agreement,
            name=self.home.name,
            data=self.home.data,
            store=self.home.store,
            secret=shared,
            own_secret=of_agreement(self.home.own_secret(), *agreed),
        )
        if objection := self.policy.objection_to_experiment(participant.experiment, blinded=True):
            raise RefusedError(objection)
        if objection := self.policy.objection_to_size(len(participant.site.shard)):
            raise RefusedError(objection)
        self.noise = Noise.of(participant, self.home, request)
        if self.noise and (objection := self.noise.objection(self.policy)):
            raise RefusedError(objection)
        if participant.experiment.engine.public_seeds:
            _say("engine.public_seeds: whoever knows the experiment can replay what is trained in this run")
        self.memory = Memory(self.home.memory / request.run_id)
        self.summing = self._summing_of(participant, shared)
        outcome = self._release(request, participant.summary, half=False)
        self.participant, self.run, self.run_id = participant, request.run, request.run_id
        return outcome

    def _require_known_code(self, experiment: Experiment) -> None:
        """Raises RefusedError for a plug-in that the policy does not allow by name and digest."""
        for name, origin in plugins_of(experiment):
            if objection := self.policy.objection_to_plugin(name, origin):
                raise RefusedError(objection)

    def _summing_of(self, participant: Participant, secret: bytes) -> Summing | None:
        """`secret`: the platforms' alone."""
        experiment = participant.experiment
        if experiment.privacy.sums != SECURE:
            _say("no secure sums in this run: the coordinator sees what this platform sends (privacy.sums)")
            return None
        if self.proof is None:
            raise RefusedError("it has no key to sign its part of a sum with")
        least = max(experiment.privacy.least, self.policy.settings.min_summed)
        following = Following.of(participant, secret, self.memory.folder)
        return Summing(self.home.name, self.proof, least, self.memory.folder, following)

    def _task(self, request: Request, payload: Payload) -> Outcome:
        if self.participant is None or (self.run, self.run_id) != (request.run, request.run_id):
            return Outcome(UNREADY, "it has not begun this run yet")
        algorithm, site = self.participant.algorithm, self.participant.site
        step = self.summing is not None and request.task in REQUESTS
        if request.task not in tasks(algorithm) and not step:
            raise RefusedError(f"this method has no task {request.task!r}")
        asked = (request.run_id, request.attempt, request.round, request.task, request.sha256)
        if self.last is not None and self.last[0] == asked:
            return self._record(request, self.last[1])
        message = decode(payload)
        if self.summing is not None and step:
            payload = encode(self.summing.step(request, message))
            outcome = Outcome(payload=payload, inside=self.inside if request.task == MASK else ())
            self.last = (asked, outcome)
            return self._record(request, outcome)
        layout = self._layout(request, message)
        if self.summing is not None and layout is not None:
            self.summing.require(request, message)
        site.memory = self.memory.before(request.round, request.attempt, site.memory)
        remembered, ask = dict(site.memory), Ask(request.task, {}, request.round, layout=layout)
        try:
            with self._watched_training():
                reply = answer(algorithm, site, ask, message)
        except TooLittleError as error:
            form = form_of(algorithm, request.task)
            if form is None or not form.or_nothing:
                raise
            self.refuse(request.run, request.round, request.task, str(error))
            reply = {}  # nothing to say in this round, and no reason for the others to repeat it
            if layout is not None:
                reply = added(algorithm, site, ask, message, remembered, reply)
        try:
            if self.noise is not None and layout is not None:
                reply = masked(self.noise.spend(self.policy, request, layout, message, remembered, words_of(reply)))
            if self.summing is not None and layout is not None:
                whole = filled(algorithm, site, layout, message)
                self.inside = self._inside(whole)
                reply = self.summing.offer(request, words_of(reply), whole)
            outcome = self._release(request, reply, half=self.participant.experiment.engine.transport == "half")
            if site.memory.keys() != remembered.keys() or any(site.memory[k] is not remembered[k] for k in remembered):
                self.memory.keep(request.round, site.memory)
        except BaseException:  # a reply that was not sent must leave no trace in memory
            site.memory = remembered
            raise
        self.last = (asked, outcome)
        return outcome

    def _layout(self, request: Request, message: Record) -> Layout | None:
        """How the reply to this request is to be added up; None: it leaves as it is. In a run with sums alone no task
        of the method replies in any other way, whatever the coordinator asks for.
        """
        assert self.participant is not None
        if self.summing is None or not adds_up(self.participant.algorithm, request.task):
            return None
        form = form_of(self.participant.algorithm, request.task)
        try:
            units = units_of(message)
        except BadMessageError as error:
            raise RefusedError(f"it replies to {request.task} in a sum alone, and {error}") from None
        if form is None:
            raise RefusedError(f"{request.task} does not say what it replies")
        del message[UNITS]
        return layout_of(form, units, request.round, self.participant.budget)

    def _inside(self, layout: Layout) -> tuple[Field, ...]:
        """What a summand holds, for the ledger. Raises RefusedError if the policy forbids some of it."""
        found = tuple(part.described for part in layout.parts if part.field)
        if objection := self.policy.objection_to_fields(it.name for it in found):
            raise RefusedError(objection)
        return found

    def _of_a_sum(self, task: str) -> bool:
        """Whether nothing can be read from the replies to a task: they are offers, shares and masked numbers."""
        if self.summing is None or self.participant is None:
            return False
        return task in REQUESTS or adds_up(self.participant.algorithm, task)

    @contextlib.contextmanager
    def _watched_training(self) -> Iterator[None]:
        """Within this context, training on fewer sentences than the policy allows is refused before it begins, whatever
        the method says about itself.
        """

        def fit_if_allowed(work: Work) -> Fitted:
            if objection := self.policy.objection_to_training(len(work.sentences)):
                raise TooLittleError(objection)
            return fit_alone(work)

        token = rendezvous.set(fit_if_allowed)
        try:
            yield
        finally:
            rendezvous.reset(token)

    def _release(self, request: Request, reply: Record, *, half: bool) -> Outcome:
        """Encodes a reply and records it for sending. Raises RefusedError if the policy forbids that."""
        return self._record(request, Outcome(payload=encode(reply, half=half)))

    def _record(self, request: Request, outcome: Outcome) -> Outcome:
        """Checks the policy's limits on size and records the reply in the ledger, each time it is sent. Raises
        RefusedError if it exceeds a limit.
        """
        assert self.ledger is not None
        round_, found = _counted(request.task, request.round), fields(outcome.payload)
        sent, in_all = self.sent[round_], self.sent.total()
        unreadable = self._of_a_sum(request.task)
        objection = self.policy.objection_to_reply(
            found, sent_this_round=sent, sent_this_run=in_all, unreadable=unreadable
        )
        if objection:
            raise RefusedError(objection)
        made_of = [*found, *outcome.inside]
        self.ledger.write(run=request.run, round=round_, task=request.task, payload=outcome.payload, fields=made_of)
        self.sent[round_] += len(outcome.payload)
        return outcome


@dataclass
class Gate:
    """Admits requests that the coordinator signed for this platform, each once, and signs the replies."""

    worker: Worker
    federation: str
    signer: Signer
    verifier: Verifier
    refused: dict[str, float] = field(default_factory=dict)  # reason: when it was last recorded

    def __call__(self, head: object, payload: Blob | None) -> tuple[Envelope | None, Payload]:
        """The signed reply and its payload; (None, b"") if the coordinator did not sign the request: no reason is
        given to an impostor.
        """
        try:
            envelope = Envelope.from_json(head)
            request = self.verifier.open(envelope, Request, role="coordinator", name=COORDINATOR)
            self._check(request)
            content = bytearray() if payload is None else payload.read(min(request.bytes, MOST_PAYLOAD))
            if len(content) != request.bytes or sha256(content) != request.sha256:
                raise ForgedError("its payload is not the one that was signed")
            outcome = self._once(request) or self.worker(request, content)
        except (ForgedError, UserError, ValueError) as error:
            self._refuse(str(error))
            return None, b""
        reply = Reply(
            federation=self.federation,
            platform=self.worker.home.name,
            answers=envelope.digest,
            state=outcome.state,
            why=outcome.why,
            bytes=len(outcome.payload),
            sha256=sha256(outcome.payload),
        )
        return self.signer.sign(reply), outcome.payload

    def _check(self, request: Request) -> None:
        if request.to != self.worker.home.name:
            raise ForgedError(f"it is addressed to {request.to}")
        run_name(request.run)
        if not 0 < len(request.task) <= _MOST_TASK or not request.task.isascii() or not request.task.isidentifier():
            raise ForgedError("the name of its task is invalid")
        if not _RUN_ID.fullmatch(request.run_id):
            raise ForgedError("its run ID is invalid")
        if not (0 <= request.round < 2**31 and 0 < request.seconds <= 1e7 and 0 <= request.bytes <= MOST_PAYLOAD):
            raise ForgedError("one of its numbers is out of bounds")

    def _once(self, request: Request) -> Outcome | None:
        """Records the request's number before anything is done, so that it is never answered again, whatever happens
        next. Returns None, or a failure if the number cannot be written. Raises ForgedError if it is not new.
        """
        folder = self.worker.home.memory / request.run_id
        path, now = folder / "seen.json", [request.attempt, request.number]
        if path.exists():
            if now <= json.loads(path.read_text(encoding="utf-8")):
                raise ForgedError("it was sent before")
        else:
            tidy(self.worker.home.memory)
        try:
            write_atomic(private_folder(folder) / "seen.json", json.dumps(now), private=True)
            return None
        except OSError as error:
            _say(f"{path}: {error.strerror}")
            return Outcome("failed", "the platform's disk is full or not writable")

    def _refuse(self, why: str) -> None:
        """Logs a refusal; the same reason enters the ledger at most once a minute, so that it cannot fill the disk."""
        _say(f"refused: {why}")
        if time.monotonic() - self.refused.get(why, -_OFTEN) >= _OFTEN:
            self.refused[why] = time.monotonic()
            with contextlib.suppress(UserError):  # nothing is lost: no reply is sent without a writable ledger either
                self.worker.refuse("", 0, "(message)", f"not the coordinator's request: {why}")


def _say(line: str) -> None:
    """Writes a line to the platform's own log."""
    print(shown(line), file=sys.stderr, flush=True)


def _counted(task: str, round_: int) -> int:
    """The round as people count it: from 1, with 0 for `begin`."""
    return 0 if task == BEGIN else round_ + 1


def serve(channel: Channel, gate: Gate) -> None:
    """Answers the node's requests until the node has gone."""
    while (message := channel.receive()) is not None:
        envelope, payload = gate(message.header.get("head"), message.payload)
        head: dict[str, Any] = (
            {"failed": "refused by the platform"} if envelope is None else {"envelope": envelope.as_json()}
        )
        try:
            reply = Blob.of(payload, _spool())
        except OSError as error:
            _say(f"{_spool()}: {error.strerror}")
            head, reply = {"failed": "the platform's disk is full or not writable"}, Blob.of(b"")
        channel.send({"do": "reply", "id": message.header["id"], "head": head}, reply)


def _spool() -> Path:
    return Path(os.environ["TMPDIR"])


def work(channel: Channel, told: dict[str, Any]) -> None:
    """Serves a platform with the paths that its node has sent. The process is already confined (nodes/confined.py)."""
    kit = open_kit(Path(told["kit"]))
    home = Home.of(kit.folder, kit.name, Path(told["data"]), told["store"])
    signer, verifier = Signer.of(kit), Verifier.of(kit)
    with contextlib.suppress(ClosedError):
        serve(channel, Gate(Worker(home, proof=Proof.of(signer, verifier)), kit.federation, signer, verifier))
