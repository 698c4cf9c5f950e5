"""What a CUDA graph asks of a recorded step, as far as it shows without a GPU."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedrel.learning.proximal import Pull
from fedrel.stacked.training import StackedTrainer
from tests.stacked.side_by_side import CPU, TRAINING, assert_same
from tests.stacked.test_heads import StackableGated, StackableMaxVector

# Each would wait for the device
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "bincount")


class Watch(TorchDispatchMode):
    """Notes which operations are called, and which of them choose by a mask."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.add(str(function))
        places = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ()
        if any(isinstance(it, torch.Tensor) and it.dtype == torch.bool for it in places):
            self.seen.add("aten.nonzero of a mask")
        return function(*args, **(kwargs or {}))


class Replaying(StackedTrainer):
    """Every step is told that it is the first, as a recorded one is whenever it is replayed."""

    def _step(self, program, step, shape, *, worth):
        assert program.recordable
        with Watch() as watch:
            program.step(0, shape)
        assert not [name for name in watch.seen if any(f"aten.{wait}" in name for wait in WAITS)]
        assert len(watch.seen) > 10, "nothing was watched"


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize(
    "denoiser", ["none", "one", "ave", "att", "att-own", "att-ra", StackableMaxVector, StackableGated]
)
def test_a_step_depends_on_the_device_alone(denoiser, optimizer):
    model = {"denoiser": denoiser} if isinstance(denoiser, str) else {"classes": {"denoiser": denoiser}}
    training = replace(TRAINING, optimizer=optimizer)
    for pull in (None, lambda weights, number: Pull(0.3)):
        assert_same([11, 4, 30, 9], trainer=Replaying(4, CPU), training=training, pull=pull, **model)


def test_the_watch_notices_who_waits():
    with Watch() as watch:
        float(torch.ones(3).sum())
        torch.ones(3)[torch.ones(3) > 0]
    assert all(any(f"aten.{wait}" in name for name in watch.seen) for wait in ("_local_scalar_dense", "nonzero"))
