"""What makes two mentions one entity: ids, names where the user says so, and nothing else."""

import json
import shutil
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.config import Data
from fedrel.corpus.reading import Reading
from fedrel.corpus.rules import normal_name
from fedrel.corpus.splits import find_splits
from fedrel.data import loading
from fedrel.data.partition import one_after_another
from fedrel.data.store import Dataset, iterate
from fedrel.errors import UserError
from tests.labelled_examples import WRITERS
from tests.loading import all_of, load

LOCAL = "local:"


def ids_of(dataset: Dataset) -> dict[str, set[str]]:
    """The ids that each platform has in its train."""
    return {
        name: {mention.id for it in iterate(dataset, dataset.train, rows) for mention in (it.head, it.tail)}
        for name, rows in one_after_another(dataset.held).items()
    }


def two_platforms(folder: Path, source: str) -> Path:
    """Both hold the very same files; test and dev are others."""
    whole = folder / "whole"
    whole.mkdir()
    WRITERS[source](whole, 6)
    for dev in whole.glob("dev.*"):
        if not dev.stat().st_size:
            shutil.copy(dev.with_stem("train"), dev)
    parties = folder / "parties"
    for name in ("a", "b", "coordinator"):
        shutil.copytree(whole, parties / name)
    return parties


@pytest.mark.parametrize("source", WRITERS)
def test_platforms_with_the_same_files_share_only_what_has_an_id(tmp_path, source):
    dataset, _ = load(two_platforms(tmp_path, source), source=source)
    a, b = ids_of(dataset)["a"], ids_of(dataset)["b"]
    assert {it for it in a if not it.startswith(LOCAL)} == {it for it in b if not it.startswith(LOCAL)}
    assert not {it for it in a & b if it.startswith(LOCAL)}


@pytest.mark.parametrize("source", WRITERS)
def test_splits_share_only_what_has_an_id(tmp_path, source):
    WRITERS[source](tmp_path, 6)
    found = {
        split: {mention.id for it in rows for mention in (it.head, it.tail)}
        for split, rows in all_of(load(tmp_path, source=source)[0]).items()
    }
    assert not any(it.startswith(LOCAL) for it in (found["train"] & found["test"]) | (found["train"] & found["dev"]))


@pytest.mark.parametrize("source", WRITERS)
def test_renaming_files_changes_nothing(tmp_path, source):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    WRITERS[source](before, 6)
    shutil.copytree(before, after)
    for file in sorted(after.rglob("*"), reverse=True):
        if file.is_file() and file.parent != after:  # a document; the names of splits have a meaning
            file.rename(file.with_name(f"x-{file.name}"))
    one, other = (load(folder, source=source)[0] for folder in (before, after))
    for split, rows in all_of(one).items():
        assert Counter(map(content, rows)) == Counter(map(content, all_of(other)[split]))
    assert one.meta["pairs"] == other.meta["pairs"]
    assert one.meta["overlap"] == other.meta["overlap"]


def content(it) -> tuple[object, ...]:
    return tuple(it.tokens), it.head, it.tail, it.relation


def notes(folder: Path, mark: str, count: int) -> None:
    """Documents of one platform: the same file names and keys everywhere, and entities of its own."""
    folder.mkdir(parents=True)
    for n in range(count):
        name, place = f"{mark}ann{n}", f"{mark}burg{n}"
        text = f"{name} lives in {place}."
        (folder / f"note{n}.txt").write_text(text)
        (folder / f"note{n}.ann").write_text(
            f"T1\tPerson 0 {len(name)}\t{name}\nT2\tPlace {text.index(place)} {len(text) - 1}\t{place}\n"
            + ("R1\tlives Arg1:T1 Arg2:T2\n" if n % 3 else "")
        )


def test_platforms_that_number_their_notes_alike_share_no_fact_and_lose_no_sentence(tmp_path):
    for name in "abcd":
        notes(tmp_path / name / "train", name, 10)
    for split in ("dev", "test"):
        notes(tmp_path / "coordinator" / split, split, 10)
    dataset, _ = load(tmp_path, source="brat")
    assert dataset.held == dict.fromkeys("abcd", 10)
    assert len(dataset.train.facts) == 4 * 6
    found = ids_of(dataset).values()
    assert sum(map(len, found)) == len(set().union(*found)) == 4 * 10 * 2


# ------------------------------------------------------------------------------------- as the user says


