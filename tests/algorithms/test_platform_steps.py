"""Two visits to one platform, in different rounds and with different weights, against gradient descent on the objective
that each paper states (reference.py): what it sends, and what it keeps for its next visit.

Beside the numbers of single formulas (test_formulas.py) and one step of SCAFFOLD and FedDyn (test_limits.py).
"""

from dataclasses import replace

import pytest
import torch

from fedrel.algorithms import FedAvg, Feedback
from fedrel.algorithms.fedcmc import FedCMC
from fedrel.algorithms.feddyn import FedDyn
from fedrel.algorithms.fedlc import FedLC
from fedrel.algorithms.fedprox import FedProx
from fedrel.algorithms.fedrs import FedRS
from fedrel.algorithms.moon import Moon
from fedrel.algorithms.scaffold import Scaffold
from fedrel.learning.fit import Fitted
from fedrel.learning.named import Named
from fedrel.protocol import Ask
from fedrel.protocol.tasks import answer
from tests.algorithms import reference
from tests.algorithms.made_up import RELATIONS, SPLIT, a_site, close, texts_of
from tests.algorithms.reference import cosine, cross_entropy, far, float64, inner, whole

VISITS = (0, 3)  # rounds: the learning rate has fallen in between
STEPS, ALPHA, MU = 3, 0.3, 0.7
HELD = [row for row in range(20) if SPLIT.labels[row] != 3][:14]  # of class 3 the platform has nothing


class Platform:
    """A platform, the same sentences as the reference reads them, and weights that the server sends in each round."""

    def __init__(self, algorithm, *, bias=True):
        self.algorithm = algorithm
        self.site, self.start = a_site(HELD, bias=bias)
        self.texts = texts_of(self.site.shard)

    def sent(self, round_):
        """Padding, row 0 of the word table, is zero in every model."""
        draw = torch.Generator().manual_seed(round_)
        noise = {name: torch.randn(it.shape, generator=draw, dtype=it.dtype) for name, it in self.start.items()}
        noise["words"][0] = 0
        return self.start + 0.1 * round_ * Named(noise)

    def visit(self, round_, task="train", **message):
        """The reply, with its weights dense."""
        weights = self.sent(round_)
        reply = answer(self.algorithm, self.site, Ask(task, {}, round_), {"weights": weights, **message})
        return reply | {"weights": whole(float64(weights), reply["weights"])} if "weights" in reply else reply

    def plain(self, w):
        return cross_entropy(self.texts.logits(w), self.texts.labels)

    def descend(self, round_, objective):
        x = float64(self.sent(round_))
        return reference.descend(x, objective, steps=STEPS, lr=lr(round_), decay=0.02)


def lr(round_):
    return 0.8 * 0.75**round_


def test_fedavg():
    here = Platform(FedAvg())
    for round_ in VISITS:
        reply = here.visit(round_)
        close(reply["weights"], here.descend(round_, here.plain))
        assert reply["sentences"] == 14
        # The mean over the steps of the last epoch, which is one, before it is taken
        before = reference.descend(float64(here.sent(round_)), here.plain, steps=STEPS - 1, lr=lr(round_), decay=0.02)
        assert reply["loss"] == pytest.approx(float(here.plain(before)), rel=1e-5)
    assert here.site.memory == {}


def test_fedprox():
    here = Platform(FedProx(mu=MU))
    for round_ in VISITS:
        x = float64(here.sent(round_))
        expected = here.descend(round_, lambda w, x=x: here.plain(w) + MU / 2 * far(w, x))
        close(here.visit(round_)["weights"], expected)


def test_scaffold():
    """y ← y - η(g - c_k + c);  c_k⁺ = c_k - c + (x - y)/(S·η): weight decay is part of the gradient g."""
    here = Platform(Scaffold())
    c_k = reference.zeros(float64(here.start))
    for round_ in VISITS:
        x = float64(here.sent(round_))
        control = Named({name: 0.1 * it for name, it in here.sent(round_ + 1).items()})
        c = float64(control)
        correction = {name: c[name] - c_k[name] for name in c}
        y = here.descend(round_, lambda w, push=correction: here.plain(w) + inner(push, w))
        new = {name: c_k[name] - c[name] + (x[name] - y[name]) / (STEPS * lr(round_)) for name in c}
        reply = here.visit(round_, control=control)
        close(reply["weights"], y)
        close(reply["change"], {name: new[name] - c_k[name] for name in new})
        close(here.site.memory["control"], new)
        c_k = new


def test_scaffold_without_a_step_keeps_its_control():
    class Idle(Scaffold):
        def learn(self, site, message, chosen=None):
            return message["weights"], Fitted(0, 0.0, torch.arange(0))

    here = Platform(Idle())
    control = Named({name: 0.1 * it for name, it in here.sent(1).items()})
    reply = here.visit(0, control=control)
    close(reply["change"], reference.zeros(float64(here.start)))
    close(here.site.memory["control"], reference.zeros(float64(here.start)))


