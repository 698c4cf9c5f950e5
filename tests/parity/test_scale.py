"""Size: a world as large as NYT10, and thousands of platforms, fit into little memory."""

import json
import subprocess
import sys

import pytest

CODE = """
import sys
from pathlib import Path
from fedrel import config
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
settings = ["data.size=nyt10", "partition.platforms=100", "training.fraction=0.1", "training.rounds=1"]
execution = Execution(prepare(config.read(None, settings)), Path(sys.argv[1]))
for progress in execution.rounds():
    assert progress.line["trained"] > 0
[peak] = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(peak)  # kilobytes; what getrusage says is also that of whoever started the process
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory was used at most")
def test_a_world_as_large_as_nyt10_loads_and_trains_a_round_in_4_gb(tmp_path):
    command = [sys.executable, "-c", CODE, str(tmp_path / "run")]
    peak = int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])
    assert peak < 4 * 2**20


def scale(*arguments):
    command = [sys.executable, "-m", "benchmarks.scale", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
def test_the_benchmark_says_what_platforms_and_sentences_cost():
    found = scale(
        *("--size", 600, "--platforms", 100, "--fractions", 0.2, "--smallest", 600, "--times", 1),
        *("--set", "extractor.filters=8", "--set", "training.rounds=2"),
    )
    [row] = found["platforms"]
    assert (row["platforms"], row["platforms_of_cohort"], row["sentences"]) == (100, 20, 600)
    assert 0 < row["resident_megabytes"] <= row["peak_megabytes"] + 1
    assert found["sentences"][0]["sentences_of_cohort_over_first"] == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_times_as_many_platforms_take_no_more_memory():
    """All of them are active: three thousand replies of 300 kB would take a gigabyte."""
    few, many = scale(
        *("--size", 30_000, "--platforms", 30, 3_000, "--fractions", 1, "--times"),
        *("--set", "training.rounds=1"),
    )["platforms"]
    assert many["megabytes_up"] > 500
    assert many["peak_megabytes"] < 1.5 * few["peak_megabytes"]
