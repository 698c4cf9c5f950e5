"""A relation extractor as it is trained and sent: encoder, classifier, denoiser."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedrel.config import AUTO
from fedrel.denoisers import (
    Denoiser,
    best_sentence_score,
    best_sentences,
    first_best,
    label_log_odds,
    log_odds,
    mean_score,
)
from fedrel.encoding.pieces import PieceShard
from fedrel.encoding.shard import Batch, Shard
from fedrel.extractors import Encoder
from fedrel.extractors.convolution import Convolution, is_plain_convolution
from fedrel.kernels.dropout import Draws
from fedrel.learning.background import Background
from fedrel.learning.losses import Loss, Output
from fedrel.learning.named import Named, table_patch
from fedrel.learning.proximal import Pull
from fedrel.util.parallel import cores
from fedrel.util.profiling import timed

WORDS = "words"  # the name of the word table among the weights
SHOWN, BOTH_VIEWS, HIDDEN = 0.0, 0.5, 1.0  # of Model.hidden_view


_SCORES = {"max": best_sentence_score, "mean": mean_score}  # of evaluation.bags; any other is the denoiser's own


def _nobody_asks(done: int, all_: int) -> None:
    pass


class Model(nn.Module):
    """An encoder, a linear classifier over R relations, and a denoiser."""

    def __init__(
        self,
        encoder: Encoder,
        denoiser: Denoiser,
        relations: int,
        frozen_words: Tensor | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.hidden, relations, bias=bias)
        self.denoiser = denoiser
        # Called while a frozen encoder reads a shard, with the sentences that it has read and all of them. A function,
        # not a method: a twin of the model would copy the method's object.
        self.on_read: Callable[[int, int], None] = _nobody_asks
        self.frozen_words = frozen_words  # (V, D), the same on every platform, never sent
        self.hide_names = 0.0  # share of mentions that training hides
        self.hidden_view = BOTH_VIEWS  # weight in a score of the sentence with names hidden, if its shard has that
        self.bags = AUTO  # how the sentences of a bag become its score: evaluation.bags
        self.words_in_use = torch.zeros(1, dtype=torch.int64)  # (v,) rows of the whole table that were loaded
        self._whole_words = torch.zeros(0)  # (V, D) as it was loaded, where it is trained
        nn.init.xavier_uniform_(self.classifier.weight)
        if bias:
            nn.init.zeros_(self.classifier.bias)

    @property
    def scored_by(self) -> str:
        """How the sentences of a bag become its score: by max, mean or attention."""
        return self.denoiser.scores_by if self.bags == AUTO else self.bags

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device

    def twin(self) -> Model:
        """A model of its own with the same weights; what never changes is shared."""
        shared = {} if self.frozen_words is None else {id(self.frozen_words): self.frozen_words}
        return copy.deepcopy(self, shared)

    def trained_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """What training changes and messages carry, except the word table."""
        return [(name, value) for name, value in self.named_parameters() if value.requires_grad]

    def weights(self) -> Named:
        """A copy of all that is trained, except the word table."""
        return Named({name: value.detach().clone() for name, value in self.trained_parameters()})

    def fixed(self) -> Named:
        """What is never trained nor sent: every platform has it from the start."""
        fixed = {name: value.detach() for name, value in self.named_parameters() if not value.requires_grad}
        return Named(fixed if self.frozen_words is None else {**fixed, WORDS: self.frozen_words})

    @torch.no_grad()
    def load(self, weights: Named, shard: Shard) -> None:
        """Takes the weights over for work on this shard: of the word table, the shard's own rows."""
        for name, value in self.trained_parameters():
            value.copy_(weights[name])
        table = weights[WORDS] if self.frozen_words is None else self.frozen_words
        self.words_in_use, self._whole_words = shard.vocabulary_at(table.device), table
        self.encoder.words.load(table.index_select(0, self.words_in_use).to(self.device))
        if self.encoder.frozen and isinstance(shard, PieceShard) and not shard.kept:
            shard.kept.append(self._frozen_part(shard))

    def trained(self, shard: Shard, sentences: Tensor, pull: Pull | None = None) -> Named:
        """What training on these sentences made of the weights; the word table as a patch of its touched rows, unless
        a push moved every row.
        """
        weights = self.weights()
        words = self.encoder.words
        if not words.trainable:
            return weights
        start, push = words.elsewhere
        if pull is not None and pull.push is not None and push:
            whole = start * self._whole_words + push * pull.push[WORDS]
            mine = words.values(torch.arange(len(words.rows), device=self.device))
            whole[self.words_in_use] = mine.to(whole.device)
            whole[0] = 0
            return Named({**weights, WORDS: whole})
        here = shard.at(self.device)
        touched = torch.arange(1, len(words.rows)) if pull is not None else here.words_of(sentences)
        rows = self.words_in_use[touched.to(self.words_in_use.device)].to(torch.int32)
        return Named(weights | table_patch(WORDS, rows, words.values(touched.to(self.device)), start))

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Whether all weights are finite: a sum is finite only if everything in it is, and costs one pass."""
        tensors: list[Tensor] = [*(value for _, value in self.trained_parameters()), self.encoder.words.rows]
        return math.isfinite(float(torch.stack([tensor.sum() for tensor in tensors]).sum()))

    def loss(self, batch: Batch, loss: Loss | None = None) -> Tensor:
        """() the mean over the batch, in training mode: cross-entropy of the denoiser's logits on bags, or the given
        loss on single sentences.
        """
        vectors = self._read(batch)
        if loss is None:
            logits = self.denoiser.logits(vectors, batch.bag, batch.labels, self.classifier, self.encoder.drop)
            return F.cross_entropy(logits, batch.labels)
        logits = self.classifier(self.encoder.drop(vectors))
        return loss(Output(vectors, logits, batch.labels, batch.sentences))

    def draw_from(self, seed: int | None, dropout: float) -> None:
        """Sets the share that dropout drops, and the seed that it draws from; None: nothing is dropped."""
        self.encoder.dropout = dropout
        self.encoder.draws = None if seed is None else Draws(seed)
        if seed is not None and self.device.type == "cuda":
            torch.cuda.manual_seed(seed)  # for dropout inside a transformer

    @timed("score")
    @torch.no_grad()
    def vectors(self, shard: Shard) -> Tensor:
        """(S, H) of all sentences in evaluation mode, where the model is."""
        self.eval()
        parts = [self._read(batch) for batch in self._chunks(shard)]
        return torch.cat(parts) if parts else torch.zeros(0, self.encoder.hidden, device=self.device)

    @timed("score")
    def _frozen_part(self, shard: Shard) -> Tensor:
        """(S, W) what the frozen encoder makes of all sentences, where the model is; on a CPU by all of its cores."""
        self.eval()
        here = shard.at(self.device)

        @torch.no_grad()
        def encode(chunk: tuple[int, int]) -> Tensor:
            return self.encoder.frozen_part(here.bags_between(*chunk).to(self.device))

        parts, done = [torch.zeros(0, self.encoder.frozen_width, dtype=torch.float16, device=self.device)], 0
        with ThreadPoolExecutor(cores() if self.device.type == "cpu" else 1) as pool:
            for part in pool.map(encode, shard.chunks(self.device)):
                parts.append(part)
                done += len(part)
                self.on_read(done, len(shard))
        return torch.cat(parts)  # of the wider type, where there are any sentences

    @torch.no_grad()
    def log_probabilities(self, shard: Shard) -> Tensor:
        """(S, R) log p of every class of each sentence, in evaluation mode, on the CPU."""
        return torch.log_softmax(self.classifier(self.vectors(shard)), dim=1).cpu()

    @timed("score")
    @torch.no_grad()
    def score_bags(self, shard: Shard) -> Tensor:
        """(bags, R) how much each bag supports each relation, as log-odds in double precision, in evaluation mode, on
        the CPU.
        """
        self.eval()
        parts = [self._score(self._read(batch), batch.bag, len(batch.labels)).cpu() for batch in self._chunks(shard)]
        return torch.cat(parts) if parts else torch.zeros(0, self.classifier.out_features, dtype=torch.float64)

    def _score(self, vectors: Tensor, bag: Tensor, bags: int) -> Tensor:
        """(U, R) of bags, as `bags` has it."""
        score = _SCORES.get(self.bags, self.denoiser.score)
        return score(vectors, bag, bags, self.classifier)

    @timed("score")
    @torch.no_grad()
    def score_sentences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(U, R) the scores of the batch's bags and (S, R) those of each sentence by itself, as log-odds in double
        precision, in evaluation mode, on the CPU.
        """
        self.eval()
        vectors = self._read(batch.to(self.device))
        alone = log_odds(self.classifier(vectors))
        together = self._score(vectors, batch.bag.to(self.device), len(batch.labels))
        return together.cpu(), alone.cpu()

    @timed("score")
    @torch.no_grad()
    def label_log_odds(self, shard: Shard, view: float | None = None) -> Tensor:
        """(S,) the log-odds log p/(1-p) of p = p(label | sentence), in evaluation mode, on the CPU. `view` takes the
        place of `hidden_view`.
        """
        parts = [label_log_odds(logits, labels).float().cpu() for logits, labels in self._logits(shard, view)]
        return torch.cat(parts) if parts else torch.zeros(0)

    @timed("score")
    @torch.no_grad()
    def label_and_background_odds(
        self, shard: Shard, first_relation: int, view: float | None = None
    ) -> tuple[Tensor, Background]:
        """(S,) as `label_log_odds`, and what all relations score on the sentences that are labelled with none, whose
        labels are below `first_relation`.
        """
        parts, background = [], Background.of_nothing(self.classifier.out_features)
        for logits, labels in self._logits(shard, view):
            parts.append(label_log_odds(logits, labels).float().cpu())
            background += Background.of(log_odds(logits[labels < first_relation]).cpu())
        return torch.cat(parts) if parts else torch.zeros(0), background

    def _logits(self, shard: Shard, view: float | None) -> Iterator[tuple[Tensor, Tensor]]:
        """(s, R) logits in double precision and (s,) labels, some sentences at a time, in evaluation mode."""
        self.eval()
        for batch in self._chunks(shard):
            yield self.classifier(self._read(batch, view)).double(), batch.labels[batch.bag]

    def choose(self, shard: Shard) -> tuple[Tensor, Tensor]:
        """(bags,) the place in the shard, and (bags,) the log-odds, of each bag's sentence most likely to express its
        label.
        """
        z = self.label_log_odds(shard)
        best = first_best(z, shard.bag_of_sentences(), shard.bags)
        return best, z[best]

    @torch.no_grad()
    def choose_in(self, shard: Shard, bags: Tensor) -> Tensor:
        """(U,) of a few bags, in the middle of training, the sentence of the shard most likely to express the label."""
        if int(shard.bag_sizes(bags).max()) == 1:
            return shard.bag_starts[bags]
        self.eval()
        batch = shard.bags_of(bags).to(self.device)
        best = best_sentences(self._read(batch), batch.bag, batch.labels, self.classifier)
        self.train()
        return batch.sentences[best].cpu()

    def _read(self, batch: Batch, view: float | None = None) -> Tensor:
        """(S, H) the sentence vectors. In evaluation mode, where names can be hidden, the mean of the vectors with
        names shown and hidden: so logits are the mean of both.
        """
        view = self.hidden_view if view is None else view
        hidden = None if self.training or not view else batch.names_hidden()
        if hidden is None:
            return self.encoder.encode(batch) if batch.vectors is None else self.encoder.trained_part(batch.vectors)
        unnamed = self.encoder.encode(hidden)
        return unnamed if view == HIDDEN else (1 - view) * self.encoder.encode(batch) + view * unnamed

    def _chunks(self, shard: Shard) -> Iterator[Batch]:
        here = shard.at(self.device)
        for first, last in shard.chunks(self.device):
            yield here.bags_between(first, last).to(self.device)


def plain_convolution_of(model: Model) -> Convolution | None:
    """The model's encoder, where the compiled step and stacked training compute exactly what the model computes: a
    plain convolution (see is_plain_convolution) under a linear classifier, all of it trained. None: autograd alone.
    """
    encoder = model.encoder
    if (
        type(model) is Model
        and type(model.classifier) is nn.Linear
        and is_plain_convolution(encoder)
        and all(value.requires_grad for value in model.parameters())
    ):
        return encoder
    return None
