"""Rows of numbers as a pandas table. pandas is no dependency of fedrel: it is looked for when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedrel.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def to_frame(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """One line a row, one column a key. Raises UserError without pandas."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UserError("to_pandas needs pandas: pip install pandas") from None
    frame: pd.DataFrame = pandas.DataFrame(list(rows))
    return frame
