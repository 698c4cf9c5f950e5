"""How many pairs without a relation each one in the data stands for.

`fedrel label` keeps a few of them a sentence, and `fedrel extract` meets them all: confidences that were fitted on what
was kept would be far too high there. `summary.json`, which `label` writes beside the splits, says how many it left out.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedrel.config import Data

SUMMARY, KEY = "summary.json", "na_weight"
_MOST = 10_000.0


def na_weight(data: Data) -> float:
    """At least 1, which it is where nobody says anything else."""
    try:
        found = json.loads((Path(data.path) / SUMMARY).read_text(encoding="utf-8"))[KEY] if data.path else 1.0
        return min(max(1.0, float(found)), _MOST)  # in this order, NaN is 1
    except (OSError, ValueError, KeyError, TypeError):
        return 1.0
