"""Damage of what a run goes on from is found when it is read, wherever it is."""

import json

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.protocol import checkpoint
from fedrel.protocol.checkpoint import Checkpoint
from fedrel.protocol.codec import encode

WEIGHTS = Named(w=torch.arange(3.0), b=torch.tensor([1, 2], dtype=torch.int64))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    progress = {"data": "abc", "rounds": 3, "best_score": 0.5}
    checkpoint.save(folder, Checkpoint({"weights": WEIGHTS, "loss": 0.5}, {"a": {"c": WEIGHTS}}, progress))
    checkpoint.save_weights(folder / "best.safetensors", WEIGHTS)
    checkpoint.save_record(folder / "memory.safetensors", {"c": WEIGHTS, "n": 2.0})
    return folder


def read_all(folder):
    return {
        "round.safetensors": lambda: checkpoint.load(folder),
        "best.safetensors": lambda: checkpoint.load_weights(folder / "best.safetensors"),
        "memory.safetensors": lambda: checkpoint.load_record(folder / "memory.safetensors"),
    }


def refused(folder, name, content):
    path = folder / name
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        with pytest.raises(UserError) as refusal:
            read_all(folder)[name]()
    finally:
        path.write_bytes(whole)
    sentence = str(refusal.value)
    assert sentence.startswith(f"{path}: damaged (")
    assert sentence.endswith("; put a copy of the file back, or start anew without it")


NAMES = st.sampled_from(["round.safetensors", "best.safetensors", "memory.safetensors"])


@given(NAMES, st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_changed_byte_is_found_wherever_it_is(folder, name, place, change):
    content = bytearray((folder / name).read_bytes())
    content[int(place * len(content))] ^= change
    refused(folder, name, bytes(content))


@pytest.mark.parametrize("name", ["round.safetensors", "best.safetensors", "memory.safetensors"])
def test_every_place_is_covered(folder, name):
    content = (folder / name).read_bytes()
    for place in range(len(content)):
        refused(folder, name, content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


@given(NAMES, st.integers(0), st.binary(min_size=1, max_size=9), st.booleans())
def test_cut_and_added_bytes_are_found(folder, name, place, added, cut):
    content = (folder / name).read_bytes()
    place %= len(content) + (not cut)
    changed = content[:place] + (b"" if cut else added) + content[place + len(added) * cut :]
    if changed != content:
        refused(folder, name, changed)


def test_a_damaged_digest_does_not_pass_for_a_file_without_one(folder):
    content = (folder / "best.safetensors").read_bytes()
    refused(folder, "best.safetensors", content.replace(b'"sha256"', b'"xha256"'))
    refused(folder, "best.safetensors", content.replace(b'"sha256"', b'"SHA999"'))


def test_what_is_whole_comes_back_and_other_readers_open_it(folder):
    found = checkpoint.load(folder)
    assert found.progress == {"data": "abc", "rounds": 3, "best_score": 0.5}
    assert found.state["loss"] == 0.5
    assert torch.equal(found.memories["a"]["c"]["w"], WEIGHTS["w"])
    theirs = safetensors.torch.load_file(folder / "best.safetensors")
    assert torch.equal(theirs["weights/w"], WEIGHTS["w"])
    with safetensors.safe_open(folder / "round.safetensors", "pt") as file:
        assert json.loads(file.metadata()["progress"])["rounds"] == 3


def test_files_of_earlier_versions_without_a_digest_are_read(tmp_path):
    (tmp_path / "round.safetensors").write_bytes(encode({"state|loss": 0.5}, {"progress": '{"rounds": 1}'}))
    assert checkpoint.load(tmp_path).progress == {"rounds": 1}
    (tmp_path / "best.safetensors").write_bytes(encode({"weights": WEIGHTS}))
    assert torch.equal(checkpoint.load_weights(tmp_path / "best.safetensors")["w"], WEIGHTS["w"])


def test_a_whole_file_in_the_place_of_a_checkpoint_is_refused(tmp_path):
    checkpoint.save_weights(tmp_path / "round.safetensors", WEIGHTS)
    with pytest.raises(UserError, match="not the checkpoint of a run"):
        checkpoint.load(tmp_path)
