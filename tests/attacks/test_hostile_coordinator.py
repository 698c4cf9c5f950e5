"""A hostile coordinator: it has the TLS key and the signing key, and a real platform connects to it.

It may send any request; it gets only replies of a method's tasks that the platform's policy allows, and all of them are
in the ledger. Without the signing key (only its network process is compromised) it gets nothing at all.

| attack | what happens |
|---|---|
| tasks that do not exist, internal names, for another platform, numbers out of bounds or used before | refused |
| requests without a signature, with another's, changed in transit, truncated, huge, deep | refused, or dropped |
| an experiment with a method that the policy forbids, with too few sentences, that names files | refused |
| held-out splits with other names, invalid agreements, weights that do not fit | fails, without a reason |
| the same run with another agreement | other keys of facts |
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from fedrel.experiment.parties import _text
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.signing import Envelope, Reply, Request, Signer
from fedrel.learning.named import Named
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.records import named_in
from tests.attacks.tyrant import Tyrant
from tests.attacks.wire import memory, until

slow = pytest.mark.slow
POLICY = """
[methods]
forbid = ["scaffold"]
[settings]
min_sentences = 20
"""


@pytest.fixture(scope="module")
def tyrant(world) -> Iterator[Tyrant]:
    with tempfile.TemporaryDirectory(prefix="fedrel-tyrant-") as folder:
        made = Tyrant(Path(folder), world)
        (made.victim / "local" / "policy.toml").write_text(POLICY)
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def agreement(tyrant):
    return tyrant.agreement()


@pytest.fixture(autouse=True)
def works_after(tyrant, agreement) -> Iterator[None]:
    yield
    tyrant.still_works(agreement)


def refused(tyrant, before: int, words: str) -> None:
    """Asserts that the ledger has a refusal with this reason. The same reason is recorded once a minute."""
    assert until(lambda: any(words in why for why in tyrant.refusals())), (tyrant.refusals()[before:], words)


# -- without the signing key ---------------------------------------------------------------------------------------


def test_without_the_signing_key_nothing_is_answered(tyrant, agreement):
    """With the TLS key only: invalid signatures, another party's, the certificate for TLS."""
    before, left = len(tyrant.refusals()), len(tyrant.left())
    payload = bytes(encode(agreement))
    good = tyrant.signer.sign(tyrant.request("begin", payload))
    platform = Signer.of(open_kit(tyrant.folder / "kits" / "p1"))
    admin = Signer.of(open_kit(tyrant.folder / "kits" / "admin"))
    tls = (tyrant.kit.folder / "tls" / "node.crt").read_text()
    for forged in (
        Envelope(good.text, good.certificate, "00" * 64),
        Envelope(good.text, good.certificate, ""),
        Envelope(good.text, tls, good.signature),
        platform.sign(tyrant.request("begin", payload)),
        admin.sign(tyrant.request("begin", payload)),
        Envelope(good.text, platform.sign(tyrant.request("begin")).certificate, good.signature),
    ):
        assert tyrant.opened(tyrant.order(forged.as_json(), payload)) == (None, b"")
    assert len(tyrant.left()) == left
    refused(tyrant, before, "not the coordinator's request: its signature does not match")
    refused(tyrant, before, "p1 (platform) signed it instead of coordinator (coordinator)")


@slow
@pytest.mark.parametrize("field", [*asdict(Request("", "", "", "", "", 0, 0, 0, 0.0, 0, ""))])
def test_no_character_of_a_request_can_be_changed_in_transit(tyrant, agreement, field):
    payload = bytes(encode(agreement))
    good = tyrant.signer.sign(tyrant.request("begin", payload))
    said = json.loads(good.text)
    said[field] = {str: "changed", int: 7, float: 7.0}[type(said[field])]
    changed = Envelope(json.dumps(said), good.certificate, good.signature)
    assert tyrant.opened(tyrant.order(changed.as_json(), payload)) == (None, b"")
    refused(tyrant, 0, "its signature does not match its content")


@slow
def test_a_payload_other_than_the_signed_one_is_refused(tyrant, agreement):
    payload = bytes(encode(agreement))
    for other in (payload[:-1], payload + b"x", payload[:-1] + b"\x00" + b"", b""):
        if other == payload:
            continue
        envelope = tyrant.signer.sign(tyrant.request("begin", payload))
        assert tyrant.opened(tyrant.order(envelope.as_json(), other)) == (None, b"")
    refused(tyrant, 0, "not the one that was signed")


