"""A pool of device buffers that keep their addresses from one training to the next."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class BufferPool:
    """Buffers by name on one device. A buffer keeps its address, so that a recorded CUDA graph finds it again, until
    more is asked of it than it holds; `moves` counts how often that happened.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.moves = 0
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, count: int, *shape: int, dtype: torch.dtype) -> Tensor:
        """(at least count, *shape), holding whatever it held before, or zeros where it is new."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < count or buffer.shape[1:] != shape or buffer.dtype != dtype:
            self._buffers.pop(name, None)
            buffer = torch.zeros(count + count // 4 + 1, *shape, dtype=dtype, device=self.device)
            self._buffers[name] = buffer
            self.moves += 1
        return buffer

    def joined(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """A buffer that begins with the parts one below the other; all have the same shape but for their length."""
        count = sum(len(part) for part in parts)
        buffer = self.take(name, count, *parts[0].shape[1:], dtype=parts[0].dtype)
        torch.cat(list(parts), out=buffer[:count])
        return buffer