def test_feddyn():
    """The objective gains -⟨h_k, w⟩ + α/2·‖w - x‖², then h_k ← h_k - α(w_k - x)."""
    here = Platform(FedDyn(alpha=ALPHA))
    h = reference.zeros(float64(here.start))
    for round_ in VISITS:
        x = float64(here.sent(round_))
        w_k = here.descend(round_, lambda w, x=x, h=h: here.plain(w) - inner(h, w) + ALPHA / 2 * far(w, x))
        h = {name: h[name] - ALPHA * (w_k[name] - x[name]) for name in h}
        close(here.visit(round_)["weights"], w_k)
        close(here.site.memory["h"], h)


def test_moon():
    """The previous local model is the one that the platform sent on its last visit; on its first, the global one."""
    here = Platform(Moon(mu=MU, temperature=0.4))
    previous = float64(here.sent(VISITS[0]))
    for round_ in VISITS:
        z_global, z_previous = here.texts.vectors(float64(here.sent(round_))), here.texts.vectors(previous)

        def objective(w, z_global=z_global, z_previous=z_previous):
            z = here.texts.vectors(w)
            near, away = (cosine(z, z_global) / 0.4).exp(), (cosine(z, z_previous) / 0.4).exp()
            return here.plain(w) - MU * (near / (near + away)).log().mean()

        previous = here.descend(round_, objective)
        close(here.visit(round_)["weights"], previous)
        close(here.site.memory["previous"], previous)


def test_fedrs_and_fedlc():
    here = Platform(FedRS(alpha=ALPHA))
    counts = torch.bincount(here.texts.labels, minlength=RELATIONS)
    assert [count > 0 for count in counts.tolist()] == [True, True, True, False]
    scale = torch.tensor([1.0 if count else ALPHA for count in counts.tolist()], dtype=torch.float64)
    for round_ in VISITS:
        expected = here.descend(round_, lambda w: cross_entropy(here.texts.logits(w) * scale, here.texts.labels))
        close(here.visit(round_)["weights"], expected)
    here.algorithm = FedLC(tau=MU)
    margin = torch.tensor([MU * max(count, 1) ** -0.25 for count in counts.tolist()], dtype=torch.float64)
    for round_ in VISITS:
        expected = here.descend(round_, lambda w: cross_entropy(here.texts.logits(w) - margin, here.texts.labels))
        close(here.visit(round_)["weights"], expected)


def test_fedcmc():
    """The classifier vectors that the server chose are constant: the term moves the word vectors alone."""
    here = Platform(FedCMC(mu=MU), bias=False)
    for round_ in VISITS:
        chosen = here.sent(round_ + 1)["classifier.weight"]

        def objective(w, chosen=chosen):
            return here.plain(w) + MU * cross_entropy(here.texts.vectors(w) @ chosen.T, here.texts.labels)

        expected = here.descend(round_, objective)
        close(here.visit(round_, vectors=Named(chosen=chosen))["weights"], expected)


def test_feedback():
    """(1 - α)·CE over accepted + α·(-log (Qᵀf)_ρ) over rejected predictions, α = 1 - p^t, t = 0 in round 1."""
    here = Platform(Feedback(p=0.6))
    said = torch.tensor([1, 0, -1, 1, 0, 1, 1, -1, 0, 0, 1, 1, 0, 1])  # right, wrong, nothing
    here.site.judge = lambda shard, predicted, purpose: (predicted, said)
    draw = torch.Generator().manual_seed(1)
    q = torch.rand(RELATIONS, RELATIONS, generator=draw, dtype=torch.float64).fill_diagonal_(0)
    q /= q.sum(1, keepdim=True)
    assert here.visit(0, "collect", transition=Named(q=q), probes=Named(label=torch.zeros(2, dtype=torch.int64))) == {}
    given = here.texts.logits(float64(here.sent(0))).argmax(1)
    for round_, alpha in ((1, 0.0), (3, 1 - 0.6**2)):

        def objective(w, alpha=alpha):
            logits, f = here.texts.logits(w), here.texts.log_p(w).exp()
            rejected = -(f @ q)[said == 0, given[said == 0]].log().mean()
            return (1 - alpha) * cross_entropy(logits[said == 1], given[said == 1]) + alpha * rejected

        reply = here.visit(round_)
        close(reply["weights"], here.descend(round_, objective))
        assert reply["sentences"] == 12


def test_trust_scales_what_an_update_counts_for():
    """γ̂ + δ̂ - 1 of six probes, every second shown with a wrong label: 2 of 3 right and 3 of 3 wrong ones are told."""
    here = Platform(Feedback(reliability="estimated"))
    here.site = replace(here.site, common=here.site.shard.unlabelled())
    verdicts = torch.tensor([1, 0, 0, 0, 1, 0])

    def judge(shard, predicted, purpose):
        told = torch.ones(len(shard), dtype=torch.int64)
        if purpose == "probes":
            assert predicted[:6].tolist() == [0, 2, 2, 0, 1, 2]
            told[:6] = verdicts
        return predicted, told

    here.site.judge = judge
    probes = Named(label=torch.tensor([0, 1, 2, 3, 1, 1]))
    here.visit(0, "collect", transition=Named(q=torch.full((4, 4), 0.25)), probes=probes)
    assert here.visit(1)["sentences"] == pytest.approx(14 * ((2 + 1) / (3 + 2) + (3 + 1) / (3 + 2) - 1))