@slow
@pytest.mark.parametrize(
    "head",
    [
        {},
        {"text": "", "certificate": "", "signature": ""},
        {"text": "{}", "certificate": "x", "signature": "00", "more": 1},
        {"text": [], "certificate": {}, "signature": 0},
        {"text": "\ud800", "certificate": "\ud800", "signature": "\ud800"},
        {"text": '{"seconds": 1e400}', "certificate": "", "signature": ""},
        {"text": '{"seconds": ' + "9" * 10_000 + "}", "certificate": "", "signature": ""},
        {"text": "[" * 50_000, "certificate": "", "signature": ""},
        {"text": '{"seconds": -1}', "certificate": "", "signature": ""},
    ],
    ids=["empty", "blank", "more", "types", "halves", "endless", "huge number", "deep", "negative time"],
)
def test_a_head_that_is_not_a_request_is_refused(tyrant, head):
    assert tyrant.opened(tyrant.order(head)) == (None, b"")
    refused(tyrant, 0, "not the coordinator's request")


def _answer(handler, status: int, *lines: tuple[str, str], body: bytes = b"") -> None:
    handler.send_response(status)
    for name, value in lines:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = True


ANSWERS = {
    "no length": (200, [("Fedrel-Request", "1")], b"xxxx"),
    "negative length": (200, [("Fedrel-Request", "1"), ("Content-Length", "-5")], b"xxxx"),
    "a million gigabytes": (200, [("Fedrel-Request", "1"), ("Content-Length", str(10**15))], b"\x02\0\0\0{}"),
    "cut off": (200, [("Fedrel-Request", "1"), ("Content-Length", "5000")], b"\x02\0\0\0{}"),
    "chunked": (200, [("Fedrel-Request", "1"), ("Transfer-Encoding", "chunked")], b"ffffffffffffffff\r\n"),
    "a head of 4 GB": (200, [("Fedrel-Request", "1"), ("Content-Length", "100")], b"\xff" * 100),
    "a deep head": (200, [("Fedrel-Request", "1"), ("Content-Length", "100004")], b"\xa0\x86\x01\0" + b"[" * 100_000),
    "a list": (200, [("Fedrel-Request", "1"), ("Content-Length", "6")], b"\x02\0\0\0[]"),
    "a number without end": (200, [("Fedrel-Request", "9" * 20_000), ("Content-Length", "6")], b"\x02\0\0\0{}"),
    "no number": (200, [("Fedrel-Request", "x"), ("Content-Length", "6")], b"\x02\0\0\0{}"),
    "gzip": (200, [("Content-Encoding", "gzip"), ("Content-Length", "6")], b"\x1f\x8b\x08\0\0\0"),
    "elsewhere": (302, [("Location", "https://localhost:1/"), ("Content-Length", "0")], b""),
    "continue": (100, [], b""),
    "a page": (500, [("Content-Length", "100000")], b"<script>" * 12_500),
    "escapes": (403, [("Content-Length", "40")], b'{"why": "\\u001b[2J[/x]\\u202e<script>" }   '),
    "a head that grows": (
        200,
        [("Fedrel-Request", "5"), ("Content-Length", "120020")],
        (120_016).to_bytes(4, "little") + b'{"text": "' + "é".encode() * 60_000 + b'"}    ',
    ),
}


@slow
@pytest.mark.parametrize("which", ANSWERS)
def test_an_invalid_http_answer_breaks_nothing(tyrant, which):
    status, lines, body = ANSWERS[which]
    before = {name: memory(pid) for name, pid in tyrant.processes().items()}
    tyrant.raw(lambda handler: _answer(handler, status, *lines, body=body))
    assert until(tyrant.orders.empty)
    time.sleep(0.5)
    for name, pid in tyrant.processes().items():
        assert memory(pid) - before.get(name, memory(pid)) < 50 * 2**20, f"{name} grew"
    shown = (tyrant.folder / "p0.log").read_text()
    assert not {"\x1b", "\u202e"} & set(shown)
    assert "Traceback" not in (tyrant.victim / "node.log").read_text()


