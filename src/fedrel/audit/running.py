"""An audit: the experiment's training once more, attacked as a curious coordinator would."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedrel.audit.few import FewSentences
from fedrel.audit.finding import Attack, Finding
from fedrel.audit.fingerprint import Fingerprint, Linkage
from fedrel.audit.labels import Labels
from fedrel.audit.lookup import Lookup
from fedrel.audit.membership import Attribution, FinalModel, Membership
from fedrel.audit.target import HELD_OUT, Target, hold_out, with_rows
from fedrel.audit.words import Names, Words
from fedrel.config import Experiment
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import Setup, prepare, stacked_platforms, workers_of
from fedrel.learning.named import Named
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.run import run
from fedrel.util.seeds import derive
from fedrel.version import installed_version

ATTACKS: tuple[type[Attack], ...] = (
    Words,
    Fingerprint,
    Linkage,
    Names,
    Membership,
    Attribution,
    Lookup,
    FinalModel,
    Labels,
    FewSentences,
)
FORMAT = 1
Tick = Callable[[int, int], None]


def audit(
    experiment: Experiment,
    *,
    rounds: int = 20,
    sentences: int = 1000,
    shadows: int = 2,
    tick: Tick = lambda done, of: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Trains the experiment's federation for up to so many rounds, with a tenth of every platform's sentences held out,
    and attacks what its coordinator sees. Returns the report, as it is written to audit.json.

    `sentences`: how many members, and non-members, are asked about at most. `shadows`: further trainings, an even
    number of them, for the attack on the finished model. `tick` is told how many rounds are done, of all trainings, and
    how many there are. Raises UserError if there is too little data.
    """
    begin = time.monotonic()
    rounds = min(rounds, experiment.training.rounds)
    setup = prepare(replace(experiment, training=replace(experiment.training, rounds=rounds)), say=say)
    target = hold_out(setup, sentences)
    attacks = [attack(target, rounds) for attack in ATTACKS]
    alone = "there is one holder: nothing leaves" if len(setup.sites) == 1 else ""
    objections = {it.name: _objection(it, alone) for it in attacks}
    active = [it for it in attacks if not objections[it.name]]
    final = next(it for it in attacks if isinstance(it, FinalModel))
    total = rounds * (1 + shadows)
    weights = _train(target.setup, rounds, active, lambda done: tick(done, total))
    for number, rows in enumerate(_halves(target, shadows) if final.asked else [], 1):
        tick(number * rounds, total)
        final.shadows.append(final.fit(_train(with_rows(target.setup, rows), rounds, [])))
    findings = [it.finding(weights) if it in active else it.nothing(objections[it.name]) for it in attacks]
    return {
        "format": FORMAT,
        "version": installed_version(),
        "method": setup.experiment.method["name"],
        "sums": setup.experiment.privacy.sums,
        "dp": setup.sites.budget.described(dict.fromkeys(setup.sites, setup.sites.budget.most))
        if setup.sites.budget
        else None,
        "platforms": len(setup.sites),
        "watched": len(target.watched),
        "rounds": rounds,
        "held_out": HELD_OUT,
        "members": int(target.member.sum()),
        "non_members": int((~target.member).sum()),
        "attacks": [described(it, finding) for it, finding in zip(attacks, findings, strict=True)],
        "seconds": time.monotonic() - begin,
    }


def described(attack: Attack, finding: Finding) -> dict[str, Any]:
    """A finding as JSON values."""
    measures = {
        it.name: {"value": it.value, "chance": it.chance, "interval": [it.low, it.high]} for it in finding.measures
    }
    return {
        "attack": finding.attack,
        "wants": finding.wants,
        "how": attack.how,
        "applies": bool(finding.measures),
        "why": finding.why,
        "verdict": finding.verdict,
        "measures": measures,
        "details": dict(finding.details),
    }


def _objection(attack: Attack, alone: str) -> str:
    """With one holder, the finished model is all that anybody else may see."""
    return attack.objection() if isinstance(attack, FinalModel) else alone or attack.objection()


def _train(
    setup: Setup, rounds: int, attacks: Sequence[Attack], tick: Callable[[int], None] = lambda done: None
) -> Named:
    """The weights after so many rounds. The attacks see every exchange."""
    engine = Simulator(
        setup.algorithm, setup.sites, workers=workers_of(setup.experiment), stacked=stacked_platforms(setup)
    )

    def exchange(ask: Ask) -> Replies:
        replies = engine(ask)
        for attack in attacks:
            attack.see(ask, replies)
        return replies

    state = setup.algorithm.start(setup.weights)
    try:
        for done in run(setup.algorithm, exchange, setup.sampler, setup.hub, state, range(rounds)):
            state = done.state
            tick(done.number + 1)
    finally:
        engine.close()
    return setup.algorithm.model(state)


def _halves(target: Target, count: int) -> list[dict[str, Any]]:
    """Who holds what in further trainings: of the sentences asked about a random half, and in the next one the other
    half, so that every sentence is in half of them.
    """
    found, asked = [], set(target.rows.tolist())
    rest = {
        name: np.array([row for row in rows.tolist() if row not in asked], np.int64)
        for name, rows in target.setup.sites.rows.items()
    }
    for number in range(count):
        draw = np.random.default_rng(derive("shadow", number // 2))
        half = draw.permutation(len(target.rows)) < len(target.rows) // 2
        half = half if number % 2 == 0 else ~half
        with_half = dict(rest)
        for place, name in enumerate(target.watched):
            mine = target.rows[half & (target.owner == place)]
            with_half[name] = np.sort(np.r_[rest[name], mine])
        found.append(with_half)
    return found
