"""How good the best sentence for a fact is, over all platforms, where the coordinator knows sums alone.

z is cut into steps, and facts are hashed to slots (`protocol/slots.py`): of the sum over platforms the coordinator
reads the highest step of every slot, and sends that back, one byte a slot. Facts that share a slot can only make it
look better than it is, so the best step of a fact is the least over its tables. Slots are always as many, and always
in the same places: neither the number of facts nor their order leaves a platform.

How many slots that are follows from the sums as well. Somebody has a fact in a share s of them, which tells about how
many facts there are together, -n ln(1 - s): where n is less than four times that, the next table is larger.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.protocol import Record, Site, named_in, number_in
from fedrel.protocol.slots import TABLES, highest, random_up_to, slots_of, words_for

LOWEST, HIGHEST = -12.0, 12.0  # z beyond these counts as these
FEWEST, MOST = 1024, 2**16  # slots, where nobody says how many
_LARGEST = 2**22  # that a platform makes, whoever asks for it
_FOR_A_FACT = 4  # slots


@dataclass(frozen=True)
class SlotTable:
    """`step`: of z. `fixed`: slots of a table, if they are always so many; 0: as many as the facts call for."""

    step: float
    fixed: int = 0

    @property
    def steps(self) -> int:
        return int((HIGHEST - LOWEST) // self.step) + 1

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"tables": TABLES, "words": words_for(self.steps)}

    def empty(self) -> Tensor:
        """(tables, slots) before anybody has shown a fact."""
        return self.emptied(self.fixed or FEWEST)

    @staticmethod
    def emptied(slots: int) -> Tensor:
        return torch.zeros(TABLES, slots, dtype=torch.uint8)

    def reached(self, z: Tensor) -> Tensor:
        """(n,) the step of each, counted from 1."""
        return ((z - LOWEST) / self.step).floor().long().clamp(0, self.steps - 1) + 1

    def z_of(self, reached: Tensor) -> Tensor:
        """The lower end of a step; -inf of the first, which has none, and of 0, which nobody reaches."""
        return torch.where(reached > 1, LOWEST + (reached - 1) * self.step, -torch.inf)

    def shown(self, site: Site, keys: Tensor, reached: Tensor, window: int, slots: int) -> tuple[Tensor, Named]:
        """(tables, n) where the facts with these keys lie, and the numbers that show the step of each (n,)."""
        slot = slots_of(keys, window, slots)
        return slot, Named(random=random_up_to(slot, reached, slots, self.steps, site.stream("slots")))

    def highest(self, total: Named) -> Tensor:
        """(tables, slots) from the sum of what was shown."""
        return highest(total["random"], self.steps)

    def readable(self, total: Named, window: int) -> tuple[Tensor, Tensor]:
        """What anybody reads from a sum: the slots of the first table that somebody has something in, (n,) numbers that
        are others in every window, and how good the best of it is (n,).
        """
        reached = self.highest(total)[0]
        (taken,) = reached.nonzero(as_tuple=True)
        return taken + len(reached) * window, self.z_of(reached[taken].long()).clamp(min=LOWEST)

    @staticmethod
    def best_of(reached: Tensor, slot: Tensor) -> Tensor:
        """(n,) the best step of facts in these slots (tables, n), from those of all slots."""
        return reached.long().gather(1, slot).amin(0)

    def slots_for(self, reached: Tensor) -> int:
        """How many slots the next table has, from who has something in which of these; never fewer."""
        slots = reached.shape[1]
        if self.fixed:
            return slots
        taken = min(float((reached > 0).double().mean()), 1 - 1 / (2 * slots))
        facts = -slots * math.log1p(-taken)
        return max(slots, min(1 << math.ceil(math.log2(max(_FOR_A_FACT * facts, 1))), MOST))


def slots_in(message: Record | Mapping[str, Named | float]) -> int:
    """How many slots a coordinator asks for. Raises UserError for a number that is none."""
    slots = number_in(message, "slots")
    if not 1 <= slots <= _LARGEST or slots != int(slots):
        raise UserError(f"the coordinator asks for {slots:g} slots, which are no whole number up to {_LARGEST:,}")
    return int(slots)


def told(reached: Tensor) -> Record:
    """The best step of every slot, as platforms are sent it."""
    return {"reached": Named(step=reached)}


def told_in(message: Record) -> Tensor:
    return named_in(message, "reached")["step"]
