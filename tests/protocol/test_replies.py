"""Honest replies pass; broken ones are refused with a sentence that names the field, whatever the bytes."""

import inspect
import json
import re
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fedrel.algorithms import METHODS, FedAvg, LazyMIL
from fedrel.algorithms.feedback import Feedback
from fedrel.engines.remote import Remote
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import prepare
from fedrel.learning.named import FACTOR, ROWS, VALUES, Named, table_patch
from fedrel.protocol.codec import CodecError, Record, decode, encode, fields
from fedrel.protocol.form import Form
from fedrel.protocol.replies import BadReplyError, check, forms, most_bytes, weighable
from fedrel.protocol.round import broadcast
from fedrel.protocol.run import run
from fedrel.protocol.site import Site
from fedrel.protocol.tasks import task
from tests.algorithms.tiny import experiment

VARIANTS = [
    ("lazy-mil", "pcnn", "method.na=elected"),
    ("feedback", "pcnn", "method.reliability=estimated"),
    ("fedprox", "pcnn", "training.optimizer=adamw", "training.lr=0.01", "training.weight_decay=0.5"),
    ("fedavg", "pcnn", "training.weight_decay=0.2"),
    ("scaffold", "pcnn", "extractor.embeddings=frozen"),
    ("fedavg", "bert", "extractor.encoder=frozen"),
]
CASES = [(method, extractor) for method in METHODS for extractor in ("pcnn", "bert")] + VARIANTS


@dataclass(frozen=True)
class Reply:
    task: str
    record: Record
    form: Form
    weights: Named
    sizes: dict[str, int]

    def check(self, record: Record) -> None:
        check(record, self.form, weights=self.weights, sizes=self.sizes)


@cache
def honest(method: str, extractor: str, *settings: str) -> list[Reply]:
    """Every reply of two rounds, as it left the codec."""
    setup = prepare(experiment(method, extractor, *settings))
    declared, simulator = forms(setup.algorithm), Simulator(setup.algorithm, setup.sites)
    sizes = {"common": len(setup.hub.shard), "relations": len(setup.dataset.relations)}
    state, found = setup.algorithm.start(setup.weights), []

    def exchange(ask):
        replies = simulator(ask)
        found.extend(Reply(ask.task, r, declared[ask.task], state["weights"], sizes) for r in replies.values())
        return replies

    for done in run(setup.algorithm, exchange, setup.sampler, setup.hub, state, range(2)):
        state = done.state
    return found


@pytest.mark.parametrize("method", METHODS)
def test_every_task_of_every_method_declares_its_reply(method):
    assert all(isinstance(form, Form) for form in forms(METHODS[method].algorithm()).values())


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_every_honest_reply_passes(case):
    replies = honest(*case)
    assert replies or case[0] == "server-only"
    for reply in replies:
        reply.check(reply.record)
        assert len(encode(reply.record)) <= most_bytes(reply.form, weights=reply.weights, sizes=reply.sizes)


def with_tensor(record, group, name, value):
    return record | {group: Named(record[group] | {name: value})}


def without(values, name):
    return type(values)({other: value for other, value in values.items() if other != name})


def broken_numbers(record, field, kind):
    for value in (float("nan"), float("inf"), -float("inf"), 1e300, Named(), Named(a=torch.zeros(1))):
        yield record | {field: value}
    if kind in ("count", "weight"):
        yield record | {field: -1.0}
    if kind == "count":
        yield record | {field: record[field] + 0.5}


def broken_tensors(record: Record, group: str, name: str, value: torch.Tensor):
    def put(other):
        return with_tensor(record, group, name, other)

    yield record | {group: without(record[group], name)}
    yield put(value.to(torch.float64 if value.dtype != torch.float64 else torch.float32))
    yield put(value.to(torch.int64 if value.dtype != torch.int64 else torch.int32))
    yield put(value[None])
    yield put(value.flatten()[0].clone())
    if value.dim() > 1:
        yield put(value.flatten())
        yield put(value.transpose(0, 1).contiguous() if value.shape[0] != value.shape[1] else value[1:])
    yield put(torch.cat([value, value[:1]]))
    if value.is_floating_point():
        for nonsense in (float("nan"), float("inf")):
            bad = value.clone()
            bad.view(-1)[-1] = nonsense
            yield put(bad)


