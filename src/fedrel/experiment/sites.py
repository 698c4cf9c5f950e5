"""The platforms of a run and the server's own sentences, as sites that tasks work on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from torch import Tensor

from fedrel.config import Experiment
from fedrel.data.partition import Division
from fedrel.data.store import Dataset, Ints, Split, fact_bags, fact_names
from fedrel.encoding import Encoding
from fedrel.encoding.shard import Shard
from fedrel.evaluation.federated import LocalEvaluation
from fedrel.evaluation.task import Evaluation
from fedrel.experiment.budget import Budget
from fedrel.experiment.sums import layouts
from fedrel.feedback.judges import judges_of
from fedrel.learning.model import Model
from fedrel.privacy.accounting import SENTENCE
from fedrel.privacy.blind import blind, of_round, of_run
from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.replies import weighable
from fedrel.protocol.site import Notes, Site, nobody_judges
from fedrel.util.lru import LruCache
from fedrel.util.profiling import timed

_PACKED = 2**28  # bytes of packed text that may stay in memory; the store itself is mapped, not read


class Sites(Mapping[str, Site]):
    """The platforms, each made when it is asked for, and the server's own sentences. The text of those who were asked
    lately stays packed; what a platform noted down stays in any case.
    """

    here = True  # their text is on this machine

    def __init__(
        self,
        *,
        dataset: Dataset,
        division: Division,
        encoding: Encoding,
        model: Model,
        algorithm: Algorithm,
        experiment: Experiment,
        evaluation: Evaluation,
        held_out: Mapping[str, Mapping[str, Ints]] = {},
        everyone: Sequence[str] = (),
        secret: bytes = b"",
        private_seed: int | None = None,
        noise_secret: bytes = b"",
    ) -> None:
        """`everyone`: all platforms, where some are elsewhere. `held_out`: rows of dev and test, by platform. `secret`:
        what facts are blinded with, anew in every round unless the method remembers, so that nobody can follow one
        from round to round; of a simulation, where nobody looks, the same in all. `private_seed`: what the platforms
        draw from in place of the experiment's seed, which is public. `noise_secret`: what noise is drawn from, where
        there is some; empty: something new, which nobody knows, unless seeds are public.
        """
        self.dataset = dataset
        self.rows = division.platforms
        self.sizes = {name: len(rows) for name, rows in self.rows.items()}
        self.encoding = encoding
        self.model = model
        self.algorithm = algorithm
        self.experiment = experiment
        self.evaluation = evaluation
        self.held_out = held_out
        self.seed = experiment.seed if private_seed is None else private_seed
        self.fresh = bool(secret)
        self.secret = secret or of_run(b"simulation", str(experiment.seed))  # a resumed run needs the same
        self.noise_secret = noise_secret or secrets.token_bytes(32)
        if experiment.engine.public_seeds:
            self.noise_secret = of_run(b"public noise", str(experiment.seed))
        self.budget = Budget.of(experiment, everyone or self.rows)
        self._numbers = encoding.numbers(dataset.words)  # of the store's words
        self._notes: dict[str, Notes] = {}
        # A round of all platforms must find all of their text still packed; it takes four times its words at most,
        # with names shown and hidden
        self._made = LruCache[Site](max(_PACKED, 5 * dataset.train.tokens.nbytes))
        self._judges = {}
        if algorithm.needs_judges:
            self._judges = judges_of(experiment.feedback, dataset, tuple(everyone or self.rows), experiment.seed)
        self._sizes = {"relations": len(dataset.relations), **algorithm.sizes}
        self._server = self.shard_of(dataset.train, division.server)
        self._common = self._server.unlabelled()  # its labels stay there
        self.hub = Site(  # which has no key to blind facts with
            "server",
            self._server,
            model,
            experiment.training,
            experiment.seed,
            everyone=tuple(everyone or self.rows),
            first_relation=int(dataset.has_na),
            robust=experiment.robust,
            weighable=weighable(algorithm),
            layout=layouts(algorithm, experiment, lambda: self.sizes, self._sizes, self.budget),
        )

    def __getitem__(self, name: str) -> Site:
        return self._made.get(name, lambda: self._make(name), lambda site: site.shard.nbytes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @timed("data")
    def _make(self, name: str) -> Site:
        train, notes = self.dataset.train, self._notes.setdefault(name, Notes())
        shard = self.shard_of(train, self.rows[name])

        @lru_cache(maxsize=1)
        @timed("data")
        def blinded(secret: bytes) -> Tensor:
            firsts = shard.rows[shard.bag_starts[:-1].numpy()]
            return blind(fact_names(self.dataset, train, firsts), secret)

        return Site(
            name,
            shard,
            self.model,
            self.experiment.training,
            self.seed,
            first_relation=int(self.dataset.has_na),
            fact_keys=lambda: blinded(of_round(self.secret, notes.round) if self.fresh else self.secret),
            lasting_keys=lambda: blinded(self.secret),
            common=self._common,
            judge=self._judges.get(name, nobody_judges),
            held_out={split: self._held_out(split, rows[name]) for split, rows in self.held_out.items()},
            notes=notes,
            sizes=self._sizes,
            noise=lambda: self.noise_secret,
            clip=self.experiment.dp.clip if self.experiment.dp.unit == SENTENCE else None,
        )

    def rows_in_order(self, name: str) -> Ints:
        """The rows of a platform's sentences, as they lie in its shard."""
        return fact_bags(self.dataset.train, self.rows[name])[0]

    def _held_out(self, split: str, rows: Ints) -> LocalEvaluation:
        held: Split = getattr(self.dataset, split)
        return LocalEvaluation(self.evaluation, held, rows, self.pack, na=self.dataset.has_na)

    def shard_of(self, split: Split, rows: Ints) -> Shard:
        """These rows as fact bags, for training."""
        return self.pack(split, *fact_bags(split, rows))

    def pack(self, split: Split, rows: Ints, starts: Ints) -> Shard:
        return self.encoding.pack(split, rows, starts, self._numbers)
