"""What `evidence` says, remembers and keeps: the best log-odds of every fact, on one platform and on all."""

import torch
from torch import Tensor

from fedrel.learning.named import Named
from fedrel.protocol import Record, Replies, named_in, rounded_down


def best_of_bags(z: Tensor, bag: Tensor, bags: int, rounding: float) -> Tensor:
    """(bags,) the highest value among the sentences of each bag, rounded down, from z (S,) and the bag of each sentence
    (S,).
    """
    return rounded_down(torch.full((bags,), -torch.inf).scatter_reduce_(0, bag, z, "amax"), rounding)


def keep(z: Tensor, bag: Tensor, fact: Tensor, bar: Tensor) -> Tensor:
    """Places of the sentences that reach the bar of their fact, (facts,) in the order of the bags that are facts; bags
    that are no facts have no bar.
    """
    bars = torch.full((len(fact),), -torch.inf).masked_scatter(fact, bar)
    return (z >= bars[bag]).nonzero().squeeze(1)


def hear(heard: Named, shown: Replies, everyone: tuple[str, ...], *, remember: bool) -> Named:
    """What all platforms said last: those of this round anew, others as before."""
    heard = heard.to(torch.device("cpu"))  # where replies are, and a resumed state may not be
    said = {everyone.index(platform): named_in(reply, "evidence") for platform, reply in shown.items()}
    kept = ~torch.isin(heard["platform"], torch.tensor(list(said))) & remember
    return Named(
        key=torch.cat([heard["key"][kept], *(entry["key"] for entry in said.values())]),
        platform=torch.cat([heard["platform"][kept], *(torch.full_like(it["key"], who) for who, it in said.items())]),
        best=torch.cat([heard["best"][kept], *(entry["best"] for entry in said.values())]),
    )


def answers(heard: Named, shown: Replies) -> dict[str, Record]:
    """For each platform, the best of everybody's evidence for its own facts, in its own order."""
    keys, place = torch.unique(heard["key"], return_inverse=True)
    best: Tensor = torch.full((len(keys),), -torch.inf).scatter_reduce_(0, place, heard["best"], "amax")
    asked = {platform: named_in(reply, "evidence")["key"] for platform, reply in shown.items()}
    return {platform: {"best": Named(best=best[torch.searchsorted(keys, key)])} for platform, key in asked.items()}


def effective_share(sizes: Tensor) -> float:
    """The effective number of facts with these numbers of sentences (F,), (Σk)² / Σk², as a share of them: 1 where all
    have the same number, or where there are none.
    """
    k = sizes.double()
    return float(k.sum() ** 2 / (k * k).sum() / len(k)) if len(k) else 1.0


def one_of_each(chosen: Tensor, bag: Tensor, fact: Tensor, seed: int) -> Tensor:
    """Of the chosen places in a bag that is a fact, one at random, and all of other bags; from the bag of every
    sentence (S,) and whether a bag is a fact (B,). Places are in ascending order.
    """
    drawn = chosen[torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))]
    bags = bag[drawn]
    last = torch.zeros(len(fact), dtype=torch.int64).scatter_reduce_(0, bags, torch.arange(len(bags)), "amax")
    return drawn[(last[bags] == torch.arange(len(bags))) | ~fact[bags]].sort().values
