"""Data of several parties: folders of platforms, what they hold out at home, and one party alone."""

import shutil
import zlib
from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus import NA
from fedrel.data import loading
from fedrel.data.partition import one_after_another
from fedrel.data.store import iterate
from fedrel.errors import UserError
from tests.instances import sentence, sentences, write
from tests.labelled_examples import write_brat
from tests.loading import all_of, load, pairs, part, public, refusal

# -------------------------------------------------------------------------------- folders of platforms


def platforms(folder: Path, *, mark="") -> Path:
    for name in ("b", "a", "C"):
        write(folder / name / "train.jsonl", sentences(4, prefix=f"{mark}{name}"))
    for split in ("dev", "test"):
        write(folder / "coordinator" / f"{split}.jsonl", sentences(4, prefix=f"{mark}{split}"))
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("nobody's train")
    (folder / ".hidden").mkdir()
    write(folder / ".hidden" / "train.jsonl", sentences(4))
    return folder


def test_every_folder_with_a_training_file_is_a_platform(tmp_path):
    dataset, _ = load(platforms(tmp_path, mark="each"))
    assert list(dataset.held.items()) == [("C", 8), ("a", 8), ("b", 8)]
    found = all_of(dataset)
    assert found["train"] == [it for name in ("C", "a", "b") for it in sentences(4, prefix=f"each{name}")]
    assert (found["dev"], found["test"]) == (sentences(4, prefix="eachdev"), sentences(4, prefix="eachtest"))
    again, told = load(tmp_path)
    assert (again.folder, again.held, told) == (dataset.folder, dataset.held, [])


def test_the_coordinators_own_train_comes_last(tmp_path):
    write(platforms(tmp_path, mark="own") / "coordinator" / "train.jsonl", sentences(2, prefix="ownserver"))
    dataset, _ = load(tmp_path)
    assert list(dataset.held.items()) == [("C", 8), ("a", 8), ("b", 8), ("coordinator", 4)]
    assert all_of(dataset)["train"][24:] == sentences(2, prefix="ownserver")


def test_what_was_left_out_is_told_by_platform(tmp_path):
    dataset, _ = load(platforms(tmp_path, mark="told"), relations=("r0",))
    assert dataset.held == {"C": 6, "a": 6, "b": 6}
    assert "a/train: 2 sentences left out: relation not in data.relations" in dataset.notes
    assert "coordinator/dev: 2 sentences left out: relation not in data.relations" in dataset.notes


def test_another_name_or_another_sentence_makes_other_data(tmp_path):
    before = load(platforms(tmp_path, mark="other"))[0].folder
    prints = [loading.fingerprint(Data("opennre", str(tmp_path)))]
    (tmp_path / "a").rename(tmp_path / "d")
    renamed = load(tmp_path)[0].folder
    write(tmp_path / "d" / "train.jsonl", sentences(5, prefix="other"))
    loading.fingerprint.cache_clear()
    prints.append(loading.fingerprint(Data("opennre", str(tmp_path))))
    assert len({before, renamed, load(tmp_path)[0].folder}) == 3
    assert len(set(prints)) == 2


def test_a_folder_of_platforms_that_is_not_whole_is_refused(tmp_path):
    assert "data.dev takes a share of train" in refusal(platforms(tmp_path / "dev"), dev=0.1)
    write(platforms(tmp_path / "empty") / "a" / "train.jsonl", [])
    assert refusal(tmp_path / "empty") == f"{tmp_path}/empty/a/train.jsonl: no sentences; train needs at least one"
    write(platforms(tmp_path / "name") / "ward 3" / "train.jsonl", sentences(2))
    assert refusal(tmp_path / "name").startswith(f'{tmp_path}/name: "ward 3" cannot be the name of a platform')
    write(tmp_path / "nobody" / "coordinator" / "dev.jsonl", sentences(2))
    assert refusal(tmp_path / "nobody") == (
        f"{tmp_path}/nobody: no platform: no folder in it but coordinator holds a training file"
    )


