"""Settings that name labels, against data that have these labels or not."""

import json
from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.data import loading
from fedrel.data.inspection import inspect
from fedrel.errors import UserError
from tests.labelled_examples import WRITERS, classification
from tests.loading import load, part, refusal, whole

LABELS = "(labels: CPR:3, CPR:4)"


@pytest.fixture
def chemprot(tmp_path) -> Path:
    """Its relations are CPR:3 and CPR:4."""
    WRITERS["chemprot"](tmp_path, 4)
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"labels": (("CPR:33", "activates"),)},
            'data.labels renames "CPR:33", which is no label in {path}; did you mean "CPR:3"? ' + LABELS,
        ),
        ({"labels": (("stops", "NA"),)}, 'data.labels renames "stops", which is no label in {path} ' + LABELS),
        (
            {"na_label": "CPR4"},
            'data.na_label is "CPR4", which is no label in {path}; did you mean "CPR:4"? ' + LABELS,
        ),
        (
            {"directions": (("CPR:5", "undirected"),)},
            'data.directions names "CPR:5", which is no label in {path}; did you mean "CPR:4"? ' + LABELS,
        ),
        (
            {"labels": (("CPR:3", "starts"),), "directions": (("CPR:3", "undirected"),)},
            'data.directions goes by new names, and data.labels renames "CPR:3" to "starts"; write that',
        ),
        (
            {"labels": (("CPR:3", "starts"),), "na_label": "CPR:3"},
            'data.na_label goes by new names, and data.labels renames "CPR:3" to "starts"; write that',
        ),
        (
            {"labels": (("CPR:3", "starts"),), "relations": ("CPR:3", "CPR:4")},
            'data.relations goes by new names, and data.labels renames "CPR:3" to "starts"; write that',
        ),
        (
            {"na_label": "CPR:3", "directions": (("CPR:3", "undirected"),)},
            'data.directions: "CPR:3" means no relation here; leave it out',
        ),
        (
            {"relations": ("CPR:9",)},
            'data.relations names "CPR:9", which is no label in {path}; did you mean "CPR:4"? ' + LABELS,
        ),
    ],
)
def test_a_setting_that_matches_no_label_is_refused(chemprot, settings, told):
    assert refusal(chemprot, source="chemprot", **settings) == told.format(path=chemprot)
    with pytest.raises(UserError) as caught:
        inspect(chemprot, settings=Data(**settings))
    assert str(caught.value) == told.format(path=chemprot)


@pytest.mark.parametrize(
    ("settings", "relations"),
    [
        ({"labels": (("CPR:3", "starts"),)}, ["NA", "CPR:4", "starts"]),
        ({"labels": (("CPR:3", "starts"),), "directions": (("starts", "undirected"),)}, ["NA", "CPR:4", "starts"]),
        ({"labels": (("CPR:3", "NA"),)}, ["NA", "CPR:4"]),
        ({"labels": (("CPR:3", "CPR:4"), ("CPR:4", "CPR:3")), "directions": (("CPR:3", "directed"),)}, None),
        ({"na_label": "CPR:3"}, ["NA", "CPR:4"]),
        ({"labels": (("CPR:3", "nothing"),), "na_label": "nothing"}, ["NA", "CPR:4"]),
        ({"na_label": "NA"}, None),  # nothing else means no relation
        ({"directions": (("*", "undirected"), ("CPR:3", "CHEMICAL -> GENE"))}, None),
        ({"relations": ("CPR:4",)}, ["NA", "CPR:4"]),
    ],
)
def test_a_setting_that_matches_is_taken(chemprot, settings, relations):
    dataset, _ = load(chemprot, source="chemprot", **settings)
    assert dataset.relations == (relations or ["NA", "CPR:3", "CPR:4"])


