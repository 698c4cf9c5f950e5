"""What a task declares about its reply, field by field; `replies.py` says how it is written, and checks replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

DTYPES = {"i64": torch.int64, "i32": torch.int32, "f64": torch.float64, "f32": torch.float32, "f16": torch.float16}
VALUES = ("prob", "logodds", "logprob", "counts", "sums", "cyclic", "places")


@dataclass(frozen=True)
class Form:
    """What a task's reply holds. `plain`: means of its models count every platform alike."""

    fields: Mapping[str, str | Mapping[str, str]]
    or_nothing: bool = False
    plain: bool = False

    def of_kind(self, *kinds: str) -> list[str]:
        """The fields that are declared as one of these kinds, in the order of the kinds."""
        return [field for kind in kinds for field, declared in self.fields.items() if declared == kind]


def array(text: str) -> tuple[torch.dtype, list[str], str]:
    """Type, sizes, and what the values are ("": anything)."""
    dtype, *dims = text.split()
    if dtype not in DTYPES:
        raise TypeError(f"{text!r} begins with none of {[*DTYPES]}")
    return (DTYPES[dtype], dims[:-1], dims[-1]) if dims and dims[-1] in VALUES else (DTYPES[dtype], dims, "")
