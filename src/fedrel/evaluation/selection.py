"""How well a method selects sentences, if the truth is known. The truth is used for nothing else."""

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints, Split


def truth_is_known(split: Split) -> bool:
    """Whether the split says of every sentence labelled with a relation if it expresses that relation."""
    labelled = np.asarray(split.labels) > 0
    return bool(labelled.any() and (np.asarray(split.expressed)[labelled] >= 0).all())


def selection_quality(split: Split, selected: Ints) -> dict[str, float] | None:
    """How well the `selected` rows of a split express their relations; None if the truth is not known.

    Among the sentences labelled with a relation: `precision`, the share of the selected ones that express it; `recall`,
    the share of the expressing ones that are selected; `facts`, the share of the facts with an expressing sentence for
    which one is selected; `base_rate`, the precision of selecting all.
    """
    if not truth_is_known(split):
        return None
    labelled = np.asarray(split.labels) > 0
    truth = np.asarray(split.expressed)
    chosen = np.zeros(len(split), dtype=bool)
    chosen[selected] = True
    right = chosen & labelled & (truth == 1)
    expressing = labelled & (truth == 1)
    return {
        "precision": float(right.sum() / max((chosen & labelled).sum(), 1)),
        "recall": float(right.sum() / max(expressing.sum(), 1)),
        "facts": len(_facts(split, right)) / max(len(_facts(split, expressing)), 1),
        "base_rate": float(expressing.sum() / labelled.sum()),
    }


def _facts(split: Split, rows: npt.NDArray[np.bool_]) -> set[tuple[int, int]]:
    return set(zip(split.pairs[rows].tolist(), split.labels[rows].tolist(), strict=True))
