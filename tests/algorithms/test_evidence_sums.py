"""Evidence from sums alone: what the coordinator reads from random numbers, and what it does not."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.algorithms.evidence_sums import EvidenceFromSums
from fedrel.experiment.assembly import method_of, prepare
from fedrel.experiment.execution import Execution
from fedrel.protocol.slots import TABLES, highest, random_up_to, slots_of
from tests.algorithms.tiny import experiment

SLOTS = 64
method = EvidenceFromSums(slots=SLOTS)


def random(levels):
    """The random numbers of one platform, from how many steps it reaches by slot of the first table."""
    slot = torch.tensor([list(levels)] * TABLES)
    return random_up_to(slot, torch.tensor(list(levels.values())), SLOTS, method.steps)


@given(st.lists(st.dictionaries(st.integers(0, SLOTS - 1), st.integers(0, method.steps)), min_size=1, max_size=4))
def test_the_sum_tells_the_highest_step_of_every_slot_and_nothing_else(platforms):
    platforms = [{0: 0, **levels} for levels in platforms]
    sums = sum(random(levels) for levels in platforms)
    found = highest(sums)
    for slot in range(SLOTS):
        assert found[0, slot] == max(levels.get(slot, 0) for levels in platforms)
    # one platform's numbers are as random as the sum of many: every bit is set half of the time
    reached = sums[0][torch.arange(method.steps) < found[0][:, None]]
    if len(reached) > 300:
        assert 0.35 < float((reached & 1).double().mean()) < 0.65


def test_random_numbers_are_never_zero_and_never_the_same():
    levels = {slot: method.steps for slot in range(SLOTS)}
    one, two = random(levels), random(levels)
    assert bool((one != 0).all()) and not torch.equal(one, two)


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
    assert found.steps == 13 and found.sizes == {"tables": 2, "slots": 128, "steps": 13}
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
