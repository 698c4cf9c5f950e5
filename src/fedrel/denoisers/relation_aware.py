"""ATT_RA (Ye & Ling, NAACL 2019, within bags): one bag vector per relation, weighted by the classifier's rows.

α_rj = softmax_j(w_r · x_j), b_r = Σ_j α_rj x_j, o_r = w_r · b_r + d_r, for every relation r; cross-entropy on o.
"""

from torch import Tensor, nn

from fedrel.denoisers.base import Denoiser, Drop, bias_of, group_softmax, group_sum
from fedrel.denoisers.odds import log_odds


class RelationAware(Denoiser):
    scores_by = "attention"
    stackable = True

    def logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear, drop: Drop) -> Tensor:
        return _logits(drop(vectors), bag, len(labels), classifier)

    def score(self, vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
        return log_odds(_logits(vectors, bag, bags, classifier))


def _logits(vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
    match = vectors @ classifier.weight.T  # (S, R): w_r · x_j, both the attention score and the share of the answer
    return group_sum(group_softmax(match, bag, bags) * match, bag, bags) + bias_of(classifier)  # (U, R)
