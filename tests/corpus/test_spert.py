"""SpERT's JSON."""

import json

import pytest

from fedrel.corpus import Annotation, Document, spert
from fedrel.corpus.detection import detect
from fedrel.corpus.pairs import instances
from fedrel.corpus.splits import find_splits, passed_over
from fedrel.corpus.types import NA, Skipped
from fedrel.data.inspection import inspect
from tests.documents import covered, everything, place, refusal
from tests.labelled_examples import WRITERS

LEE = {
    "tokens": ["Ann", "Lee", "left", "Bonn", "for", "Graz", "."],
    "entities": [
        {"type": "Peop", "start": 0, "end": 2},
        {"type": "Loc", "start": 3, "end": 4},
        {"type": "Loc", "start": 5, "end": 6},
    ],
    "relations": [{"type": "Live_In", "head": 0, "tail": 2}],
    "orig_id": 17,
}
PAIN = {
    "tokens": ["Zinc", "causes", "acute", "pain"],
    "entities": [
        {"type": "Drug", "start": 0, "end": 1},
        {"type": "Effect", "start": 2, "end": 4},
        {"type": "Effect", "start": 3, "end": 4},
    ],
    "relations": [{"type": "Adverse-Effect", "head": 1, "tail": 0}, {"type": "Adverse-Effect", "head": 2, "tail": 0}],
    "orig_id": "99_0",
}
LABELS = {"entities": {"Loc": {"short": "Loc", "verbose": "Location"}}, "relations": {}}


def written(folder, *rows, name="train.json"):
    return place(folder, {name: json.dumps(rows)}) / name


def test_sentences_with_entities_and_relations(tmp_path):
    path = written(tmp_path, LEE, PAIN)
    (lee, pain), skipped = everything(spert.read, path)
    assert lee == Document(
        "17",
        "Ann Lee left Bonn for Graz .",
        (Annotation("T0", 0, 7, "Peop"), Annotation("T1", 13, 17, "Loc"), Annotation("T2", 22, 26, "Loc")),
        (("T0", "Live_In", "T2"),),
        f"{path}:1, row 1",
        ((0, 28),),
        ((0, 3), (4, 7), (8, 12), (13, 17), (18, 21), (22, 26), (27, 28)),
    )
    assert pain.id == "99_0"
    assert covered(pain) == {"T0": "Zinc", "T1": "acute pain", "T2": "pain"}
    assert pain.relations == (("T1", "Adverse-Effect", "T0"), ("T2", "Adverse-Effect", "T0"))
    assert skipped.total == 0
    assert [it.relation for it in instances(lambda: [lee], Skipped())] == ["Live_In", NA]


def test_json_lines_and_a_folder_are_read_as_well(tmp_path):
    place(tmp_path, {"a/x.jsonl": f"{json.dumps(LEE)}\n\n{json.dumps(PAIN)}\n", "b.json": json.dumps([LEE])})
    found, skipped = everything(spert.read, tmp_path)
    assert [it.id for it in found] == ["17", "99_0", "17"]
    assert found[1].where == f"{tmp_path}/a/x.jsonl:3"
    assert skipped.total == 0


def test_what_is_not_marked_is_not_there(tmp_path):
    rows = {"tokens": ["a"]}, {"tokens": ["a"], "entities": []}, {"tokens": ["a"], "entities": [], "relations": []}
    found, skipped = everything(spert.read, written(tmp_path, *rows))
    assert [(it.annotations, it.relations) for it in found] == [(None, None), ((), None), ((), ())]
    assert [it.id for it in found] == [f"train.json:1, row {n}" for n in (1, 2, 3)]
    assert skipped.total == 0


def test_an_empty_sentence_and_a_repeated_relation_are_counted(tmp_path):
    rows = {"tokens": [" ", ""], "entities": []}, {**LEE, "relations": LEE["relations"] * 2}
    [found], skipped = everything(spert.read, written(tmp_path, *rows))
    assert found.relations == (("T0", "Live_In", "T2"),)
    assert skipped.reasons == {"there is no text in it": 1, "the relation is there twice": 1}
    assert not skipped.broken


