"""Memory for work that is done again and again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Rooms:
    """Memory that stays where it is, so that a recorded graph finds it again. It moves only when it must grow."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.moves = 0
        self._rooms: dict[str, Tensor] = {}

    def rows(self, name: str, count: int, *shape: int, dtype: torch.dtype) -> Tensor:
        """(at least count, *shape), for whatever was there before to be overwritten."""
        room = self._rooms.get(name)
        if room is None or len(room) < count or room.shape[1:] != shape or room.dtype != dtype:
            self._rooms.pop(name, None)
            room = torch.zeros(count + count // 4 + 1, *shape, dtype=dtype, device=self.device)
            self._rooms[name] = room
            self.moves += 1
        return room

    def filled(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """The parts below each other."""
        count = sum(len(part) for part in parts)
        room = self.rows(name, count, *parts[0].shape[1:], dtype=parts[0].dtype)
        torch.cat(list(parts), out=room[:count])
        return room
