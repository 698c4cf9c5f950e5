"""Evidence from sums alone: what the coordinator reads from random numbers, and what it does not."""

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.algorithms import FedAvg
from fedrel.algorithms.evidence_sums import EvidenceFromSums
from fedrel.algorithms.lazy_mil_sums import LazyMILFromSums
from fedrel.algorithms.slot_table import FEWEST, SlotTable
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.methods import method_of
from fedrel.learning.named import Named
from fedrel.protocol.slots import TABLES, highest, random_up_to, slots_of, words_for
from tests.algorithms.made_up import Rounds
from tests.algorithms.tiny import experiment

SLOTS, STEPS = 64, 13


def noise(content, count):
    return os.urandom(count)


def random(levels):
    """The random numbers of one platform, from how many steps it reaches by slot of the first table."""
    slot = torch.tensor([list(levels)] * TABLES)
    return random_up_to(slot, torch.tensor(list(levels.values())), SLOTS, STEPS, noise)


@given(st.lists(st.dictionaries(st.integers(0, SLOTS - 1), st.integers(0, STEPS)), min_size=1, max_size=4))
def test_the_sum_tells_the_highest_step_of_every_slot(platforms):
    platforms = [{0: 0, **levels} for levels in platforms]
    found = highest(sum(random(levels) for levels in platforms), STEPS)
    for slot in range(SLOTS):
        levels = sorted((levels.get(slot, 0) for levels in platforms), reverse=True)
        if len(levels) < 2 or levels[0] > levels[1]:
            assert found[0, slot] == levels[0]
        else:  # bytes of several may add up to 0, which is then taken for a lower step
            assert found[0, slot] <= levels[0]


def test_of_several_who_reach_a_step_it_is_missed_once_in_255():
    levels = dict.fromkeys(range(SLOTS), STEPS)
    sums = [highest(random(levels) + random(levels), STEPS)[0] for _ in range(100)]
    missed = float((torch.stack(sums) < STEPS).double().mean())
    assert missed == pytest.approx(1 / 255, abs=0.0025)  # four deviations


def test_numbers_say_nothing_of_how_many_reach_a_step():
    """Below the highest step every byte is uniform, whether of one platform or of the sum of many."""
    levels = dict.fromkeys(range(SLOTS), 9)
    for count in (1, 2, 5):
        sums = torch.stack([sum(random(levels) for _ in range(count)) for _ in range(60)])
        digits = sums.numpy().view("u1").reshape(-1, 4 * words_for(STEPS))
        assert not digits[:, : STEPS - 9].any(), "nothing above"
        below = digits[:, STEPS - 8 :]
        assert abs(below.mean() - 127.5) < 1 and abs((below == 0).mean() - 1 / 256) < 0.001
        assert abs((below & 1).mean() - 0.5) < 0.01


def test_random_numbers_are_never_zero_where_a_step_is_reached_and_never_the_same():
    levels = {slot: STEPS for slot in range(SLOTS)}
    one, two = random(levels), random(levels)
    assert bool((one.numpy().view("u1")[:, :, :: 4 * words_for(STEPS)] != 0).all()) and not torch.equal(one, two)


def test_a_platform_repeats_its_numbers_for_the_same_facts_alone():
    """Or the one case in 255 would be another one whenever a round, or a run, is repeated."""
    rounds = Rounds(FedAvg(), lambda *_: None)
    site = replace(rounds.hub, name="p1", round=4)
    slot, value = torch.tensor([[3, 5]] * TABLES), torch.tensor([7, 9])

    def numbers(value, site=site):
        return random_up_to(slot, value, SLOTS, STEPS, site.stream("slots"))

    again = numbers(value)
    assert torch.equal(again, numbers(value)) and not torch.equal(again, random_up_to(slot, value, SLOTS, STEPS, noise))
    others = [replace(site, name="p2"), replace(site, round=5), replace(site, seed=2)]
    drawn = {bytes(numbers(value, it)[0, 5].numpy()) for it in (site, *others)}
    drawn.add(bytes(numbers(torch.tensor([6, 9]))[0, 5].numpy()))
    assert len(drawn) == 5, "another platform, round, secret or fact draws other numbers"


