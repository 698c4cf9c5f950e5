"""Whether anybody has evidence for a fact, asked by a platform, which has the key that blinds facts."""

from __future__ import annotations

import numpy as np
import torch

from fedrel.audit.finding import Attack, Finding
from fedrel.audit.fingerprint import SLOTTED
from fedrel.audit.statistics import told_apart
from fedrel.audit.target import Target
from fedrel.data.store import Ints, Split, fact_names
from fedrel.learning.named import Named
from fedrel.privacy.blind import blind, of_round
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.slots import slots_of
from fedrel.protocol.summed import Summed

_FACTS = 1000  # that others hold, and as many that nobody does


class Lookup(Attack):
    """A platform as the attacker: it names a fact, and looks where it would lie in the table that all are sent.

    The facts are some that the federation's platforms hold, and facts of the coordinator's dev sentences that nobody
    holds.
    """

    name = "lookup"
    wants = "whether anybody has evidence for a given fact, asked by another platform"
    how = "A platform has the key of facts, and looks up where this one would be among the best evidence."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        dataset, draw = target.setup.dataset, np.random.default_rng(1)
        held = self._named(dataset.train, np.concatenate(list(target.setup.sites.rows.values())))
        others = sorted(self._named(dataset.dev, np.arange(len(dataset.dev))) - held)
        known = sorted(held)
        self.facts = [_some(known, draw), _some(others, draw)]
        self.score = [np.zeros(len(facts)) for facts in self.facts]
        self.seen = False

    def _named(self, split: Split, rows: Ints) -> set[str]:
        """The facts of these rows, by name."""
        dataset = self.target.setup.dataset
        stated = rows[np.asarray(split.labels)[rows] >= int(dataset.has_na)]
        return set(fact_names(dataset, split, stated))

    def objection(self) -> str:
        if not isinstance(self.target.setup.algorithm, SLOTTED):
            return "no table of all facts is sent"
        return "" if min(len(facts) for facts in self.facts) > 1 else "dev has no facts that nobody holds"

    def see(self, ask: Ask, replies: Replies) -> None:
        method = self.target.setup.algorithm
        if not isinstance(method, SLOTTED) or not isinstance(replies, Summed):
            return
        if "reached" not in replies.layout.form.fields:
            return
        reached = method.table.highest(replies.total("reached"))
        for score, facts in zip(self.score, self.facts, strict=True):
            keys = self._keys(facts, ask.round, lasting=method.lasting)
            slot = slots_of(keys, method.turn(ask.round), reached.shape[1])
            score += (method.table.best_of(reached, slot) > 0).numpy()
        self.seen = True

    def _keys(self, facts: list[str], round_: int, *, lasting: bool) -> torch.Tensor:
        """(n,) as platforms compute them."""
        secret = self.target.setup.sites.secret
        return blind(facts, secret if lasting else of_round(secret, round_))

    def finding(self, weights: Named) -> Finding:
        if not self.seen:
            return self.nothing("no table was sent in these rounds")
        held, others = self.score
        return self.found(*told_apart(held, others), details={"held": len(held), "not held": len(others)})


def _some(facts: list[str], draw: np.random.Generator) -> list[str]:
    return [facts[place] for place in np.sort(draw.permutation(len(facts))[:_FACTS]).tolist()]
