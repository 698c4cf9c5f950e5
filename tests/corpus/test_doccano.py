"""doccano's exports."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, doccano
from fedrel.corpus.detection import detect
from fedrel.corpus.reading import Reading
from fedrel.data.inspection import inspect
from fedrel.errors import UserError
from tests.documents import covered, everything, place, with_another_value

TEXT = "Ann Lee runs Acme in Bonn. Bo left."
ENTITIES = [
    {"id": 7, "label": "PER", "start_offset": 0, "end_offset": 7},
    {"id": 8, "label": "ORG", "start_offset": 13, "end_offset": 17},
    {"id": 9, "label": "LOC", "start_offset": 21, "end_offset": 25},
]
RELATIONS = [{"id": 1, "from_id": 7, "to_id": 8, "type": "runs"}, {"id": 2, "from_id": 8, "to_id": 9, "type": "in"}]
ROW = {"id": 12, "text": TEXT, "entities": ENTITIES, "relations": RELATIONS, "Comments": []}
OLD = {"id": 3, "text": "Bo met Ann.", "label": [[0, 2, "PER"], [7, 10, "PER"]], "Comments": []}


def written(path, *rows):
    return place(path.parent, {path.name: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)}) / (
        path.name
    )


def test_entities_and_relations(tmp_path):
    file = written(tmp_path / "all.jsonl", ROW)
    [found], skipped = everything(doccano.read, file)
    assert found == Document(
        "12",
        TEXT,
        (Annotation("7", 0, 7, "PER"), Annotation("8", 13, 17, "ORG"), Annotation("9", 21, 25, "LOC")),
        (("7", "runs", "8"), ("8", "in", "9")),
        f"{file}:1",
    )
    assert covered(found) == {"7": "Ann Lee", "8": "Acme", "9": "Bonn"}
    assert skipped.total == 0


@pytest.mark.parametrize(
    "row",
    [
        OLD,
        {"id": 3, "data": "Bo met Ann.", "label": OLD["label"]},
        {"id": 3, "text": "Bo met Ann.", "labels": OLD["label"], "meta": {}},
    ],
    ids=["label", "data", "labels"],
)
@pytest.mark.parametrize("array", [False, True])
def test_older_exports_have_entities_alone(tmp_path, row, array):
    content = json.dumps([row, row], indent=1) if array else json.dumps(row) + "\n" + json.dumps(row) + "\n"
    file = place(tmp_path, {"a.jsonl": content}) / "a.jsonl"
    assert detect(file).source == "doccano"
    found, skipped = everything(doccano.read, file)
    assert len(found) == 2
    assert (found[0].id, found[0].relations) == ("3", None)
    assert found[0].annotations == (Annotation("T1", 0, 2, "PER"), Annotation("T2", 7, 10, "PER"))
    assert skipped.total == 0


def test_numbers_for_labels_and_no_id(tmp_path):
    marked = [{"label": 2, "start_offset": 0, "end_offset": 2, "user": 1}]
    file = written(tmp_path / "a.jsonl", {"text": "Bo left.", "annotations": marked, "meta": {}})
    assert detect(file).source == "doccano"
    [found], _ = everything(doccano.read, file)
    assert found == Document("a.jsonl:1", "Bo left.", (Annotation("T1", 0, 2, "2"),), None, f"{file}:1")


def test_broken_ones_are_counted_and_the_rest_is_read(tmp_path):
    entities = [
        *ENTITIES,
        {"id": 7, "label": "PER", "start_offset": 0, "end_offset": 3},
        {"id": 10, "label": "PER", "start_offset": 0, "end_offset": 99},
        {"id": 11, "label": "PER", "start_offset": 0.5, "end_offset": True},
        {"id": 12, "label": "PER"},
        [0, 3],
    ]
    relations = [
        *RELATIONS,
        {"from_id": 7, "to_id": 10, "type": "runs"},
        {"from_id": 7, "to_id": 99, "type": "runs"},
        {"from_id": 7, "to_id": 8},
        None,
    ]
    rows = [{**ROW, "entities": entities, "relations": relations}, {"id": 1}, {"text": " "}, {"text": "x", "label": 3}]
    file = written(tmp_path / "a.jsonl", *rows, ROW)
    (tmp_path / "a.jsonl").write_bytes(file.read_bytes() + b"{]\n[1]\n")
    found, skipped = everything(doccano.read, file)
    assert [len(it.annotations) for it in found] == [3, 3]
    assert found[0].relations == found[1].relations
    assert dict(skipped.broken) == {
        'the id "…" is there twice; give each entity its own': 1,
        "position … lies outside the … characters of the text": 1,
        "start and end must be whole numbers": 1,
        'no "…" and "…", nor [start, end, "…"]': 2,
        'no entity has the id "…"; mark it, too': 1,
        '"…", "…" or "…" is missing': 2,
        'neither "…" nor "…" holds the text': 1,
        '"…" must be a list': 1,
        "not a JSON object (is the file cut off?)": 1,
        "not a JSON object": 1,
    }
    assert skipped.reasons["the relation needs an entity that was left out"] == 1
    assert skipped.reasons["there is no text in it"] == 1
    assert skipped.total == 14
    assert skipped.broken_examples[0] == f'{file}:1: entity 4: the id "7" is there twice; give each entity its own'


@pytest.mark.parametrize("names", [("train.jsonl", "dev.jsonl", "test.jsonl"), ("all.jsonl",), ("admin.jsonl",)])
def test_it_is_recognised(tmp_path, names):
    for name in names:
        written(tmp_path / name, ROW, OLD)
    assert detect(tmp_path).source == "doccano"
    assert detect(tmp_path / names[0]).source == "doccano"


@pytest.mark.parametrize(
    ("row", "source"),
    [
        ({"id": 1, "text": "x", "entities": [], "relations": [], "Comments": []}, "doccano"),
        ({"id": 1, "text": "x y", "entities": [{"start": 0, "end": 1}], "relations": []}, "jsonl"),
        ({"id": 1, "text": "x"}, "jsonl"),
    ],
)
def test_it_is_told_apart_from_others(tmp_path, row, source):
    assert detect(written(tmp_path / "a.jsonl", row)).source == source


def test_texts_with_one_label_each_are_another_thing(tmp_path):
    with pytest.raises(UserError, match="in no format that is known here"):
        detect(written(tmp_path / "a.jsonl", {"id": 1, "text": "x", "label": ["good"]}))


def test_pairs_come_out(tmp_path):
    for name in ("train", "dev", "test"):
        written(tmp_path / f"{name}.jsonl", ROW, {**OLD, "entities": [], "relations": []})
    rows = list(Reading("doccano", tmp_path / "train.jsonl").instances())
    assert [it.relation for it in rows] == ["runs", "in"]
    assert inspect(tmp_path).kind == "labelled sentences"


@settings(max_examples=300)
@given(data=st.data())
def test_whatever_the_values_are_the_rest_is_read(tmp_path_factory, data):
    good = [ROW, OLD]
    file = tmp_path_factory.getbasetemp() / "doccano.json"
    odd = with_another_value(data.draw, data.draw(st.sampled_from(good)))
    file.write_text(json.dumps([*good, odd, *good]))
    found, _ = everything(doccano.read, file)
    assert len(found) >= 4
    for document in found:
        assert all(words.strip() for words in covered(document).values())
        keys = {it.key for it in document.annotations or ()}
        assert all(end in keys for head, _, tail in document.relations or () for end in (head, tail))
    try:
        detect(file)
    except UserError as error:
        assert "\n" not in str(error)
