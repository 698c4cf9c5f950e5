"""How a platform lists facts for others: in an order that says nothing, with scores too coarse to be fingerprints."""

import torch
from torch import Tensor


def in_key_order(keys: Tensor, listed: Tensor) -> tuple[Tensor, Tensor]:
    """The order in which a platform lists facts: by ascending key, which is a random one to whoever lacks the secret
    that keys are made with. In the order of its bags, an entry's place would tell its fact in every round, however
    fresh the keys are.

    From the keys (bags,) and which bags are listed, (bags,) of bools: the bag of each entry (n,), and back again the
    entry of each listed bag (n,), in the order of the bags.
    """
    bags = listed.nonzero().squeeze(1)
    order = keys[bags].argsort(stable=True)
    return bags[order], order.argsort()


def rounded_down(scores: Tensor, step: float) -> Tensor:
    """Scores as multiples of `step`, none higher than it was; 0 leaves them as they are. An exact score recognises its
    sentence: whoever has the sentence and the weights computes the same number.
    """
    return torch.floor(scores / step) * step if step else scores
