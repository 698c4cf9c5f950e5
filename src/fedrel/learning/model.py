"""A relation extractor as it is trained and sent: encoder, classifier, denoiser."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fedrel.denoisers import Denoiser, best_of_group
from fedrel.encoding.packed import Batch, Shard
from fedrel.extractors import Encoder
from fedrel.learning.named import Named, table_patch

WORDS = "words"  # the name of the word table among the weights


class Model(nn.Module):
    def __init__(self, encoder: Encoder, denoiser: Denoiser, relations: int, frozen_words: Tensor | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.hidden, relations)
        self.denoiser = denoiser
        self.frozen_words = frozen_words  # (V, D), the same on every platform, never sent
        self._words_in_use = torch.zeros(1, dtype=torch.int64)
        nn.init.xavier_uniform_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device

    def twin(self) -> Model:
        """A model of its own with the same weights; what never changes is shared."""
        shared = {} if self.frozen_words is None else {id(self.frozen_words): self.frozen_words}
        return copy.deepcopy(self, shared)

    def weights(self) -> Named:
        """A copy of all that is trained, except the word table."""
        return Named({name: value.detach().clone() for name, value in self.named_parameters()})

    @torch.no_grad()
    def load(self, weights: Named, shard: Shard) -> None:
        """Takes the weights over for work on this shard: of the word table, the shard's own rows."""
        for name, value in self.named_parameters():
            value.copy_(weights[name])
        rows = torch.from_numpy(shard.vocabulary)
        table = weights[WORDS] if self.frozen_words is None else self.frozen_words
        self._words_in_use = rows
        self.encoder.words.load(table.index_select(0, rows).to(self.device))

    def trained(self, shard: Shard, sentences: Tensor) -> Named:
        """What training on these sentences made of the weights; the word table as a patch of its touched rows."""
        weights = self.weights()
        words = self.encoder.words
        if words.trainable:
            touched = shard.words_of(sentences)
            rows = self._words_in_use[touched].to(torch.int32)
            weights |= table_patch(WORDS, rows, words.values(touched.to(self.device)), words.factor)
        return weights

    @torch.no_grad()
    def is_finite(self) -> bool:
        """A sum is finite only if everything in it is, and costs one pass."""
        return all(math.isfinite(float(tensor.sum())) for tensor in (*self.parameters(), self.encoder.words.rows))

    def loss(self, batch: Batch) -> Tensor:
        """Mean loss over the batch's bags, in training mode."""
        return self.denoiser.loss(self.encoder.encode(batch), batch.bag, batch.labels, self.classifier, self._drop)

    @torch.no_grad()
    def score_bags(self, shard: Shard) -> Tensor:
        """(bags, R) in evaluation mode, on the CPU."""
        self.eval()
        parts = [
            self.denoiser.score(self.encoder.encode(batch), batch.bag, len(batch.labels), self.classifier).cpu()
            for batch in self._chunks(shard)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, self.classifier.out_features)

    @torch.no_grad()
    def score_sentences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(U, R) of the bags and (S, R) of each sentence by itself, in evaluation mode, on the CPU."""
        self.eval()
        vectors = self.encoder.encode(batch.to(self.device))
        alone = torch.softmax(self.classifier(vectors), dim=1)
        together = self.denoiser.score(vectors, batch.bag.to(self.device), len(batch.labels), self.classifier)
        return together.cpu(), alone.cpu()

    @torch.no_grad()
    def label_probabilities(self, shard: Shard) -> Tensor:
        """(S,) p(label | sentence) in evaluation mode, on the CPU."""
        self.eval()
        parts = []
        for batch in self._chunks(shard):
            probability = torch.softmax(self.classifier(self.encoder.encode(batch)), dim=1)  # (S, R)
            parts.append(probability.gather(1, batch.labels[batch.bag][:, None]).squeeze(1).cpu())
        return torch.cat(parts) if parts else torch.zeros(0)

    def choose(self, shard: Shard) -> tuple[Tensor, Tensor]:
        """Per bag, the place and the probability of the sentence most likely to express the bag's label."""
        probability = self.label_probabilities(shard)
        best = best_of_group(probability, shard.bag_of_sentences())
        return best, probability[best]

    @torch.no_grad()
    def choose_in(self, shard: Shard, bags: Tensor) -> Tensor:
        """The same for a few bags, in the middle of training: (U,) sentences of the shard."""
        sizes = shard.bag_sizes(bags)
        first = shard.bag_starts[bags]
        if int(sizes.max()) == 1:
            return first
        self.eval()
        batch = shard.bags_of(bags).to(self.device)
        probability = torch.softmax(self.classifier(self.encoder.encode(batch)), dim=1)
        own = probability.gather(1, batch.labels[batch.bag][:, None]).squeeze(1).cpu()
        self.train()
        place = best_of_group(own, batch.bag.cpu())
        return first + place - (torch.cumsum(sizes, 0) - sizes)

    def _drop(self, vectors: Tensor) -> Tensor:
        """Dropout from uniform numbers: the library's draws each zero and one at three times the price."""
        if not self.training or not self.dropout:
            return vectors
        drawn = torch.rand(vectors.shape, generator=self.draws, dtype=vectors.dtype, device=vectors.device)
        keep = drawn.ge_(self.dropout)
        return vectors * keep.div_(1.0 - self.dropout)

    # Set by the training loop
    dropout = 0.0
    draws: torch.Generator | None = None

    def _chunks(self, shard: Shard) -> Iterator[Batch]:
        for first, last in shard.chunks():
            yield shard.bags_of(torch.arange(first, last)).to(self.device)
