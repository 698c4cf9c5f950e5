"""Who judges predictions on a platform: simulated users, who know the truth but do not always tell it, or the people
whose verdicts are in its store. Both implement `fedrel.protocol.round.Judge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedrel.config import Feedback
from fedrel.data.store import Dataset
from fedrel.encoding.shard import Shard
from fedrel.feedback.stored_verdicts import StoredVerdicts
from fedrel.feedback.users import User, draw_users, judge
from fedrel.util.seeds import derive, generator


@dataclass(frozen=True)
class SimulatedUsers:
    """One simulated user per platform, as in the paper."""

    labels: npt.NDArray[np.int32]  # of the split, by row
    user: User
    seed: int

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        truth = torch.from_numpy(np.asarray(self.labels)[shard.rows].astype(np.int64))
        draws = generator(derive(self.seed, "user", purpose), torch.device("cpu"))
        return predicted, judge(predicted, truth, self.user, draws)


def judges_of(
    settings: Feedback, dataset: Dataset, platforms: tuple[str, ...], seed: int
) -> dict[str, SimulatedUsers | StoredVerdicts]:
    """The judge of each platform. A store may hold the verdicts of all platforms; each finds those on its own
    sentences. Raises UserError if the store or the table of users cannot be used.
    """
    if settings.store:
        train = dataset.train
        verdicts = StoredVerdicts.read(Path(settings.store), dataset, train, without=settings.without)
        return dict.fromkeys(platforms, verdicts.divided(settings.hold_out, dataset, train)[0])
    table = Path(settings.table) if settings.table else None
    users = draw_users(
        settings.users, len(platforms), derive(seed, "users"), gamma=settings.gamma, delta=settings.delta, table=table
    )
    return {
        name: SimulatedUsers(dataset.train.labels, user, derive(seed, name))
        for name, user in zip(platforms, users, strict=True)
    }