def test_a_label_that_only_one_split_has_matches(tmp_path):
    rows = (("train", "born"), ("dev", "born"), ("test", "died"))
    for split, relation in rows:
        content = {"text": "Ann left Bonn .", "h": {"pos": [0, 3]}, "t": {"pos": [9, 13]}, "relation": relation}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(content) + "\n")
    dataset, _ = load(tmp_path, labels=(("died", "gone"),))
    assert dataset.relations == ["NA", "born", "gone"]


def test_relations_without_a_row_are_told(tmp_path):
    _, notes = load(whole(tmp_path), relations=("r0", "R2", *(f"x{n}" for n in range(6))))
    assert notes[1:7] == [
        'data.relations: nothing in the data is labelled "R2"; did you mean "r2"?',
        *(f'data.relations: nothing in the data is labelled "x{n}"' for n in range(4)),
        "data.relations: nothing in the data is labelled with 2 more of them",
    ]


def test_many_labels_are_listed_in_part(tmp_path):
    for split in ("train", "dev", "test"):
        rows = [
            {"token": ["a", "b", "c"], "h": {"pos": [0, 1]}, "t": {"pos": [2, 3]}, "relation": f"r{n:02}\x1b"}
            for n in range(30)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = refusal(tmp_path, na_label="nothing")
    assert told.endswith(" and 10 more)")
    assert "\x1b" not in told


def test_one_platform_may_lack_a_label(tmp_path):
    """Others in its federation may have it."""
    settings = {"labels": (("elsewhere", "r9"),), "na_label": "nobody"}
    assert part(whole(tmp_path), "r0", "r2", "r9", **settings).train.labels.tolist().count(1) == 4


def test_platforms_together_must_have_it(tmp_path):
    for name in ("a", "b", "coordinator"):
        whole(tmp_path / name, mark=name)
    told = refusal(tmp_path, labels=(("r22", "x"),))
    assert (
        told == f'data.labels renames "r22", which is no label in {tmp_path}; did you mean "r2"? (labels: NA, r0, r2)'
    )


@pytest.mark.parametrize(
    ("source", "settings", "told"),
    [
        (
            "world",
            {"labels": (("a", "b"),)},
            "data.labels changes nothing here, since the built-in world has the labels",
        ),
        ("opennre", {"directions": (("*", "undirected"),)}, "every row of opennre says which entity is the head"),
        ("classification", {"na_label": "0"}, "whole texts with a label have no pairs of entities; leave it out"),
    ],
)
def test_a_setting_that_the_source_has_no_use_for_is_refused(tmp_path, source, settings, told):
    if source == "classification":
        for split in ("train", "dev", "test"):
            (tmp_path / f"{split}.tsv").write_text(classification(split))
    else:
        whole(tmp_path)
    with pytest.raises(UserError, match="changes nothing here") as caught:
        loading.load(Data(source=source, path=str(tmp_path), **settings))
    assert told in str(caught.value)
    if source != "world":
        with pytest.raises(UserError, match="changes nothing here"):
            inspect(tmp_path, settings=Data(**settings))


def test_labels_of_texts_are_renamed_too(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(classification(split))
    good = (("1", "good"), ("0", "Other"))
    dataset, _ = load(tmp_path, source="classification", labels=good)
    assert dataset.relations == ["Other", "good"]
    assert inspect(tmp_path, settings=Data(labels=good)).parts["train"].labels == {"Other": 2, "good": 2}
    with pytest.raises(UserError, match=r'data\.labels renames "2", which is no label in .* \(labels: 0, 1\)'):
        inspect(tmp_path, settings=Data(labels=(("2", "x"),)))


def test_documents_without_relations_have_no_labels(tmp_path):
    (tmp_path / "a.txt").write_text("We met. It was late.\n")
    with pytest.raises(UserError) as caught:
        inspect(tmp_path, settings=Data(labels=(("a", "b"),)))
    assert str(caught.value) == f'data.labels renames "a", and no relation is marked in {tmp_path}; leave it out'
