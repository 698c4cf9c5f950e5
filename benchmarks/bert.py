"""`python -m benchmarks.bert`: pieces per second of (a) a plain Hugging Face loop and (b) ours, training and scoring.

Both in one run, with the same transformer, on the same pieces: sentences of 15 to 70 words of its own vocabulary, as
frequent as words are, with markers around two entities; 53 relations, batches of 32, AdamW over all weights. Padding
is not counted.

(a) is `AutoModel` with a linear layer on its mentions, a shuffled `DataLoader` that pads to a batch's longest sentence,
`torch.optim.AdamW`, float32; on a GPU also under `torch.autocast` in bfloat16. It does not drop attention weights, as
ours does not. (b) is `fit` and `label_log_odds` as a run calls them: on a GPU one platform at a time, on a CPU one
per core side by side (here all with the same text), where (a) has all cores for each step. With `--one-core`, both have
one, and seconds are those of the processor, which a busy machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.train import BATCH, RELATIONS, zipf_words
from fedrel import config
from fedrel.config import Experiment, Training
from fedrel.data.store import Split
from fedrel.encoding.pieces import PieceEncoding, PieceShard
from fedrel.encoding.pretrained import read_pretrained, weights_folder
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.engines.simulator import threads
from fedrel.experiment.assembly import choose_device
from fedrel.experiment.models import make_model
from fedrel.learning.fit import fit
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.util.parallel import cores

SCORED_AT_ONCE = 64  # sentences of the plain loop


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--weights", default="minilm", help="the package's; or a folder")
    arguments.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    arguments.add_argument("--sentences", type=int, default=0, help="0: 6,400 on a GPU, 96 on a CPU")
    arguments.add_argument("--repeats", type=int, default=3, help="of every measurement; the median counts")
    arguments.add_argument("--one-core", action="store_true")
    options = arguments.parse_args()
    device = choose_device(options.device)
    sentences: int = options.sentences or (6_400 if device.type == "cuda" else 96)
    bench = Bench.of(options.weights, device, sentences)
    if options.one_core:
        bench = replace(bench, cores=1, clock=time.process_time)
    rates = bench.rates(options.repeats)
    report: dict[str, Any] = {
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {bench.cores} cores",
        "torch": torch.__version__,
        "weights": options.weights,
        "sentences": sentences,
        "pieces_per_sentence": round(bench.pieces / sentences, 1),
        "pieces_per_second": {kind: round(rate) for kind, rate in rates.items()},
    }
    for work in ("training", "scoring"):
        rivals = {kind: rate for kind, rate in rates.items() if kind.startswith(f"{work}, plain")}
        report[f"{work}, ours over"] = {
            kind.removeprefix(f"{work}, "): round(rates[f"{work}, ours"] / rate, 2) for kind, rate in rivals.items()
        }
    print(json.dumps(report, indent=1))


@dataclass(frozen=True)
class Bench:
    """The same sentences and weights for both sides."""

    device: torch.device
    experiment: Experiment
    encoding: PieceEncoding
    shard: PieceShard
    model: Model  # ours
    start: Named  # its weights
    cores: int = field(default_factory=cores)
    clock: Callable[[], float] = time.perf_counter

    @classmethod
    def of(cls, weights: str, device: torch.device, sentences: int, *settings: str) -> Bench:
        ours = ["extractor.kind=bert", f"extractor.weights={weights}", "training.epochs=1", f"training.batch={BATCH}"]
        experiment = config.read(None, [*ours, f"engine.device={device.type}", *settings])
        encoding, model, start = make_model(experiment, "none", RELATIONS, pairs=True, words=_no_words)
        assert isinstance(encoding, PieceEncoding)
        shard = random_shard(encoding, sentences, np.random.default_rng(1))
        return cls(device, experiment, encoding, shard, model.to(device), start.to(device))

    @property
    def pieces(self) -> int:
        return len(self.shard.tokens)

    def rates(self, repeats: int) -> dict[str, float]:
        """Pieces a second; the sides take turns, so that a machine's moods meet them alike."""
        sides: dict[str, Callable[[], dict[str, float]]] = {"plain": self.plain, "ours": self.ours}
        if self.device.type == "cuda":
            sides["plain in bfloat16"] = lambda: self.plain(mixed=True)
        taken: dict[str, list[float]] = {}
        new = int(self.device.type == "cuda")  # in the first turn memory and kernels are
        for turn in range(repeats + new):
            for side, measure in sides.items():
                for work, spent in measure().items():
                    if turn >= new:
                        taken.setdefault(f"{work}, {side}", []).append(spent)
        workers = self.workers
        done = {kind: self.pieces * (workers if kind.endswith("ours") else 1) for kind in taken}
        return {kind: done[kind] / median(spent) for kind, spent in taken.items()}

    @property
    def workers(self) -> int:
        """Platforms side by side."""
        return self.cores if self.device.type == "cpu" else 1

    def plain(self, *, mixed: bool = False) -> dict[str, float]:
        """Seconds of an epoch, and of scoring all."""
        torch.set_num_threads(self.cores)
        torch.set_float32_matmul_precision("highest")  # torch's own default
        model = PlainBERT(self.experiment.extractor.weights, len(self.encoding), self.training.dropout).to(self.device)
        rows = plain_rows(self.shard)
        arguments: dict[str, Any] = {"device": self.device, "mixed": mixed, "tokenizer": self.encoding.tokenizer}
        return {
            "training": self.seconds(lambda: plain_epoch(model, rows, self.training, **arguments)),
            "scoring": self.seconds(lambda: plain_scores(model, rows, **arguments)),
        }

    def ours(self) -> dict[str, float]:
        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("high" if self.device.type == "cuda" else "highest")  # as in a run
        twins = [self.model] if self.workers == 1 else [self.model.twin() for _ in range(self.workers)]
        for twin in twins:
            twin.load(self.start, self.shard)
        with threads(self.workers) as pool:
            return {
                "training": self.seconds(lambda: list(pool.map(self.train, twins))),
                "scoring": self.seconds(lambda: list(pool.map(self.score, twins))),
            }

    def train(self, model: Model) -> None:
        fit(model, self.shard, self.training, lr=self.training.lr, seed=1)

    def score(self, model: Model) -> Tensor:
        return model.label_log_odds(self.shard)

    @property
    def training(self) -> Training:
        return self.experiment.training

    def seconds(self, work: Callable[[], object]) -> float:
        """Until the device has done it, too."""
        begin = self._now()
        work()
        return self._now() - begin

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return self.clock()


