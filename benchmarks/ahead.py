"""Whether the default method costs anything where there is little to clean.

    python -m benchmarks.ahead --data FOLDER --out ahead.jsonl

FOLDER holds the sets that are not built in (those of `benchmarks.defaults`); missing ones are left out. On every set
and fraction C of 20 platforms (`--platforms`) each of METHODS runs as it comes. The built-in world varies with the
seeds, from `--worlds` on: every seed is a world of its own. `--set` changes a value in all runs. Runs that are in the
file already are not repeated.

Prints as JSON, for each set and C: the test score of every method (`ap`; mean and standard deviation over seeds), which
is best, and how far the default is behind it (mean paired difference, and its standard error).
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.defaults import FRACTIONS, scored, sets
from fedrel.config import DEFAULT_METHOD

METHODS = ("none", "one", "lazy-mil", "evidence")
SETS = ("world", "wiki-ds", "nyt10-part")


def jobs(found: dict[str, list[str]], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name, fraction, seed, method in product(found, args.fractions, range(args.seeds), args.methods):
        settings = [
            *found[name],
            *(f"method.name={method}", f"training.fraction={fraction}", f"seed={seed + 1}"),
            *(f"partition.platforms={args.platforms}", "engine.workers=1", f"engine.device={args.device}"),
            *([f"data.seed={args.worlds + seed}"] if name == "world" else []),
            *args.settings,
        ]
        yield {"cell": [name, fraction], "method": method, "seed": seed, "settings": settings}


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An entry for each set and C."""
    cells: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    for row in rows:
        cells.setdefault(tuple(row["cell"]), {}).setdefault(row["method"], {})[row["seed"]] = row["test"]
    entries = []
    for (name, fraction), methods in cells.items():
        means = {method: statistics.fmean(by_seed.values()) for method, by_seed in methods.items()}
        best = max(means, key=lambda method: means[method])
        ours = methods[DEFAULT_METHOD]
        gaps = [methods[best][seed] - ours[seed] for seed in ours]
        error = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else None
        spread = {method: statistics.stdev(it.values()) if len(it) > 1 else None for method, it in methods.items()}
        entries.append(
            {
                **{"set": name, "C": fraction, "seeds": len(ours)},
                "test": {method: {"mean": means[method], "std": spread[method]} for method in methods},
                **{"best": best, "behind": statistics.fmean(gaps), "error": error},
            }
        )
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("ahead.jsonl"))
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--fractions", nargs="*", type=float, default=FRACTIONS)
    parser.add_argument("--worlds", type=int, default=31, help="data.seed of the first world")
    parser.add_argument("--vectors", default="glove", help="extractor.vectors of the sets that are not built in")
    parser.add_argument("--platforms", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    args = parser.parse_args()
    found = {name: it for name, it in sets(args.data, Path(), args.vectors).items() if name in args.sets}
    print(json.dumps(table(scored(list(jobs(found, args)), args.out, args.workers)), indent=1))


if __name__ == "__main__":
    main()