def scaled(reply):
    """A million times too large, where that is not a million times nothing; a difference, a hundred times more."""
    for group, declared in reply.form.fields.items():
        for name, value in reply.record[group].items() if isinstance(reply.record[group], Named) else ():
            if value.is_floating_point() and value.norm() > 1e-3 * value.numel() ** 0.5:
                factor = 1e8 if declared == "difference" else 1e6
                yield f"{group}/{name}", with_tensor(reply.record, group, name, value * factor)


def broken_rows(record: Record, group: str, rows: torch.Tensor, table: torch.Tensor):
    for place, number in ((0, int(rows[-1])), (0, -1), (-1, len(table)), (-1, 2**31 - 1)):
        bad = rows.clone()
        bad[place] = number
        yield with_tensor(record, group, "words" + ROWS, bad)


def mutations(reply: Reply):
    """(field, the reply with that field broken)."""
    record = reply.record
    yield "extra", record | {"extra": 1.0}
    yield "extra", record | {"extra": Named(a=torch.zeros(2))}
    for field, declared in reply.form.fields.items():
        value = record[field]
        if len(record) > 1 or not reply.form.or_nothing:
            yield field, without(record, field)
        if not isinstance(value, Named):
            yield from ((field, broken) for broken in broken_numbers(record, field, str(declared)))
            continue
        yield field, record | {field: 1.0}
        yield f"{field}/more", with_tensor(record, field, "more", torch.zeros(2))
        for name, tensor in value.items():
            # A ballot's wrong key makes its right scores the ones that do not fit
            where = f"{field}/{name}" if isinstance(declared, str) else field
            yield from ((where, broken) for broken in broken_tensors(record, field, name, tensor))
        if "words" + ROWS in value:
            rows, table = value["words" + ROWS], reply.weights["words"]
            yield from ((f"{field}/words{ROWS}", broken) for broken in broken_rows(record, field, rows, table))
            for factor in (-0.5, 1.5, 1e6):
                wrong = torch.tensor([factor], dtype=torch.float64)
                yield f"{field}/words{FACTOR}", with_tensor(record, field, "words" + FACTOR, wrong)
            yield (
                f"{field}/words{ROWS}",
                with_tensor(record | {field: without(value, "words" + ROWS)}, field, "words", table),
            )


ONE_OF_EACH_FORM = ["fedavg", "feddyn", "scaffold", "feded", "lazy-mil", "feedback"]


@pytest.mark.parametrize("method", ONE_OF_EACH_FORM)
def test_every_broken_reply_is_refused_with_its_field(method):
    """Broken replies travel through the codec like all others."""
    last = {reply.task: reply for reply in honest(method, "pcnn") if reply.record or not reply.form.fields}
    assert set(last) == {reply.task for reply in honest(method, "pcnn")}
    for reply in last.values():
        for field, broken in [*mutations(reply), *scaled(reply)]:
            with pytest.raises(BadReplyError, match=re.escape(field)):
                reply.check(decode(encode(broken)))


@pytest.mark.parametrize("method", ["fedavg", "feddyn", "scaffold"])
def test_most_tensors_of_a_model_are_refused_when_scaled(method):
    reply = honest(method, "pcnn")[-1]
    tensors = sum(len(value) for value in reply.record.values() if isinstance(value, Named))
    assert len(list(scaled(reply))) > tensors / 2


WEIGHTS = Named({"conv.weight": torch.ones(4, 6), "words": torch.ones(10, 2)})
PATCH = table_patch("words", torch.tensor([3, 7], dtype=torch.int32), torch.zeros(2, 2), 0.5)
TRAINED = Form({"weights": "model", "sentences": "count", "loss": "number"})
GOOD: Record = {"weights": Named({"conv.weight": torch.zeros(4, 6), **PATCH}), "sentences": 3.0, "loss": 0.1}


def told(record: Record, form: Form = TRAINED, **sizes: int) -> str:
    with pytest.raises(BadReplyError) as caught:
        check(record, form, weights=WEIGHTS, sizes=sizes)
    return str(caught.value)


