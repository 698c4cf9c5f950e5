"""AVE (Lin et al., ACL 2016): a bag is the mean of its sentences."""

from torch import Tensor, nn

from fedrel.denoisers.base import Denoiser, Drop, group_sum
from fedrel.denoisers.odds import log_odds


class Average(Denoiser):
    stackable = True

    def logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear, drop: Drop) -> Tensor:
        return classifier(drop(_mean(vectors, bag, len(labels))))  # type: ignore[no-any-return]

    def score(self, vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
        return log_odds(classifier(_mean(vectors, bag, bags)))


def _mean(vectors: Tensor, bag: Tensor, bags: int) -> Tensor:
    sizes = group_sum(vectors.new_ones(len(bag), 1), bag, bags)  # counting them otherwise waits for a GPU
    return group_sum(vectors, bag, bags) / sizes  # (U, H)
