"""A bag's logit of a relation is the highest among its sentences."""

from torch import Tensor, nn

from fedrel.denoisers import Denoiser
from fedrel.denoisers.base import Drop, group_max


class Strongest(Denoiser):
    """Each platform trains on the highest logits of its own bags."""

    def logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear, drop: Drop) -> Tensor:
        return group_max(classifier(drop(vectors)), bag, len(labels))
