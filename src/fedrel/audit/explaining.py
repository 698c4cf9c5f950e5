"""What a run gives away, in about ten plain lines for the person who decides whether to take part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedrel.audit.finding import DID_NOT_HAPPEN, NOTHING
from fedrel.audit.fingerprint import SLOTTED
from fedrel.audit.target import with_rows
from fedrel.config import Experiment
from fedrel.data.store import Ints
from fedrel.encoding.words import WordEncoding
from fedrel.engines.engine import Upload
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import Setup, prepare
from fedrel.experiment.sums import SECURE
from fedrel.experiment.sums_by_default import objection_to_method
from fedrel.learning.model import WORDS
from fedrel.privacy.accounting import PLATFORM
from fedrel.privacy.entries import HEADER
from fedrel.privacy.meaning import MEANINGS, Meaning, meaning
from fedrel.protocol.run import run
from fedrel.util.units import format_bytes

_SAID = " Before the first round each platform says how many sentences it holds."
_TRIED = 2  # platforms of a trial round
_LITTLE = 32  # sentences of each for a transformer, whose updates have one size whatever it read
_MODEL = "Whoever is given the finished model can test it for sentences that they have."


@dataclass(frozen=True)
class Sent:
    """What one platform sends in one round: bytes by task and field."""

    bytes: Mapping[tuple[str, str], float]

    @property
    def total(self) -> float:
        return sum(self.bytes.values())

    @property
    def meanings(self) -> list[Meaning]:
        """Of its fields, each once, in the order of the table."""
        found = {meaning(field) for _, field in self.bytes if field != HEADER}
        return sorted(found, key=lambda it: MEANINGS.index(it) if it in MEANINGS else len(MEANINGS))


def explain(
    experiment: Experiment,
    report: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """The lines. What leaves is found by a short trial with two of the platforms on the experiment's data; `report` is
    that of an audit, if there is one. Raises UserError if the experiment cannot be run.
    """
    setup = prepare(experiment, say=say)
    if setup.algorithm.pools_text:
        return ["All text is in one place: this method is a reference, and no federation can use it."]
    if len(setup.sites) == 1:
        return [f"There is one holder of all text: nothing leaves it. {_MODEL}", *_measured(report)]
    sent = tried(setup)
    if not sent.bytes:
        return ["Platforms take no part in the training: nothing leaves them.", *_measured(report)]
    return [_who(setup), *_what(setup, sent), *_readers(setup, sent), *_noise(setup), _less(setup), *_measured(report)]


def tried(setup: Setup) -> Sent:
    """What a platform sends in a round: the mean over two platforms of middle size, in the last round that is planned,
    after one round at the start.
    """
    names = sorted(setup.sites, key=lambda name: (setup.sites.sizes[name], name))
    middle = names[(len(names) - _TRIED) // 2 :][:_TRIED]
    rows: dict[str, Ints] = {name: setup.sites.rows[name] for name in setup.sites}
    if not isinstance(setup.encoding, WordEncoding):
        rows |= {name: rows[name][:_LITTLE] for name in middle}
    training = replace(setup.experiment.training, epochs=1)
    short = with_rows(setup, rows, replace(setup.experiment, training=training))
    seen: dict[tuple[str, str], float] = {}
    last = training.rounds - 1

    def note(upload: Upload) -> None:
        if upload.round == last and upload.platform in middle:
            for field in upload.fields:
                key = upload.task, field.name
                seen[key] = seen.get(key, 0.0) + field.bytes / len(middle)

    engine = Simulator(short.algorithm, short.sites, on_upload=note)
    sampler, state = replace(short.sampler, platforms=tuple(middle), fraction=1.0), short.algorithm.start(short.weights)
    for number in dict.fromkeys([0, last]):
        for done in run(short.algorithm, engine, sampler, short.hub, state, range(number, number + 1)):
            state = done.state
    return Sent(seen)


def _who(setup: Setup) -> str:
    active, training = len(setup.sampler.cohort(0)), setup.experiment.training
    return (
        f"{len(setup.sites):,} platforms train {setup.experiment.method['name']} for at most {training.rounds:,} "
        f"rounds, {active:,} of them in each. No sentence and no name is sent; what can be read from what is sent:"
    )


def _what(setup: Setup, sent: Sent) -> Iterator[str]:
    active, rounds = len(setup.sampler.cohort(0)), setup.experiment.training.rounds
    whole = sent.total * rounds * active / len(setup.sites)
    yield (
        f"What leaves, estimated: {format_bytes(sent.total)} from each active platform in a round, "
        f"{format_bytes(whole)} from a platform in the whole run."
    )
    for task in dict.fromkeys(task for task, _ in sent.bytes):
        size = sum(count for (name, _), count in sent.bytes.items() if name == task)
        told = dict.fromkeys(meaning(field).what for name, field in sent.bytes if name == task and field != HEADER)
        yield f"- {task} ({format_bytes(size)}): {'; '.join(told) or 'an empty reply'}."


def _readers(setup: Setup, sent: Sent) -> Iterator[str]:
    if setup.experiment.privacy.sums == SECURE:
        yield from _readers_of_sums(setup)
        return
    told = dict.fromkeys(
        it.reveals.replace("; ", ", ") for it in sent.meanings if "/" in it.fields and not it.fields.endswith("#factor")
    )
    yield f"The coordinator can read from it, platform by platform: {'; '.join(told) or 'little'}."
    others = ["the mean of all updates; of two active platforms, each knows the other's"]
    if WORDS in setup.weights:
        others.append("the words of all others taken together")
    if any(_lists_facts(it) for it in sent.meanings):
        others.append("for their own facts, whether anybody has better evidence")
    yield f"Other platforms: {'; '.join(others)}."
    yield f"Everybody else: addresses, times and sizes of messages. {_MODEL}"


def _readers_of_sums(setup: Setup) -> Iterator[str]:
    least, evidence = setup.experiment.privacy.least, isinstance(setup.algorithm, SLOTTED)
    best = ", and how good the best evidence for each of some facts is, not which facts or whose" if evidence else ""
    yield (
        f"The coordinator can read the sum over the active platforms, at least {least} of them, and no platform's own "
        f"numbers{best}.{'' if setup.experiment.dp.unit == PLATFORM else _SAID}"
    )
    others = "; for facts that they can name, whether anybody has evidence" if evidence else ""
    yield f"Other platforms: the mean of all updates{others}. Nearly all of them together could read what one sends."
    yield f"Everybody else: addresses, times and sizes of messages. {_MODEL}"


def _noise(setup: Setup) -> Iterator[str]:
    """What noise promises, for people who have not heard of ε."""
    if (budget := setup.sites.budget) is None:
        return
    dp, whole = budget.experiment.dp, budget.experiment.dp.unit == PLATFORM
    what, of = ("all text of a platform", "a platform") if whole else ("any single sentence", "a sentence")
    epsilon = budget.epsilon(budget.most)
    likelier = f"{math.exp(epsilon):,.3g}" if epsilon < 100 else f"e^{epsilon:.0f}"
    yield (
        f"Noise hides {what}, from the coordinator and from everybody who is given the model: ε = {epsilon:.3g}, "
        f"δ = {dp.delta:g} after {budget.most:,} rounds. Whatever is seen is at most {likelier} times as likely with "
        f"{of} as without, but for a chance of {dp.delta:g}."
    )
    rest = "" if whole else ", how many sentences each platform holds"
    yield (
        f"That counts on {1 - dp.colluders:.0%} of the platforms keeping their noise to themselves. It does not hide "
        f"who takes part, and when{rest}."
    )
    if budget.experiment.engine.public_seeds:
        yield "But the noise is drawn from a seed that all know (engine.public_seeds): it hides nothing."


def _lists_facts(it: Meaning) -> bool:
    return it.fields.endswith("/key")


def _less(setup: Setup) -> str:
    """Settings that would reveal less, as far as they are not chosen already."""
    method, ways = setup.experiment.method, []
    secure = setup.experiment.privacy.sums == SECURE
    if not secure and objection_to_method(setup.experiment) is None:
        ways.append('privacy.sums = "secure" (no platform\'s own numbers can be read)')
    if secure and setup.sites.budget is None:
        ways.append('dp.unit = "sentence" (noise hides any single sentence, at a price: docs/dp.md)')
    if WORDS in setup.weights and isinstance(setup.encoding, WordEncoding):
        ways.append('extractor.vectors = "glove" and extractor.embeddings = "frozen" (no row of a word leaves)')
    elif WORDS in setup.weights:
        ways.append('extractor.encoder = "frozen", or extractor.lora = 8 (no row of a word piece leaves)')
    if method.get("rounding") == 0 and not secure:
        ways.append("method.rounding = 2 (scores are no fingerprints)")
    if setup.algorithm.selects and not secure:
        ways.append('method.name = "none" (no list of facts leaves)')
    if not setup.algorithm.needs_common and not secure:
        ways.append('method.name = "feded" (predictions on the coordinator\'s sentences leave, and no weights)')
    ways.append("fewer training.rounds")
    ways.append("min_sentences in a platform's policy.toml (no update of a few sentences leaves)")
    return f"Less would leave with: {'; '.join(ways)}."


def _measured(report: Mapping[str, Any] | None) -> Iterator[str]:
    """What an audit found: of every attack, the measure that is farthest above chance."""
    if report is None:
        yield "How well attacks do on these data is not measured yet; fedrel privacy audit does it."
        return
    silent = (NOTHING, DID_NOT_HAPPEN)
    above = [it for it in report["attacks"] if it["applies"] and it["verdict"] not in silent]
    of = f"{report['rounds']} rounds, {report['platforms']} platform{'s' * (report['platforms'] != 1)}"
    told = "; ".join(_figure(it) for it in above) or "no attack did better than chance"
    yield f"Measured by attacks on these data ({of}): {told}."
    if rest := [it["wants"] for it in report["attacks"] if it not in above]:
        yield f"Nothing was found out about, or does not apply: {'; '.join(rest)}."


def _figure(found: Mapping[str, Any]) -> str:
    name, it = max(found["measures"].items(), key=lambda item: item[1]["value"] - item[1]["chance"])
    return f"{found['wants']} ({name} {it['value']:.2f}, by chance {it['chance']:.2f})"
