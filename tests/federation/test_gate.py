"""What a platform's worker lets through: what the coordinator signed, for this platform, once. All else gets no answer
and a line in the ledger.
"""

import json
from dataclasses import dataclass, field, replace

import pytest

from fedrel.federation.channel import Blob, Channel, ClosedError
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.platform import _seconds
from fedrel.federation.signing import Reply, Request, Signer, Verifier, sha256
from fedrel.federation.worker import Gate, Home, Outcome, Worker, serve
from fedrel.privacy.ledger import read as read_ledger

RUN = "0123456789abcdef" * 2


@dataclass
class Hearing(Worker):
    """Does nothing but listen."""

    heard: list[tuple[Request, bytes]] = field(default_factory=list)

    def __call__(self, request, payload):
        self.heard.append((request, bytes(payload)))
        return Outcome(payload=b"answer")


@pytest.fixture
def kits(federation):
    for folder in ("ledger", "memory"):
        (federation / "a" / folder).mkdir()
    return federation


@pytest.fixture
def gate(kits):
    made = a_gate(kits)
    yield made
    if made.worker.ledger is not None:
        made.worker.ledger.close()


def a_gate(kits):
    """As the worker has it when it has just started."""
    kit = open_kit(kits / "a")
    return Gate(Hearing(Home.of(kit.folder, "a", kits / "none", "")), kit.federation, Signer.of(kit), Verifier.of(kit))


def a_request(kits, payload=b"payload", **changes):
    plain = Request(
        federation=provisioning.read(kits).id,
        run="first",
        run_id=RUN,
        to="a",
        task="train",
        round=3,
        attempt=1,
        number=1,
        seconds=60.0,
        bytes=len(payload),
        sha256=sha256(payload),
    )
    return replace(plain, **changes)


def ask(gate, kits, payload=b"payload", *, by="coordinator", carried=None, **changes):
    """Whether it was answered."""
    envelope = Signer.of(open_kit(kits / by)).sign(a_request(kits, payload, **changes))
    answer, content = gate(envelope.as_json(), Blob.of(payload if carried is None else carried))
    if answer is None:
        assert content == b""
        return None
    reply = Verifier.of(open_kit(kits / "coordinator")).open(answer, Reply, role="platform", name="a")
    assert (reply.answers, reply.platform, reply.state) == (envelope.digest, "a", "done")
    assert (reply.bytes, reply.sha256) == (len(content), sha256(content))
    return content


def refusals(kits):
    return [it.refused for it in read_ledger(kits / "a/ledger/ledger.jsonl")]


def test_a_request_of_the_coordinators_is_answered_and_the_answer_names_it(gate, kits):
    assert ask(gate, kits) == b"answer"
    assert gate.worker.heard == [(a_request(kits), b"payload")]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"to": "b"}, "it was made for b"),
        ({"to": ""}, "it was made for "),
        ({"federation": "fedrel-other"}, "it was made for another federation"),
        ({"run": "../x"}, "cannot be the name of a run"),
        ({"run": ""}, "cannot be the name of a run"),
        ({"run": "/etc/passwd"}, "cannot be the name of a run"),
        ({"run": ".hidden"}, "cannot be the name of a run"),
        ({"run_id": "../../../../../../tmp/x"}, "its run has no proper number"),
        ({"run_id": RUN.upper()}, "its run has no proper number"),
        ({"run_id": RUN + "\n"}, "its run has no proper number"),
        ({"run_id": ""}, "its run has no proper number"),
        ({"round": -1}, "a number of it is out of bounds"),
        ({"round": 2**40}, "a number of it is out of bounds"),
        ({"seconds": float("nan")}, "a number of it is out of bounds"),
        ({"seconds": float("inf")}, "a number of it is out of bounds"),
        ({"seconds": 0.0}, "a number of it is out of bounds"),
        ({"seconds": -1.0}, "a number of it is out of bounds"),
        ({"bytes": -1}, "a number of it is out of bounds"),
        ({"bytes": 2**60}, "a number of it is out of bounds"),
        ({"bytes": 6}, "a payload of 7 bytes where at most 6 were expected"),
        ({"bytes": 8}, "its payload is not the one that was signed"),
        ({"sha256": sha256(b"other")}, "its payload is not the one that was signed"),
        ({"sha256": "x"}, "its payload is not the one that was signed"),
        ({"by": "b"}, "b (platform) signed it, where coordinator (coordinator) was expected"),
        ({"by": "a"}, "a (platform) signed it, where coordinator (coordinator) was expected"),
        ({"by": "admin"}, "admin (admin) signed it, where coordinator (coordinator) was expected"),
        ({"carried": b"paylOad"}, "its payload is not the one that was signed"),
        ({"carried": b""}, "its payload is not the one that was signed"),
    ],
)
def test_anything_else_gets_no_answer_and_a_line_in_the_ledger(gate, kits, changes, why):
    assert ask(gate, kits, **changes) is None
    assert gate.worker.heard == []
    [line] = refusals(kits)
    assert line.startswith("not the coordinator's request: ") and why in line
    assert ask(gate, kits) == b"answer"  # and what is right counts as if nothing had happened


