"""Nothing private leaves: what is planted in a platform's text, in the names of its folders and in its reviewers'
verdicts is in no byte of its answers, whatever the method. test_canary_on_the_wire.py listens to real connections.
"""

import base64
import hashlib
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.algorithms import FedAvg
from fedrel.config import DEFAULT_METHOD
from fedrel.errors import UserError
from fedrel.federation.worker import Worker
from fedrel.feedback.store import RIGHT, WRONG
from fedrel.protocol.tasks import task
from tests.canary import (
    EXTRACTORS,
    FEDERATED,
    Planted,
    Recorded,
    break_line,
    everything_planted,
    found_in_files,
    planted_world,
    settings,
    traces,
)
from tests.parity.consortium import PLATFORMS, read

KEY = b"k" * 32  # with which a consortium without a network blinds


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return planted_world(tmp_path_factory.mktemp("canary") / "world")


@given(st.binary(max_size=7), st.binary(max_size=7), st.sampled_from(everything_planted()))
def test_a_trace_is_found_however_it_is_written(before, after, text):
    ways = [text.encode(), text.upper().encode(), text.encode("utf-16-le"), text.encode().hex().upper().encode()]
    ways += [base64.b64encode(before + text.encode() + after), hashlib.sha256(text.encode()).digest()]
    for way in ways:
        assert text in traces([text], before + way + after)
    assert traces([text], before + text[:-1].encode() + b"?" + after) == []


# ------------------------------------------------------------------------------- recorded at the codec


def sequences(worker: Worker) -> list[bytes]:
    """The sentences as the numbers of their words, of every width that such numbers have."""
    assert worker.participant is not None
    shard, found = worker.participant.site.shard, []
    for begin, end in zip(shard.starts[:-1].tolist(), shard.starts[1:].tolist(), strict=True):
        numbers = np.trim_zeros(shard.vocabulary[shard.tokens[begin:end].numpy()])
        if len(set(numbers.tolist())) > 5:
            found += [numbers.astype(kind).tobytes() for kind in (np.int16, np.int32, np.int64, np.float32)]
    assert len(found) > 40
    return found


def marked(method: str, extractor: str):
    quick = extractor == "words that are trained" or method == DEFAULT_METHOD
    return pytest.param(method, extractor, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("method", "extractor"), [marked(it, kind) for kind in EXTRACTORS for it in FEDERATED])
def test_no_answer_holds_what_was_planted(method, extractor, world, tmp_path):
    consortium = Recorded(world, tmp_path / "homes", read(world, *settings(method, extractor)))
    consortium.train(tmp_path / "run")
    assert not consortium.failures
    assert len(consortium.answers) >= len(PLATFORMS) * (1 if method == "server-only" else 4)
    for name in PLATFORMS:
        answers = b"".join(content for whose, _, _, content in consortium.answers if whose == name)
        assert traces(everything_planted(), answers) == []
        assert not any(secret in answers for secret in (KEY, KEY.hex().encode(), RIGHT.encode(), WRONG.encode()))
        assert not any(sequence in answers for sequence in sequences(consortium.workers[name]))
    assert traces(everything_planted(), b"".join({content for *_, content in consortium.told})) == []
    assert found_in_files(tmp_path / "run", everything_planted()) == {}


# --------------------------------------------------------------------------------- what a failure says


def failing(error: type[Exception]):
    """FedAvg's training, which on p0 fails and says more than it should."""
    whole = FedAvg.train

    @task(weights="model", sentences="sentences", loss="loss")
    def train(self, site, message):
        if site.name == "p0":
            raise error(f"{Planted('p0').words[1]} was born in Bonn")
        return whole(self, site, message)

    return train


@pytest.mark.parametrize("error", [ValueError, KeyError, UserError, MemoryError])
def test_a_failure_tells_the_coordinator_nothing_of_the_text(error, world, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(FedAvg, "train", failing(error))
    consortium = Recorded(world, tmp_path / "homes", read(world, "method.name=fedavg", "training.rounds=1"))
    consortium.train(tmp_path / "run")
    [(platform, why)] = consortium.failures
    assert platform == "p0" and why
    assert traces(everything_planted(), b"".join(content for *_, content in consortium.answers)) == []
    assert found_in_files(tmp_path / "run", everything_planted()) == {}
    assert (Planted("p0").words[1] in capfd.readouterr().err) == (error is not MemoryError)  # its own people know


def test_a_broken_file_tells_the_coordinator_nothing_of_it(world, tmp_path, capfd):
    broken = shutil.copytree(world, tmp_path / Planted("p0").folder)
    consortium = Recorded(broken, tmp_path / "homes", read(broken, "method.name=fedavg", "training.rounds=1"))
    break_line(broken / "p0")
    consortium.train(tmp_path / "run")
    assert {platform for platform, _ in consortium.failures} == {"p0"}
    assert traces(everything_planted(), b"".join(content for *_, content in consortium.answers)) == []
    assert f"{broken}/p0/train.jsonl:3: not a JSON object" in capfd.readouterr().err
