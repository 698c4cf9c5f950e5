"""How near the default learning rate comes to the best of five, on several sets.

    python -m benchmarks.defaults --data FOLDER --out defaults.jsonl

FOLDER holds the sets that are not built in (`wiki-ds`, `nyt10-part`, `nyt-human`, `chemprot`); those that are missing
are left out. Every cell is a set, a method and a fraction C of 20 platforms (`--platforms`). It is run as it comes and
with each of five learning rates; the best of these is chosen on dev, and both are compared on test. Runs that are in
the file already are not repeated. Prints the table as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
METHODS = ("none", "one", "evidence")
FRACTIONS = (1.0, 0.1)
SOURCES = {"wiki-ds": "opennre", "nyt10-part": "nyt10", "nyt-human": "opennre", "chemprot": "chemprot"}
EXAMPLE = Path(__file__).parent.parent / "docs" / "example"


def sets(folder: Path | None, scratch: Path, vectors: str) -> dict[str, list[str]]:
    """The settings of every set that is there."""
    found: dict[str, list[str]] = {"world": []}
    for name, source in SOURCES.items():
        if folder and (folder / name).is_dir():
            found[name] = [f"data.source={source}", f"data.path={folder / name}", "data.allow_overlap=true"]
    found["example"] = ["data.source=opennre", f"data.path={scratch / 'example'}"]
    return {name: [*it, *([f"extractor.vectors={vectors}"] if it else [])] for name, it in found.items()}


def label_example(scratch: Path) -> None:
    if not (scratch / "example").is_dir():
        where = ["--kb", str(EXAMPLE / "kb"), "--text", str(EXAMPLE / "text"), "--out", str(scratch / "example")]
        subprocess.run([sys.executable, "-m", "fedrel.cli", "label", *where], check=True, stdout=subprocess.DEVNULL)


def score(job: dict[str, Any]) -> dict[str, Any]:
    """Runs one job: the job, with its scores."""
    from fedrel import config
    from fedrel.errors import DivergedError
    from fedrel.evaluation.context import ap_draws
    from fedrel.experiment.assembly import prepare
    from fedrel.experiment.execution import BEST, Execution
    from fedrel.experiment.judged import ranked_by_people
    from fedrel.protocol import checkpoint

    experiment = config.read(None, job["settings"])
    with tempfile.TemporaryDirectory() as folder:
        try:
            setup = prepare(experiment)
            execution = Execution(setup, Path(folder) / "run")
            for _ in execution.rounds():
                pass
            result = execution.finish()
            best = checkpoint.load_weights(Path(folder) / "run" / "checkpoint" / BEST)
            people = ranked_by_people(setup, best) if experiment.data.human else None
        except DivergedError as error:
            return job | {"diverged": str(error), "dev": 0.0, "test": 0.0}
    metric = result["metric"]
    return job | {
        "metric": metric,
        "lr": setup.experiment.training.lr,
        "dev": result["dev"][metric],
        "test": result["test"][metric],
        "interval": result["intervals"]["test"],
        "human": result["human"],
        "human_draws": None if people is None else ap_draws(people.scores, people.facts).round(5).tolist(),
        "selection": result["selection"],
        "rounds": result["rounds"],
        "seconds": result["seconds"]["total"],
        "up": result["bytes"]["up"],
    }


def scored(
    wanted: list[dict[str, Any]],
    out: Path,
    workers: int,
    run: Callable[[dict[str, Any]], dict[str, Any]] = score,
) -> list[dict[str, Any]]:
    """The jobs with what `run` made of them, in their order; those that a file has already are not run again, and
    others are added to it as they finish.
    """
    known = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {json.dumps(row["settings"]): row for row in known}
    todo = [job for job in wanted if json.dumps(job["settings"]) not in done]
    with ProcessPoolExecutor(workers) as pool, out.open("a") as file:
        running = [pool.submit(run, job) for job in todo]
        for number, finished in enumerate(as_completed(running), 1):
            row = finished.result()
            file.write(json.dumps(row) + "\n")
            file.flush()
            done[json.dumps(row["settings"])] = row
            told = "  ".join(f"{key} {row[key]}" for key in row if key in ("cell", "row", "fraction", "seed", "rate"))
            print(f"{number}/{len(todo)}  {told}", file=sys.stderr)
    return [done[json.dumps(job["settings"])] for job in wanted]


def jobs(found: dict[str, list[str]], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name, method, fraction, seed in product(found, args.methods, args.fractions, range(1, args.seeds + 1)):
        common = [
            *found[name],
            *(f"method.name={method}", f"training.fraction={fraction}", f"seed={seed}"),
            *(f"partition.platforms={args.platforms}", "engine.workers=1", f"engine.device={args.device}"),
        ]
        for rate in (None, *args.rates):
            settings = [*common, *([] if rate is None else [f"training.lr={rate}"])]
            yield {"cell": [name, method, fraction], "seed": seed, "rate": rate, "settings": settings}


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each cell: the default's scores, those of the rate that dev prefers, and the difference on test, means
    over seeds.
    """
    cells: dict[tuple[Any, ...], dict[Any, list[dict[str, Any]]]] = {}
    for row in rows:
        cells.setdefault(tuple(row["cell"]), {}).setdefault(row["rate"], []).append(row)

    def mean(of: list[dict[str, Any]], split: str) -> float:
        return float(sum(row[split] for row in of) / len(of))

    done = []
    for (name, method, fraction), by_rate in cells.items():
        rates = [rate for rate in by_rate if rate is not None]
        if None not in by_rate or not rates:
            continue
        default, best = by_rate[None], max(rates, key=lambda rate: mean(by_rate[rate], "dev"))
        done.append(
            {
                **{"set": name, "method": method, "C": fraction, "seeds": len(default)},
                **{"lr": default[0].get("lr"), "dev": mean(default, "dev"), "test": mean(default, "test")},
                **{"best_lr": best, "best_dev": mean(by_rate[best], "dev"), "best_test": mean(by_rate[best], "test")},
                "behind_on_dev": mean(by_rate[best], "dev") - mean(default, "dev"),
                "behind_on_test": mean(by_rate[best], "test") - mean(default, "test"),
            }
        )
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("defaults.jsonl"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--fractions", nargs="*", type=float, default=FRACTIONS)
    parser.add_argument("--rates", nargs="*", type=float, default=RATES)
    parser.add_argument("--vectors", default="glove", help="extractor.vectors of the sets that are not built in")
    parser.add_argument("--platforms", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    scratch = args.out.with_suffix(".data")
    scratch.mkdir(parents=True, exist_ok=True)
    found = {
        name: it for name, it in sets(args.data, scratch, args.vectors).items() if not args.sets or name in args.sets
    }
    if "example" in found:
        label_example(scratch)
    print(json.dumps(table(scored(list(jobs(found, args)), args.out, args.workers)), indent=1))


if __name__ == "__main__":
    main()
