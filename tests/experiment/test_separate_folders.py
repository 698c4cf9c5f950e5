"""Data that never meet: whoever reads their own folder alone holds, bit for bit, what a simulation gives them."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedrel import config
from fedrel.corpus import NA
from fedrel.data import loading
from fedrel.data.loading import world_of
from fedrel.data.partition import COORDINATOR
from fedrel.data.store import Dataset, Ints, fact_bags, fact_name, iterate
from fedrel.encoding.shard import Shard
from fedrel.encoding.vocabulary import Vocabulary, agreed
from fedrel.experiment import assembly
from tests.algorithms.tiny import tiny_bert
from tests.instances import write
from tests.labelled_examples import WRITERS

QUICK = [
    "extractor.filters=8",
    "training.rounds=3",
    "training.epochs=1",
    "training.batch=16",
    "engine.workers=1",
    "privacy.sums=off",  # folders would have secure sums by default, and what they are compared with would not
]
RELATIONS = tuple(reversed(world_of(config.Data(size=600)).relations()[1:]))  # in an order of their own


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The world held by three platforms and a coordinator, as files."""
    made = world_of(config.Data(size=600))
    train = list(made.instances("train"))
    base: Path = tmp_path_factory.mktemp("platforms")
    for number, name in enumerate(("b", "a", "C-1")):
        write(base / name / "train.jsonl", train[number::4])
    write(base / COORDINATOR / "train.jsonl", train[3::4])
    for split in ("dev", "test"):
        write(base / COORDINATOR / f"{split}.jsonl", made.instances(split))
    return base


def simulated(folder: Path, *settings: str) -> assembly.Setup:
    """All of it in one process."""
    data = ["data.source=opennre", f"data.path={folder}", f"data.relations={json.dumps(RELATIONS)}"]
    shared = ["partition.kind=folder", "extractor.vocabulary=public", *QUICK]
    return assembly.prepare(config.read(None, [*data, *shared, *settings]))


def part(folder: Path) -> Dataset:
    """As a party reads it who has nothing but this folder."""
    load = loading.load_public if folder.name == COORDINATOR else loading.load_part
    return load(config.Data(source="opennre"), folder, relations=RELATIONS)


def require_same(one: Shard, other: Shard) -> None:
    """Every field but `rows`, the numbers of the rows in each reader's own store."""
    assert type(one) is type(other)
    for name in (it.name for it in fields(one) if it.name != "rows"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, Tensor):
            assert mine.dtype == theirs.dtype and torch.equal(mine, theirs), name
        else:
            assert np.array_equal(mine, theirs), name


def facts(dataset: Dataset, shard: Shard) -> list[str]:
    return [fact_name(dataset, dataset.train, int(row)) for row in shard.rows[shard.bag_starts[:-1]]]


def all_rows(dataset: Dataset) -> Ints:
    return np.arange(len(dataset.train))


@pytest.mark.parametrize("kind", ["pcnn", "text", "bert"])
def test_every_shard_is_that_of_the_simulation(folder, tmp_path, kind):
    weights = [f"extractor.weights={tiny_bert()}", "extractor.blind=true", "extractor.max_length=32"]
    setup = simulated(folder, f"extractor.kind={kind}", *(weights if kind == "bert" else []))
    assert list(setup.sites) == ["C-1", "a", "b"]
    coordinator = part(folder / COORDINATOR)

    def words(with_vectors: object) -> Vocabulary:
        found = agreed(setup.experiment.extractor, coordinator, all_rows(coordinator))
        assert found is not None
        return found

    for name, whole in [(COORDINATOR, setup.hub), *setup.sites.items()]:
        alone = part(shutil.copytree(folder / name, tmp_path / name))
        encoding, _, start = assembly.make_model(
            setup.experiment, setup.denoiser, len(alone.relations), pairs=alone.has_pairs, words=words
        )
        bags = fact_bags(alone.train, all_rows(alone))
        shard = encoding.pack(alone.train, *bags, encoding.numbers(alone.words))
        require_same(shard, whole.shard)
        assert facts(alone, shard) == facts(setup.dataset, whole.shard)
        assert alone.relations == setup.dataset.relations == [NA, *RELATIONS]
        assert start.keys() == setup.weights.keys()
        assert all(torch.equal(value, setup.weights[key]) for key, value in start.items())
    for split in ("dev", "test"):
        bags = setup.evaluation.bags(getattr(coordinator, split))
        judged = encoding.pack(getattr(coordinator, split), *bags, encoding.numbers(coordinator.words))
        require_same(judged, setup.shard_of(getattr(setup.dataset, split)))


