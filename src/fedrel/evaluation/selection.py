"""How well a method selects sentences, as far as the truth is known: of all sentences of a synthetic world, of those
that people judged elsewhere. It is used for nothing else.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints, Split
from fedrel.evaluation.context import share_interval


def truth_is_known(split: Split) -> bool:
    """Whether the split says of any sentence labelled with a relation if it expresses that relation."""
    return bool(_judged(split).any())


def _judged(split: Split) -> npt.NDArray[np.bool_]:
    """(S,) the sentences labelled with a relation of which it is known whether they express it."""
    return (np.asarray(split.labels) > 0) & (np.asarray(split.expressed) >= 0)


def selection_quality(split: Split, selected: Ints) -> dict[str, Any] | None:
    """How well the `selected` rows of a split express their relations; None if the truth is not known of any.

    Among the sentences labelled with a relation of which it is known: `precision`, the share of the selected ones that
    express it, and its 95 % `interval` (Clopper and Pearson); `recall`, the share of the expressing ones that are
    selected; `facts`, the share of the facts with an expressing sentence for which one is selected; `base_rate`, the
    precision of selecting all; `judged`, how many there are, and `selected`, how many of them are; `stated`, the share
    of their facts that any of them expresses.
    """
    labelled = _judged(split)
    if not labelled.any():
        return None
    truth = np.asarray(split.expressed)
    chosen = np.zeros(len(split), dtype=bool)
    chosen[selected] = True
    right = chosen & labelled & (truth == 1)
    expressing = labelled & (truth == 1)
    picked = int((chosen & labelled).sum())
    return {
        "precision": float(right.sum() / max(picked, 1)),
        "interval": list(share_interval(int(right.sum()), picked)),
        "recall": float(right.sum() / max(expressing.sum(), 1)),
        "facts": len(_facts(split, right)) / max(len(_facts(split, expressing)), 1),
        "base_rate": float(expressing.sum() / labelled.sum()),
        "judged": int(labelled.sum()),
        "selected": picked,
        "stated": len(_facts(split, expressing)) / len(_facts(split, labelled)),
    }


def _facts(split: Split, rows: npt.NDArray[np.bool_]) -> set[tuple[int, int]]:
    return set(zip(split.pairs[rows].tolist(), split.labels[rows].tolist(), strict=True))