@pytest.mark.parametrize(
    ("entity", "says"),
    [
        (
            {"start": 6, "end": 8},
            'the entity "T3" has the tokens 6..8 of a sentence of 7; positions must lie within it',
        ),
        ({"start": -1, "end": 1}, 'the entity "T3" has the tokens -1..1 of a sentence of 7'),
        ({"start": 2, "end": 2}, 'the entity "T3" has the tokens 2..2 of a sentence of 7'),
        ({"start": 2}, 'the entity 3: "end" must be a whole number, not "None"'),
        ({"start": True, "end": 2}, 'the entity 3: "start" must be a whole number, not "True"'),
        ({"start": 0.0, "end": 2}, 'the entity 3: "start" must be a whole number, not "0.0"'),
        ({"start": [], "end": 2}, 'the entity 3: "start" must be a whole number'),
        ({"start": 0, "end": 10**99}, 'the entity 3: "end" must be a whole number, not "1000'),
        ("x", "the entity 3 is no object"),
    ],
)
def test_a_broken_entity_is_left_out_with_its_relations(tmp_path, entity, says):
    row = {
        **LEE,
        "entities": [*LEE["entities"], entity],
        "relations": [*LEE["relations"], {"type": "Kill", "head": 3, "tail": 0}],
    }
    path = written(tmp_path, row, PAIN)
    found, skipped = everything(spert.read, path)
    assert [len(it.annotations) for it in found] == [3, 3]
    assert [len(it.relations) for it in found] == [1, 2]
    [message] = skipped.broken_examples
    assert message.startswith(f"{path}:1, row 1: {says}")
    assert skipped.broken.total() == 1
    assert skipped.reasons["the relation needs an entity that was left out"] == 1
    assert skipped.total == 2


@pytest.mark.parametrize(
    ("relation", "says"),
    [
        ({"type": "Kill", "head": 3, "tail": 0}, "the relation 1 names the entity 3 of 3; they are counted from 0"),
        ({"type": "Kill", "head": -1, "tail": 0}, "the relation 1 names the entity -1 of 3; they are counted from 0"),
        ({"type": "Kill", "head": "0", "tail": 1}, 'the relation 1: "head" must be a whole number, not "0"'),
        ({"type": "Kill", "head": 0}, 'the relation 1: "tail" must be a whole number, not "None"'),
        ({"type": " ", "head": 0, "tail": 1}, 'the relation 1: "type" is missing or no text'),
        ([0, 1], "the relation 1 is no object"),
    ],
)
def test_a_broken_relation_is_left_out(tmp_path, relation, says):
    path = written(tmp_path, {**LEE, "relations": [*LEE["relations"], relation]})
    [found], skipped = everything(spert.read, path)
    assert found.relations == (("T0", "Live_In", "T2"),)
    assert skipped.broken_examples == [f"{path}:1, row 1: {says}"]
    assert skipped.total == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({**LEE, "tokens": "Ann Lee"}, '"tokens" must hold tokens, each of them text'),
        ({**LEE, "tokens": ["Ann", 3]}, '"tokens" must hold tokens, each of them text'),
        ({"entities": []}, '"tokens" must hold tokens, each of them text'),
        ({**LEE, "entities": {}}, '"entities" is missing or no list'),
        ({**LEE, "relations": 3}, '"relations" is missing or no list'),
        ("Ann Lee left Bonn.", "not a JSON object"),
    ],
)
def test_a_broken_row_is_counted_and_the_rest_read(tmp_path, row, says):
    path = written(tmp_path, row, LEE)
    [found], skipped = everything(spert.read, path)
    assert found.id == "17"
    assert skipped.broken_examples == [f"{path}:1, row 1: {says}"]


def test_a_damaged_array_is_refused(tmp_path):
    path = place(tmp_path, {"train.json": json.dumps([LEE, PAIN])[:-30]}) / "train.json"
    assert refusal(spert.read, path) == f"{path}:1: not JSON from here on; is the file damaged or cut off?"


def test_the_published_folder(tmp_path):
    names = [f"conll04_{name}.json" for name in ("train", "dev", "test", "train_dev", "prediction_example")]
    place(tmp_path, {name: json.dumps([LEE, PAIN]) for name in names})
    place(tmp_path, {"conll04_types.json": json.dumps(LABELS)})
    assert detect(tmp_path).source == "spert"
    found = find_splits(tmp_path, "spert")
    assert {split: file.name for split, file in found.items()} == {
        split: f"conll04_{split}.json" for split in ("train", "dev", "test")
    }
    assert "conll04_train_dev.json" in passed_over(tmp_path, "spert")
    assert passed_over(tmp_path / "conll04_train.json", "spert") == ()


def test_what_is_passed_over_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    WRITERS["spert"](folder, 4)
    assert inspect(folder).passed_over == []
    place(folder, {"made_train_dev.json": "[]"})
    assert inspect(folder).passed_over == ["made_train_dev.json"]


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_files_are_recognised(tmp_path, indent):
    place(tmp_path, {"a.json": json.dumps([LEE], indent=indent), "b.jsonl": json.dumps(LEE)})
    assert detect(tmp_path / "a.json").source == "spert"
    assert detect(tmp_path / "b.jsonl").source == "spert"


def test_other_files_are_not_claimed(tmp_path):
    fewrel = {"P1": [{"tokens": ["a"], "h": ["a", "Q1", [[0]]], "t": ["a", "Q1", [[0]]]}]}
    for value in (LABELS, fewrel, [{"token": ["a"], "relation": "r"}], [{"token": "tokens"}], [1]):
        place(tmp_path, {"a.json": json.dumps(value)})
        sample = spert.Sample(tmp_path / "a.json", [json.dumps(value)])
        assert spert.FORMAT.by_content(sample) is None