def test_documents_can_lie_in_a_folder_of_platforms_too(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_brat(tmp_path / name, 2)
    (tmp_path / "coordinator").mkdir()
    write_brat(tmp_path / "coordinator", 2)
    for folder in ("dev", "test"):
        shutil.rmtree(tmp_path / "a" / folder)
    for file in (tmp_path / "b" / "train").iterdir():
        file.rename(tmp_path / "b" / file.name)
    for folder in ("train", "dev", "test"):
        shutil.rmtree(tmp_path / "b" / folder)
    (tmp_path / "b" / "more").mkdir()
    dataset, _ = load(tmp_path, source="brat")
    assert list(dataset.held.items()) == [("a", 2), ("b", 2), ("coordinator", 2)]


# --------------------------------------------------------------------- what platforms hold out at home


def private(folder: Path, *, mark="", pairs=60) -> Path:
    """Platforms with pairs in common, and a coordinator without dev and test."""
    for name in ("b", "a", "C"):
        write(folder / name / "train.jsonl", [*sentences(pairs, prefix=mark), *sentences(pairs, prefix=mark + name)])
    write(folder / "coordinator" / "train.jsonl", sentences(pairs, prefix=mark))
    return folder


def test_a_tenth_of_the_pairs_is_held_out_by_everybody_and_trained_on_by_nobody(tmp_path):
    dataset, told = load(private(tmp_path, mark="tenth"))
    found = {split: pairs(instances) for split, instances in all_of(dataset).items()}
    assert not found["train"] & found["dev"] | found["train"] & found["test"] | found["dev"] & found["test"]
    everything = pairs([*sentences(60, prefix="tenth")]) | {
        pair for name in "abC" for pair in pairs(sentences(60, prefix=f"tenth{name}"))
    }
    assert found["train"] | found["dev"] | found["test"] == everything
    assert 0.04 < len(found["dev"]) / len(everything) < 0.2
    assert "dev is what the platforms hold out, each one pair in 10 of its train" in told
    dataset.require_no_overlap(False)
    assert list(dataset.held_out) == ["dev", "test"]
    for split, sizes in dataset.held_out.items():
        assert list(sizes) == ["C", "a", "b"]
        assert sum(sizes.values()) == len(getattr(dataset, split))
    assert sum(dataset.held.values()) == len(dataset.train)


def test_a_platform_alone_holds_out_what_a_simulation_says_it_does(tmp_path):
    dataset, _ = load(private(tmp_path, mark="alone"), relations=("r2", "r0"))
    for name in ("C", "a", "b"):
        alone = part(tmp_path / name, "r2", "r0", held_out=("dev", "test"))
        for split, held in [("train", dataset.held), *dataset.held_out.items()]:
            rows = one_after_another(held)[name]
            assert all_of(alone)[split] == list(iterate(dataset, getattr(dataset, split), rows))
    own = one_after_another(dataset.held)["coordinator"]
    assert all_of(public(tmp_path / "coordinator", "r2", "r0"))["train"] == list(iterate(dataset, dataset.train, own))


def test_files_of_their_own_come_first_and_only_where_the_coordinator_has_none(tmp_path):
    private(tmp_path, mark="files")
    write(tmp_path / "a" / "dev.jsonl", sentences(4, prefix="filesown"))
    write(tmp_path / "a" / "test.jsonl", sentences(4, prefix="filesnever"))
    write(tmp_path / "coordinator" / "test.jsonl", sentences(4, prefix="filestest"))
    dataset, told = load(tmp_path)
    assert dataset.held_out["dev"]["a"] == 8
    assert dataset.held["a"] == 240  # all of its train
    assert dataset.held["b"] < 240
    assert list(dataset.held_out) == ["dev"]
    assert all_of(dataset)["test"] == sentences(4, prefix="filestest")
    assert (
        "dev is what the platforms hold out: a a file of their own, C, b one pair in 10 of train; what one holds out "
        "another may train on"
    ) in told
    alone = part(tmp_path / "a", "r0", "r2", held_out=("dev",))
    assert all_of(alone)["dev"] == sentences(4, prefix="filesown")
    assert len(alone.test) == 0


def test_platforms_that_are_too_small_to_hold_anything_out(tmp_path):
    write(private(tmp_path / "few", mark="few") / "a" / "train.jsonl", sentences(1, prefix="fewalone"))
    dataset, _ = load(tmp_path / "few")
    assert dataset.held_out["dev"]["a"] == 0
    chosen = (
        it for it in sentences(200, prefix="whole") if zlib.crc32(f"dev\t{it.head.id}\t{it.tail.id}".encode()) % 10 == 0
    )
    write(tmp_path / "few" / "a" / "train.jsonl", [next(chosen)])
    assert refusal(tmp_path / "few") == (
        f"{tmp_path}/few/a: test and dev are one pair in 10, drawn alike on every platform, which here takes all of "
        "train (1); add pairs, or a test file and a dev file"
    )


# ------------------------------------------------------------------------------------- one party alone


def test_a_platform_needs_nothing_but_its_train(tmp_path):
    write(tmp_path / "train.jsonl", sentences(4, prefix="alone"))
    alone = part(tmp_path, "r2", "r0", dev=0.3)
    assert alone.relations == [NA, "r2", "r0"]
    assert all_of(alone) == {"train": sentences(4, prefix="alone"), "dev": [], "test": []}
    assert part(tmp_path, "r2", "r0").folder == alone.folder
    assert part(tmp_path, "r0").notes == ["train: 2 sentences left out: relation not in data.relations"]
    assert part(tmp_path / "train.jsonl", "r0", "r2").relations == [NA, "r0", "r2"]


def test_a_platform_may_hold_no_relation_at_all(tmp_path):
    write(tmp_path / "train.jsonl", [sentence(relation=NA)])
    assert part(tmp_path, "r").train.labels.tolist() == [0]


def test_a_coordinator_needs_no_train_and_may_share_pairs_with_anybody(tmp_path):
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.jsonl", sentences(4, prefix="both"))
    alone = public(tmp_path, "r0", "r2")
    assert all_of(alone) == {"train": [], "dev": sentences(4, prefix="both"), "test": sentences(4, prefix="both")}
    write(tmp_path / "train.jsonl", sentences(2, prefix="own"))
    assert all_of(public(tmp_path, "r0", "r2"))["train"] == sentences(2, prefix="own")


def test_a_party_that_cannot_take_part_is_told_why(tmp_path):
    def why(path, *relations, source="opennre"):
        with pytest.raises(UserError) as caught:
            loading.load_part(Data(source=source), path, relations=relations)
        return str(caught.value)

    assert why(tmp_path, "r").startswith(f"{tmp_path}: no training file; expected train.jsonl")
    assert why(tmp_path / "none", "r") == f"{tmp_path}/none: no such file or folder"
    write(tmp_path / "train.jsonl", sentences(2))
    assert why(tmp_path).startswith("data.relations is empty; a federation agrees on its relations")
    assert why(tmp_path, "r", source="world").startswith('data.source = "world" is no format of labelled data')
    write(tmp_path / "train.jsonl", [sentence(relation="s")])
    assert why(tmp_path, "r") == (
        f"{tmp_path}/train.jsonl: no sentences; train needs at least one "
        "(1 sentence left out: relation not in data.relations); its labels are s"
    )
    with pytest.raises(UserError, match=r"relation not in data\.relations\)$"):  # of a platform they are not told
        loading.load_part(Data(source="opennre"), tmp_path, relations=["r"], platform="a")
