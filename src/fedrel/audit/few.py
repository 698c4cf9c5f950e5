"""Uploads that were trained on very few sentences, and the words that can be read from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedrel.audit.finding import DID_NOT_HAPPEN, Attack, Finding
from fedrel.audit.statistics import Measure, mean_of, share_of
from fedrel.audit.target import Target
from fedrel.data.store import Ints
from fedrel.extractors.convolution import Convolution
from fedrel.learning.model import WORDS
from fedrel.learning.named import ROWS, Named
from fedrel.protocol.records import number_in
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.summed import Summed
from fedrel.protocol.tasks import form_of

FEW = 3
_CONVOLUTION = "encoder.convolution.weight"
_NOISE = 1e-3  # of the largest singular value; smaller ones are rounding
_INSIDE = 1e-2  # the part of a word's vector that may lie outside the space of the change
_FULL = 0.9  # a change that spans more of the space than this has every word in it


class FewSentences(Attack):
    """Updates of one to three sentences.

    With a trained word table, the rows that changed are the words. With a frozen one, the change of the convolution is
    a sum of products with the vectors of the words: those that lie in its span are read. The number of sentences is
    told by the platform itself.
    """

    name = "few"
    wants = "the words of updates that at most 3 sentences trained"
    how = "Its changed rows are the words; or those words whose vectors lie in the span of the convolution's change."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.uploads, self.few, self.smallest = 0, 0, 0
        self.precision: list[float] = []
        self.recall: list[float] = []

    def objection(self) -> str:
        if self.target.setup.sites.budget:
            return "nobody is told how many sentences an update was trained on"
        return "" if self.target.sends_weights else "no weights are sent"

    def see(self, ask: Ask, replies: Replies) -> None:
        form = form_of(self.target.setup.algorithm, ask.task)
        counts = form.of_kind("sentences", "weight") if form else []
        if isinstance(replies, Summed):
            self._see_sum(replies, counts)
            return
        for platform, weights in self.target.updates(ask, replies):
            if not counts:
                continue
            said = number_in(replies[platform], counts[0])
            self.uploads += 1
            self.smallest = int(said) if self.uploads == 1 else min(self.smallest, int(said))
            if 0 < said <= FEW:
                self.few += 1
                self._read(ask, platform, weights, int(said))

    def _see_sum(self, replies: Summed, counts: list[str]) -> None:
        """How few all platforms of a sum together trained on; no words are read from it."""
        if counts:
            said = int(replies.number(counts[0]))
            self.uploads += 1
            self.smallest = said if self.uploads == 1 else min(self.smallest, said)
            self.few += 0 < said <= FEW

    def _read(self, ask: Ask, platform: str, weights: Named, count: int) -> None:
        truth = self._words_trained_on(platform, count)
        read = rows_read(weights) if WORDS + ROWS in weights else self._in_span(ask, weights, count)
        if truth is not None and read is not None:
            right = len(np.intersect1d(read, truth))
            self.precision.append(right / max(len(read), 1))
            self.recall.append(right / max(len(truth), 1))

    def _words_trained_on(self, platform: str, count: int) -> Ints | None:
        """The truth: the words of the sentences that the platform trained on; None where it cannot be told which."""
        site = self.target.setup.sites[platform]
        shard, chosen = site.shard, site.notes.selected
        if chosen is None:
            chosen = torch.arange(len(shard))
        if len(chosen) != count:  # a method that selects among facts alone trains on all others too
            others = (shard.labels < site.first_relation).nonzero().squeeze(1)
            chosen = torch.unique(torch.cat([chosen, others]))
        if len(chosen) != count:
            return None
        places = torch.cat([torch.arange(int(shard.starts[it]), int(shard.starts[it + 1])) for it in chosen.tolist()])
        words = shard.vocabulary[torch.unique(shard.tokens[places]).numpy()]
        found: Ints = words[words > 0]
        return found

    def _in_span(self, ask: Ask, weights: Named, count: int) -> Ints | None:
        """The words whose frozen vectors lie in the row space of the convolution's change, at the middle of its window;
        None where there is no such convolution.
        """
        encoder, table = self.target.setup.model.encoder, self.target.setup.model.frozen_words
        if table is None or not isinstance(encoder, Convolution) or _CONVOLUTION not in weights:
            return None
        training = self.target.setup.experiment.training
        steps = training.epochs * -(-count // training.batch)
        kept = (1 - training.lr_at(ask.round) * training.weight_decay) ** steps
        change = weights[_CONVOLUTION].double() - kept * ask.model[_CONVOLUTION].double()
        width = change.shape[1] // encoder.window
        begin = encoder.window // 2 * width
        return words_in_span(change[:, begin : begin + encoder.words.dimension].cpu(), table.cpu())

    def finding(self, weights: Named) -> Finding:
        if not self.uploads:
            return self.nothing("no weights were sent")
        measures: list[Measure] = [share_of("share", self.few, self.uploads, 0.0)]
        if self.recall:
            measures.append(mean_of("read", self.recall, 0.0))
        details: dict[str, float] = {
            "uploads": self.uploads,
            "of at most 3 sentences": self.few,
            "sentences of the smallest": self.smallest,
        }
        if self.precision:
            details |= {"precision of the words read": float(np.mean(self.precision))}
        return self.found(*measures, details=details, says="" if self.few else DID_NOT_HAPPEN)


def rows_read(weights: Named) -> Ints:
    """The words whose rows an update lists."""
    found: Ints = weights[WORDS + ROWS].cpu().numpy().astype(np.int64)
    return found


def words_in_span(change: Tensor, table: Tensor) -> Ints:
    """The rows of a table (V, D) that lie in the row space of a change (F, D); none where that is nearly all of D."""
    _, sizes, space = torch.linalg.svd(change, full_matrices=False)
    space = space[sizes > _NOISE * max(float(sizes[0]), 1e-30)]  # (r, D)
    if len(space) > _FULL * change.shape[1]:
        return np.zeros(0, np.int64)
    vectors = table.double()
    outside = 1 - (vectors @ space.T).square().sum(1) / vectors.square().sum(1).clamp_min(1e-30)
    found: Ints = ((outside < _INSIDE) & (vectors.square().sum(1) > 0)).nonzero().squeeze(1).numpy()
    return found
