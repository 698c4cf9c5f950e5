"""A platform that signs false replies, in a real run with an honest one.

All lies are told in one run, another in every round (the first ones in reply to `begin`). For each, the liar's reply
must be refused and named in the audit trail, and the run must continue to its end, with a result.

| lie | what happens |
|---|---|
| NaN, infinity, other shapes, types and fields, extreme weights, more sentences than it has | refused, by name |
| bytes that are not a record, a header with a type of 50,000 letters, deep or huge | refused; the reason is truncated |
| a payload other than the one signed, an old reply, one in another's name, none at all | refused |
| more bytes than the request allows, heads that are too long, too deep or truncated | refused before memory is used |
| reasons with escapes, markup and HTML | shown literally, everywhere |
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fedrel.protocol.records import named_in
from tests.attacks.liar import EVIL, SENTENCES, Asked, Liar
from tests.attacks.place import Place
from tests.attacks.wire import framed, memory

pytestmark = pytest.mark.slow
RUN = "lied-to"
LIES: dict[str, list[tuple[Callable[[Liar, Asked], Any], str]]] = {"begin": [], "train": []}


def lie(task: str, expected: str) -> Callable[[Callable[[Liar, Asked], Any]], Callable[[Liar, Asked], Any]]:
    """Registers a lie. `expected`: the reason in the audit trail."""

    def note(function: Callable[[Liar, Asked], Any]) -> Callable[[Liar, Asked], Any]:
        LIES[task].append((function, expected))
        return function

    return note


def changed(liar: Liar, asked: Asked, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """An honest reply, except for one tensor."""
    record = liar.honest(asked)
    weights = named_in(record, "weights")
    name = next(name for name, tensor in weights.items() if tensor.dim() == 2 and tensor.numel())
    weights[name] = change(weights[name])
    return liar.say(asked, record)


def header(entry: Any, **more: Any) -> bytes:
    text = json.dumps({"a": entry, **more}).encode()
    return len(text).to_bytes(8, "little") + text


# -- in reply to `begin` ----------------------------------------------------------------------------------------------


@lie("begin", "sentences is nan")
def no_number_of_sentences(liar, asked):
    return liar.say(asked, {**liar.honest(asked), "sentences": float("nan")})


@lie("begin", "sentences is 2e+09")
def two_billion_sentences(liar, asked):
    return liar.say(asked, {**liar.honest(asked), "sentences": 2e9})


@lie("begin", "unreadable header")
def a_type_with_a_name_without_end(liar, asked):
    return liar.say(asked, header({"dtype": "\x01" * 9_000, "shape": [], "data_offsets": [0, 0]}))


# -- in reply to `train` ----------------------------------------------------------------------------------------------


@lie("train", "holds NaN or infinity")
def weights_that_are_no_numbers(liar, asked):
    return changed(liar, asked, lambda it: it * float("nan"))


@lie("train", "holds NaN or infinity")
def weights_without_end(liar, asked):
    return changed(liar, asked, lambda it: it + float("inf"))


@lie("train", "away from what was sent")
def weights_from_far_away(liar, asked):
    return changed(liar, asked, lambda it: it + 1e20)


@lie("train", "has shape")
def weights_of_another_shape(liar, asked):
    return changed(liar, asked, lambda it: it[:-1])


@lie("train", "is of float16")
def weights_of_another_type(liar, asked):
    return changed(liar, asked, lambda it: it.half())


@lie("train", "is not part of this reply")
def a_field_more(liar, asked):
    return liar.say(asked, {**liar.honest(asked), EVIL.replace("/", ""): 1.0})


@lie("train", "loss is missing")
def a_field_less(liar, asked):
    return liar.say(asked, {k: v for k, v in liar.honest(asked).items() if k != "loss"})


@lie("train", f"and the platform holds {SENTENCES}")
def a_billion_sentences_all_of_a_sudden(liar, asked):
    return liar.say(asked, {**liar.honest(asked), "sentences": 1e9})


@lie("train", "sentences is -1")
def fewer_sentences_than_none(liar, asked):
    return liar.say(asked, {**liar.honest(asked), "sentences": -1.0})


@lie("train", "loss is inf")
def a_loss_without_end(liar, asked):
    return liar.say(asked, {**liar.honest(asked), "loss": float("inf")})


@lie("train", "shorter than its own header")
def nothing_but_noise(liar, asked):
    return liar.say(asked, b"\xff" * 1000)


@lie("train", "shorter than its own header")
def nothing_at_all(liar, asked):
    return liar.say(asked, b"")


@lie("train", "unreadable header")
def a_header_of_great_depth(liar, asked):
    text = b"[" * 50_000
    return liar.say(asked, len(text).to_bytes(8, "little") + text)


@lie("train", "unreadable header")
def a_tensor_larger_than_the_machine(liar, asked):
    return liar.say(asked, header({"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}) + bytes(4))


@lie("train", "unreadable header")
def a_type_of_fifty_thousand_letters(liar, asked):
    return liar.say(asked, header({"dtype": "\x01" * 50_000, "shape": [], "data_offsets": [0, 0]}))


@lie("train", "payload is not the one that was signed")
def another_payload_than_was_signed(liar, asked):
    head = {"envelope": liar.signed(liar.as_json(asked, b"a" * 100))}
    return liar.post(asked.id, framed(head, b"b" * 100))


@lie("train", "bytes where at most")
def a_longer_payload_than_was_signed(liar, asked):
    head = {"envelope": liar.signed(liar.as_json(asked, b"a" * 100))}
    return liar.post(asked.id, framed(head, b"a" * 200))


@lie("train", "it answers another request")
def a_reply_of_an_earlier_round(liar, asked):
    head, payload = liar.sent[3]
    return liar.post(asked.id, framed(head, payload))


@lie("train", "it answers another request")
def a_reply_in_the_name_of_another(liar, asked):
    return liar.say(asked, liar.honest(asked), platform="p0")


@lie("train", "it answers another request")
def a_reply_to_no_request(liar, asked):
    return liar.say(asked, liar.honest(asked), answers="0" * 64)


@lie("train", "another federation")
def a_reply_of_another_federation(liar, asked):
    return liar.say(asked, liar.honest(asked), federation="fedrel-elsewhere")


@lie("train", "signature does not match")
def a_signature_of_another_kind(liar, asked):
    return liar.post(asked.id, framed({"envelope": liar.signed(liar.as_json(asked), kind="command")}))


@lie("train", "not a signed message")
def no_signature(liar, asked):
    return liar.post(asked.id, framed({"envelope": None}))


@lie("train", "not from this federation")
def a_certificate_of_an_impossible_version(liar, asked):
    envelope = {**liar.signed(liar.as_json(asked)), "certificate": liar.odd_certificate()}
    return liar.post(asked.id, framed({"envelope": envelope}))


@lie("train", "a field has the wrong type")
def bytes_without_number(liar, asked):
    text = json.dumps({**json.loads(liar.as_json(asked)), "bytes": float("nan")})
    return liar.post(asked.id, framed({"envelope": liar.signed(text)}))


@lie("train", "not have the fields of such a message")
def a_statement_with_more_in_it(liar, asked):
    text = json.dumps({**json.loads(liar.as_json(asked)), "__class__": "x"})
    return liar.post(asked.id, framed({"envelope": liar.signed(text)}))


@lie("train", "bytes where at most")
def a_gigabyte(liar, asked):
    return liar.post(asked.id, framed({"failed": "x"}), length=str(2**30))


@lie("train", "the head is too long")
def a_head_that_grows_when_it_is_passed_on(liar, asked):
    """Its bytes are within the limit; re-encoded, with its characters escaped, they are not."""
    return liar.post(asked.id, framed(('{"failed": "' + "é" * 60_000 + '"}').encode()))


@lie("train", "late, but honest")
def broken_bodies_and_then_a_reason(liar, asked):
    """An invalid message is not a reply: the request stays pending."""
    tried = [
        liar.post(asked.id, b"\xff\xff\xff\xff"),
        liar.post(asked.id, framed(b"[" * 100_000)),
        liar.post(asked.id, framed(b"[1, 2]")),
        liar.post(asked.id, b"\x10\x00\x00\x00{}"),
        liar.post(asked.id + 1, framed({"failed": "x"})),
        liar.post(max(asked.id - 1, 1), framed({"failed": "x"})),
    ]
    liar.say(asked, b"", state="failed", why="late, but honest")
    return [it.status for it in tried]


@lie("train", "no answer")
def a_state_that_does_not_exist(liar, asked):
    return liar.say(asked, b"", state="\x1b[31mowned")


@lie("train", "the platform refuses: [/x]")
def a_refusal_full_of_escapes(liar, asked):
    return liar.say(asked, b"", state="refused", why=EVIL + "x" * 100_000)


@lie("train", "[/x]")
def a_failure_full_of_escapes(liar, asked):
    return liar.post(asked.id, framed({"failed": EVIL + "y" * 5_000}))


# -- the run ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lied_to(world) -> Iterator[tuple[Place, Liar, dict[str, Any]]]:
    with tempfile.TemporaryDirectory(prefix="fedrel-lied-to-") as folder:
        place = Place(Path(folder), world, ("p0", "p1"))
        liar = Liar(place.kits / "p1", {task: [it for it, _ in those] for task, those in LIES.items()})
        try:
            place.listen()
            place.start("p0")
            liar.start()
            rounds = len(LIES["train"]) + 2
            done = place.submit(
                str(world / "experiment.toml"),
                *("--set", f"training.rounds={rounds}", "--set", f"training.patience={rounds}"),
                *("--set", "engine.min_platforms=1", "--name", RUN, "--follow", "--json"),
                check=False,
            )
            assert done.returncode == 0, f"{done.stderr}\n{liar.problems}\n{place.story()}"
            yield place, liar, json.loads(done.stdout)
        finally:
            liar.ended.set()
            place.__exit__()


@pytest.mark.parametrize(("told", "expected"), [(it.__name__, words) for those in LIES.values() for it, words in those])
def test_a_lie_is_refused_and_named(lied_to, told, expected):
    place, liar, _ = lied_to
    assert told in liar.answers, f"it was not told: {liar.problems}"
    line = place.failure(RUN, expected, seconds=1.0)
    assert line["name"] == "p1"
    assert len(line["why"]) <= 1000


def test_broken_bodies_get_a_refusal_each(lied_to):
    _, liar, _ = lied_to
    assert liar.answers["broken_bodies_and_then_a_reason"] == [[400, 400, 400, 400, 409, 409]]


def test_the_run_ends_with_a_result(lied_to):
    place, liar, result = lied_to
    assert not liar.problems
    status = place.status(RUN)
    assert (status["state"], status["attempt"]) == ("done", 1), status
    assert status["platforms"]["p1"]["failures"] == sum(len(those) for those in LIES.values())
    assert status["platforms"]["p0"]["failures"] == 0
    assert result
    place.still_works()


def test_its_texts_are_shown_literally(lied_to):
    """No escape is left that a terminal or a browser would interpret."""
    place, _, _ = lied_to
    for more in ((), ("--json",)):
        done = place.cli("status", place.kits / "viewer", *more)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout and "\x07" not in done.stdout
    shown = place.cli("audit", "show", place.kits / "coordinator", "--last", 500)
    assert shown.returncode == 0 and "\x1b" not in shown.stdout and "\u202e" not in shown.stdout, shown.stderr
    written = [
        place.folder / "coordinator.log",
        place.kits / "coordinator" / "node.log",
        place.kits / "coordinator" / "audit.jsonl",
        place.runs / f"{RUN}.status.json",
    ]
    for path in written:
        text = path.read_text()
        assert not {"\x1b", "\x07", "\u202e"} & set(text), path.name
    for path in (place.runs / RUN).rglob("*.html"):
        assert "<script>alert(1)" not in path.read_text(), path.name
    log = (place.kits / "coordinator" / "node.log").read_text()
    assert "Traceback" not in log, log[-3000:]


def test_no_process_of_the_coordinator_has_grown(lied_to):
    place, _, _ = lied_to
    for name, pid in place.children().items():
        assert memory(pid) < 250 * 2**20, name