def test_a_table_grows_with_the_facts_that_sums_tell_of():
    table, draw = SlotTable(2.0), torch.Generator().manual_seed(1)
    assert table.empty().shape == (TABLES, FEWEST)

    def after(facts, slots):
        keys = torch.randint(-(2**62), 2**62, (facts,), generator=draw)
        reached = torch.zeros(TABLES, slots, dtype=torch.uint8)
        for row, places in zip(reached, slots_of(keys, 0, slots), strict=True):
            row[places] = 3
        return table.slots_for(reached)

    assert after(200, FEWEST) == FEWEST
    assert after(900, FEWEST) == 4096 and after(900, 4096) == 4096
    assert after(5000, FEWEST) == 4 * 8192, "though hardly a slot is free"
    assert after(100_000, FEWEST) >= 16 * FEWEST, "though none is"
    assert after(100, 4096) == 4096, "never fewer"
    assert SlotTable(2.0, fixed=64).slots_for(torch.ones(TABLES, 64)) == 64


def test_places_say_nothing_without_the_keys_and_change_with_the_window():
    keys = torch.randint(-(2**62), 2**62, (5000,), generator=torch.Generator().manual_seed(1))
    here, later = slots_of(keys, 0, 4096), slots_of(keys, 1, 4096)
    assert here.shape == (TABLES, 5000) and int(here.min()) >= 0 and int(here.max()) < 4096
    assert torch.equal(here, slots_of(keys, 0, 4096))
    assert float((here == later).double().mean()) < 0.002, "by chance 1 in 4096"
    assert float((here[0] == here[1]).double().mean()) < 0.002
    counts = torch.bincount(here[0], minlength=4096).double()
    assert float(counts.var() / counts.mean()) == pytest.approx(1, abs=0.15), "as even as chance"


def test_a_slot_that_facts_share_counts_only_if_they_share_it_in_every_table():
    step = torch.zeros(TABLES, SLOTS, dtype=torch.uint8)
    step[0, 3], step[1, 3] = 9, 4  # somebody else's fact shares the slot of the first table
    assert int(step.long().gather(1, torch.tensor([[3], [3]])).amin(0)) == 4


def test_the_settings_of_privacy_reach_the_method():
    settings = experiment("evidence", "pcnn", "privacy.sums=secure", "privacy.slots=128", "training.fraction=0.75")
    found, _ = method_of(settings)
    assert isinstance(found, EvidenceFromSums) and (found.slots, found.window) == (128, 3)
    assert found.table.steps == STEPS and found.sizes == {"tables": 2, "words": 4}
    assert found.start(Named())["heard"]["step"].shape == (2, 128)
    whole = replace(settings, training=replace(settings.training, fraction=1.0))
    assert method_of(whole)[0].window == 1
    assert type(method_of(replace(settings, privacy=replace(settings.privacy, sums="off")))[0]).__name__ == "Evidence"


def test_without_collisions_it_selects_what_evidence_with_the_keys_selects(tmp_path):
    """One round, in which a margin of 1 keeps what the best step does not outdo."""
    chosen = {}
    for sums in ("off", "secure"):
        settings = ["training.rounds=1", "method.narrowing=0", "robust.screening=off", "privacy.slots=65536"]
        setup = prepare(experiment("evidence", "pcnn", *settings, f"privacy.sums={sums}"))
        execution = Execution(setup, tmp_path / sums)
        list(execution.rounds())
        chosen[sums] = execution._engine.selections()
        result = execution.finish()
        assert result["privacy"]["sums"] == sums and result["selection"]
        execution.close()
    assert chosen["off"].keys() == chosen["secure"].keys()
    assert all(torch.equal(chosen["secure"][name], places) for name, places in chosen["off"].items())
    assert sum(len(it) for it in chosen["off"].values())


def test_an_election_from_sums_is_won_by_all_who_reach_the_highest_step(tmp_path):
    settings = ["training.rounds=3", "method.warmup=1", "method.rounding=1", "privacy.sums=secure"]
    setup = prepare(experiment("lazy-mil", "pcnn", *settings, "privacy.slots=65536"))
    assert isinstance(setup.algorithm, LazyMILFromSums)
    execution = Execution(setup, tmp_path / "run")
    list(execution.rounds())
    chosen, best, reached = execution._engine.selections(), {}, {}
    execution.close()
    for name in setup.sites:
        site = setup.sites[name]
        noted, steps = site.notes.scratch["best"], site.notes.scratch["slots"]["reached"]
        facts = site.fact_keys()[noted["elected"]].tolist()
        reached[name] = dict(zip(facts, steps[noted["entry"]].tolist(), strict=True))
        for fact, step in reached[name].items():
            best[fact] = max(step, best.get(fact, 0))
    for name, steps in reached.items():
        site = setup.sites[name]
        fact, stated = site.fact_keys()[site.shard.bag_of_sentences()], site.shard.labels >= site.first_relation
        won = {int(fact[place]) for place in chosen[name].tolist() if stated[place]}
        assert won == {fact for fact, step in steps.items() if step == best[fact]}