def test_sentences_say_what_was_expected():
    check(GOOD, TRAINED, weights=WEIGHTS, sizes={})
    tensor = {
        "conv.weight has shape (3,) where (4, 6) was expected": torch.zeros(3),
        "conv.weight is of float16 where float32 was expected": torch.zeros(4, 6).half(),
        "conv.weight holds NaN or infinity": torch.full((4, 6), torch.nan),
        "conv.weight lies 4.9e+06 away from what was sent, where at most 980 was expected": torch.full((4, 6), 1e6),
    }
    for sentence, value in tensor.items():
        assert told(with_tensor(GOOD, "weights", "conv.weight", value)) == f"weights/{sentence}"
    assert told(without(GOOD, "loss")) == "loss is missing"
    assert told(GOOD | {"sentences": -1.0}) == "sentences is -1 where a whole number from 0 to 1e9 was expected"
    assert told(GOOD | {"loss": Named()}) == "loss holds tensors where a number was expected"
    assert told(GOOD | {"weights": 1.0}) == "weights is a number where tensors were expected"
    assert told(GOOD | {"text": 1.0}) == "'text' is not part of this reply"
    twice = torch.tensor([3, 3], dtype=torch.int32)
    assert told(with_tensor(GOOD, "weights", "words" + ROWS, twice)) == "weights/words#rows names a row twice"
    beyond = torch.tensor([3, 10], dtype=torch.int32)
    outside = "weights/words#rows names a row outside the table of 10"
    assert told(with_tensor(GOOD, "weights", "words" + ROWS, beyond)) == outside
    three = told(with_tensor(GOOD, "weights", "words" + VALUES, torch.zeros(3, 2)))
    assert three == "weights/words#values has shape (3, 2) where (2, 2) was expected"


@given(st.integers(0, 23), st.sampled_from([float("nan"), float("inf"), -float("inf")]))
def test_one_number_that_is_none_is_found_wherever_it_is(place, nonsense):
    bad = torch.zeros(4, 6)
    bad.view(-1)[place] = nonsense
    assert told(with_tensor(GOOD, "weights", "conv.weight", bad)) == "weights/conv.weight holds NaN or infinity"


def test_a_name_from_outside_is_shown_short_and_harmless():
    shown = told(GOOD | {"\x1b[2J\ud800" + "x" * 10_000: 1.0})
    assert shown.isprintable() and len(shown) < 150


def test_a_platform_that_trained_on_no_word_sends_no_row():
    none = table_patch("words", torch.zeros(0, dtype=torch.int32), torch.zeros(0, 2), 1.0)
    check(GOOD | {"weights": Named({"conv.weight": torch.zeros(4, 6), **none})}, TRAINED, weights=WEIGHTS, sizes={})


def test_a_whole_table_and_its_rows_cannot_be_mixed():
    """A mean of models needs the same from everyone."""
    whole = Form({"weights": "whole model"})
    record: Record = {"weights": Named({name: torch.zeros_like(value) for name, value in WEIGHTS.items()})}
    check(record, whole, weights=WEIGHTS, sizes={})
    assert told(record, Form({"weights": "model"})) == "weights/words#rows is missing"
    assert told({"weights": GOOD["weights"]}, whole) == "weights/words is missing"


def test_a_letter_is_one_size_and_a_word_a_known_one():
    form = Form({"ballot": {"key": "i64 n", "score": "f32 n prob"}, "log": {"p": "f16 common relations logprob"}})
    half = torch.full((3, 2), 0.5).log().half()
    good: Record = {"ballot": Named(key=torch.arange(4), score=torch.linspace(0, 1, 4)), "log": Named(p=half)}
    check(good, form, weights=WEIGHTS, sizes={"common": 3, "relations": 2})

    def say(group, name, value):
        return told(with_tensor(good, group, name, value), form, common=3, relations=2)

    assert say("ballot", "score", torch.zeros(5)) == "ballot/score has shape (5,) where (4,) was expected"
    assert say("ballot", "key", torch.tensor(1)) == "ballot/key has shape () where (n,) was expected"
    assert say("ballot", "score", torch.full((4,), 1.1)) == "ballot/score holds numbers that are no probabilities"
    assert say("log", "p", half[:2]) == "log/p has shape (2, 2) where (3, 2) was expected"
    assert say("log", "p", half * 0) == "log/p holds numbers that are no logarithms of probabilities"
    assert say("log", "p", -half) == "log/p holds numbers that are no logarithms of probabilities"


