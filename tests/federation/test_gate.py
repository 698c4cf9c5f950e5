"""A platform's worker answers a request that the coordinator signed for this platform, once. Anything else gets no
answer and a line in the ledger.
"""

import json
from dataclasses import dataclass, field, replace

import pytest

from fedrel.federation.channel import Blob, Channel, ClosedError
from fedrel.federation.home import Home
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.platform import _seconds
from fedrel.federation.signing import Reply, Request, Signer, Verifier, sha256
from fedrel.federation.worker import Gate, Outcome, Worker, serve
from fedrel.privacy.ledger import read as read_ledger

RUN = "0123456789abcdef" * 2


@dataclass
class Hearing(Worker):
    """A worker that only records its requests."""

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
    """The gate of a worker that has just started."""
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
    """The payload of the reply; None if there was none."""
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


def test_a_request_of_the_coordinator_is_answered(gate, kits):
    assert ask(gate, kits) == b"answer"
    assert gate.worker.heard == [(a_request(kits), b"payload")]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"to": "b"}, "it is addressed to b"),
        ({"to": ""}, "it is addressed to "),
        ({"federation": "fedrel-other"}, "it was made for another federation"),
        ({"run": "../x"}, "cannot be the name of a run"),
        ({"run": ""}, "cannot be the name of a run"),
        ({"run": "/etc/passwd"}, "cannot be the name of a run"),
        ({"run": ".hidden"}, "cannot be the name of a run"),
        ({"run_id": "../../../../../../tmp/x"}, "its run ID is invalid"),
        ({"run_id": RUN.upper()}, "its run ID is invalid"),
        ({"run_id": RUN + "\n"}, "its run ID is invalid"),
        ({"run_id": ""}, "its run ID is invalid"),
        ({"round": -1}, "one of its numbers is out of bounds"),
        ({"round": 2**40}, "one of its numbers is out of bounds"),
        ({"seconds": float("nan")}, "one of its numbers is out of bounds"),
        ({"seconds": float("inf")}, "one of its numbers is out of bounds"),
        ({"seconds": 0.0}, "one of its numbers is out of bounds"),
        ({"seconds": -1.0}, "one of its numbers is out of bounds"),
        ({"bytes": -1}, "one of its numbers is out of bounds"),
        ({"bytes": 2**60}, "one of its numbers is out of bounds"),
        ({"bytes": 6}, "a payload of 7 bytes where at most 6 were expected"),
        ({"bytes": 8}, "its payload is not the one that was signed"),
        ({"sha256": sha256(b"other")}, "its payload is not the one that was signed"),
        ({"sha256": "x"}, "its payload is not the one that was signed"),
        ({"by": "b"}, "b (platform) signed it instead of coordinator (coordinator)"),
        ({"by": "a"}, "a (platform) signed it instead of coordinator (coordinator)"),
        ({"by": "admin"}, "admin (admin) signed it instead of coordinator (coordinator)"),
        ({"carried": b"paylOad"}, "its payload is not the one that was signed"),
        ({"carried": b""}, "its payload is not the one that was signed"),
    ],
)
def test_anything_else_gets_no_answer_and_a_line_in_the_ledger(gate, kits, changes, why):
    assert ask(gate, kits, **changes) is None
    assert gate.worker.heard == []
    [line] = refusals(kits)
    assert line.startswith("not the coordinator's request: ") and why in line
    assert ask(gate, kits) == b"answer"  # a valid request is still answered


@pytest.mark.parametrize("head", [None, {}, [], "x", {"text": "{}", "certificate": "", "signature": ""}])
def test_an_unsigned_request_is_recorded_too(gate, kits, head):
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
    assert ask(gate, kits, number=99) is None  # of the previous attempt
    assert len(gate.worker.heard) == 4


def test_a_restarted_worker_refuses_old_requests(gate, kits):
    assert ask(gate, kits, number=5) == b"answer"
    again = a_gate(kits)
    assert ask(again, kits, number=5) is None
    assert ask(again, kits, number=6) == b"answer"
    again.worker.ledger.close()


def test_a_request_with_a_bad_payload_does_not_use_up_its_number(gate, kits):
    """Otherwise a carrier could use up the number of a request that never arrived."""
    assert ask(gate, kits, carried=b"rubbish") is None
    assert ask(gate, kits) == b"answer"


def test_old_runs_lose_their_memory_but_not_their_numbers(gate, kits):
    numbers = [f"{number:032x}" for number in range(25)]
    for number in numbers:
        assert ask(gate, kits, run_id=number) == b"answer"
        (kits / "a/memory" / number / "round-3.safetensors").write_bytes(b"memory")
    assert ask(gate, kits, run_id="e" * 32) == b"answer"
    kept = [number for number in numbers if (kits / "a/memory" / number / "round-3.safetensors").exists()]
    assert kept == numbers[-20:]
    for number in numbers:
        assert ask(gate, kits, run_id=number) is None


def test_a_request_without_a_payload(gate, kits):
    envelope = Signer.of(open_kit(kits / "coordinator")).sign(a_request(kits, b""))
    answer, _ = gate(envelope.as_json(), None)
    assert answer is not None and gate.worker.heard[0][1] == b""


def test_the_process_gives_no_reason_for_a_refusal(gate, kits, tmp_path, monkeypatch):
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
    """A channel that closes after a number of messages."""

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
def test_a_node_finds_a_deadline_in_any_request(head, seconds):
    assert _seconds(head) == seconds


def test_nothing_is_answered_without_a_writable_ledger(kits):
    (kits / "a/ledger").rmdir()
    (kits / "a/ledger").write_text("in the way")
    assert a_gate(kits)(json.loads("{}"), None) == (None, b"")