# -- with the signing key --------------------------------------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    "task",
    ["nonsense", "__init__", "__class__", "__reduce__", "learn", "round", "start", "chosen", "objection", "TRAIN"],
)
def test_only_tasks_of_the_method_can_be_asked_for(tyrant, agreement, task):
    run_id = secrets.token_hex(16)
    assert tyrant.ask("begin", agreement, run_id=run_id)[0].state == "done"
    left = len(tyrant.left())
    reply, payload = tyrant.ask(task, {"x": 1.0}, run_id=run_id)
    assert (reply.state, payload) == ("refused", b"")
    assert len(tyrant.left()) == left
    refused(tyrant, 0, f"this method has no task {task!r}")


@slow
@pytest.mark.parametrize("task", ["", "a b", "a\nb", "\x1b[2J", "../x", "x" * 101, "trаin"], ids=lambda it: it[:5])
def test_a_task_with_an_invalid_name_is_refused(tyrant, task):
    assert tyrant.ask(task, {"x": 1.0}) == (None, b"")
    refused(tyrant, 0, "the name of its task is invalid")
    assert "\x1b" not in (tyrant.victim / "node.log").read_text()


BOUNDS = {
    "another platform's": {"to": "p1"},
    "escapes for a name": {"to": "\x1b[2J\nforged: line"},
    "a negative round": {"round": -1},
    "a round without end": {"round": 2**31},
    "no time": {"seconds": 0.0},
    "time without end": {"seconds": float("inf")},
    "no number for a time": {"seconds": float("nan")},
    "a year": {"seconds": 1e9},
    "bytes without end": {"bytes": 2**60},
    "negative bytes": {"bytes": -1},
    "a path for a run": {"run": "../../x"},
    "an escape for a run": {"run": "\x1b[2J"},
    "a path for a number": {"run_id": "../../../../etc/cron.d/xxxxxxxxx"},
    "no number of a run": {"run_id": ""},
    "another federation": {"federation": "fedrel-elsewhere"},
}


@slow
@pytest.mark.parametrize("which", BOUNDS)
def test_a_request_out_of_bounds_is_refused(tyrant, agreement, which):
    before = set(tyrant.victim.rglob("*"))
    assert tyrant.ask("begin", agreement, **BOUNDS[which]) == (None, b"")
    refused(tyrant, 0, "not the coordinator's request")
    assert {path.parent.name for path in set(tyrant.victim.rglob("*")) - before} <= {"memory", "ledger", "worker"}
    for path in (tyrant.victim / "node.log", tyrant.folder / "p0.log"):
        assert "\x1b" not in path.read_text()
        assert "\nforged" not in path.read_text()


def test_a_request_is_answered_once(tyrant, agreement):
    payload = bytes(encode(agreement))
    run_id = secrets.token_hex(16)
    envelope = tyrant.signer.sign(tyrant.request("begin", payload, run_id=run_id)).as_json()
    assert tyrant.opened(tyrant.order(envelope, payload))[0].state == "done"
    left = len(tyrant.left())
    assert tyrant.opened(tyrant.order(envelope, payload)) == (None, b"")
    earlier = tyrant.request("begin", payload, run_id=run_id, number=0)
    assert tyrant.opened(tyrant.order(tyrant.signer.sign(earlier).as_json(), payload)) == (None, b"")
    assert len(tyrant.left()) == left
    refused(tyrant, 0, "it was sent before")


@slow
def test_a_request_is_answered_once_even_by_a_new_training_process(tyrant, agreement):
    payload = bytes(encode(agreement))
    envelope = tyrant.signer.sign(tyrant.request("begin", payload, run_id=secrets.token_hex(16))).as_json()
    assert tyrant.opened(tyrant.order(envelope, payload))[0].state == "done"
    before = len(tyrant.trail())
    os.kill(tyrant.processes()["worker"], signal.SIGKILL)
    assert until(lambda: any(it["event"] == "training process ended" for it in tyrant.trail()[before:]))
    assert tyrant.opened(tyrant.order(envelope, payload)) == (None, b"")


@slow
def test_a_method_that_the_policy_forbids_gets_nothing(tyrant):
    reply, payload = tyrant.ask("begin", tyrant.agreement("method.name=scaffold"), run_id=secrets.token_hex(16))
    assert (reply.state, payload) == ("refused", b"")
    refused(tyrant, 0, "its policy forbids scaffold")


