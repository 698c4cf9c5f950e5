"""AVE (Lin et al., ACL 2016): a bag is the mean of its sentences."""

from torch import Tensor, nn

from fedrel.denoisers.base import Denoiser, Drop, group_mean, mean_score


class Average(Denoiser):
    scores_by = "mean"
    stackable = True

    def logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear, drop: Drop) -> Tensor:
        return classifier(drop(group_mean(vectors, bag, len(labels))))  # type: ignore[no-any-return]

    def score(self, vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
        return mean_score(vectors, bag, bags, classifier)
