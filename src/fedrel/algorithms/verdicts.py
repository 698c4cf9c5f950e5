"""Fine-tunes a model by what people say of its predictions, and keeps what nobody objected to.

The model that training begins with has a distribution p(c | sentence) over relations c. A verdict on relation r changes
it by Bayes' rule: of people who call a right prediction right with probability γ and a wrong one wrong with δ,
q(c) ∝ p(c) · P(verdict | c), P(right | c = r) = γ and P(right | c ≠ r) = 1 - δ. Rejecting r thus moves its share to
where the model would have looked next, and one careless answer does not settle anything. Sentences that nobody judged
keep q = p. All train with cross-entropy against q: the judged ones to learn, some of the others so that nothing is
forgotten. It needs neither labels nor the text that the model was trained on. No verdict leaves.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.feedback.losses import log_p as log_softmax
from fedrel.learning.losses import Loss, Output
from fedrel.learning.named import Named
from fedrel.protocol import Record, Round, Site, broadcast, named_in, task


@dataclass(frozen=True)
class Verdicts(FedAvg):
    """`gamma`, `delta`: how reliable people are taken to be. `flatten`: the power of p that a verdict is set against,
    below 1 if the model is surer of judged sentences than it should be. `repeat`: how often an epoch
    reads a judged sentence. `replay`: other sentences per judged one, and at least `least` where there are as many.
    """

    needs_judges = True

    gamma: float = number(0.95, low=0.5, high=0.999)
    delta: float = number(0.95, low=0.5, high=0.999)
    flatten: float = number(1.0, above=0, high=1)
    repeat: int = number(20, low=1, high=100)
    replay: float = number(4.0, low=0, high=1_000)
    least: int = number(1_000, low=0)

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        if not hub.round:
            yield broadcast("collect", hub.everyone, weights=named_in(state, "weights"))
        return (yield from super().round(hub, state, cohort))

    @task()
    def collect(self, site: Site, message: Record) -> Record:
        """People look at what the model says; what they say, and what it said of other sentences, stays here."""
        site.model.load(named_in(message, "weights"), site.shard)
        log_p = site.model.log_probabilities(site.shard)
        given, verdict = site.judge(site.shard, log_p.argmax(1), "collect")
        (judged,) = (verdict >= 0).nonzero(as_tuple=True)
        (others,) = (verdict < 0).nonzero(as_tuple=True)
        order = torch.randperm(len(others), generator=torch.Generator().manual_seed(site.draw("replay")))
        kept = others[order[: max(round(self.replay * len(judged)), self.least)]] if len(judged) else others[:0]
        target = torch.cat([self.updated(log_p[judged], given[judged], verdict[judged]), log_p[kept].exp()])
        site.memory["verdicts"] = Named(
            place=torch.cat([judged, kept]), target=target, judged=torch.tensor(len(judged))
        )
        return {}

    def updated(self, log_p: Tensor, given: Tensor, verdict: Tensor) -> Tensor:
        """(n, R) q, from log p (n, R), the relations (n,) that were shown, and 1 right or 0 wrong (n,)."""
        right = (verdict == 1)[:, None]
        shown = given[:, None] == torch.arange(log_p.shape[1])
        chance = torch.where(shown == right, 0.0, 1.0)  # 1 where the verdict would be a mistake
        mistake = torch.where(shown, 1 - self.gamma, 1 - self.delta)
        return (self.flatten * log_p + torch.where(chance > 0, mistake, 1 - mistake).log()).softmax(1)

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        reply = super().train(site, message)
        return reply and reply | {"sentences": len(named_in(site.memory, "verdicts")["place"])}  # each counts once

    def chosen(self, site: Site, message: Record) -> Tensor:
        """Nothing, if nobody here has judged anything, or it was away when verdicts were collected."""
        if "verdicts" not in site.memory:
            return torch.zeros(0, dtype=torch.int64)
        known = named_in(site.memory, "verdicts")
        judged = int(known["judged"])
        return torch.cat([known["place"][:judged].repeat(self.repeat), known["place"][judged:]])

    def loss(self, site: Site, message: Record) -> Loss:
        known = named_in(site.memory, "verdicts")
        row = torch.zeros(len(site.shard), dtype=torch.int64)
        row[known["place"]] = torch.arange(len(known["place"]))
        row, target = row.to(site.model.device), known["target"].float().to(site.model.device)

        def to_targets(output: Output) -> Tensor:
            return -(target[row[output.sentences]] * log_softmax(output.logits)).sum(1).mean()

        return to_targets
