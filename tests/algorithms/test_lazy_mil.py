"""Lazy MIL: the election, what is trained, and what leaves a platform."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.algorithms import LazyMIL
from fedrel.algorithms.lazy_mil import elect
from fedrel.engines.simulator import Simulator
from fedrel.learning.fit import fit
from fedrel.learning.named import Named, weighted_mean
from fedrel.privacy.blind import blind
from fedrel.protocol.round import drive
from fedrel.protocol.site import Site
from tests.engines.test_simulator import TRAINING
from tests.helpers import random_split, shard_of, small_model

SECRET = b"only platforms know"


def federation(platforms=3, seed=1, sentences=60, text=4):
    split = random_split(sentences, seed=text)
    model, weights = small_model()
    parts = np.array_split(np.random.default_rng(seed).permutation(sentences), platforms)
    sites = {}
    for number, rows in enumerate(parts):
        shard = shard_of(split, np.sort(rows))
        firsts = shard.rows[shard.bag_starts[:-1]]
        keys = blind((f"{split.pairs[r]}/{split.labels[r]}" for r in firsts), SECRET)
        name = f"p{number}"
        sites[name] = Site(name, shard, model, TRAINING, seed, fact_keys=lambda keys=keys: keys)
    hub = Site("server", shard_of(split, []), model, TRAINING, seed)
    return split, sites, hub, weights


def play_round(algorithm, sites, hub, weights, number=0):
    asks = []
    uploads = []
    simulator = Simulator(algorithm, sites, on_upload=uploads.append)

    def exchange(ask):
        asks.append(ask)
        return simulator(ask)

    state = drive(algorithm.round(replace(hub, round=number), {"weights": weights}, list(sites)), exchange, number)
    return state, asks, uploads


def selected_rows(sites):
    parts = {}
    for name, site in sites.items():
        chosen = site.notes.selected
        parts[name] = [] if chosen is None else site.shard.rows[chosen.numpy()].tolist()
    return parts


def ballots(*votes):
    return {
        f"p{i}": {"ballot": Named(key=torch.tensor(list(vote)), score=torch.tensor(list(vote.values())))}
        for i, vote in enumerate(votes)
    }


def test_the_highest_score_of_a_key_wins_and_ties_go_to_the_platforms_in_turn():
    votes = ballots({7: 0.9, 8: 0.3}, {8: 0.6, 7: 0.9, 9: 0.1})
    for turn in range(4):
        wins = elect(votes, turn)
        assert wins["p0"]["won"].tolist() == [turn % 2 == 0, False]
        assert wins["p1"]["won"].tolist() == [True, turn % 2 == 1, True]


@given(st.lists(st.dictionaries(st.integers(-5, 5), st.sampled_from([0.1, 0.2, 0.7]), max_size=6), min_size=1))
def test_every_key_is_won_exactly_once(votes):
    replies = {
        f"p{i:02d}": {
            "ballot": Named(
                key=torch.tensor(list(vote), dtype=torch.int64),
                score=torch.tensor(list(vote.values()), dtype=torch.float32),
            )
        }
        for i, vote in enumerate(votes)
    }
    turn = len(votes[0])
    wins = elect(replies, turn)
    won = [key for name, reply in replies.items() for key in reply["ballot"]["key"][wins[name]["won"]].tolist()]
    assert sorted(won) == sorted({key for vote in votes for key in vote})
    for key in set(won):
        best = max(vote[key] for vote in votes if key in vote)
        in_turn = [i % len(votes) for i in range(turn, turn + len(votes))]
        first = next(i for i in in_turn if votes[i].get(key) == best)
        assert wins[f"p{first:02d}"]["won"][list(votes[first]).index(key)]


def test_on_one_platform_lazy_mil_selects_what_one_would():
    _split, sites, hub, weights = federation(platforms=1)
    play_round(LazyMIL(warmup=0), sites, hub, weights)
    site = sites["p0"]
    one, same_weights = small_model(denoiser="one")
    one.load(same_weights, site.shard)
    expected = one.choose_in(site.shard, torch.arange(site.shard.bags))  # what ONE picks in a batch of all bags
    assert selected_rows(sites)["p0"] == site.shard.rows[expected].tolist()


def test_each_fact_is_trained_on_one_platform_and_each_platform_on_its_own_sentences():
    split, sites, hub, weights = federation()
    play_round(LazyMIL(warmup=0), sites, hub, weights)
    chosen = selected_rows(sites)
    for name, rows in chosen.items():
        assert set(rows) <= set(sites[name].shard.rows.tolist())
    facts = [(split.pairs[r], split.labels[r]) for rows in chosen.values() for r in rows if split.labels[r] > 0]
    assert len(facts) == len(set(facts)) == len(split.facts)


def test_the_winner_is_the_best_sentence_of_the_whole_federation():
    split, sites, hub, weights = federation()
    play_round(LazyMIL(warmup=0, rounding=0), sites, hub, weights)
    whole = shard_of(split)
    model, _ = small_model()
    model.load(weights, whole)
    z = dict(zip(whole.rows.tolist(), model.label_log_odds(whole).tolist(), strict=True))
    for row in [r for rows in selected_rows(sites).values() for r in rows if split.labels[r] > 0]:
        same_fact = (split.pairs == split.pairs[row]) & (split.labels == split.labels[row])
        assert z[row] == pytest.approx(max(z[r] for r in np.flatnonzero(same_fact)), abs=1e-6)


@pytest.mark.parametrize("step", [0.01, 0.3])
def test_the_winner_of_rounded_scores_is_less_than_a_step_behind_the_best(step):
    split, sites, hub, weights = federation()
    play_round(LazyMIL(warmup=0, rounding=step), sites, hub, weights)
    whole = shard_of(split)
    model, _ = small_model()
    model.load(weights, whole)
    z = dict(zip(whole.rows.tolist(), model.label_log_odds(whole).tolist(), strict=True))
    won = [row for rows in selected_rows(sites).values() for row in rows if split.labels[row] > 0]
    assert len(won) == len(split.facts)
    for row in won:
        same_fact = (split.pairs == split.pairs[row]) & (split.labels == split.labels[row])
        highest = max(z[r] for r in np.flatnonzero(same_fact))
        assert np.floor(z[row] / step) == np.floor(highest / step)


def test_a_ballot_is_in_the_order_of_its_keys_and_wins_find_their_facts_again():
    """The same sentences win under any keys, so under those of every round."""
    elected = []
    for secret in (b"one", b"two"):
        _, sites, hub, weights = federation()
        for site in sites.values():
            site.fact_keys = lambda keys=site.fact_keys, secret=secret: blind(map(str, keys().tolist()), secret)
        algorithm = LazyMIL(warmup=0, rounding=0)
        replies = Simulator(algorithm, sites)(next(algorithm.round(hub, {"weights": weights}, list(sites))))
        for name, reply in replies.items():
            shard = sites[name].shard
            listed = reply["ballot"]["key"].tolist()
            assert len(listed) == int((shard.labels[shard.bag_starts[:-1]] > 0).sum())
            assert listed == sorted(listed)
        play_round(algorithm, sites, hub, weights)
        elected.append({name: sorted(rows) for name, rows in selected_rows(sites).items()})
    assert elected[0] == elected[1]


def test_pairs_without_a_fact_are_settled_at_home_unless_elected():
    split, sites, hub, weights = federation()
    _, _asks, uploads = play_round(LazyMIL(warmup=0), sites, hub, weights)
    ballot = next(u for u in uploads if u.task == "score" and u.platform == "p0")
    labelled = sum(int(sites["p0"].shard.labels[b] > 0) for b in sites["p0"].shard.bag_starts[:-1])
    assert {f.name: f.shape for f in ballot.fields}["ballot/key"] == (labelled,)
    home = [r for rows in selected_rows(sites).values() for r in rows if split.labels[r] == 0]
    per_platform = sum(
        len({split.pairs[r] for r in site.shard.rows if split.labels[r] == 0}) for site in sites.values()
    )
    assert len(home) == per_platform
    _, sites, hub, weights = federation()
    play_round(LazyMIL(warmup=0, na="elected"), sites, hub, weights)
    elected = [split.pairs[r] for rows in selected_rows(sites).values() for r in rows if split.labels[r] == 0]
    assert len(elected) == len(set(elected))


def test_the_server_sees_scores_under_blinded_keys_and_never_a_sentence():
    _split, sites, hub, weights = federation()
    _, asks, uploads = play_round(LazyMIL(warmup=0), sites, hub, weights)
    fields = {field.name for upload in uploads if upload.task == "score" for field in upload.fields}
    assert fields == {"(header)", "ballot/key", "ballot/score"}
    assert [ask.task for ask in asks] == ["score", "train"]
    assert all(set(message) == {"wins"} for message in asks[1].to.values())  # weights travel down once
    for name, message in asks[1].to.items():
        wins = message["wins"]
        assert isinstance(wins, Named)
        keys = sites[name].fact_keys()
        labelled = sites[name].shard.labels[sites[name].shard.bag_starts[:-1]] > 0
        assert len(wins["won"]) == int(labelled.sum()) <= len(keys)  # only about its own keys


def test_a_platform_that_won_nothing_returns_nothing():
    split, sites, hub, weights = federation()
    sites["p2"].shard = shard_of(split, [])
    sites["p2"].fact_keys = lambda: torch.zeros(0, dtype=torch.int64)
    state, _, uploads = play_round(LazyMIL(warmup=0), sites, hub, weights)
    reply = next(u for u in uploads if u.task == "train" and u.platform == "p2")
    assert [field.name for field in reply.fields] == ["(header)"]
    assert torch.isfinite(state["weights"]["classifier.bias"]).all()


def test_the_mean_is_weighted_by_selected_sentences():
    _, sites, hub, weights = federation()
    state, _, _ = play_round(LazyMIL(warmup=0), sites, hub, weights)
    patches, sizes = [], []
    for site in sites.values():
        chosen = site.notes.selected
        site.model.load(weights, site.shard)
        fit(site.model, site.shard, TRAINING, lr=TRAINING.lr, seed=site.draw("train"), sentences=chosen)
        patches.append(site.model.trained(site.shard, chosen))
        sizes.append(float(len(chosen)))
    expected = weighted_mean(weights, patches, sizes)
    assert all(torch.equal(expected[name], state["weights"][name]) for name in expected)


def test_what_a_platform_sends_holds_no_word_of_other_platforms():
    _, sites, hub, weights = federation()
    algorithm = LazyMIL(warmup=0, rounding=0)
    simulator = Simulator(algorithm, sites)
    flow = algorithm.round(hub, {"weights": weights}, list(sites))
    replies = simulator(flow.send(simulator(next(flow))))
    for name, reply in replies.items():
        chosen = sites[name].notes.selected
        own = sites[name].shard.vocabulary[sites[name].shard.words_of(chosen).numpy()]
        assert reply["weights"]["words#rows"].tolist() == own.tolist()


def test_warm_up_rounds_are_plain_training():
    _, sites, hub, weights = federation()
    algorithm = LazyMIL(warmup=2)
    assert [ask.task for ask in play_round(algorithm, sites, hub, weights, number=1)[1]] == ["train"]
    assert [ask.task for ask in play_round(algorithm, sites, hub, weights, number=2)[1]] == ["score", "train"]


def test_blinded_keys_agree_among_platforms_and_depend_on_the_secret():
    facts = ["a\tr\tb", "a\tr\tc"]
    assert torch.equal(blind(facts, SECRET), blind(list(facts), SECRET))
    assert len(set(blind(facts, SECRET).tolist())) == 2
    assert not torch.equal(blind(facts, SECRET), blind(facts, b"another"))
