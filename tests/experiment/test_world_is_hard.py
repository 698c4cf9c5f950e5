"""The built-in world cannot be solved by counting words."""

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from fedrel.config import Experiment
from fedrel.data.store import pair_bags
from fedrel.evaluation.heldout import rank
from fedrel.experiment.assembly import prepare


def test_a_bag_of_words_stays_far_behind():
    setup = prepare(Experiment())
    train, test = setup.dataset.train, setup.dataset.test
    numbers = setup.encoding.numbers(setup.dataset.words)

    def words_in(split):
        sentence = np.repeat(np.arange(len(split)), np.diff(split.offsets))
        word = numbers[np.asarray(split.tokens)]
        shape = (len(split), len(setup.encoding))
        return scipy.sparse.csr_matrix((np.ones(len(word)), (sentence, word)), shape=shape) > 0

    model = LogisticRegression(max_iter=300).fit(words_in(train), np.asarray(train.labels))
    assert model.classes_.tolist() == list(range(len(setup.dataset.relations)))
    rows, starts = pair_bags(test)
    scores = np.maximum.reduceat(model.predict_proba(words_in(test))[rows], starts[:-1], axis=0)
    ap = rank(scores, test.facts).metrics()["ap"]
    assert ap < 0.55  # FedAvg on the same noisy labels reaches .62, Lazy MIL .73
