"""One run from Python: settings, rounds as they come, and the result."""

import tempfile
from pathlib import Path

from fedrel import config
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution

experiment = config.read(
    None,  # or the path of an experiment.toml
    ["data.size=2000", "partition.platforms=5", "training.rounds=5", "training.fraction=0.6", "extractor.filters=50"],
)
with tempfile.TemporaryDirectory() as folder:
    run = Execution(prepare(experiment), Path(folder) / "run")
    for progress in run.rounds():
        line = progress.line
        print(f"round {line['round']}: loss {line['loss']:.2f}, average precision on dev {line['dev']['ap']:.3f}")
    result = run.finish()  # tests the best round once; the folder now has model/, result.json and metrics.jsonl
    print(f"best round {result['best_round']}: average precision on test {result['test']['ap']:.3f}")