@pytest.mark.parametrize("head", [None, {}, [], "x", {"text": "{}", "certificate": "", "signature": ""}])
def test_what_is_not_signed_at_all_is_written_down_too(gate, kits, head):
    assert gate(head, None) == (None, b"")
    assert len(refusals(kits)) == 1


def test_the_same_refusal_a_thousand_times_does_not_fill_the_disk(gate, kits):
    for _ in range(1000):
        gate(None, None)
    assert len(refusals(kits)) == 1


def test_a_request_counts_once(gate, kits):
    assert ask(gate, kits, number=5) == b"answer"
    for changes in ({"number": 5}, {"number": 4}, {"attempt": 0, "number": 9}, {"number": 5, "task": "begin"}):
        assert ask(gate, kits, **changes) is None
    assert refusals(kits) == ["not the coordinator's request: it was sent before"]
    for changes in ({"number": 6}, {"attempt": 2, "number": 1}, {"run_id": "f" * 32, "number": 1}):
        assert ask(gate, kits, **changes) == b"answer"
    assert ask(gate, kits, number=99) is None  # of the attempt before
    assert len(gate.worker.heard) == 4


def test_a_worker_that_was_started_again_knows_what_it_was_asked(gate, kits):
    assert ask(gate, kits, number=5) == b"answer"
    again = a_gate(kits)
    assert ask(again, kits, number=5) is None
    assert ask(again, kits, number=6) == b"answer"
    again.worker.ledger.close()


def test_what_is_refused_for_its_payload_was_not_used_up(gate, kits):
    """Whoever carries messages could otherwise spend a request that never arrived."""
    assert ask(gate, kits, carried=b"rubbish") is None
    assert ask(gate, kits) == b"answer"


def test_runs_of_long_ago_are_forgotten_but_not_that_they_were(gate, kits):
    numbers = [f"{number:032x}" for number in range(25)]
    for number in numbers:
        assert ask(gate, kits, run_id=number) == b"answer"
        (kits / "a/memory" / number / "round-3.safetensors").write_bytes(b"memory")
    assert ask(gate, kits, run_id="e" * 32) == b"answer"
    kept = [number for number in numbers if (kits / "a/memory" / number / "round-3.safetensors").exists()]
    assert kept == numbers[-20:]
    for number in numbers:
        assert ask(gate, kits, run_id=number) is None


def test_without_a_payload_there_is_none(gate, kits):
    envelope = Signer.of(open_kit(kits / "coordinator")).sign(a_request(kits, b""))
    answer, _ = gate(envelope.as_json(), None)
    assert answer is not None and gate.worker.heard[0][1] == b""


def test_the_process_says_that_it_refuses_and_nothing_else(gate, kits, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    node, theirs = Channel.pair()
    envelope = Signer.of(open_kit(kits / "coordinator")).sign(a_request(kits))
    node.send({"do": "request", "id": 1, "head": {"x": 1}}, Blob.of(b"x"))
    node.send({"do": "request", "id": 2, "head": envelope.as_json()}, Blob.of(b"payload"))
    worker = Channel(theirs)
    with pytest.raises(ClosedError):
        serve(Ending(worker, 2), gate)
    first, second = node.receive(1), node.receive(1)
    assert first.header == {"do": "reply", "id": 1, "head": {"failed": "refused by the platform"}}
    assert first.payload.read(100) == b""
    assert second.header["id"] == 2 and second.payload.read(100) == b"answer"
    node.close(), worker.close()


class Ending:
    """A channel that closes after so many messages."""

    def __init__(self, channel, count):
        self.channel, self.left = channel, count

    def receive(self):
        if not self.left:
            raise ClosedError
        self.left -= 1
        return self.channel.receive()

    def send(self, *message):
        self.channel.send(*message)


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        ({"text": '{"seconds": 7.5}'}, 7.5),
        ({"text": '{"seconds": NaN}'}, 1.0),
        ({"text": '{"seconds": -3}'}, 1.0),
        ({"text": '{"seconds": 1e300}'}, 1.0),
        ({"text": '{"seconds": 1' + "0" * 400 + "}"}, 60.0),
        ({"text": '{"seconds": "x"}'}, 60.0),
        ({"text": "["}, 60.0),
        ({"text": "[" * 100_000}, 60.0),
        ({"text": 3}, 60.0),
        ({}, 60.0),
        (None, 60.0),
    ],
)
def test_a_node_finds_a_deadline_whatever_it_is_sent(head, seconds):
    assert _seconds(head) == seconds


def test_a_ledger_that_cannot_be_written_lets_nothing_through(kits):
    (kits / "a/ledger").rmdir()
    (kits / "a/ledger").write_text("in the way")
    assert a_gate(kits)(json.loads("{}"), None) == (None, b"")