def _no_words(known: object) -> Vocabulary:
    raise AssertionError("a transformer has its own vocabulary")


def random_shard(encoding: PieceEncoding, sentences: int, draw: np.random.Generator) -> PieceShard:
    words = whole_words(encoding.tokenizer)
    lengths = draw.integers(15, 71, sentences)
    offsets = np.r_[0, np.cumsum(lengths)]
    places = np.sort(np.stack([draw.permuted(np.arange(n))[:2] for n in lengths]), axis=1)  # (S, 2)
    split = Split(
        tokens=zipf_words(len(words), int(offsets[-1]), draw),
        offsets=offsets,
        spans=np.stack([places[:, 0], places[:, 0] + 1, places[:, 1], places[:, 1] + 1], axis=1).astype(np.int32),
        labels=draw.integers(0, RELATIONS, sentences).astype(np.int32),
        pairs=np.arange(sentences, dtype=np.int32),
        sources=np.zeros(sentences, np.int32),
        expressed=np.full(sentences, -1, np.int8),
        pair_entities=np.zeros((sentences, 2), np.int32),
    )
    return encoding.pack(split, np.arange(sentences), np.arange(sentences + 1), encoding.numbers(words))


def whole_words(tokenizer: Any) -> list[str]:
    """Those that are one piece, in the order of their numbers, which is about that of how frequent they are."""
    pieces = tokenizer.convert_ids_to_tokens(list(range(tokenizer.vocab_size)))
    begins = "Ġ" if any(piece.startswith("Ġ") for piece in pieces) else ""  # of byte-level vocabularies
    words = (piece.removeprefix(begins) for piece in pieces if piece.startswith(begins))
    return [word for word in dict.fromkeys(words) if word.isascii() and word.isalpha()]


# -------------------------------------------------------------------------------------------------- the plain loop


class PlainBERT(nn.Module):
    def __init__(self, weights: str, tokens: int, dropout: float) -> None:
        from transformers import AutoModel

        super().__init__()
        options: dict[str, Any] = {"attention_probs_dropout_prob": 0.0, "dtype": torch.float32}
        self.body = read_pretrained(AutoModel.from_pretrained, weights_folder(weights), weights, **options)
        self.body.resize_token_embeddings(tokens, mean_resizing=False)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * self.body.config.hidden_size, RELATIONS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, spans: Tensor) -> Tensor:
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state  # (S, L, D)
        place = torch.arange(states.shape[1], device=states.device)
        mentions = []
        for begin, end in ((0, 1), (2, 3)):
            inside = (place >= spans[:, begin, None]) & (place < spans[:, end, None])  # (S, L)
            mentions.append((states * inside[:, :, None]).sum(1))
        logits: Tensor = self.classifier(self.dropout(torch.cat(mentions, dim=1)))
        return logits


def plain_rows(shard: PieceShard) -> list[dict[str, Any]]:
    ids = np.split(shard.vocabulary[shard.tokens.numpy()], shard.starts[1:-1].numpy())
    told = zip(ids, shard.spans.tolist(), shard.labels.tolist(), strict=True)
    return [{"input_ids": own.tolist(), "spans": spans, "labels": label} for own, spans, label in told]


def plain_epoch(
    model: PlainBERT,
    rows: list[dict[str, Any]],
    training: Training,
    *,
    device: torch.device,
    mixed: bool,
    tokenizer: Any,
) -> None:
    from transformers import DataCollatorWithPadding

    padded = DataCollatorWithPadding(tokenizer)
    loader: DataLoader[Any] = DataLoader(rows, BATCH, shuffle=True, collate_fn=padded)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    model.train()
    for batch in loader:
        batch = {name: value.to(device) for name, value in batch.items()}
        labels = batch.pop("labels")
        with _arithmetic(device, mixed):
            loss = nn.functional.cross_entropy(model(**batch), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def plain_scores(
    model: PlainBERT, rows: list[dict[str, Any]], *, device: torch.device, mixed: bool, tokenizer: Any
) -> Tensor:
    """(S,) p(label | sentence)."""
    from transformers import DataCollatorWithPadding

    padded = DataCollatorWithPadding(tokenizer)
    loader: DataLoader[Any] = DataLoader(rows, SCORED_AT_ONCE, collate_fn=padded)  # type: ignore[arg-type]
    model.eval()
    parts = []
    for batch in loader:
        batch = {name: value.to(device) for name, value in batch.items()}
        labels = batch.pop("labels")
        with _arithmetic(device, mixed):
            probability = torch.softmax(model(**batch).double(), dim=1)
        parts.append(torch.logit(probability.gather(1, labels[:, None]).squeeze(1)).float())
    return torch.cat(parts).cpu()


def _arithmetic(device: torch.device, mixed: bool) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext()


if __name__ == "__main__":
    main()
