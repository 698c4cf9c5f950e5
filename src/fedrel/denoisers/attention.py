"""ATT (Lin et al., ACL 2016): a bag is the attention-weighted mean of its sentences.

Sentence j scores x_j · A · q_r for the bag's relation r (A diagonal), softmax in the bag. The query q_r is the
classifier's row of r, as in public code (which leaves out A, and passes no gradient through q_r); in the variant
`att-own` it is a vector that nothing else uses, so a bag of one sentence, where no weight can change, never trains it.
At test every relation asks its own question: its score comes from the bag vector made for it, so the scores of a bag
are not those of one distribution.
"""

import torch
from torch import Tensor, nn

from fedrel.denoisers.base import Denoiser, Drop, bias_of, group_softmax, group_sum
from fedrel.denoisers.odds import log_odds


class Attention(Denoiser):
    scores_by = "attention"
    stackable = True

    def __init__(self, hidden: int, relations: int) -> None:
        super().__init__(hidden, relations)
        self.diagonal = nn.Parameter(torch.ones(hidden))  # A

    def queries(self, classifier: nn.Linear) -> Tensor:
        """(R, H) what every relation asks."""
        return classifier.weight

    def logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear, drop: Drop) -> Tensor:
        asked = (self.diagonal * self.queries(classifier))[labels].index_select(0, bag)  # (S, H)
        score = (vectors * asked).sum(1, keepdim=True)  # (S, 1)
        weight = group_softmax(score, bag, len(labels))
        return classifier(drop(group_sum(weight * vectors, bag, len(labels))))  # type: ignore[no-any-return]

    def score(self, vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
        relations = len(classifier.weight)
        weight = group_softmax(vectors @ (self.diagonal * self.queries(classifier)).T, bag, bags)  # (S, R) by asking
        logits = vectors @ classifier.weight.T  # (S, R) by answering class
        # The classifier is linear: mixing logits equals classifying mixed vectors, and is far smaller.
        mixed = group_sum((weight[:, :, None] * logits[:, None, :]).flatten(1), bag, bags)
        answers = log_odds(mixed.view(bags, relations, relations) + bias_of(classifier))
        return answers.diagonal(dim1=1, dim2=2)  # (U, R)


class OwnQueries(Attention):
    """ATT whose queries are weights of their own."""

    stackable = True

    def __init__(self, hidden: int, relations: int) -> None:
        super().__init__(hidden, relations)
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(relations, hidden)))  # q

    def queries(self, classifier: nn.Linear) -> Tensor:
        return self.query
