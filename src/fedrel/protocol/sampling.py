"""Which platforms take part in a round."""

import random
from dataclasses import dataclass

from fedrel.util.seeds import derive


@dataclass(frozen=True)
class Sampler:
    """max(C·K, 1) platforms a round, drawn from (seed, round) alone, in order of their names."""

    platforms: tuple[str, ...]
    fraction: float
    seed: int

    def cohort(self, round_: int) -> list[str]:
        size = max(round(self.fraction * len(self.platforms)), 1)
        draw = random.Random(derive(self.seed, "cohort", round_))
        return sorted(draw.sample(sorted(self.platforms), size))