def test_nothing_is_a_reply_only_where_the_task_says_so():
    declared = forms(LazyMIL())
    check({}, declared["train"], weights=WEIGHTS, sizes={})
    assert told({}, declared["score"]).startswith("the reply is empty, ballot is missing; ")
    assert told({}, forms(FedAvg())["train"]) == (
        "the reply is empty, weights is missing; if the task may have nothing to say, declare @task(…, or_nothing=True)"
    )
    check({}, forms(Feedback())["collect"], weights=WEIGHTS, sizes={})
    assert told({"verdicts": Named(a=torch.zeros(3))}, forms(Feedback())["collect"]).startswith("'verdicts'")


def test_the_limit_of_what_is_absurd_can_be_moved():
    moved = with_tensor(GOOD, "weights", "conv.weight", torch.full((4, 6), 50.0))
    check(moved, TRAINED, weights=WEIGHTS, sizes={})
    with pytest.raises(BadReplyError, match="away from what was sent"):
        check(moved, TRAINED, weights=WEIGHTS, sizes={}, limit=10)


def test_a_reply_has_no_more_bytes_than_its_form_allows():
    whole = len(encode({"weights": WEIGHTS}))
    assert whole <= most_bytes(TRAINED, weights=WEIGHTS, sizes={}) < whole + 100_000
    every_row = table_patch("words", torch.arange(10, dtype=torch.int32), torch.zeros(10, 2), 1.0)
    largest = GOOD | {"weights": Named({"conv.weight": torch.zeros(4, 6), **every_row})}
    check(largest, TRAINED, weights=WEIGHTS, sizes={})
    assert len(encode(largest)) <= most_bytes(TRAINED, weights=WEIGHTS, sizes={})
    ballot = forms(LazyMIL())["score"]
    assert 12 * 10**7 <= most_bytes(ballot, weights=WEIGHTS, sizes={}) < 12 * 10**7 + 100_000
    log = Form({"log": {"p": "f16 common relations logprob"}})
    assert most_bytes(log, weights=WEIGHTS, sizes={"common": 1000, "relations": 50}) < 2 * 1000 * 50 + 100_000


def test_a_task_that_does_not_say_what_it_replies_cannot_be_checked():
    class Bare(FedAvg):
        @task
        def train(self, site, message):
            return {}

    class Mistyped(FedAvg):
        @task(weights="modle")
        def train(self, site, message):
            return {}

    class Untyped(FedAvg):
        @task(ballot={"key": "long n"})
        def train(self, site, message):
            return {}

    for algorithm, sentence in ((Bare(), "train does not say"), (Mistyped(), "'modle'"), (Untyped(), "'long n'")):
        with pytest.raises(TypeError, match=sentence):
            forms(algorithm)


# -- whatever the bytes, a sentence -----------------------------------------------------------------------------------

FUZZED = Form(
    {**TRAINED.fields, "ballot": {"key": "i64 n", "score": "f32 n prob"}, "log": {"p": "f16 c common logprob"}}
)
WHOLE: Record = GOOD | {
    "ballot": Named(key=torch.arange(3), score=torch.zeros(3)),
    "log": Named(p=torch.full((2, 4), 0.25).log().half()),
}
names = st.sampled_from([*(f"weights/{name}" for name in GOOD["weights"]), "weights/words", "weights", "weights/"])  # type: ignore[union-attr]
names |= st.sampled_from(["sentences", "loss", "ballot/key", "ballot/score", "log/p", "log", "", "/"]) | st.text(
    max_size=5
)
numbers = st.integers(0, 8) | st.sampled_from([-1, 2**31, 2**62, 2**63, 2**64, 10**40])
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL"]) | st.text(max_size=3),
        "shape": st.lists(numbers, max_size=4) | st.lists(st.just(1), max_size=40) | st.none(),
    }
)
WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}


def size_of(entry) -> int:
    total = WIDTH.get(entry["dtype"], 0)
    for number in entry["shape"] or []:
        total *= max(number, 0)
    return total if total < 2**16 else 0


