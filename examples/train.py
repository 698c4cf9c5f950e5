"""One run from Python: settings, rounds as they come, and the result."""

import tempfile
from pathlib import Path

import fedrel

experiment = fedrel.Experiment().with_(  # or fedrel.Experiment.load("experiment.toml")
    {
        "data.size": 2000,
        "partition.platforms": 5,
        "training.rounds": 5,
        "training.fraction": 0.6,
        "extractor.filters": 50,
    }
)
with tempfile.TemporaryDirectory() as folder:
    rounds = fedrel.rounds(experiment, out=Path(folder) / "run")
    for done in rounds:
        print(f"round {done.number}: loss {done.loss:.2f}, average precision on dev {done.scores['ap']:.3f}")
    run = rounds.run  # the best round, tested once; the folder now has model/, result.json, metrics.jsonl, report.html
    print(f"best round {run.best_round}: average precision on test {run.scores['ap']:.3f}")
