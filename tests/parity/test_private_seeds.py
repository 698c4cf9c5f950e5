"""What a platform trains it alone can repeat: it draws from a secret that it keeps, unless all agree not to."""

import shutil

import pytest
import torch

from fedrel.engines.remote import Failure
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.records import named_in
from tests.parity.consortium import PLATFORMS, Consortium, read, write_world

SETTINGS = ("method.name=fedavg", "extractor.kind=bag", "training.rounds=2")
PRIVATE = (*SETTINGS, "engine.public_seeds=false")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("seeds") / "world")


def trained(consortium, folder):
    consortium.begin()
    execution = consortium.execution(folder)
    for _ in execution.rounds():
        pass
    consortium.close()
    assert not consortium.failures
    return execution.state["weights"]


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_one_process_cannot_repeat_what_platforms_train_unless_seeds_are_public(world, tmp_path):
    for settings, repeated in ((PRIVATE, False), (SETTINGS, True)):
        experiment = read(world, *settings)
        folder = tmp_path / str(repeated)
        together = Execution(prepare(experiment), folder / "together")
        for _ in together.rounds():
            pass
        apart = trained(Consortium(world, folder / "homes", experiment), folder / "apart")
        assert same(apart, together.state["weights"]) == repeated


def test_a_platform_that_is_started_again_repeats_itself_and_another_with_the_same_text_does_not(world, tmp_path):
    experiment = read(world, *PRIVATE)
    updates = []
    for homes in ("one", "one", "other"):
        consortium = Consortium(world, tmp_path / homes, experiment)
        consortium.begin()
        asked = encode({"weights": consortium.coordination.setup.weights})
        replies = [consortium.ask("p0", "train", round_, asked) for round_ in (0, 0, 1)]
        updates.append([named_in(decode(reply), "weights") for reply in replies])
        consortium.close()
    (first, repeated, next_round), again, other = updates
    assert same(first, repeated)
    assert not same(first, next_round)
    assert all(same(before, after) for before, after in zip(updates[0], again, strict=True))
    assert not same(first, other[0])
    secrets = [(tmp_path / homes / name / "memory" / "seed.key") for homes in ("one", "other") for name in PLATFORMS]
    assert len({path.read_bytes() for path in secrets}) == 2 * len(PLATFORMS)
    assert all(path.stat().st_mode & 0o077 == 0 and len(path.read_bytes()) == 32 for path in secrets)


def test_another_run_and_another_agreement_draw_anew(world, tmp_path):
    updates = []
    for run_id, more in (("a" * 32, ()), ("b" * 32, ()), ("a" * 32, ("training.patience=5",))):
        consortium = Consortium(world, tmp_path / "homes", read(world, *PRIVATE, *more))
        consortium.run_id = run_id
        consortium.begin()
        reply = consortium.ask("p0", "train", 0, encode({"weights": consortium.coordination.setup.weights}))
        updates.append(named_in(decode(reply), "weights"))
        consortium.close()
    assert not any(same(updates[0], other) for other in updates[1:])


def test_a_damaged_secret_is_not_used(world, tmp_path):
    consortium = Consortium(world, tmp_path / "homes", read(world, *PRIVATE))
    (consortium.home("p0").memory / "seed.key").write_bytes(b"short")
    consortium.begin()
    consortium.close()
    assert consortium.failures == [("p0", "failed: see the platform's own log for the reason")]


def test_a_policy_can_refuse_public_seeds(world, tmp_path):
    consortium = Consortium(world, tmp_path / "homes", read(world, *SETTINGS))
    consortium.home("p0").policy.write_text("[settings]\nprivate_seeds = true\n")
    consortium.begin()
    consortium.close()
    [(name, why)] = consortium.failures
    assert name == "p0"
    assert "requires training to draw from seeds that others do not know" in why


@pytest.mark.parametrize("sentences", [15, 16])
def test_a_platform_with_a_handful_of_sentences_does_not_take_part(world, tmp_path, sentences):
    small = shutil.copytree(world, tmp_path / "world")
    file = small / "p0" / "train.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:sentences]))
    consortium = Consortium(small, tmp_path / "homes", read(small, *SETTINGS))
    consortium.begin()
    answer = consortium.ask("p0", "train", 0, encode({"weights": consortium.coordination.setup.weights}))
    consortium.close()
    assert isinstance(answer, Failure) == bool(consortium.failures) == (sentences < 16)