def laid_out(header, noise):
    """A payload that keeps the layout's rules, so that whatever else is wrong with its header is what is met."""
    described, end = {}, 0
    for name, entry in header.items():
        described[name] = entry | {"data_offsets": [end, end + size_of(entry)]}
        end += size_of(entry)
    text = json.dumps(described).encode()
    return bytearray(len(text).to_bytes(8, "little") + text + (noise * (end // max(len(noise), 1) + 1))[:end])


def received(payload) -> None:
    try:
        check(decode(payload), FUZZED, weights=WEIGHTS, sizes={"common": 4})
    except (CodecError, BadReplyError) as error:
        assert str(error)


@given(st.dictionaries(names, entries, max_size=6), st.binary(min_size=1, max_size=16))
@example({"a/b": {"dtype": "F32", "shape": [0, 2**70]}}, b"0")
@example({"a/b": {"dtype": "F32", "shape": [0, 2**62, 2**62]}}, b"0")
@example({"a/b": {"dtype": "F32", "shape": [1] * 10_000}}, b"0")
@example({"a/b": {"dtype": "F64", "shape": [1]}, "a": {"dtype": "F64", "shape": []}}, b"0")
def test_any_header_is_a_reply_or_refused(header, noise):
    received(laid_out(header, noise))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_refused(junk):
    received(junk)


@given(st.sampled_from(sorted(FUZZED.fields)), names, entries, st.binary(min_size=1, max_size=16))
def test_a_reply_with_one_strange_part_is_a_reply_or_refused(group, name, entry, noise):
    """The rest is right, so that the checks behind the first one are reached too."""
    header = {field.name: {"dtype": field.dtype, "shape": list(field.shape)} for field in fields(encode(WHOLE))[1:]}
    received(laid_out(header | {name if name.startswith(group) else f"{group}/{name}": entry}, noise))


@given(st.data())
def test_a_damaged_reply_is_a_reply_or_refused(data):
    payload = encode(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    received(payload[: data.draw(st.integers(len(payload) - 8, len(payload)))])


def test_the_whole_reply_that_is_damaged_above_is_a_good_one():
    check(decode(encode(WHOLE)), FUZZED, weights=WEIGHTS, sizes={"common": 4})


def test_a_mean_is_weighted_by_declared_fields_alone():
    """A field that no engine checks would let one platform decide the mean."""

    class ByClaims(FedAvg):
        @task(weights="model", claimed="count", sentences="sentences", trust="weight", loss="loss")
        def train(self, site, message): ...

    class Ambiguous(ByClaims):
        @task(trust="number")
        def other(self, site, message): ...

    class WithinOneProcess(FedAvg):
        @task
        def anything(self, site, message): ...

    assert weighable(ByClaims()) == {"sentences", "trust"}
    assert weighable(Ambiguous()) == {"sentences"}
    assert weighable(WithinOneProcess()) is None
    hub = Site("server", None, None, None, 0, weighable=weighable(ByClaims()))
    replies = {"p0": {"weights": Named(WEIGHTS), "claimed": 2.0, "sentences": 2.0}}
    assert hub.mean(WEIGHTS, replies, "weights", by="sentences").keys() == WEIGHTS.keys()
    with pytest.raises(TypeError, match=r'by="claimed".*declare'):
        hub.mean(WEIGHTS, replies, "weights", by="claimed")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_weighs_by_fields_that_are_checked(name):
    """Whatever field `mean(by=…)` names in a method's source, its tasks declare it as checked."""
    algorithm = METHODS[name].algorithm
    source = "".join(inspect.getsource(cls) for cls in algorithm.__mro__ if cls.__module__.startswith("fedrel.algo"))
    named = set(re.findall(r'by="(\w+)"', source))
    assert named <= weighable(algorithm())


PLAIN = Named({"conv.weight": torch.ones(4, 6)})


@pytest.mark.parametrize(("field", "most"), [("sentences", 10), ("trust", 10)])
def test_a_weight_beyond_what_a_platform_holds_is_refused_whatever_its_field_is_called(field, most):
    class Weighted(FedAvg):
        @task(weights="model", loss="loss", **{field: "weight"})
        def train(self, site, message): ...

    def reply(claimed):
        return encode({"weights": PLAIN, "loss": 1.0, field: claimed})

    sent = {"p0": reply(float(most)), "p1": reply(most + 1.0)}
    failures = {}
    engine = Remote(
        Weighted(),
        lambda task, round_, messages, limit: sent,
        sizes={},
        announced={"p0": most, "p1": most},
        on_failure=lambda ask, platform, why: failures.update({platform: why}),
    )
    answered = engine(replace(broadcast("train", ["p0", "p1"], weights=PLAIN), model=PLAIN))
    assert list(answered) == ["p0"]
    assert failures == {"p1": f"refused: {field} is {most + 1}, and the platform holds {most}"}