def rows(folder: Path, *names: tuple[str, str, str]) -> Path:
    """Sentences of distant supervision, whose entities have a name and perhaps an id."""
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        lines = []
        for n, (head, tail, id_) in enumerate(names):
            text = f"{head} met {tail} {split} {n}"
            start = len(head) + 5
            h = {"name": head, "pos": [0, len(head)], **({"id": f"{id_}h"} if id_ else {})}
            t = {"name": tail, "pos": [start, start + len(tail)], **({"id": f"{id_}t"} if id_ else {})}
            lines.append(json.dumps({"text": text, "h": h, "t": t, "relation": "met" if n % 2 else "NA"}) + "\n")
        (folder / f"{split}.jsonl").write_text("".join(lines))
    return folder


NAMES = (("Ann Lee", "Bonn", "Q1"), ("ann_lee", "BONN", ""), ("Ann  Lee", "Bonn", "Q2"), ("Cy", "Ulm", ""))


@pytest.mark.parametrize(
    ("identity", "pairs", "said"),
    [
        ("id", 4, "train: 2 sentences with an entity that is known in its own document alone (it has no id;"),
        (
            "name",
            2,
            "train: 4 entities by name, 2 of them in several documents or sentences and 2 in several spellings (data.",
        ),
        ("document", 4, "train: 4 sentences with an entity that is known in its own document alone (data.identity)"),
    ],
)
def test_identity_is_by_id_by_name_or_by_document(tmp_path, identity, pairs, said):
    dataset, _ = load(rows(tmp_path / "d", *NAMES), identity=identity, allow_overlap=True)
    assert dataset.meta["pairs"]["train"] == pairs
    assert any(note.startswith(said) for note in dataset.notes), dataset.notes
    shared = dataset.meta["overlap"]
    assert shared == {"id": 2, "name": 2, "document": 0}[identity]


def test_a_platform_alone_reads_its_data_as_the_folder_of_all_does(tmp_path):
    folder = rows(tmp_path / "p" / "a", *NAMES)
    shutil.copytree(folder, tmp_path / "p" / "coordinator")
    (tmp_path / "p" / "coordinator" / "train.jsonl").unlink()
    together, _ = load(tmp_path / "p", allow_overlap=True, relations=("met",))
    alone = loading.load_part(Data("opennre", ""), folder, relations=["met"], platform="a")
    assert [it.head.id for it in all_of(together)["train"]] == [it.head.id for it in all_of(alone)["train"]]


@given(st.text())
def test_blanks_and_underscores_do_not_count_in_names(words):
    once = normal_name(words)
    assert normal_name(f"  {words}_ ") == once
    assert not any(character.isspace() or character == "_" for character in once)


@given(st.text(string.printable))
def test_case_does_not_count_in_names(words):
    assert normal_name(words.upper()) == normal_name(words.lower()) == normal_name(words)


def test_names_are_compared_without_case_blanks_underscores_and_compatibility_forms():
    assert normal_name("New_York ") == normal_name("new  york") == normal_name("ＮＥＷ ＹＯＲＫ") == "newyork"
    assert normal_name("IL-2") != normal_name("IL2")


# ---------------------------------------------------------------------------------- labels, documents and folders


def test_labels_are_renamed_before_pairs_are_formed(tmp_path):
    rows = [
        {
            "text": f"Ann met Bob {n}.",
            "entities": [{"start": 0, "end": 3, "type": "p"}, {"start": 8, "end": 11, "type": "p"}],
            "relations": [{"head": "T1", "relation": name, "tail": "T2"} for name in ("met", "saw")],
        }
        for n in range(40)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for labels in ((("saw", "NA"),), (("saw", "met"),)):
        dataset, _ = load(tmp_path / "a.jsonl", source="jsonl", labels=labels)
        found = [it.relation for part in all_of(dataset).values() for it in part]
        assert found == ["met"] * 40


def test_a_lost_document_weighs_more_than_its_entities(tmp_path):
    entities = [{"start": 2 * n, "end": 2 * n + 1, "type": "p"} for n in range(20)]
    good = json.dumps({"text": "a " * 20, "entities": entities, "relations": []})
    (tmp_path / "a.jsonl").write_text(f"{good}\n" * 97 + "{\n" * 3)
    with pytest.raises(UserError, match=r"a\.jsonl:98: not a JSON object .*3 of 100 rows"):
        list(Reading("jsonl", tmp_path / "a.jsonl").rows())


def test_splits_below_another_folder_are_not_all_taken_for_train(tmp_path):
    (tmp_path / "corpus").mkdir()
    WRITERS["brat"](tmp_path / "corpus", 3)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "convert.txt").write_text("No data.")
    assert find_splits(tmp_path, "brat") == {it: tmp_path / "corpus" / it for it in ("train", "dev", "test")}
