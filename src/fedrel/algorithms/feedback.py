"""Sharma et al., 2022: federated self-training with users who say whether a prediction is right, and may be wrong.

A seed model, trained on the server's gold sentences (the model that is gone on from, where it has none), labels what
the platforms hold; users there accept or reject each label. Accepted: cross-entropy on it. Rejected: it is a
complementary label, -log((Qᵀf)_ρ), where Q, how the seed model errs, is estimated on gold sentences. The weight of the
second grows with the rounds: α = 1 - p^t. No verdict leaves.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment, number
from fedrel.feedback.losses import mix, schedule
from fedrel.feedback.reliability import NO_PROBES, NO_SEED, half_wrong, trust
from fedrel.feedback.transition import transition
from fedrel.learning.losses import Loss, Output
from fedrel.learning.named import Named, apply_patch
from fedrel.protocol import Record, Round, Site, broadcast, named_in, number_in, task


@dataclass(frozen=True)
class Feedback(FedAvg):
    """`use`: all verdicts, accepted labels alone ("positive"), or every label as if accepted ("self-training").
    `robust`: NCE + 2·RCE in place of cross-entropy, on both parts. `reliability`: an update counts as much as the
    platform's users can be trusted on a few sentences of the server's whose labels are known.
    """

    needs_validation = True
    needs_common = True
    needs_judges = True
    server_trains = True

    use: Literal["all", "positive", "self-training"] = "all"
    robust: bool = False
    p: float = number(0.9, above=0, high=1)
    seed_epochs: int = number(20, low=1)
    reliability: Literal["none", "estimated"] = "none"
    probes: int = number(20, low=2)

    @property
    def preparation(self) -> int:
        return 1  # the seed model

    def objection(self, experiment: Experiment) -> str | None:
        if self.reliability == "estimated" and experiment.feedback.store:
            return NO_PROBES
        return None if experiment.partition.server or experiment.training.start else NO_SEED

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        if hub.round:
            return (yield from super().round(hub, state, cohort))
        gold, longer = hub.validation, replace(hub.training, epochs=self.seed_epochs)
        assert gold is not None
        seed = named_in(state, "weights")
        if len(hub.shard):
            seed = apply_patch(seed, self.learn(replace(hub, training=longer), state)[0])
        hub.model.load(seed, gold)
        q = transition(hub.model.log_probabilities(gold).exp(), gold.labels)
        probes = Named(label=torch.tensor(hub.shard.labels[: self.probes].tolist(), dtype=torch.int64))
        yield broadcast("collect", hub.everyone, weights=seed, transition=Named(q=q), probes=probes)
        return {"weights": seed}

    @task()
    def collect(self, site: Site, message: Record) -> Record:
        """Users look at what the seed model says; what they say stays here."""
        given, verdict = self.ask(site, message, "collect")
        site.memory["verdicts"] = Named(given=given, verdict=verdict, q=named_in(message, "transition")["q"])
        if self.reliability == "estimated" and site.common is not None:
            truth = named_in(message, "probes")["label"]
            shown = half_wrong(truth, len(named_in(message, "transition")["q"]), len(site.common))
            given, verdict = site.judge(site.common, shown, "probes")
            site.memory["trust"] = trust(given[: len(truth)], verdict[: len(truth)], truth)
        return {}

    def ask(self, site: Site, message: Record, purpose: str) -> tuple[Tensor, Tensor]:
        site.model.load(named_in(message, "weights"), site.shard)
        return site.judge(site.shard, site.model.log_probabilities(site.shard).argmax(1), purpose)

    @task(weights="model", sentences="weight", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        reply = super().train(site, message)
        if reply and "trust" in site.memory:
            reply["sentences"] = number_in(reply, "sentences") * number_in(site.memory, "trust")
        return reply

    def chosen(self, site: Site, message: Record) -> Tensor:
        """The sentences that there is something to learn from: none, if it was away when verdicts were collected."""
        verdict = named_in(site.memory, "verdicts")["verdict"] if "verdicts" in site.memory else torch.zeros(0)
        wanted = {"all": verdict >= 0, "positive": verdict == 1, "self-training": verdict >= -1}[self.use]
        return wanted.nonzero().squeeze(1)

    def loss(self, site: Site, message: Record) -> Loss | None:
        if "verdicts" not in site.memory:
            return None  # the seed model's own training
        known = named_in(site.memory, "verdicts").to(site.model.device)
        given, wrong = known["given"], (known["verdict"] == 0) & (self.use == "all")
        alpha = schedule(self.p, site.round - 1) if self.use == "all" else 0.0

        def mixed(output: Output) -> Tensor:
            label, rejected = given[output.sentences], wrong[output.sentences]
            return mix(output.logits, label, rejected, known["q"], alpha=alpha, robust_=self.robust)

        return mixed
