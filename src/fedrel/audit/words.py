"""Which words a platform's text uses, by the rows of the word table that its updates change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrel.audit.finding import Attack, Finding
from fedrel.audit.statistics import auc, mean_of
from fedrel.audit.target import Target, facts_of, known_words
from fedrel.data.store import Ints, sentence_bags
from fedrel.encoding.pieces import PieceShard
from fedrel.learning.model import WORDS
from fedrel.learning.named import ROWS, Named
from fedrel.protocol.round import Ask, Replies

_DIGITS, _CHANGED = 6, 2e-6  # of a factor; relative, what rounding leaves of a row that nobody trained
_FACTS = 300  # of each platform, and as many that others hold
Bools = npt.NDArray[np.bool_]
NO_TABLE = "no row of a word table is sent"
NO_WEIGHTS = "no weights were sent"


class Rows:
    """(V,) of every watched platform, whether any of its updates changed the row of a word."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.changed: dict[str, Bools] = {}

    def see(self, ask: Ask, replies: Replies) -> None:
        for platform, weights in self.target.updates(ask, replies):
            if platform not in self.target.watched:
                continue
            rows, known = changed_rows(ask.model, weights), platform in self.changed
            # A table that is sent whole moves, later on, by what others taught the server too: the first one tells most
            if known and WORDS + ROWS in weights:
                self.changed[platform] |= rows
            elif not known:
                self.changed[platform] = rows


def changed_rows(base: Named, weights: Named) -> Bools:
    """(V,) the rows that an update lists; of a table that is sent whole, those that are no multiple of what was sent,
    as weight decay alone would leave them.
    """
    changed = np.zeros(len(base[WORDS]), np.bool_)
    if WORDS + ROWS in weights:
        changed[weights[WORDS + ROWS].cpu().numpy()] = True
        return changed
    old, new = (table[WORDS].double().cpu().numpy() for table in (base, weights))
    ratios = (old * new).sum(1) / np.maximum((old * old).sum(1), 1e-30)
    same, often = np.unique(np.round(ratios, _DIGITS), return_counts=True)  # rows that nobody trained shrink alike
    factor = same[often.argmax()]
    apart = np.linalg.norm(new - factor * old, axis=1)
    return np.asarray(apart > _CHANGED * np.maximum(np.linalg.norm(old, axis=1), 1e-30), np.bool_)


class Words(Attack):
    """The words of a platform's text."""

    name = "words"
    wants = "the words of a platform's text"
    how = "A trained word table travels as the rows that training changed: those of the words in the text."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.rows = Rows(target)

    def objection(self) -> str:
        return "" if self.target.trains_words and self.target.sends_weights else NO_TABLE

    def see(self, ask: Ask, replies: Replies) -> None:
        self.rows.see(ask, replies)

    def finding(self, weights: Named) -> Finding:
        if not self.rows.changed:
            return self.nothing(NO_WEIGHTS)
        areas, precision, recall, prior = [], [], [], []
        for platform, changed in self.rows.changed.items():
            truth = np.zeros(len(changed), np.bool_)
            truth[known_words(self.target.setup.sites[platform].shard)] = True
            truth, changed = truth[1:], changed[1:]  # without padding
            if truth.all() or not truth.any():
                continue
            areas.append(auc(changed[truth].astype(float), changed[~truth].astype(float)))
            precision.append(truth[changed].mean() if changed.any() else 0.0)
            recall.append(changed[truth].mean())
            prior.append(truth.mean())
        if not areas:
            return self.nothing("every platform uses every word of the vocabulary")
        told = {"precision": precision, "recall": recall, "precision of guessing all words": prior}
        means = {name: float(np.mean(values)) for name, values in told.items()}
        return self.found(mean_of("auc", areas, 0.5), details=means)


class Names(Attack):
    """Whether a platform holds a fact, by the words of both names."""

    name = "names"
    wants = "whether a platform holds a given fact"
    how = "The words of both names must be among the rows that changed; rare words count more."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.rows = Rows(target)

    def objection(self) -> str:
        if not self.target.setup.dataset.has_pairs:
            return "plain texts have no pairs of names"
        return "" if self.target.trains_words and self.target.sends_weights else NO_TABLE

    def see(self, ask: Ask, replies: Replies) -> None:
        self.rows.see(ask, replies)

    def finding(self, weights: Named) -> Finding:
        changed = self.rows.changed
        if not changed:
            return self.nothing(NO_WEIGHTS)
        if len(changed) < 2:
            return self.nothing("there are no other platforms, whose facts it could be taken for")
        held = {name: self._facts(self.target.setup.sites.rows[name]) for name in changed}
        draw = np.random.default_rng(1)
        surprise = -np.log((np.sum(list(changed.values()), axis=0) + 0.5) / (len(changed) + 1))  # (V,)
        areas = []
        for platform, rows in changed.items():
            mine = held[platform]
            theirs = {fact: row for name, facts in held.items() if name != platform for fact, row in facts.items()}
            others = [row for fact, row in theirs.items() if fact not in mine]
            if not mine or not others:
                continue
            asked = [_some(list(mine.values()), draw), _some(others, draw)]
            areas.append(auc(*(self._scores(found, rows, surprise) for found in asked)))
        return self.found(mean_of("auc", areas, 0.5)) if areas else self.nothing("all platforms hold the same facts")

    def _facts(self, rows: Ints) -> dict[int, int]:
        """The facts of these rows, each with the last of its rows."""
        dataset = self.target.setup.dataset
        stated = rows[dataset.train.labels[rows] >= int(dataset.has_na)]
        return dict(zip(facts_of(dataset, stated).tolist(), stated.tolist(), strict=True))

    def _scores(self, rows: Ints, changed: Bools, surprise: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(len(rows),) how surprising it would be by chance that all words of both names changed; below 0 where some
        did not.
        """
        train = self.target.setup.dataset.train
        shard = self.target.setup.sites.pack(train, *sentence_bags(train, rows))
        spans = shard.spans.numpy() if isinstance(shard, PieceShard) else np.asarray(train.spans[rows])
        scores = np.zeros(len(rows))
        for place, (start, span) in enumerate(zip(shard.starts[:-1].tolist(), spans.tolist(), strict=True)):
            inside = [*range(start + span[0], start + span[1]), *range(start + span[2], start + span[3])]
            names = np.unique(shard.vocabulary[shard.tokens[inside].numpy()])
            missing = ~changed[names]
            scores[place] = -missing.sum() if missing.any() else surprise[names].sum()
        return scores


def _some(rows: list[int], draw: np.random.Generator) -> Ints:
    chosen: Ints = draw.choice(np.array(rows, np.int64), min(_FACTS, len(rows)), replace=False)
    return chosen
