"""`python -m benchmarks.poisoning`: what some lying platforms of ten do to a federation, as JSON.

For each method, kind of lie, number of liars and seed: test ap of the honest platforms without the liars, of all with
the default settings, and of all with a plain mean that nobody looks after; and who was left out of how many rounds.

    times 10    what was learnt, times 10
    times -10   the other way round
    noise       normal noise on every number, and a claim of a billion sentences
    certain     of methods that compare evidence: it is as certain as can be of each of its facts; the rest is honest

Lies are told in replies that are encoded and decoded like any, so every method has to cope with them. `--honest`
instead looks at honest federations, of all kinds: whom the default settings leave out there (nobody, one hopes).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedrel import config
from fedrel.engines.simulator import Answer, Simulator
from fedrel.experiment.assembly import Setup, prepare, workers_of
from fedrel.experiment.execution import Execution
from fedrel.learning.named import FACTOR, ROWS, VALUES, Named
from fedrel.protocol.codec import Record, decode, encode, fields
from fedrel.protocol.round import Ask
from fedrel.util.seeds import derive

Lie = Callable[[Record, Named, int], Record]  # of an honest reply, the weights that were sent, and a seed
SMALL = [
    "data.size=3000",
    "partition.platforms=10",
    "extractor.filters=100",
    "extractor.hide_names=0",  # every method reads names
    "training.rounds=20",
    "training.patience=100",
]
_PLAIN = ["robust.screening=off"]
SPLITS = {
    "iid": ["partition.kind=iid"],
    "dirichlet 0.1": ["partition.kind=dirichlet", "partition.alpha=0.1"],
    "dirichlet 0.5": ["partition.kind=dirichlet", "partition.alpha=0.5"],
    "by relation": ["partition.kind=relation"],
    "by source": ["partition.kind=source"],
    "2 of 20 a round": ["partition.platforms=20", "training.fraction=0.1", "training.lr=0.5"],
    "2 platforms": ["partition.platforms=2"],
    "3 platforms": ["partition.platforms=3"],
}


class Lying(Simulator):
    """A simulation in which some platforms lie whenever they are asked."""

    liars: frozenset[str] = frozenset()
    lie: Lie
    _sent: Named = Named()

    def answers(self, ask: Ask) -> Iterator[tuple[str, Answer]]:
        for message in ask.to.values():
            if isinstance(weights := message.get("weights"), Named):
                self._sent = weights
        for name, (found, reply) in super().answers(ask):
            honest = decode(reply) if not isinstance(reply, dict) else reply
            if name in self.liars:
                payload = encode(self.lie(honest, self._sent, derive(1, ask.round, name, "lie")))
                yield name, (fields(payload), payload)
            else:
                yield name, (found, reply)


def times(factor: float) -> Lie:
    def lie(reply: Record, sent: Named, seed: int) -> Record:
        if "weights" not in reply:
            return reply
        return reply | {"weights": _moved(reply, sent, lambda value, base: base + factor * (value - base))}

    return lie


def noise(reply: Record, sent: Named, seed: int) -> Record:
    if "weights" not in reply:
        return reply
    draw = torch.Generator().manual_seed(seed)
    moved = _moved(reply, sent, lambda value, base: value + torch.randn(value.shape, generator=draw))
    return reply | {"weights": moved, "sentences": 1e9}


def certain(reply: Record, sent: Named, seed: int) -> Record:
    if not isinstance(said := reply.get("evidence"), Named):
        return reply
    return {"evidence": Named(key=said["key"], best=torch.full_like(said["best"], 27.5))}


def _moved(reply: Record, sent: Named, move: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Named:
    """`move` makes of every tensor, and what it was, another; of a word table, of the rows that changed."""
    weights, moved = reply["weights"], Named()
    assert isinstance(weights, Named)
    for name, value in weights.items():
        if name.endswith((ROWS, FACTOR)):
            moved[name] = value
        elif name.endswith(VALUES):
            table = name.removesuffix(VALUES)
            moved[name] = move(value, sent[table][weights[table + ROWS].long()])
        else:
            moved[name] = move(value, sent[name])
    return moved


LIES: dict[str, Lie] = {"times 10": times(10.0), "times -10": times(-10.0), "noise": noise}
ABOUT_EVIDENCE: dict[str, Lie] = {"certain": certain}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--methods", nargs="+", default=["none", "evidence"])
    arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments.add_argument("--liars", type=int, nargs="+", default=[1, 3])
    arguments.add_argument("--honest", action="store_true", help="honest federations of all kinds instead")
    arguments.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options = arguments.parse_args()
    measured = honest_ones if options.honest else liars_of
    for row in measured(options, [*SMALL, *options.settings]):
        print(json.dumps(row), flush=True)


def liars_of(options: argparse.Namespace, settings: list[str]) -> Iterator[dict[str, Any]]:
    for method in options.methods:
        for seed in options.seeds:
            given = [*settings, f"method.name={method}", f"seed={seed}"]
            for count in options.liars:
                setup = prepare(config.read(None, given))
                liars = frozenset(list(setup.sites)[:count])
                honest = tuple(name for name in setup.sites if name not in liars)
                without = replace(setup, sampler=replace(setup.sampler, platforms=honest))
                alone = run(without, frozenset(), times(1.0))["test"]["ap"]
                for kind, lie in (LIES | (ABOUT_EVIDENCE if method == "evidence" else {})).items():
                    default = run(prepare(config.read(None, given)), liars, lie)
                    plain = run(prepare(config.read(None, [*given, *_PLAIN])), liars, lie)
                    yield {
                        **{"method": method, "lie": kind, "liars": sorted(liars), "seed": seed},
                        "honest without liars": round(alone, 3),
                        "default": round(default["test"]["ap"], 3),
                        "plain mean": round(plain["test"]["ap"], 3),
                        "left out of rounds": left_out(default),
                    }


def honest_ones(options: argparse.Namespace, settings: list[str]) -> Iterator[dict[str, Any]]:
    for method in options.methods:
        for split, chosen in SPLITS.items():
            for seed in options.seeds:
                given = [*settings, *chosen, f"method.name={method}", f"seed={seed}"]
                found = run(prepare(config.read(None, given)), frozenset(), times(1.0))
                plain = found  # nobody left out, nothing changed
                if found.get("suspicions"):
                    plain = run(prepare(config.read(None, [*given, *_PLAIN])), frozenset(), times(1.0))
                yield {
                    **{"method": method, "split": split, "seed": seed},
                    "default": round(found["test"]["ap"], 3),
                    "plain mean": round(plain["test"]["ap"], 3),
                    "suspicions": found.get("suspicions", {}),
                }


def left_out(result: dict[str, Any]) -> dict[str, int]:
    return {platform: told["left_out"] for platform, told in result.get("suspicions", {}).items()}


def run(setup: Setup, liars: frozenset[str], lie: Lie) -> dict[str, Any]:
    engine = Lying(setup.algorithm, setup.sites, workers=workers_of(setup.experiment))
    engine.liars, engine.lie = liars, lie
    with tempfile.TemporaryDirectory() as folder:
        execution = Execution(setup, Path(folder) / "run", engine=engine)
        for _ in execution.rounds():
            pass
        return execution.finish()


if __name__ == "__main__":
    main()
