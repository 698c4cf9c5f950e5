"""How many of a platform's sentences have which label, from what its training did to the classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from fedrel.audit.finding import Attack, Finding, looks
from fedrel.audit.statistics import mean_of
from fedrel.audit.target import Target
from fedrel.data.partition import count_labels
from fedrel.data.store import Ints
from fedrel.encoding.shard import Shard
from fedrel.learning.fit import fit
from fedrel.learning.named import Named, apply_patch
from fedrel.protocol.round import Ask, Replies
from fedrel.util.seeds import derive

Floats = npt.NDArray[np.float64]
_LOOKS, _SHADOWS, _READ = 2, 12, 300  # rounds; trainings on public sentences in each; sentences that models read
_SMALL = 1e-3  # a share that takes the place of none
_WEIGHT, _BIAS = "classifier.weight", "classifier.bias"


class Labels(Attack):
    """The shares of labels on a platform.

    The coordinator trains on its own public sentences (dev), drawn with labels in known, uneven shares, and learns by
    linear regression how shares show: in the change of the classifier, and in what a trained model predicts for the
    public sentences. Then it reads the platforms' updates.
    """

    name = "labels"
    wants = "the shares of labels on a platform"
    how = "Uneven labels tilt the classifier and its predictions; how, is learnt on public sentences."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.looks = {0} | looks(rounds, _LOOKS) if rounds > 1 else {0}
        self.guesses: dict[str, list[Floats]] = {}

    def objection(self) -> str:
        if not self.target.sends_weights:
            return "no weights are sent"
        if len(self.target.setup.sites) < 3:
            return "with fewer than three platforms there is no guess to compare it with"
        return "" if len(self.target.setup.dataset.dev) else "the coordinator has no labelled sentences of its own"

    def see(self, ask: Ask, replies: Replies) -> None:
        updates = [it for it in self.target.updates(ask, replies) if it[0] in self.target.watched]
        if ask.round not in self.looks or not updates:
            return
        dev = self.target.setup.dataset.dev
        draw = np.random.default_rng(derive("labels", ask.round))
        read = self.target.setup.sites.shard_of(dev, _few(len(dev), draw))
        before = self._predicted(ask.model, read)
        size = int(np.median([self.target.setup.sites.sizes[name] for name, _ in updates]))
        signs, shares = [], []
        for number in range(_SHADOWS):
            rows = self._uneven(size, draw)
            shares.append(self._log_shares(np.bincount(dev.labels[rows], minlength=len(before))))
            signs.append(self._signs(ask.model, self._trained(ask, rows, number), read, before))
        known = np.linalg.lstsq(_apart(signs), _apart(shares), rcond=None)[0]  # (3,)
        read_off = [self._signs(ask.model, apply_patch(ask.model, weights), read, before) for _, weights in updates]
        apart = (_apart(read_off) @ known).reshape(len(updates), -1)  # (k, R)
        for (platform, _), found in zip(updates, apart, strict=True):
            self.guesses.setdefault(platform, []).append(found)

    def _uneven(self, size: int, draw: np.random.Generator) -> Ints:
        """Rows of dev, some of them several times, in which labels have other shares than in dev."""
        labels = np.asarray(self.target.setup.dataset.dev.labels)
        tilt = np.exp(draw.normal(0, 1, labels.max() + 1))[labels]
        rows: Ints = np.sort(draw.choice(len(labels), size, p=tilt / tilt.sum()))
        return rows

    def _trained(self, ask: Ask, rows: Ints, number: int) -> Named:
        """Weights as a platform with these sentences would send them."""
        setup, model = self.target.setup, self.target.model
        shard = setup.sites.shard_of(setup.dataset.dev, rows)
        model.load(ask.model, shard)
        training = setup.experiment.training
        fitted = fit(model, shard, training, lr=training.lr_at(ask.round), seed=derive("shadow", ask.round, number))
        return apply_patch(ask.model, model.trained(shard, fitted.sentences))

    def _predicted(self, weights: Named, read: Shard) -> Floats:
        """(R,) the mean probability of every label on public sentences."""
        self.target.model.load(weights, read)
        mean: Floats = self.target.model.log_probabilities(read).double().exp().mean(0).numpy()
        return mean

    def _signs(self, base: Named, weights: Named, read: Shard, before: Floats) -> Floats:
        """(R, 3) of every label: how its mean prediction, its bias and the length of its weights changed."""
        change = (weights[_WEIGHT] - base[_WEIGHT]).double().cpu()  # (R, H)
        bias = (weights[_BIAS] - base[_BIAS]).double().cpu() if _BIAS in weights else torch.zeros(len(change))
        columns = [
            np.log((self._predicted(weights, read) + _SMALL) / (before + _SMALL)),
            (bias - bias.mean()).numpy(),
            change.norm(dim=1).numpy(),
        ]
        return np.stack(columns, axis=1)

    @staticmethod
    def _log_shares(counts: Ints) -> Floats:
        return np.asarray(np.log(counts / counts.sum() + _SMALL), np.float64)

    def finding(self, weights: Named) -> Finding:
        if len(self.guesses) < 3:
            return self.nothing("fewer than three platforms sent weights in the rounds that were looked at")
        setup = self.target.setup
        truth = {name: count_labels(setup.dataset, rows) for name, rows in setup.sites.rows.items()}
        share = {name: counts / counts.sum() for name, counts in truth.items()}
        mean = np.mean(list(share.values()), axis=0)
        guess = [divergence(share[name], mean) for name in self.guesses]
        around = np.log(mean + _SMALL)  # what the guess knows, the attack may know too
        read = [divergence(share[name], _softmax(around + np.mean(it, axis=0))) for name, it in self.guesses.items()]
        gain = mean_of("gain", [1 - mine / max(float(np.mean(guess)), 1e-9) for mine in read], 0.0)
        told = {"KL of the attack": float(np.mean(read)), "KL of guessing the mean": float(np.mean(guess))}
        return self.found(gain, details=told)


def _apart(of_each: Sequence[Floats]) -> Floats:
    """How each of these differs from the mean of all, one below the other."""
    stacked = np.stack(of_each)
    apart: Floats = stacked - stacked.mean(0)
    return apart.reshape(-1, *apart.shape[2:])


def divergence(truth: Floats, guess: Floats) -> float:
    """KL(truth ‖ guess) in nats."""
    some = truth > 0
    return float((truth[some] * np.log(truth[some] / guess[some])).sum())


def _softmax(values: Floats) -> Floats:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum(), np.float64)


def _few(count: int, draw: np.random.Generator) -> Ints:
    chosen: Ints = np.sort(draw.choice(count, min(_READ, count), replace=False))
    return chosen
