"""`python -m benchmarks.fingerprint`: a digest of the weights that short runs end with, method by extractor, as JSON.

Two versions of the code that compute the same print the same on one machine; on another one, the last digits of sums
may differ. It calls the command line alone, so that `--fedrel PATH` can point it at any other version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

METHODS = {
    "evidence": (),
    "scaffold": (),
    "fedcmc": ("extractor.bias=false",),
    "lazy-mil": ("method.warmup=1",),
    "feded": ("partition.server=0.2",),
    "fedadam": (),
}
EXTRACTORS = {
    "pcnn": ("engine.threads=1",),
    "cnn": ("extractor.activation=relu",),
    "bag": ("training.optimizer=sgd", "training.lr=0.5"),
}
SHORT = (
    "data.size=800",
    "partition.platforms=4",
    "training.rounds=3",
    "training.fraction=0.5",
    "training.epochs=1",
    "extractor.filters=32",
    "engine.device=cpu",
)


def fingerprint(fedrel: Path, method: str, extractor: str) -> str:
    """sha256 of weights.safetensors after a short run, or what the run said where it failed."""
    settings = [
        f"method.name={method}",
        *METHODS[method],
        f"extractor.kind={extractor}",
        *EXTRACTORS[extractor],
        *SHORT,
    ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [str(fedrel), "run", "--out", str(out), *(it for setting in settings for it in ("--set", setting))]
        done = subprocess.run(command, capture_output=True, text=True)
        found = sorted(out.rglob("weights.safetensors"))
        if done.returncode or not found:
            return f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
        return hashlib.sha256(found[0].read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fedrel", type=Path, default=Path(sys.executable).with_name("fedrel"))
    arguments = parser.parse_args()
    digests = {f"{m} {e}": fingerprint(arguments.fedrel, m, e) for m in METHODS for e in EXTRACTORS}
    print(json.dumps(digests, indent=1))


if __name__ == "__main__":
    main()