@slow
def test_a_selection_of_very_few_sentences_gets_nothing(tyrant, agreement):
    """Rare relations: the fewer the sentences, the more a model reveals about each."""
    for relation in ("city/capital_of", "person/spouse_of"):
        text = bytes(named_in(agreement, "experiment")["text"].numpy()).decode()
        start = text.index("relations = [")
        few = text[:start] + f'relations = ["{relation}"]' + text[text.index("]", start) + 1 :]
        few = few.replace('na = "keep"', 'na = "drop"')
        reply, payload = tyrant.ask("begin", {**agreement, "experiment": _text(few)}, run_id=secrets.token_hex(16))
        assert (reply.state, payload) in (("refused", b""), ("failed", b"")), reply


EVIDENCE = ("method.name=evidence", "data.na=drop", "training.metric=micro_f1")


@slow
def test_a_request_to_train_on_one_fact_gets_no_model(tyrant):
    """With thresholds so high that only the sentences of one fact pass, the model would reveal them."""
    run, run_id = "picked", secrets.token_hex(16)
    coordination = tyrant.coordination(*EVIDENCE)
    assert tyrant.ask("begin", dict(coordination.agreement), run=run, run_id=run_id)[0].state == "done"
    reply, payload = tyrant.ask("show", {"weights": coordination.setup.weights}, run=run, run_id=run_id)
    assert reply.state == "done"
    bars = torch.full_like(named_in(decode(bytearray(payload)), "evidence")["best"], torch.inf)
    bars[0] = -torch.inf
    left = len(tyrant.left())
    reply, payload = tyrant.ask("train", {"best": Named(best=bars)}, run=run, run_id=run_id)
    assert (reply.state, decode(bytearray(payload))) == ("done", {}), "an honest platform may have too few as well"
    [empty] = tyrant.left()[left:]
    assert [it.name for it in empty.fields] == ["(header)"]


@slow
def test_the_same_run_with_another_agreement_has_other_keys_of_facts(tyrant):
    """Otherwise a coordinator could ask twice, with facts of its choice, and compare."""
    run, run_id, seen = "keys", secrets.token_hex(16), []
    for seed in (1, 2, 2):
        coordination = tyrant.coordination(*EVIDENCE, f"seed={seed}")
        assert tyrant.ask("begin", dict(coordination.agreement), run=run, run_id=run_id)[0].state == "done"
        reply, payload = tyrant.ask("show", {"weights": coordination.setup.weights}, run=run, run_id=run_id)
        assert reply.state == "done"
        seen.append(set(named_in(decode(bytearray(payload)), "evidence")["key"].tolist()))
    assert seen[0] and len(seen[0]) == len(seen[1])
    assert not seen[0] & seen[1]
    assert seen[1] == seen[2], "the same agreement has the same keys, or a run could not go on"


@slow
@pytest.mark.parametrize("split", ["train", "../p1/train", "", "dev\x00", "__class__", "dev\ntrain"])
def test_only_dev_and_test_can_be_held_out(tyrant, agreement, split):
    reply, payload = tyrant.ask("begin", {**agreement, "held_out": _text(split)}, run_id=secrets.token_hex(16))
    assert (reply.state, payload) == ("failed", b"")
    assert reply.why == "see the platform's own log for the reason"


@slow
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("vocabulary", "/etc/passwd"),
        ("vectors", "/etc/passwd"),
        ("weights", "/etc"),
    ],
)
def test_a_file_that_the_coordinator_names_is_not_revealed(tyrant, agreement, setting, value):
    """Words always come from the coordinator, whatever the setting; no reply contains anything from the file."""
    text = bytes(named_in(agreement, "experiment")["text"].numpy()).decode()
    before = next(line for line in text.splitlines() if line.startswith(f"{setting} ="))
    crafted = text.replace(before, f'{setting} = "{value}"')
    if setting == "weights":
        crafted = crafted.replace('kind = "pcnn"', 'kind = "bert"')
    reply, payload = tyrant.ask("begin", {**agreement, "experiment": _text(crafted)}, run_id=secrets.token_hex(16))
    assert "root" not in reply.why and value not in reply.why
    assert len(payload) < 1000
    if reply.state == "done":
        assert set(decode(bytearray(payload))) == {"sentences", "words", "unknown_words"}


@slow
def test_a_table_of_users_on_the_platforms_disk_is_not_read(tyrant, agreement):
    text = bytes(named_in(agreement, "experiment")["text"].numpy()).decode()
    crafted = text.replace('users = "fixed"', 'users = "table"').replace('table = ""', 'table = "/etc/passwd"')
    assert crafted != text
    reply, payload = tyrant.ask("begin", {**agreement, "experiment": _text(crafted)}, run_id=secrets.token_hex(16))
    assert (reply.state, payload) == ("refused", b"")
    refused(tyrant, 0, "feedback.table names a file")


