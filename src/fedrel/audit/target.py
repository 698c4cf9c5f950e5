"""What is attacked: a federation whose truth is known, since it is simulated on one's own data.

A share of every platform's sentences is held out before anything is trained. These are the non-members: the same kind
of sentence, of the same platform, that no training ever saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from fedrel.config import Experiment
from fedrel.data.partition import Division
from fedrel.data.store import Dataset, Ints, sentence_bags
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.experiment.assembly import Setup
from fedrel.experiment.sites import Sites
from fedrel.experiment.sums import SECURE
from fedrel.learning.model import SHOWN, WORDS, Model
from fedrel.learning.named import Named, apply_patch
from fedrel.privacy.blind import of_run
from fedrel.protocol.records import named_in
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.summed import Summed
from fedrel.protocol.tasks import form_of, tasks
from fedrel.util.seeds import derive

HELD_OUT = 0.1  # of every platform's sentences
WATCHED = 20  # platforms whose uploads are attacked; of more, some are drawn
LEAST = 20  # sentences that must be held out, or no rate of false alarms could be told
_MODELS = ("model", "whole model")  # kinds of reply fields that hold trained weights
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """A federation, and the sentences that an attacker has and asks about.

    `rows` (N,) are rows of train: first members, then non-members; `member` (N,) tells them apart. `owner` (N,) is the
    place in `watched` of the platform that holds the sentence, or held it before it was taken out.
    """

    setup: Setup
    watched: tuple[str, ...]
    rows: Ints
    member: Bools
    owner: Ints

    @cached_property
    def shard(self) -> Shard:
        """The sentences that are asked about, each in a bag of its own."""
        return self.setup.sites.pack(self.setup.dataset.train, *sentence_bags(self.setup.dataset.train, self.rows))

    @cached_property
    def model(self) -> Model:
        """The attacker's own: nothing that it loads disturbs a platform."""
        return self.setup.model.twin()

    def log_odds(self, weights: Named, view: float | None = None) -> Floats:
        """(N,) the log-odds that a model gives the labels of the sentences asked about."""
        self.model.load(weights, self.shard)
        return self.model.label_log_odds(self.shard, view).double().numpy()

    def fits(self, ask: Ask, replies: Replies) -> Mapping[str, Floats]:
        """(N,) by watched platform that replied with trained weights: the log-odds under them, with names shown. Of the
        last replies that were looked at they are kept, for the next attack.
        """
        if self._kept.get("replies") is not replies:
            of = {
                platform: self.log_odds(apply_patch(ask.model, weights), SHOWN)
                for platform, weights in self.updates(ask, replies)
                if platform in self.watched
            }
            self._kept.update(replies=replies, fits=of)
        return cast(Mapping[str, Floats], self._kept["fits"])

    def gain(self, ask: Ask, replies: Summed) -> Floats | None:
        """(N,) by how much the log-odds rose from the model that was sent to the mean of what came back, where only
        sums are known; None: no weights came back.
        """
        if self._kept.get("replies") is not replies:
            mean = next((weights for _, weights in self.updates(ask, replies)), None)
            found = None if mean is None else self.log_odds(mean, SHOWN) - self.log_odds(ask.model, SHOWN)
            self._kept.update(replies=replies, gain=found)
        return cast("Floats | None", self._kept["gain"])

    @cached_property
    def _kept(self) -> dict[str, object]:
        return {}

    @property
    def sends_weights(self) -> bool:
        """Whether any task replies trained weights."""
        forms = [form_of(self.setup.algorithm, name) for name in tasks(self.setup.algorithm)]
        return any(form is not None and form.of_kind(*_MODELS) for form in forms)

    @property
    def only_sums(self) -> bool:
        """Whether the coordinator knows sums over platforms alone."""
        return self.setup.experiment.privacy.sums == SECURE

    @property
    def trains_words(self) -> bool:
        """Whether the word table is trained, and so sent."""
        return WORDS in self.setup.weights

    def updates(self, ask: Ask, replies: Replies) -> Iterator[tuple[str, Named]]:
        """Of replies that hold trained weights, the platform and the weights as they came; empty replies hold none.
        Where only their sum is known, its mean is all that there is to be said of any of them.
        """
        form = form_of(self.setup.algorithm, ask.task)
        for field in form.of_kind(*_MODELS)[:1] if form else []:
            if isinstance(replies, Summed):
                yield from dict.fromkeys(replies, replies.mean(ask.model, field, replies.by)).items()
                continue
            for platform, reply in replies.items():
                if field in reply:
                    yield platform, named_in(reply, field)


