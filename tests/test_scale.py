"""Size: a world as large as NYT10 fits into little memory."""

import resource
import subprocess
import sys

import pytest

CODE = """
import sys
from pathlib import Path
from fedrel import config
from fedrel.assembly import prepare
from fedrel.execution import Execution
settings = ["data.size=nyt10", "partition.platforms=100", "training.fraction=0.1", "training.rounds=1"]
execution = Execution(prepare(config.read(None, settings)), Path(sys.argv[1]))
for progress in execution.rounds():
    assert progress.line["trained"] > 0
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_world_as_large_as_nyt10_loads_and_trains_a_round_in_4_gb(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "run")], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # kilobytes, the largest child so far
    assert max(peak, before) < 4 * 2**20
