"""`python -m benchmarks.dp --data FOLDER`: score against ε, for both units of `dp.unit`, a line of JSON for each run.

FOLDER holds `wiki-ds` and `nyt-human`, in the OpenNRE format; those that are missing are left out. `--sentences`
cuts their training sets. Test ap of the round that dev prefers; `none` beside it is the same training without noise and
clipping. Word vectors are GloVe's and stay as they are, as in a federation, so there are fewer numbers to hide.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fedrel import config
from fedrel.data.sources import with_metric
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution

REAL = ("wiki-ds", "nyt-human")
EPSILONS = (1.0, 4.0, 8.0, 32.0, 10_000.0)  # the last is as good as no noise: what clipping alone costs
COMMON = [
    "partition.platforms=20",
    "extractor.vectors=glove",
    "extractor.embeddings=frozen",
    "extractor.filters=60",
    "extractor.hide_names=0",
    "training.metric=ap",
    "training.patience=1000",
]
PLAIN = ["method.name=none", "training.epochs=1"]
UNITS = {
    "none": PLAIN,
    # one step of gradient descent a round: momentum makes more of it
    "sentence": ["method.name=fedavgm", "method.momentum=0.9", "training.lr=4.0", "training.lr_decay=0.01"],
    "platform": [*PLAIN, "dp.clip=1.0"],
}


def runs(sets: list[str], units: list[str], epsilons: list[float]) -> Iterator[tuple[str, str, float | None]]:
    for unit, name in itertools.product(units, sets):
        yield from ((name, unit, epsilon) for epsilon in (epsilons if unit != "none" else [None]))


def cut(folder: Path, to: Path, sentences: int) -> Path:
    """The set with the first so many training sentences, and a quarter as many of dev."""
    to.mkdir()
    most = {"train": sentences, "dev": sentences // 4}
    for file in folder.glob("*.jsonl"):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (to / file.name).write_text("".join(lines[: most.get(file.stem)]), encoding="utf-8")
    return to


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dp", description="Test ap against ε.")
    parser.add_argument("--data", type=Path, help="a folder with wiki-ds and nyt-human")
    parser.add_argument("--sets", default="world,wiki-ds,nyt-human")
    parser.add_argument("--units", default="none,sentence,platform")
    parser.add_argument("--epsilons", default=",".join(f"{it:g}" for it in EPSILONS))
    parser.add_argument("--sentences", type=int, default=8000, help="of train")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="any setting, for all runs")
    asked = parser.parse_args()
    epsilons = [float(it) for it in asked.epsilons.split(",")]
    with tempfile.TemporaryDirectory() as name:
        sources = {"world": [f"data.size={asked.sentences}"]}
        for real in REAL if asked.data else ():
            if (asked.data / real).is_dir():
                path = cut(asked.data / real, Path(name) / real, asked.sentences)
                sources[real] = ["data.source=opennre", f"data.path={path}", "data.allow_overlap=true"]
        chosen = [it for it in asked.sets.split(",") if it in sources]
        for number, (source, unit, epsilon) in enumerate(runs(chosen, asked.units.split(","), epsilons)):
            for seed in range(1, asked.seeds + 1):
                noise = [] if epsilon is None else [f"dp.unit={unit}", f"dp.epsilon={epsilon}"]
                settings = [*COMMON, *sources[source], *UNITS[unit], *noise, f"seed={seed}", *asked.set]
                table = config.override({}, [*settings, f"training.rounds={asked.rounds}"])
                begin = time.perf_counter()
                setup = prepare(with_metric(config.parse(table)))
                execution = Execution(setup, Path(name) / f"run-{number}-{seed}")
                for _ in execution.rounds():
                    pass
                result = execution.finish()
                told = {
                    "set": source,
                    "unit": unit,
                    "epsilon": epsilon,
                    "seed": seed,
                    "ap": round(result["test"]["ap"], 4),
                    "dev": round(result["dev"]["ap"], 4),
                    "round": result["best_round"],
                    "noise": result.get("dp", {}).get("noise"),
                    "sentences": len(setup.dataset.train),
                    "seconds": round(time.perf_counter() - begin, 1),
                }
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
