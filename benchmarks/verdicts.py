"""What people's verdicts do to a model: reviewed, improved, compared.

    python -m benchmarks.verdicts [--data FOLDER] [--work FOLDER] [--seeds 1,2,3,4,5] [--order random]

A model learns from a small first part of the text, on five platforms. Then more text comes in, of which nobody tells
the new model the labels: simulated people judge 500 of the first model's predictions there, a hundred on each platform,
and `fedrel.improve` does the rest. `docs/example` is always there; FOLDER holds `wiki-ds` (see benchmarks/defaults.py).
The truth is, for the example, what its sentences were written to say, and for wiki-ds the labels. Rows: people who are
right nine times in ten; the same training with verdicts that count for nothing (γ = δ = .5), for comparison; people who
say the opposite; and people who say "right" to everything.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

import fedrel
from fedrel.config import Data
from fedrel.corpus import world_text
from fedrel.corpus.world import World
from fedrel.corpus.world_phrases import phrases
from fedrel.data import loading
from fedrel.data.store import Dataset
from fedrel.experiment.saved import load_model
from fedrel.feedback.store import RIGHT, WRONG, Store
from fedrel.feedback.users import User, judge
from fedrel.review import questions
from fedrel.util.seeds import derive, generator

EXAMPLE = Path(__file__).parents[1] / "docs" / "example"
PLATFORMS, VERDICTS, ROUNDS = 5, 500, 30
PEOPLE = {"good": User(0.9, 0.9), "opposite": User(0.1, 0.1), "always right": User(1.0, 0.0)}
NOTHING = "for nothing"
COUNT_FOR_NOTHING = {"method.gamma": 0.5, "method.delta": 0.5}
Truth = Callable[[Dataset, int], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that holds wiki-ds")
    parser.add_argument("--work", type=Path, default=Path("verdicts-benchmark"), help="for data, models and results")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--sets", default="example,wiki")
    parser.add_argument("--order", default="random", choices=("random", "uncertain"))
    parser.add_argument("--people", default=",".join([*PEOPLE, NOTHING]), help="rows of the table")
    asked = parser.parse_args()
    asked.work.mkdir(exist_ok=True)
    results = asked.work / f"results-{asked.order}.jsonl"
    for name in asked.sets.split(","):
        if name == "wiki" and asked.data is None:
            continue
        make = example if name == "example" else (lambda folder: wiki(asked.data / "wiki-ds", folder))
        truth = make(asked.work)
        for seed in (int(it) for it in asked.seeds.split(",")):
            for line in of_seed(asked.work, name, seed, truth, asked.order, asked.people.split(",")):
                with results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)
    show([json.loads(line) for line in results.read_text().splitlines()])


def of_seed(
    work: Path, name: str, seed: int, truth: Truth, order: str, rows: Iterable[str]
) -> Iterator[dict[str, object]]:
    first, new = work / f"{name}-{seed}", work / f"{name}-new"
    if not (first / "result.json").exists():
        chosen = {"data.source": "opennre", "data.path": work / name, "partition.platforms": PLATFORMS}
        fedrel.run(fedrel.Experiment().with_({**chosen, "training.rounds": ROUNDS, "seed": seed}), out=first)
    before = fedrel.Run(first).scores["ap"]
    for row in rows:
        people = "good" if row == NOTHING else row
        store = work / f"{name}-{seed}-{order}-{people.replace(' ', '-')}.sqlite"
        if not store.exists():
            review(first, new, store, PEOPLE[people], truth, order, seed)
        out = work / f"{name}-{seed}-{order}-{row.replace(' ', '-')}"
        done = fedrel.improve(first, store, data=new, out=out, changes=COUNT_FOR_NOTHING if row == NOTHING else {})
        trained = fedrel.Run(out).scores["ap"] if done.new else before
        after = trained if done.accepted else before
        line = {"set": name, "seed": seed, "people": row, "before": before, "after": after, "trained": trained}
        told = {key: vars(it) if it else None for key, it in (("dev", done.dev), ("held_out", done.held_out))}
        yield line | told | {"accepted": done.accepted, "why": done.why, "without": done.without}


def review(model: Path, data: Path, store: Path, user: User, truth: Truth, order: str, seed: int) -> None:
    """The verdicts of simulated people, a fifth of them from each, through the store that the page writes."""
    dataset = loading.load(Data(source="opennre", path=str(data)))
    shown = questions.of_dataset(dataset, load_model(model), questions.digest_of(model))
    random = order == "random"  # what is asked at random has a prediction that is surer than none
    with Store.open(store) as verdicts:
        for person in range(PLATFORMS):
            name = f"reviewer {person + 1}"
            mine = [it for it in shown.items if it.row % PLATFORMS == person and (it.stated or not random)]
            mine.sort(key=lambda it: derive(seed, name, it.key) if random else it.margin)
            del mine[VERDICTS // PLATFORMS :]
            right = torch.tensor([int(truth(dataset, it.row) == it.relation) for it in mine])
            draws = generator(derive(seed, name), torch.device("cpu"))
            said = judge(torch.ones(len(mine)), right, user, draws)
            for it, verdict in zip(mine, said.tolist(), strict=True):
                number = verdicts.show(it.key, it.relation, it.confidence, shown.digest)
                verdicts.give(number, name, RIGHT if verdict else WRONG)


def example(work: Path) -> Truth:
    """Every sixth document is the first part."""
    if not (work / "example").exists():
        labelled = fedrel.label(kb=EXAMPLE / "kb", text=EXAMPLE / "text", out=work / "labelled").folder
        rows = [json.loads(line) for line in (labelled / "train.jsonl").read_text().splitlines()]
        first = set(sorted({it["source"] for it in rows})[::6])
        others = {split: (labelled / f"{split}.jsonl").read_text() for split in ("dev", "test")}
        for folder, wanted in (("example", True), ("example-new", False)):
            train = [json.dumps(it) + "\n" for it in rows if (it["source"] in first) == wanted]
            write(work / folder, {"train": "".join(train), **others})
    symmetric = {it.name for it in phrases().relations if it.symmetric}
    world = World(noise=0.3)  # which docs/example was written from
    known = {tuple(line.split("\t")[:3]) for line in (EXAMPLE / "truth.tsv").read_text().splitlines()}
    assert known == {it for split in ("train", "dev", "test") for both in world_text.facts(world, split) for it in both}
    stated: dict[str, set[tuple[str, str, str]]] = {}
    for split in ("train", "dev"):
        for it in world.instances(split):
            if it.expressed:
                facts = stated.setdefault("".join(it.tokens), set())
                facts.add((it.head.id, it.relation, it.tail.id))
                facts |= {(it.tail.id, it.relation, it.head.id)} if it.relation in symmetric else set()

    def truth(dataset: Dataset, row: int) -> str:
        train = dataset.train
        head, tail = (dataset.entities[number] for number in train.pair_entities[train.pairs[row]])
        facts = stated.get("".join(dataset.sentence(train, row)), ())
        return next((relation for one, relation, other in facts if (one, other) == (head, tail)), "NA")

    return truth


def wiki(source: Path, work: Path) -> Truth:
    """A hundredth of the sentences is the first part, a twentieth is what comes in later."""
    if not (work / "wiki").exists():
        train, dev, test = (
            (source / f"{split}.jsonl").read_text().splitlines(keepends=True) for split in ("train", "dev", "test")
        )
        for folder, part in (("wiki", train[::100]), ("wiki-new", train[10::20])):
            write(work / folder, {"train": "".join(part), "dev": "".join(dev), "test": "".join(test)})
    return lambda dataset, row: dataset.relations[dataset.train.labels[row]]


def write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir()
    for split, text in files.items():
        (folder / f"{split}.jsonl").write_text(text)


def show(lines: list[dict[str, object]]) -> None:
    """A row for each kind of people."""
    print("set      people        seeds  before          after           gain: mean ± std, least  new model used")
    for name, people in dict.fromkeys((it["set"], it["people"]) for it in lines):
        rows = [it for it in lines if (it["set"], it["people"]) == (name, people)]
        before, after = (np.array([it[key] for it in rows], np.float64) for key in ("before", "after"))
        gain = after - before
        lists = (before.tolist(), after.tolist(), gain.tolist())
        spread = [statistics.stdev(it) if len(it) > 1 else 0.0 for it in lists]
        used = sum(bool(it["accepted"]) for it in rows)
        print(
            f"{name:8} {people:13} {len(rows):5}  {before.mean():.3f} ± {spread[0]:.3f}   "
            f"{after.mean():.3f} ± {spread[1]:.3f}   {gain.mean():+.3f} ± {spread[2]:.3f}, {gain.min():+.3f}      "
            f"{used} of {len(rows)}"
        )


if __name__ == "__main__":
    main()
