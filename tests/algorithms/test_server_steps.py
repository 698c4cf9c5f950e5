"""Two rounds of every method's server with partial cohorts, against dense float64 formulas (reference.py).

The replies are made up. In the first round three of five platforms answer; in the second three are asked, of which one
took part before and one never answers.
"""

from dataclasses import replace

import pytest
import torch

from fedrel.algorithms import METHODS, Evidence, FedAvg, Feedback, LazyMIL
from fedrel.algorithms.fedatt import FedAtt
from fedrel.algorithms.fedcmc import FedCMC
from fedrel.algorithms.feddyn import FedDyn
from fedrel.algorithms.feded import FedED
from fedrel.algorithms.scaffold import Scaffold
from fedrel.algorithms.server_only import ServerOnly
from fedrel.algorithms.server_optimizers import FedAdam, FedAvgM
from fedrel.algorithms.verdicts import Verdicts
from fedrel.config import Robust
from fedrel.learning.named import Named
from tests.algorithms import reference
from tests.algorithms.made_up import (
    COHORTS,
    EVERYONE,
    SPLIT,
    Rounds,
    a_hub,
    a_site,
    answers_training,
    answers_whole,
    close,
    sentences,
    start_weights,
    texts_of,
    trained,
)
from tests.algorithms.reference import float64
from tests.helpers import shard_of

# ------------------------------------------------------------------------------------------------------------- means

PLAIN = [name for name, method in METHODS.items() if method.algorithm.round is FedAvg.round]


@pytest.mark.parametrize("method", PLAIN)
def test_a_mean_weighted_by_sentences(method):
    rounds = Rounds(METHODS[method].algorithm(), answers_training)
    x = float64(start_weights())
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        x = reference.mean(rounds.models(x), rounds.counts())
        assert rounds.state.keys() == {"weights"}
        close(rounds.state["weights"], x)


def test_an_empty_reply_is_left_out_of_the_mean():
    def answer(task, platform, message, draw):
        return {} if platform == "p2" else answers_training(task, platform, message, draw)

    rounds = Rounds(FedAvg(), answer)
    x = float64(start_weights())
    for cohort in COHORTS:
        rounds.play(cohort)
        assert rounds.replies[-1]["p2"] == {}
        x = reference.mean(rounds.models(x), rounds.counts())
        close(rounds.state["weights"], x)


