"""What methods are worth on people's labels, beside what the knowledge base says of them.

    python -m benchmarks.human --data FOLDER --out human.jsonl

FOLDER is a set of distant supervision in the OpenNRE format whose test was labelled by people, sentence by sentence;
sentences of train may say whether they express their relation (`expressed`). 20 platforms (`--platforms`), PCNN with
GloVe vectors (`--extractor`), every row of ROWS, C of 1 and .1, five seeds. Runs that are in the file already are not
repeated. Prints the table as JSON: mean and standard deviation of `ap_human` over seeds, how far a row is ahead of the
first two rows (mean paired difference, its standard error over seeds and its interval over test's sentences), dev by
distant labels, and the selection among judged sentences.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults import scored

ROWS: dict[str, list[str]] = {
    "none": ["method.name=none"],
    "evidence, names shown": ["method.name=evidence", "extractor.hide_names=0"],
    "evidence": ["method.name=evidence"],
    "none, names hidden": ["method.name=none", "extractor.hide_names=0.3"],
    "one": ["method.name=one"],
    "lazy-mil": ["method.name=lazy-mil"],
}
FRACTIONS = (1.0, 0.1)
EXTRACTORS: dict[str, list[str]] = {
    "pcnn": ["extractor.vectors=glove"],
    "minilm": ["extractor.kind=minilm"],  # frozen
    "minilm-tuned": ["extractor.kind=bert", "training.epochs=2", "training.rounds=9"],
}


def jobs(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for row, fraction, seed in product(args.rows, args.fractions, range(1, args.seeds + 1)):
        settings = [
            *("data.source=opennre", f"data.path={args.data}", "data.human=test"),
            *(*EXTRACTORS[args.extractor], f"partition.platforms={args.platforms}"),
            *(f"training.fraction={fraction}", f"seed={seed}", "engine.workers=1", f"engine.device={args.device}"),
            *ROWS[row],
        ]
        yield {"row": row, "fraction": fraction, "seed": seed, "settings": settings}


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An entry for every row and fraction that has runs."""
    found: dict[tuple[str, float], dict[int, dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["row"], run["fraction"]), {})[run["seed"]] = run
    entries = []
    for (row, fraction), by_seed in found.items():
        human = {seed: run["human"]["ap_human"] for seed, run in by_seed.items()}
        entry: dict[str, Any] = {"row": row, "C": fraction, "seeds": len(by_seed), "ap_human": _mean(human.values())}
        for reference in list(ROWS)[:2]:
            theirs = found.get((reference, fraction), {})
            gaps = [value - theirs[seed]["human"]["ap_human"] for seed, value in human.items() if seed in theirs]
            if reference != row and len(gaps) > 1:
                ahead = _mean(gaps)
                pairs = [(run, theirs[seed]) for seed, run in by_seed.items() if seed in theirs]
                entry[f"ahead of {reference}"] = {
                    **{"mean": ahead["mean"], "error": ahead["std"] / len(gaps) ** 0.5},
                    "interval": _interval(pairs),
                }
        entry["dev"] = _mean(run["dev"] for run in by_seed.values())
        chosen = [run["selection"] for run in by_seed.values() if run["selection"]]
        for name in ("precision", "recall", "base_rate", "stated"):
            if chosen:
                entry[name] = _mean(it[name] for it in chosen)["mean"]
        entries.append(entry)
    return entries


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Every run as a point: its dev score by distant labels, and its score by people; filled where all are active."""
    from fedrel.report.drawing import COLOURS, ON_WHITE, drawing, save

    with drawing(331, width=560, theme=ON_WHITE) as figure:
        axes = figure.add_subplot()
        for number, row in enumerate(dict.fromkeys(run["row"] for run in runs)):
            for fraction, marker in zip(FRACTIONS, "os", strict=True):
                mine = [run for run in runs if (run["row"], run["fraction"]) == (row, fraction)]
                places = [run["dev"] for run in mine], [run["human"]["ap_human"] for run in mine]
                fill = COLOURS[number] if fraction == 1 else "none"
                label = f"{row}, C = {fraction:g}"
                axes.scatter(*places, s=34, marker=marker, facecolors=fill, edgecolors=COLOURS[number], label=label)
        axes.set(xlabel="dev ap, distant labels", ylabel="ap_human, people's labels")
        figure.legend(loc="outside right upper")
        save(figure, path)


def _interval(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[float]:
    """The 95 % interval, over draws of test's sentences, of the mean difference between runs."""
    gaps = [np.array(ours["human_draws"]) - np.array(theirs["human_draws"]) for ours, theirs in pairs]
    low, high = np.nanpercentile(np.mean(gaps, axis=0), (2.5, 97.5))
    return [float(low), float(high)]


def _mean(values: Any) -> dict[str, float]:
    found = list(values)
    return {"mean": statistics.fmean(found), "std": statistics.stdev(found) if len(found) > 1 else 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("human.jsonl"))
    parser.add_argument("--figure", type=Path, help="a PNG of all runs: dev by distant labels, score by people")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--fractions", nargs="*", type=float, default=FRACTIONS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--extractor", default="pcnn", choices=list(EXTRACTORS))
    parser.add_argument("--platforms", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    runs = scored(list(jobs(args)), args.out, args.workers)
    if args.figure:
        draw(runs, args.figure)
    print(json.dumps(table(runs), indent=1))


if __name__ == "__main__":
    main()
