"""Training without compiled loops: where numba is missing, and where it is switched off."""

import os
import subprocess
import sys

import pytest

from fedrel.kernels import jit

TRAIN = """
import torch
from fedrel.kernels import jit
from fedrel.config import Training
from fedrel.learning.fit import fit
from tests.helpers import random_split, shard_of, small_model
assert not jit.AVAILABLE
shard = shard_of(random_split(20, seed=3))
model, weights = small_model()
model.load(weights, shard)
assert fit(model, shard, Training(epochs=1), lr=0.1, seed=1).steps == 1
"""
MISSING = "import sys\nsys.modules['numba'] = None  # as if it were not installed\n"


@pytest.mark.parametrize(("code", "more"), [(MISSING + TRAIN, {}), (TRAIN, {"FEDREL_JIT": "0"})])
def test_a_machine_without_compiled_loops_trains(code, more):
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | more)
    assert jit.AVAILABLE, "other tests compare compiled loops with nothing"