@pytest.mark.parametrize(("algorithm", "answer"), [(FedAvg(), answers_training), (Scaffold(), answers_whole)])
def test_the_server_aggregates_as_the_experiment_says(algorithm, answer):
    """The median of every coordinate, as an example; of two replies, their midpoint."""
    rounds = Rounds(algorithm, answer, hub=a_hub(robust=Robust(aggregation="median")))
    x = float64(start_weights())
    for cohort in COHORTS:
        rounds.play(cohort)
        models = rounds.models(x)
        ordered = {name: torch.stack([model[name] for model in models]).sort(dim=0).values for name in x}
        x = {name: (it[(len(models) - 1) // 2] + it[len(models) // 2]) / 2 for name, it in ordered.items()}
        close(rounds.state["weights"], x)


# -------------------------------------------------------------------------------------------- servers with a memory


@pytest.mark.parametrize(("momentum", "lr"), [(0.7, 0.6), (0.0, 1.7), (0.9, 1.0)])
def test_fedavgm(momentum, lr):
    rounds = Rounds(FedAvgM(momentum=momentum, lr=lr), answers_training)
    x = float64(start_weights())
    v = reference.zeros(x)
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        x, v = reference.fedavgm(x, v, reference.mean(rounds.models(x), rounds.counts()), momentum, lr)
        close(rounds.state["weights"], x)
        close(rounds.state["v"], v)


def test_fedadam():
    settings = {"lr": 0.3, "beta1": 0.6, "beta2": 0.8, "tau": 0.05}
    rounds = Rounds(FedAdam(**settings), answers_training)
    x = float64(start_weights())
    m, v = reference.zeros(x), reference.zeros(x)
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        x, m, v = reference.fedadam(x, m, v, reference.mean(rounds.models(x), rounds.counts()), **settings)
        for field, expected in (("weights", x), ("m", m), ("v", v)):
            close(rounds.state[field], expected)


def test_scaffold():
    rounds = Rounds(Scaffold(), answers_whole)
    x = float64(start_weights())
    c = reference.zeros(x)
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x, control=c)
        x, c = reference.scaffold(c, rounds.models(x), rounds.models(c, "change"), len(EVERYONE))
        close(rounds.state["weights"], x)
        close(rounds.state["control"], c)


def test_feddyn():
    rounds = Rounds(FedDyn(alpha=0.3), answers_whole)
    x = float64(start_weights())
    h = reference.zeros(x)
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        x, h = reference.feddyn(x, h, rounds.models(x), 0.3, len(EVERYONE))
        close(rounds.state["weights"], x)
        close(rounds.state["h"], h)


# --------------------------------------------------------------------------------- servers that look at each platform


def test_fedatt():
    rounds = Rounds(FedAtt(epsilon=0.9), answers_training)
    x = float64(start_weights())
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        x = reference.fedatt(x, rounds.models(x), 0.9)
        close(rounds.state["weights"], x)


@pytest.mark.parametrize(("vectors", "pick"), [("major", min), ("minor", max)])
def test_fedcmc(vectors, pick):
    rounds = Rounds(FedCMC(vectors=vectors), answers_training)
    x = float64(start_weights())
    chosen = x["classifier.weight"]
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x, vectors={"chosen": chosen})
        models = rounds.models(x)
        x = reference.mean(models, rounds.counts())
        chosen = reference.class_vectors([model["classifier.weight"] for model in models], pick)
        close(rounds.state["weights"], x)
        close(rounds.state["vectors"], {"chosen": chosen})
        told = {f"similarity/{who}": model for who, model in zip(rounds.replies[-1], models, strict=True)}
        likeness = {who: reference.likeness(model["classifier.weight"]) for who, model in told.items()}
        close(rounds.state["trace"], {who: torch.tensor(it, dtype=torch.float64) for who, it in likeness.items()})
    assert not any(torch.equal(chosen, model["classifier.weight"]) for model in models)  # not all of one platform


BALLOTS = {  # by platform and round: scores of keys; 11 and -4 are ties
    ("p0", 1): {7: 0.9, 11: 0.5, -4: 0.25},
    ("p2", 1): {11: 0.5, 7: 0.3, 2**62: 0.1},
    ("p3", 1): {-4: 0.25, 11: 0.4, 7: 0.8},
    ("p1", 2): {5: 0.1, 7: 0.2},
    ("p2", 2): {7: 0.2, 5: 0.6, 11: 0.0},
    ("p4", 2): {7: 0.1, 13: 0.7},
}


def test_the_election_of_lazy_mil():
    """A round of plain training, then two elections."""

    def answer(task, platform, message, draw):
        if task == "score":
            ballot = BALLOTS[platform, rounds.number]
            return {"ballot": Named(key=torch.tensor(list(ballot)), score=torch.tensor(list(ballot.values())))}
        if "wins" not in message:
            return answers_training(task, platform, message, draw)
        won = int(message["wins"]["won"].sum())
        if platform == "p1" or not won:  # p1 drops out after it has voted; who won nothing sends an empty reply
            return None if platform == "p1" else {}
        return {"weights": trained(rounds.asked[0].to[platform]["weights"], draw), "sentences": float(won)}

    rounds = Rounds(LazyMIL(warmup=1), answer)
    x = float64(start_weights())
    rounds.play(COHORTS[0])
    assert [ask.task for ask in rounds.asked] == ["train"]
    x = reference.mean(rounds.models(x), rounds.counts())
    close(rounds.state["weights"], x)
    for cohort in COHORTS:
        rounds.play(cohort)
        voters = list(rounds.replies[0])
        assert [list(ask.to) for ask in rounds.asked] == [cohort, voters]
        ballots = {platform: BALLOTS[platform, rounds.number] for platform in voters}
        for platform, keys in reference.election(ballots, rounds.number).items():
            told = rounds.asked[1].to[platform]["wins"]["won"].tolist()
            assert told == [key in keys for key in ballots[platform]]
        x = reference.mean(rounds.models(x), rounds.counts())
        close(rounds.state["weights"], x)


EVIDENCE = {  # by platform and round: log-odds of keys
    ("p0", 0): {7: 1.5, 11: -2.0},
    ("p2", 0): {11: 3.0, 7: 0.5, 9: -1.0},
    ("p3", 0): {7: 1.0},
    ("p1", 1): {9: -5.0, 7: 0.25, 11: -9.0},
    ("p2", 1): {7: 2.0, 9: -3.0},
    ("p4", 1): {7: 27.0},
}


@pytest.mark.parametrize("memory", [True, False])
def test_evidence(memory):
    """p2's second word replaces its first: the 3.0 for key 11 is gone, and p0's -2.0 is the best that is remembered."""

    def answer(task, platform, message, draw):
        if task == "show":
            said = EVIDENCE[platform, rounds.number]
            return {"evidence": Named(key=torch.tensor(list(said)), best=torch.tensor(list(said.values())))}
        assert message.keys() == {"best"}
        return {"weights": trained(rounds.asked[0].to[platform]["weights"], draw), "sentences": sentences(platform)}

    rounds = Rounds(Evidence(memory=memory, early=0), answer)
    x, last = float64(start_weights()), {}
    for cohort in COHORTS:
        rounds.play(cohort)
        spoken = {platform: EVIDENCE[platform, rounds.number] for platform in rounds.replies[0]}
        last = (last if memory else {}) | spoken
        assert [list(ask.to) for ask in rounds.asked] == [cohort, list(spoken)]
        for platform, said in spoken.items():
            expected = [max(other[key] for other in last.values() if key in other) for key in said]
            assert rounds.asked[1].to[platform]["best"]["best"].tolist() == expected
        heard = zip(*(rounds.state["heard"][field].tolist() for field in ("platform", "key", "best")), strict=True)
        assert sorted(heard) == sorted((EVERYONE.index(who), *it) for who, said in last.items() for it in said.items())
        x = reference.mean(rounds.models(x), rounds.counts())
        close(rounds.state["weights"], x)
    if memory:
        assert rounds.asked[1].to["p1"]["best"]["best"].tolist() == [-3.0, 2.0, -2.0]


# ------------------------------------------------------------------------------- servers with sentences of their own


def a_server():
    """A server with sentences of its own, others to validate on, and the weights it begins with."""
    site, weights = a_site(range(20), name="server")
    return replace(site, everyone=EVERYONE, validation=shard_of(SPLIT, range(20, 40))), weights


def test_server_only():
    hub, weights = a_server()
    rounds = Rounds(ServerOnly(), None, hub=hub, weights=weights)
    x, held = float64(weights), texts_of(hub.shard)
    for number, cohort in enumerate(COHORTS):
        rounds.play(cohort)
        assert rounds.asked == []
        x = reference.descend(
            x,
            lambda w: reference.cross_entropy(held.logits(w), held.labels),
            steps=3,
            lr=0.8 * 0.75**number,
            decay=0.02,
        )
        close(rounds.state["weights"], x)


@pytest.mark.parametrize("kind", ["log-mean", "prob-mean", "paper-literal"])
def test_feded(kind):
    """One pass over the server's sentences, whatever the platforms' epochs: CE(gold) + KL(q ‖ p)."""

    def answer(task, platform, message, draw):
        assert task == "predict"
        logits = 3 * torch.randn(len(hub.shard), 4, generator=draw)
        return {"log": Named(p=torch.log_softmax(logits, dim=1).half())}

    hub, weights = a_server()
    rounds = Rounds(FedED(teacher=kind, temperature=1.7), answer, hub=hub, weights=weights)
    x, held = float64(weights), texts_of(hub.shard)
    for number, cohort in enumerate(COHORTS):
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        q = reference.teacher([reply["log"]["p"] for reply in rounds.replies[-1].values()], kind, 1.7)

        def objective(w, q=q):
            divergence = (q * (q.log() - held.log_p(w))).sum(1).mean()
            return reference.cross_entropy(held.logits(w), held.labels) + divergence

        x = reference.descend(x, objective, steps=1, lr=0.8 * 0.75**number, decay=0.02)
        close(rounds.state["weights"], x)


def test_feedback():
    """A seed model for everybody, with how it errs; then a mean weighted by sentences times trust."""

    def answer(task, platform, message, draw):
        if task == "collect":
            return {}
        return {"weights": trained(message["weights"], draw), "sentences": 0.37 * sentences(platform), "loss": 0.5}

    hub, weights = a_server()
    rounds = Rounds(Feedback(seed_epochs=2, probes=6), answer, hub=hub, weights=weights)
    x, held, gold = float64(weights), texts_of(hub.shard), texts_of(hub.validation)
    x = reference.descend(
        x, lambda w: reference.cross_entropy(held.logits(w), held.labels), steps=2, lr=0.8, decay=0.02
    )
    rounds.play(COHORTS[0])
    q = reference.transition(gold.log_p(x).exp(), gold.labels)
    assert len(set(q.flatten().tolist())) > 4  # not uniform everywhere
    rounds.sent(EVERYONE, weights=x, transition={"q": q}, probes={"label": held.labels[:6]})
    close(rounds.state["weights"], x)
    for cohort in COHORTS:
        rounds.play(cohort)
        rounds.sent(cohort, weights=x)
        x = reference.mean(rounds.models(x), rounds.counts())
        close(rounds.state["weights"], x)


def test_verdicts():
    """Everybody is asked once for verdicts, by the model as it is; then a mean weighted by sentences."""

    def answer(task, platform, message, draw):
        return {} if task == "collect" else answers_training(task, platform, message, draw)

    rounds = Rounds(Verdicts(), answer)
    x = float64(start_weights())
    for number, cohort in enumerate(COHORTS):
        rounds.play(cohort)
        asked = [("train", list(cohort))]
        if not number:
            asked.insert(0, ("collect", list(EVERYONE)))
        assert [(it.task, list(it.to)) for it in rounds.asked] == asked
        rounds.sent(cohort, weights=x)
        x = reference.mean(rounds.models(x), rounds.counts())
        close(rounds.state["weights"], x)


def test_every_server_step_of_every_method_is_here():
    means = {FedAvg, FedAvgM, FedAdam, Scaffold, FedDyn}
    compared = means | {FedAtt, FedCMC, LazyMIL, Evidence, ServerOnly, FedED, Feedback, Verdicts}
    for name, method in METHODS.items():
        written_in = next(it for it in method.algorithm.__mro__ if "round" in vars(it))
        assert written_in in compared, f"{name}: compare its rounds with a formula of their own"