def hold_out(setup: Setup, most: int) -> Target:
    """Takes a share of every platform's sentences out of the training, and draws up to `most` members and as many
    non-members that an attacker asks about. UserError where there is too little to tell one from the other.
    """
    draw = np.random.default_rng(derive(setup.experiment.seed, "audit"))
    taken = {name: _some(rows, HELD_OUT, draw) for name, rows in setup.sites.rows.items()}
    kept = {name: np.setdiff1d(rows, taken[name], assume_unique=True) for name, rows in setup.sites.rows.items()}
    names = list(setup.sites.rows)
    watched = tuple(sorted(draw.choice(names, min(WATCHED, len(names)), replace=False).tolist()))
    every = np.concatenate([*setup.sites.rows.values(), setup.sites.hub.shard.rows])
    once = _once(setup, every)  # a sentence that is there twice is neither a clear member nor a clear non-member
    members, holders = _drawn({name: np.intersect1d(kept[name], once) for name in watched}, most, draw)
    others, lost_by = _drawn({name: np.intersect1d(taken[name], once) for name in watched}, most, draw)
    if len(others) < LEAST or len(members) < LEAST:
        raise UserError(
            f"{len(others)} sentences can be held out, a tenth of what {len(watched)} platforms hold, without "
            f"duplicates; an audit needs {LEAST} of them, or its figures would be chance"
        )
    return Target(
        setup=with_rows(setup, kept),
        watched=watched,
        rows=np.r_[members, others],
        member=np.r_[np.ones(len(members), np.bool_), np.zeros(len(others), np.bool_)],
        owner=np.r_[holders, lost_by],
    )


def with_rows(setup: Setup, rows: Mapping[str, Ints], experiment: Experiment | None = None) -> Setup:
    """The same federation with these rows of train on its platforms, facts blinded as between organisations; with other
    settings for training, if an experiment is given.
    """
    sites = setup.sites
    hub = np.sort(sites.hub.shard.rows)
    changed = Sites(
        dataset=setup.dataset,
        division=Division({name: np.sort(rows[name]) for name in sites}, hub),
        encoding=setup.encoding,
        model=setup.model,
        algorithm=setup.algorithm,
        experiment=experiment or setup.experiment,
        evaluation=setup.evaluation,
        held_out=sites.held_out,
        secret=of_run(b"audit", str(setup.experiment.seed)),
    )
    return Setup.of(changed, setup.denoiser, setup.weights, setup.at_home)


def _some(rows: Ints, share: float, draw: np.random.Generator) -> Ints:
    """About this share of the rows, and never all of them."""
    count = min(round(share * len(rows)), len(rows) - 1)
    return np.sort(draw.choice(rows, max(count, 0), replace=False))


def _drawn(rows: Mapping[str, Ints], most: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Up to `most` of the rows of all platforms, and the place of each one's platform."""
    whole = np.concatenate(list(rows.values()))
    place = np.repeat(np.arange(len(rows)), [len(part) for part in rows.values()])
    chosen = np.sort(draw.choice(len(whole), min(most, len(whole)), replace=False))
    return whole[chosen], place[chosen]


def _once(setup: Setup, rows: Ints) -> Ints:
    """Those of the rows whose words and places of entities no other of them has."""
    train = setup.dataset.train
    tokens, offsets, spans = (np.asarray(column) for column in (train.tokens, train.offsets, train.spans))
    said = [(tokens[offsets[row] : offsets[row + 1]].tobytes(), spans[row].tobytes()) for row in rows.tolist()]
    times = Counter(said)
    found: Ints = rows[np.array([times[it] == 1 for it in said], np.bool_)]
    return found


def known_words(shard: Shard) -> Ints:
    """The numbers of the words, or pieces, of a shard's text among all that the model knows, without padding."""
    used = shard.vocabulary[torch.unique(shard.tokens).numpy()]
    found: Ints = used[used > 0] if len(used) and used[0] == shard.vocabulary[0] else used
    return found


def facts_of(dataset: Dataset, rows: Ints) -> Ints:
    """(len(rows),) a number for the fact of each row, the same for the same pair and label."""
    train = dataset.train
    return np.asarray(train.pairs[rows]).astype(np.int64) * len(dataset.relations) + train.labels[rows]
