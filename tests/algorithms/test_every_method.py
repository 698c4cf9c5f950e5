"""Every method runs on every extractor, from messages to a result."""

import numpy as np
import pytest

from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from tests.algorithms.tiny import cases, experiment

FAST = ("pcnn", "bert")
CASES = [it if it[1] in FAST else pytest.param(*it, marks=pytest.mark.slow) for it in cases()]


@pytest.mark.parametrize(("method", "extractor"), CASES)
def test_two_rounds_of_every_method_on_every_extractor(method, extractor, tmp_path):
    execution = Execution(prepare(experiment(method, extractor)), tmp_path / "run")
    start = {name: value.clone() for name, value in execution.setup.weights.items()}
    rounds = [progress.line for progress in execution.rounds()]
    assert [line["round"] for line in rounds] == [1, 2]
    assert all(line["loss"] is None or np.isfinite(line["loss"]) for line in rounds)
    result = execution.finish()
    assert result["method"] == method
    assert 0 <= result["test"]["ap"] <= 1
    learnt = execution.state["weights"]
    assert any(not learnt[name].equal(value) for name, value in start.items()), "nothing was learnt"
