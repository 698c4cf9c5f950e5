"""Who holds which training sentence."""

import numpy as np

from fedrel.bags import Ints
from fedrel.errors import UserError
from fedrel.seeds import derive


def iid(sentences: int, platforms: int, seed: int) -> list[Ints]:
    """Sentences shuffled and dealt out evenly; each platform's rows in ascending order."""
    if platforms > sentences:
        raise UserError(
            f"{platforms} platforms for {sentences} training sentences; "
            "set partition.platforms to at most the number of sentences"
        )
    shuffled = np.random.default_rng(derive(seed, "partition")).permutation(sentences)
    return [np.sort(part) for part in np.array_split(shuffled, platforms)]


def platform_names(platforms: int) -> list[str]:
    """p00 … p19: sorted by name is sorted by number."""
    width = len(str(platforms - 1))
    return [f"p{number:0{width}d}" for number in range(platforms)]