@slow
def test_the_platforms_own_store_of_verdicts_cannot_be_chosen_by_others(tyrant, agreement):
    text = bytes(named_in(agreement, "experiment")["text"].numpy()).decode()
    crafted = text.replace('store = ""', f'store = "{tyrant.victim}"')
    assert crafted != text
    reply, _ = tyrant.ask("begin", {**agreement, "experiment": _text(crafted)}, run_id=secrets.token_hex(16))
    assert reply.state == "done", "it was looked at"


AGREEMENTS = {
    "nothing": {},
    "a number": {"experiment": 1.0},
    "no text": {"experiment": Named(text=torch.zeros(5))},
    "garbage": {"experiment": _text("[[[")},
    "deep": {"experiment": _text("x = " + "[" * 20_000)},
    "escapes": {"experiment": _text('method.name = "\\u001b[2J\\n<script>"')},
    "not UTF-8": {"experiment": Named(text=torch.full((4,), 255, dtype=torch.uint8))},
}


@slow
@pytest.mark.parametrize("which", AGREEMENTS)
def test_an_invalid_agreement_crashes_nothing(tyrant, which):
    worker = tyrant.processes()["worker"]
    reply, payload = tyrant.ask("begin", AGREEMENTS[which], run_id=secrets.token_hex(16))
    assert reply.state in ("refused", "failed") and payload == b""
    assert tyrant.processes()["worker"] == worker, "the training process died of it"
    assert "\x1b" not in (tyrant.victim / "node.log").read_text()


@slow
@pytest.mark.parametrize(
    "payload", [b"", b"\xff" * 64, b"\x08" + b"\0" * 7 + b"[[[[[[[["], ids=["none", "noise", "list"]
)
def test_a_payload_that_is_not_a_record_crashes_nothing(tyrant, agreement, payload):
    run_id = secrets.token_hex(16)
    assert tyrant.ask("begin", agreement, run_id=run_id)[0].state == "done"
    worker = tyrant.processes()["worker"]
    assert tyrant.ask("train", payload, run_id=run_id)[0].state == "failed"
    assert tyrant.ask("begin", payload, run_id=run_id)[0].state == "failed"
    assert tyrant.processes()["worker"] == worker


@slow
def test_weights_of_other_shapes_get_no_model(tyrant, agreement):
    run_id = secrets.token_hex(16)
    assert tyrant.ask("begin", agreement, run_id=run_id)[0].state == "done"
    for record in ({"weights": Named()}, {"weights": Named(x=torch.zeros(2**20))}, {"weights": 1.0}, {}):
        reply, payload = tyrant.ask("train", record, run_id=run_id)
        assert (reply.state, payload) == ("failed", b"")
        assert "own log" in reply.why


@slow
def test_a_task_of_a_run_that_was_not_begun_gets_nothing(tyrant, agreement):
    run_id = secrets.token_hex(16)
    reply, payload = tyrant.ask("train", {"x": 1.0}, run_id=run_id)
    assert (reply.state, payload) == ("unready", b"")
    assert tyrant.ask("begin", agreement, run="mine", run_id=run_id)[0].state == "done"
    reply, payload = tyrant.ask("train", {"x": 1.0}, run="another", run_id=run_id)
    assert (reply.state, payload) == ("unready", b""), "what leaves would be in the ledger under another run's name"


@slow
def test_the_ledger_records_every_reply_of_the_run(tyrant, agreement):
    run = f"told-{secrets.token_hex(4)}"
    reply, payload = tyrant.ask("begin", agreement, run=run, run_id=secrets.token_hex(16))
    mine = [it for it in tyrant.left() if it.run == run]
    assert [(it.task, it.bytes) for it in mine] == [("begin", len(payload))]
    assert reply.state == "done"


@slow
def test_a_reply_names_the_request_that_it_answers(tyrant, agreement):
    """So a hostile network process cannot pass it off as the reply to another request."""
    payload = bytes(encode(agreement))
    envelope = tyrant.signer.sign(tyrant.request("begin", payload, run_id=secrets.token_hex(16)))
    head, _ = tyrant.heard(tyrant.order(envelope.as_json(), payload))
    reply = tyrant.verifier.open(Envelope.from_json(head["envelope"]), Reply, role="platform", name="p0")
    assert reply.answers == envelope.digest
