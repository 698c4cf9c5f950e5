"""The same works trained one by one and stacked, and what became of them compared."""

import pytest
import torch

from fedrel.config import Training
from fedrel.learning import fit as fitting
from fedrel.learning.fit import Fitted, Work, fit_alone
from fedrel.stacked.training import StackedTrainer, train_stacked
from tests.helpers import random_split, shard_of, small_model
from tests.learning.foreign import model_of

CPU = torch.device("cpu")
TRAINING = Training(epochs=2, batch=4, lr=0.1, weight_decay=0.01, dropout=0.3)


def works_of(
    sizes,
    *,
    training=TRAINING,
    denoiser="none",
    dtype=torch.float64,
    chosen=False,
    pull=None,
    loss=None,
    loss_of=None,
    pairs=None,
    classes=None,
    **model,
):
    """One for each number of sentences, all from the same weights. `classes`: of a model that is not fedrel's own, see
    model_of. `loss_of`: a loss made for each platform, from its model and number.
    """
    if classes is None:
        first, weights = small_model(denoiser=denoiser, dtype=dtype, **model)
    else:
        first, weights = model_of(dtype=dtype, **classes)
    works = []
    for number, size in enumerate(sizes):
        split = random_split(size, seed=number, pairs=pairs[number] if pairs else max(size // 3, 1))
        shard = shard_of(split, gap=model.get("window", 3) // 2)
        twin = first.twin()
        twin.load(weights, shard)
        sentences = torch.arange(0, size, 2) if chosen else torch.arange(size)
        own_loss = loss_of(twin, number) if loss_of else loss
        plain = chosen or own_loss is not None or not twin.denoiser.by_bag
        pulled = None if pull is None else pull(weights, number)
        works.append(Work(twin, shard, training, 0.1, 40 + number, sentences, plain, own_loss, pulled))
    return works


def outcome(work: Work, fitted) -> dict[str, torch.Tensor]:
    """What the platform would send."""
    assert isinstance(fitted, Fitted)
    return dict(work.model.trained(work.shard, fitted.sentences, work.pull))


def assert_same(sizes, *, tolerance=1e-9, trainer=None, autograd=False, **settings):
    """Returns what was found stacked, platform by platform. `autograd`: one by one, no compiled step helps."""
    alone, together = works_of(sizes, **settings), works_of(sizes, **settings)
    with pytest.MonkeyPatch.context() as patch:
        if autograd:
            patch.setattr(fitting, "compiled_step_of", lambda *args, **kwargs: None)
        fitted = [fit_alone(work) for work in alone]
    found = train_stacked(together, trainer or StackedTrainer(len(sizes), CPU))
    sent = []
    for one, a, two, b in zip(alone, fitted, together, found, strict=True):
        assert isinstance(b, Fitted), b
        assert (a.steps, a.sentences.tolist()) == (b.steps, b.sentences.tolist())
        assert a.loss == pytest.approx(b.loss, abs=tolerance)
        expected, seen = outcome(one, a), outcome(two, b)
        assert expected.keys() == seen.keys()
        for name in expected:
            torch.testing.assert_close(seen[name], expected[name], rtol=tolerance, atol=tolerance, msg=name)
        sent.append(seen)
    return sent
