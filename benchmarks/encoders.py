"""What a pretrained encoder is worth to one holder: score, time and bytes beside a PCNN.

    python -m benchmarks.encoders --data FOLDER --out encoders.jsonl

FOLDER holds the sets that are not built in, as in `benchmarks.defaults`. Every set is trained on as `fedrel run` does
for one holder, with (a) PCNN on GloVe vectors, (b) a frozen MiniLM under a trained layer, and with `--fine-tune` (c)
MiniLM with all its weights, at most eight epochs (hours without a GPU). Runs go one after another, each in a process of
its own on all cores, so that times can be compared; runs that are in the file already are not repeated. Prints the rows
as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.defaults import label_example, score, sets

EXTRACTORS: dict[str, list[str]] = {
    "pcnn, glove": ["extractor.kind=pcnn"],
    "minilm, frozen": ["extractor.kind=minilm"],
    "minilm, fine-tuned": ["extractor.kind=bert", "training.rounds=8", "training.patience=3"],
}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Runs one job: the job, with its scores, and the processor's seconds beside those of the clock."""
    row = score(job)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return row | {"cpu_seconds": used.ru_utime + used.ru_stime, "memory_gb": used.ru_maxrss / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("encoders.jsonl"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--methods", nargs="*", default=["none", "evidence"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--vectors", default="glove")
    parser.add_argument("--fine-tune", action="store_true")
    args = parser.parse_args()
    scratch = args.out.with_suffix(".data")
    scratch.mkdir(parents=True, exist_ok=True)
    there = sets(args.data, scratch, args.vectors)
    found = [name for name in there if name != "world" and (not args.sets or name in args.sets)]
    if "example" in found:
        label_example(scratch)
    kinds = list(EXTRACTORS)[: 3 if args.fine_tune else 2]
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    known = {json.dumps(row["settings"]) for row in rows}
    with args.out.open("a") as file:
        for name, method, seed, kind in product(found, args.methods, range(1, args.seeds + 1), kinds):
            plain = [it for it in there[name] if kind.startswith("pcnn") or not it.startswith("extractor.")]
            settings = [*plain, f"method.name={method}", f"seed={seed}", *EXTRACTORS[kind]]
            if json.dumps(settings) in known:
                continue
            job = {"cell": [name, method, kind], "seed": seed, "settings": settings}
            with ProcessPoolExecutor(1) as pool:
                row = pool.submit(measure, job).result()
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{row['cell']}  test {row['test']:.3f}  {row.get('seconds', 0):.0f} s", file=sys.stderr)
            rows.append(row)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
