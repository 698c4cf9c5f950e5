"""`python -m benchmarks.train`: sentences per second of (a) the plain loop, (b) ours, (c) the matmul limit.

All three in one run on the same sentences: 15 to 70 tokens, as long as NYT10's, with its vocabulary of 114,042,
53 relations and batches of 32; each in a process of its own, since the memory that one frees slows the next down.
(c) is what the three matrix products of the convolution alone would allow (forward, and backward for weights and
inputs): nothing that makes them can train faster. Ours no longer makes them (see kernels/convolution.py). Then one
federated round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.plain import PlainPCNN, pad, train
from fedrel.config import Data, Experiment, Extractor, Partition, Training
from fedrel.data.store import Split
from fedrel.encoding.packed import PackedShard, pack
from fedrel.engines.simulator import Simulator, threads
from fedrel.experiment.assembly import prepare
from fedrel.experiment.models import build_model
from fedrel.learning.fit import fit
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named
from fedrel.protocol.round import drive
from fedrel.util.parallel import cores

RELATIONS, BATCH = 53, 32


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sentences", type=int, default=3_200)
    arguments.add_argument("--repeats", type=int, default=5, help="of every measurement; the median counts")
    arguments.add_argument("--vocabulary", type=int, default=114_042, help="NYT10's; GloVe's is 400,000")
    arguments.add_argument("--skip-round", action="store_true")
    options = arguments.parse_args()
    words: int = options.vocabulary
    rates = {}
    for kind in RATES:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            rates[kind] = alone.submit(measure, kind, options.sentences, words, options.repeats).result()
    shard = random_shard(options.sentences, words, np.random.default_rng(1))
    report: dict[str, object] = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "sentences": options.sentences,
        "vocabulary": words,
        "tokens_per_sentence": round(float(len(shard.tokens) / len(shard)) - 1, 1),
        "sentences_per_second": {kind: round(rate, 1) for kind, rate in rates.items()},
        "ours_over_plain": round(rates["ours"] / rates["plain"], 1),
        "ours_over_limit": round(rates["ours"] / rates["limit"], 3),
    }
    if not options.skip_round:
        report["round"] = federated_round()
    print(json.dumps(report, indent=1))


def random_shard(sentences: int, vocabulary: int, draw: np.random.Generator) -> PackedShard:
    lengths = draw.integers(15, 70, sentences)
    offsets = np.r_[0, np.cumsum(lengths)]
    places = np.sort(np.stack([draw.permuted(np.arange(n))[:2] for n in lengths]), axis=1)  # (S, 2)
    split = Split(
        tokens=zipf_words(vocabulary - 2, int(offsets[-1]), draw),
        offsets=offsets,
        spans=np.stack([places[:, 0], places[:, 0] + 1, places[:, 1], places[:, 1] + 1], axis=1).astype(np.int32),
        labels=draw.integers(0, RELATIONS, sentences).astype(np.int32),
        pairs=np.arange(sentences, dtype=np.int32),
        sources=np.zeros(sentences, np.int32),
        expressed=np.full(sentences, -1, np.int8),
        pair_entities=np.zeros((sentences, 2), np.int32),
    )
    rows = np.arange(sentences)
    return pack(split, rows, np.arange(sentences + 1), np.arange(2, vocabulary), reach=60)


def zipf_words(vocabulary: int, count: int, draw: np.random.Generator) -> npt.NDArray[np.int32]:
    """Words as frequent as in ordinary text: the n-th most frequent is drawn in proportion to n^-1.06. Half of a
    batch's tokens are then distinct, as in NYT10 (.50); in Wikipedia's sentences it is less (.43).
    """
    shares = np.cumsum(np.arange(1, vocabulary + 1) ** -1.06)
    drawn: npt.NDArray[np.int32] = np.searchsorted(shares, draw.random(count) * shares[-1]).astype(np.int32)
    return drawn


def plain_rate(shard: PackedShard, vocabulary: int) -> float:
    data = pad(shard)
    model = PlainPCNN(vocabulary, RELATIONS)
    batches = list(torch.split(torch.randperm(len(shard)), BATCH))[:25]
    train(model, data, batches[:3], lr=0.1, weight_decay=1e-5)
    return 22 * BATCH / seconds(lambda: train(model, data, batches[3:], lr=0.1, weight_decay=1e-5))


def our_rate(shard: PackedShard, vocabulary: int, workers: int = 0) -> float:
    """As the simulator trains: one platform per core side by side, here all of them with the same text."""
    workers = workers or cores()
    training = Training(epochs=1, batch=BATCH, lr=0.1, weight_decay=1e-5, dropout=0.5)
    table = torch.randn(vocabulary, 50) * 0.1
    model = build_model(Extractor(), "none", RELATIONS, table, seed=1)
    weights = Named(model.weights() | {WORDS: table})
    torch.set_num_threads(1)

    def work(twin: Model) -> None:
        fit(twin, shard, training, lr=0.1, seed=2)

    twins = [model.twin() for _ in range(workers)]
    for twin in twins:
        twin.load(weights, shard)
        fit(twin, shard, training, lr=0.1, seed=1, sentences=torch.arange(BATCH * 3))
    with threads(workers) as pool:
        return workers * len(shard) / seconds(lambda: list(pool.map(work, twins)))


def our_rate_on_one_core(shard: PackedShard, vocabulary: int) -> float:
    return our_rate(shard, vocabulary, workers=1)


def limit_rate(shard: PackedShard, vocabulary: int) -> float:
    tokens = round(len(shard.tokens) / len(shard) * BATCH)
    rows, weights, grad = torch.randn(tokens, 180), torch.randn(180, 230), torch.randn(tokens, 230)
    turned = weights.T.contiguous()

    def step() -> None:
        torch.mm(rows, weights)
        torch.mm(rows.T, grad)
        torch.mm(grad, turned)

    for _ in range(10):
        step()
    count = 200

    def many() -> None:
        for _ in range(count):
            step()

    return BATCH * count / seconds(many)


RATES: dict[str, Callable[[PackedShard, int], float]] = {
    "plain": plain_rate,
    "ours": our_rate,
    "ours_on_one_core": our_rate_on_one_core,
    "limit": limit_rate,
}


def measure(kind: str, sentences: int, vocabulary: int, repeats: int) -> float:
    """The median rate; called in a fresh process."""
    shard = random_shard(sentences, vocabulary, np.random.default_rng(1))
    return float(np.median([RATES[kind](shard, vocabulary) for _ in range(repeats)]))


def federated_round() -> dict[str, float]:
    """One round of Lazy MIL on the built-in world, 100 platforms of which 10 are active."""
    experiment = Experiment(
        data=Data(size=46_000),
        partition=Partition(platforms=100),
        method={"name": "lazy-mil", "warmup": 0},
        training=replace(Training(), fraction=0.1),
    )
    setup = prepare(experiment)
    simulator = Simulator(setup.algorithm, setup.sites, workers=cores())
    state = setup.algorithm.start(setup.weights)
    for number in range(2):  # the first round also packs the platforms' text
        simulator.bytes_up = simulator.bytes_down = 0
        cohort = setup.sampler.cohort(0)
        flow = setup.algorithm.round(replace(setup.hub, round=number), state, cohort)
        spent = seconds(lambda flow=flow, number=number: drive(flow, simulator, number))  # type: ignore[misc]
    return {
        "sentences": len(setup.dataset.train),
        "platforms": 100,
        "active": 10,
        "seconds": round(spent, 3),
        "bytes_up": simulator.bytes_up,
        "bytes_down": simulator.bytes_down,
    }


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
