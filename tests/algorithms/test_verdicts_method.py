"""Fine-tuning by verdicts: what is learnt from them, and that nobody's silence changes anything."""

import pytest
import torch

from fedrel.algorithms.verdicts import Verdicts
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.protocol.records import named_in
from tests.algorithms.tiny import experiment

P = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]).log()


def test_a_verdict_changes_what_the_model_says_by_bayes_rule():
    q = Verdicts(gamma=0.9, delta=0.8).updated(P, torch.tensor([1, 1, 2]), torch.tensor([1, 0, 1]))
    accepted = torch.tensor([0.5 * 0.2, 0.3 * 0.9, 0.2 * 0.2])
    rejected = torch.tensor([0.5 * 0.8, 0.3 * 0.1, 0.2 * 0.8])
    sure = torch.tensor([0.2 * 0.2, 0.2 * 0.2, 0.6 * 0.9])
    assert q == pytest.approx(torch.stack([it / it.sum() for it in (accepted, rejected, sure)]))


def test_people_who_guess_change_nothing():
    q = Verdicts(gamma=0.5, delta=0.5).updated(P, torch.tensor([1, 1, 2]), torch.tensor([1, 0, 1]))
    assert q == pytest.approx(P.exp())


def test_a_flattened_model_gives_way_sooner():
    asked = torch.tensor([2]), torch.tensor([0])
    q, flat = (Verdicts(flatten=power).updated(P[2:], *asked)[0] for power in (1.0, 0.5))
    assert flat[2] < q[2]


def test_judged_sentences_are_read_again_and_others_keep_what_the_model_said():
    setup = prepare(experiment("verdicts", "pcnn", "method.repeat=3", "method.replay=1", "method.least=5"))
    flow = setup.algorithm.round(setup.hub, setup.algorithm.start(setup.weights), ["p0"])
    ask = next(flow)
    site = setup.sites["p0"]
    shard = site.shard

    def judge(shard, predicted, purpose):
        verdict = torch.full((len(shard),), -1, dtype=torch.int8)
        verdict[:10] = 1
        return torch.ones(len(shard), dtype=torch.int64), verdict

    site.judge = judge
    setup.algorithm.collect(site, ask.to["p0"])
    known = named_in(site.memory, "verdicts")
    assert known["place"][:10].tolist() == list(range(10))
    assert len(known["place"]) == 20 and len(known["place"].unique()) == 20
    site.model.load(setup.weights, shard)
    said = site.model.log_probabilities(shard).exp()
    assert known["target"][10:] == pytest.approx(said[known["place"][10:]])
    assert bool((known["target"][:10, 1] > said[:10, 1]).all())
    chosen = setup.algorithm.chosen(site, {})
    assert chosen.bincount(minlength=len(shard)).unique().tolist() == [0, 1, 3]
    reply = setup.algorithm.train(site, ask.to["p0"])
    assert reply["sentences"] == 20


def test_where_nobody_judged_anything_nothing_is_trained(tmp_path):
    setup = prepare(experiment("verdicts", "pcnn"))
    site = setup.sites["p1"]
    site.judge = lambda shard, predicted, purpose: (predicted, torch.full((len(shard),), -1, dtype=torch.int8))
    setup.algorithm.collect(site, {"weights": setup.weights})
    assert setup.algorithm.train(site, {"weights": setup.weights}) == {}


def test_verdicts_and_what_the_model_said_stay_at_home(tmp_path):
    execution = Execution(prepare(experiment("verdicts", "pcnn")), tmp_path / "run")
    list(execution.rounds())
    execution.close()
    ledger = (tmp_path / "run" / "ledger.jsonl").read_text()
    assert "target" not in ledger and "verdict" not in ledger
