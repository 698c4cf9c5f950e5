"""A file of which little is read at once, for parsers that would read as much as a file from a stranger asks for."""

from __future__ import annotations

import io
from pathlib import Path

from fedrel.errors import UserError


class BoundedFile(io.BufferedReader):
    """A .zip file of which no more is read at once than the list of its members, which has to be in memory, should
    take. UserError for a longer one.
    """

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path.open("rb", buffering=0))
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(self._most + 1 if size is None or size < 0 else min(size, self._most + 1))
        if len(piece) > self._most:
            raise UserError(f"{self.name}: the list of the files in it is too long; unpack it yourself")
        return piece
