"""Remembered evidence: what the server keeps, what platforms train on, and what leaves them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.algorithms.best_evidence import answers, effective_share, hear, one_of_each
from fedrel.algorithms.evidence import Evidence
from fedrel.algorithms.fedavg import FedAvg
from fedrel.algorithms.lazy_mil import LazyMIL
from fedrel.denoisers import log_odds
from fedrel.engines.simulator import Simulator
from fedrel.learning import background
from fedrel.learning.background import ENOUGH, Background
from fedrel.learning.named import Named
from fedrel.privacy.blind import blind
from fedrel.protocol import Scored
from fedrel.protocol.round import drive
from tests.algorithms import test_lazy_mil as lazy
from tests.helpers import shard_of, small_model

NOTHING = torch.zeros(0, dtype=torch.int64)
SILENCE = Named(key=NOTHING, platform=NOTHING, best=torch.zeros(0))
EVERYONE = ("p0", "p1", "p2")


def federation(**settings):
    split, sites, hub, weights = lazy.federation(**settings)
    for site in sites.values():
        site.lasting_keys = site.fact_keys
    return split, sites, replace(hub, everyone=tuple(sites)), weights


def play(algorithm, sites, hub, weights, cohorts):
    """Rounds with these platforms; the state after them, and what each round trained on."""
    simulator = Simulator(algorithm, sites)
    state, trained = algorithm.start(weights), []
    for number, cohort in enumerate(cohorts):
        state = drive(algorithm.round(replace(hub, round=number), state, cohort), simulator, number)
        trained.append({name: lazy.selected_rows(sites)[name] for name in cohort})
    return state, trained


def evidence(**platforms):
    return {
        name: {"evidence": Named(key=torch.tensor(list(it)), best=torch.tensor(list(it.values())))}
        for name, it in platforms.items()
    }


def odds_of(split, weights):
    """Of every row of the split, by the model as it starts."""
    whole = shard_of(split)
    model, _ = small_model()
    model.load(weights, whole)
    p = torch.log_softmax(model.classifier(model.vectors(whole)).double(), 1).exp()
    p = p[torch.arange(len(p)), whole.labels]
    return dict(zip(whole.rows.tolist(), torch.log(p / (1 - p)).tolist(), strict=True))


def test_the_server_remembers_everybodys_last_word():
    first = hear(SILENCE, evidence(p0={7: 1.0, 8: -2.0}, p1={7: 0.5}), EVERYONE, remember=True)
    shown = evidence(p1={7: 3.0, 9: 0.0}, p2={8: -5.0})
    second = hear(first, shown, EVERYONE, remember=True)
    told = answers(second, shown)
    assert told["p1"]["best"]["best"].tolist() == [3.0, 0.0]
    assert told["p2"]["best"]["best"].tolist() == [-2.0]  # p0 is away, but it was better
    third = hear(second, evidence(p1={7: -1.0}), EVERYONE, remember=True)
    assert answers(third, evidence(p1={7: -1.0}))["p1"]["best"]["best"].tolist() == [1.0]  # its own 3.0 is forgotten
    alone = hear(second, evidence(p2={8: -5.0}), EVERYONE, remember=False)
    assert answers(alone, evidence(p2={8: -5.0}))["p2"]["best"]["best"].tolist() == [-5.0]


@given(
    st.lists(
        st.dictionaries(st.integers(0, 2), st.dictionaries(st.integers(-4, 4), st.floats(-9, 9, width=32))), min_size=1
    )
)
def test_nobody_is_told_less_than_anybody_said_last(rounds):
    heard, last = SILENCE, {}
    for spoken in rounds:
        shown = {
            f"p{who}": {
                "evidence": Named(
                    key=torch.tensor(list(said), dtype=torch.int64),
                    best=torch.tensor(list(said.values()), dtype=torch.float32),
                )
            }
            for who, said in spoken.items()
        }
        if not shown:
            continue
        last |= spoken
        heard = hear(heard, shown, EVERYONE, remember=True)
        told = answers(heard, shown)
        for who, said in spoken.items():
            expected = [max(one[key] for one in last.values() if key in one) for key in said]
            assert told[f"p{who}"]["best"]["best"].tolist() == expected


@pytest.mark.parametrize("margin", [0.0, 0.3, 2.0])
def test_sentences_train_that_are_not_too_far_behind_the_best_of_the_federation(margin):
    split, sites, hub, weights = federation()
    _, (trained,) = play(Evidence(narrowing=0, margin=margin, rounding=0), sites, hub, weights, [list(sites)])
    z = odds_of(split, weights)
    for name, site in sites.items():
        for row in site.shard.rows.tolist():
            if split.labels[row] == 0:
                continue
            same = np.flatnonzero((split.pairs == split.pairs[row]) & (split.labels == split.labels[row]))
            behind = max(z[other] for other in same) - z[row]
            if abs(behind - margin) > 1e-4:
                assert (row in trained[name]) == (behind < margin)


@pytest.mark.parametrize("step", [0.01, 0.3, 2.0])
def test_z_leaves_rounded_down_and_the_best_sentence_always_trains(step):
    split, sites, hub, weights = federation()
    algorithm = Evidence(narrowing=0, margin=0.0, rounding=step)
    state, (trained,) = play(algorithm, sites, hub, weights, [list(sites)])
    sent = state["heard"]["best"] / step
    torch.testing.assert_close(sent, sent.round(), rtol=0, atol=1e-3)
    z = odds_of(split, weights)
    best = {}
    for row, label in enumerate(split.labels):
        best.setdefault((split.pairs[row], label), []).append(z[row])
    highest = {fact: max(odds) for fact, odds in best.items()}
    for name, site in sites.items():
        for row in site.shard.rows.tolist():
            bar = math.floor(highest[split.pairs[row], split.labels[row]] / step) * step
            if split.labels[row] > 0 and abs(z[row] - bar) > 1e-4:
                assert (row in trained[name]) == (z[row] > bar)


def test_entries_are_in_the_order_of_their_keys_and_answers_find_their_facts_again():
    """The same sentences train under any keys, so under those of every round."""
    chosen = []
    for secret in (b"one", b"two"):
        _, sites, hub, weights = federation()
        for site in sites.values():
            site.lasting_keys = lambda keys=site.fact_keys, secret=secret: blind(map(str, keys().tolist()), secret)
        state, trained = play(Evidence(narrowing=0, margin=0.5, rounding=0.1), sites, hub, weights, [list(sites)] * 2)
        chosen.append(trained)
        heard = state["heard"]
        for who in range(len(sites)):
            keys = heard["key"][heard["platform"] == who].tolist()
            assert len(keys) > 5 and keys == sorted(keys)
    assert chosen[0] == chosen[1]


def test_a_platform_is_measured_against_one_that_sits_the_round_out():
    _, sites, hub, weights = federation(platforms=2)
    frozen = [replace(site, training=replace(site.training, lr=1e-12)) for site in sites.values()]
    sites = dict(zip(sites, frozen, strict=True))
    together = play(Evidence(narrowing=0, margin=0.0, rounding=0), sites, hub, weights, [["p0", "p1"]])[1][0]
    apart = play(Evidence(narrowing=0, margin=0.0, rounding=0), sites, hub, weights, [["p0"], ["p1"], ["p0"]])[1]
    assert apart[1]["p1"] == together["p1"]
    assert apart[2]["p0"] == together["p0"]
    assert set(apart[0]["p0"]) > set(together["p0"])  # nobody had spoken yet
    without = play(
        Evidence(narrowing=0, margin=0.0, rounding=0, memory=False), sites, hub, weights, [["p0"], ["p1"], ["p0"]]
    )[1]
    assert without[2]["p0"] == without[0]["p0"] == apart[0]["p0"]


def test_the_best_alone_is_what_lazy_mil_elects():
    _, sites, hub, weights = federation()
    alone = play(Evidence(narrowing=0, margin=0.0, rounding=0), sites, hub, weights, [list(sites)])[1][0]
    split, sites, hub, weights = federation()
    lazy.play_round(LazyMIL(warmup=0, rounding=0), sites, hub, weights)
    elected = lazy.selected_rows(sites)
    assert alone == {name: [row for row in rows if split.labels[row] > 0] for name, rows in elected.items()}


def test_a_margin_wide_enough_is_plain_training():
    _, sites, hub, weights = federation()
    everything, _ = play(Evidence(wide=100.0, narrowing=1), sites, hub, weights, [list(sites)])
    _, sites, hub, weights = federation()
    plain, _ = play(FedAvg(), sites, hub, weights, [list(sites)])
    for name, value in plain["weights"].items():
        torch.testing.assert_close(everything["weights"][name], value, rtol=0, atol=0)


def test_the_margin_narrows_in_a_straight_line_and_stays():
    half = Evidence(margin=1.0, wide=8.0, narrowing=0.5)
    assert [half.margin_at(round_, 14) for round_ in (0, 1, 6, 7, 13)] == pytest.approx([8.0, 7.0, 2.0, 1.0, 1.0])
    assert Evidence(margin=1.0, narrowing=0).margin_at(0, 14) == 1.0


def test_what_leaves_is_a_key_and_a_number_per_fact():
    _, sites, hub, weights = federation()
    uploads = []
    algorithm = Evidence(narrowing=0)
    simulator = Simulator(algorithm, sites, on_upload=uploads.append)
    drive(algorithm.round(replace(hub, round=1), algorithm.start(weights), list(sites)), simulator, 1)
    for upload in (it for it in uploads if it.task == "show"):
        shard = sites[upload.platform].shard
        facts = int((shard.labels[shard.bag_starts[:-1]] > 0).sum())
        sizes = {field.name: field.shape for field in upload.fields}
        assert sizes == {"(header)": sizes["(header)"], "evidence/key": (facts,), "evidence/best": (facts,)}
    assert {it.task for it in uploads} == {"show", "sum_up", "train"}


def test_nothing_is_told_about_few_sentences_without_a_relation():
    _, sites, hub, weights = federation(text=9)
    algorithm, told = Evidence(), {}
    simulator = Simulator(algorithm, sites)

    def remember(ask):
        told[ask.task] = simulator(ask)
        return told[ask.task]

    drive(algorithm.round(hub, algorithm.start(weights), list(sites)), remember, 0)
    assert set(told) == {"show", "train"}  # a model that has learnt nothing
    drive(algorithm.round(replace(hub, round=1), algorithm.start(weights), list(sites)), remember, 1)
    assert set(told) == {"show", "sum_up", "train"}
    for name, reply in told["sum_up"].items():
        assert 0 < (sites[name].shard.labels == 0).sum() < ENOUGH
        assert not any(value.any() for value in reply["background"].values())


@pytest.fixture
def many(monkeypatch):
    """Any number of sentences without a relation is enough to judge others by."""
    monkeypatch.setattr(background, "ENOUGH", 1)


def test_what_does_not_stand_out_is_not_selected_and_trains_all_the_same(many):
    split, sites, hub, weights = federation(sentences=300, text=9)
    rows = np.concatenate([site.shard.rows for site in sites.values()])
    z = odds_of(split, weights)
    everything = shard_of(split)
    model, _ = small_model()
    model.load(weights, everything)
    odds = log_odds(model.classifier(model.vectors(everything))).detach()[np.argsort(everything.rows)]
    labels = torch.from_numpy(split.labels.astype(np.int64))
    own = torch.tensor([z[row] for row in range(len(split))])[labels > 0]
    sums = Background.of(odds[labels == 0]).with_own(own, labels[labels > 0])
    bars = sums.bars(sums.standing_out())
    stating = {row for row in rows if split.labels[row] and z[row] >= bars[split.labels[row]]}
    assert 5 < len(stating) < (split.labels > 0).sum() - 5
    algorithm, replies = Evidence(narrowing=0, margin=0.0, rounding=0.0, early=1), {}
    exchange = Simulator(algorithm, sites)

    def remember(ask):
        replies[ask.task] = exchange(ask)
        return replies[ask.task]

    drive(algorithm.round(replace(hub, round=1), algorithm.start(weights), list(sites)), remember, 1)
    assert {row for rows in lazy.selected_rows(sites).values() for row in rows} == stating
    without_bar = Evidence(narrowing=0, margin=0.0, rounding=0.0, early=0)
    drive(without_bar.round(replace(hub, round=1), without_bar.start(weights), list(sites)), exchange, 1)
    best = {row for rows in lazy.selected_rows(sites).values() for row in rows}
    assert stating - best  # beaten, and stated all the same
    assert sum(reply["sentences"] for reply in replies["train"].values()) == len(best) + (split.labels == 0).sum()


def test_relations_stand_out_by_the_first_rounds_alone(many):
    _, sites, hub, weights = federation(sentences=300, text=9)
    states = []
    algorithm = Evidence(early=2)
    simulator, state = Simulator(algorithm, sites), algorithm.start(weights)
    for number in range(4):
        state = drive(algorithm.round(replace(hub, round=number), state, list(sites)), simulator, number)
        states.append(state["stood"])
    assert [int(it["rounds"]) for it in states] == [0, 1, 2, 2]
    assert not torch.equal(states[1]["total"], states[2]["total"])
    assert torch.equal(states[2]["total"], states[3]["total"])


def test_the_report_selects_with_the_bar_once_there_is_one(many):
    z = torch.tensor([0.0, 3.0, 6.0, 3.0])
    without = Background.of(torch.tensor([[0.0, 1.0, 1.0], [0.0, 3.0, 3.0]], dtype=torch.float64))  # 2 ± 1
    labels = torch.tensor([1, 1, 1, 2])
    seen = Scored(z, labels, without.with_own(z, labels), bag=torch.arange(4), key=torch.arange(4))
    method = Evidence(early=1)

    def selected(rounds, stood):
        state = {"stood": Named(rounds=torch.tensor(rounds), total=torch.tensor(stood))}
        return method.selection(state, {"p0": seen})["p0"].tolist()

    assert selected(0, []) == [0, 1, 2, 3]
    # Of relation 1 on average 1 above what is without, with a deviation of 6 ** 0.5 within it; of relation 2, 1
    assert selected(1, [0.0, 1.0, 1.0]) == [1, 2, 3]
    assert selected(1, [0.0, 9.0, 0.0]) == [2]


def test_without_early_rounds_there_is_no_bar_and_nothing_is_sent_for_it(many):
    _, sites, hub, weights = federation(text=9)
    algorithm, asked = Evidence(narrowing=0, early=0), []
    simulator = Simulator(algorithm, sites)

    def remember(ask):
        asked.append(ask.task)
        return simulator(ask)

    drive(algorithm.round(replace(hub, round=1), algorithm.start(weights), list(sites)), remember, 1)
    assert asked == ["show", "train"]
    assert all(lazy.selected_rows(sites).values())


def test_one_sentence_of_each_fact_is_drawn_and_all_without_one_stay():
    bag = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 3, 3])
    fact = torch.tensor([True, True, True, False])
    kept = torch.tensor([0, 1, 2, 3, 5, 6, 7, 8, 9])
    draws = [one_of_each(kept, bag, fact, seed) for seed in range(40)]
    for drawn in draws:
        assert torch.bincount(bag[drawn]).tolist() == [1, 1, 1, 2]
        assert (drawn.diff() > 0).all() and torch.isin(drawn, kept).all()
    assert set(torch.cat(draws).tolist()) == set(kept.tolist())


@pytest.mark.parametrize(("sizes", "share"), [([], 1.0), ([3, 3], 1.0), ([9, 1], 100 / 82 / 2), ([1] * 9 + [91], 0.12)])
def test_the_effective_number_of_facts(sizes, share):
    assert effective_share(torch.tensor(sizes)) == pytest.approx(share, abs=2e-3)


def test_where_a_few_facts_have_most_sentences_one_of_each_trains():
    def trained(even):
        _, sites, hub, weights = federation()
        algorithm, replies = Evidence(wide=100.0, narrowing=1, even=even), []
        simulator = Simulator(algorithm, sites)

        def remember(ask):
            replies.append(simulator(ask))
            return replies[-1]

        drive(algorithm.round(hub, algorithm.start(weights), list(sites)), remember, 0)
        return sites, {name: reply["sentences"] for name, reply in replies[-1].items()}

    sites, every = trained(even=0.0)
    assert every == {name: len(site.shard) for name, site in sites.items()}
    sites, one = trained(even=1.0)
    for name, site in sites.items():
        facts = site.shard.labels[site.shard.bag_starts[:-1]] > 0
        even = effective_share(site.shard.bag_starts.diff()[facts]) == 1
        assert one[name] == (len(site.shard) if even else int(facts.sum() + (site.shard.labels == 0).sum()))
    assert sum(one.values()) < sum(every.values())


def test_certainty_stays_finite():
    _, sites, hub, weights = federation()
    sure = Named({**weights, "classifier.bias": torch.tensor([0.0, 500.0, 0.0, 0.0])})
    state, _ = play(Evidence(narrowing=0), sites, hub, sure, [list(sites)])
    assert all(math.isfinite(z) for z in state["heard"]["best"].tolist())


@pytest.mark.parametrize("memory", [True, False])
def test_keys_last_only_where_something_is_remembered(memory):
    _, sites, hub, weights = federation()
    of_round = {key for site in sites.values() for key in site.fact_keys().tolist()}
    for site in sites.values():
        site.lasting_keys = lambda keys=site.fact_keys: keys() + 1_000_000
    state, _ = play(Evidence(memory=memory), sites, hub, weights, [list(sites)])
    heard = set(state["heard"]["key"].tolist())
    assert heard
    assert heard.isdisjoint(of_round) if memory else heard <= of_round