@pytest.mark.parametrize(
    ("method", "division"),
    [
        ("lazy-mil", ["partition.kind=dirichlet", "partition.alpha=0.2", "method.warmup=1"]),
        ("fedavg", ["partition.kind=source"]),
        ("feded", ["partition.server=0.2"]),
    ],
)
def test_a_run_on_what_was_written_ends_with_the_same_weights(fedrel, tmp_path, monkeypatch, method, division):
    settings = ["data.size=600", "partition.platforms=3", "extractor.vocabulary=public", *QUICK, *division]
    asked = [part for setting in [f"method.name={method}", *settings] for part in ("--set", setting)]
    assert fedrel("run", *asked, "--out", tmp_path / "one").code == 0
    assert fedrel("data", "partition", *asked, "--out", tmp_path / "parts").code == 0
    moved = shutil.move(tmp_path / "parts", tmp_path / "elsewhere")
    monkeypatch.chdir("/")
    assert fedrel("run", moved / "experiment.toml", "--out", tmp_path / "other").code == 0
    one, other = (contents_of_model(tmp_path / run) for run in ("one", "other"))
    assert one == other
    scores = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("one", "other")]
    scores[1]["test"].pop("ap_human")  # of sentences in files it is not known that nobody judged them
    for key in ("dev", "test", "best_round", "selection", "bytes"):
        assert scores[0][key] == scores[1][key]


def contents_of_model(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "model").iterdir()}


def test_plain_texts_are_written_and_trained_on_alike(fedrel, tmp_path):
    for split, count in (("train", 60), ("dev", 12), ("test", 12)):
        rows = [f"{'good' if n % 2 else 'bad'} film, it's {split} {n}\t{n % 2}\n" for n in range(count)]
        write_text(tmp_path / "texts" / f"{split}.tsv", "".join(rows))
    settings = [
        *("data.source=classification", f"data.path={tmp_path / 'texts'}", "extractor.kind=text", "method.name=fedavg"),
        *("partition.platforms=3", "extractor.vocabulary=public", *QUICK),
    ]
    asked = [part for setting in settings for part in ("--set", setting)]
    assert fedrel("data", "partition", *asked, "--out", tmp_path / "parts").code == 0
    assert fedrel("run", *asked, "--out", tmp_path / "one").code == 0
    assert fedrel("run", tmp_path / "parts" / "experiment.toml", "--out", tmp_path / "other").code == 0
    assert contents_of_model(tmp_path / "one") == contents_of_model(tmp_path / "other")


@pytest.mark.parametrize("source", WRITERS)
def test_the_sentences_of_every_format_can_be_written_and_read_again(fedrel, tmp_path, source):
    (tmp_path / "d").mkdir()
    WRITERS[source](tmp_path / "d", 4)
    settings = [f"data.source={source}", f"data.path={tmp_path / 'd'}", "partition.platforms=1"]
    asked = [part for setting in settings for part in ("--set", setting)]
    assert fedrel("data", "partition", *asked, "--out", tmp_path / "parts").code == 0
    before = loading.load(config.read(None, settings).data)
    after = loading.load(config.read(tmp_path / "parts" / "experiment.toml").data)
    assert before.relations == after.relations
    for split in ("train", "dev", "test"):
        assert list(iterate(before, getattr(before, split))) == list(iterate(after, getattr(after, split)))


def write_text(path: Path, content: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
