"""DyGIE's JSON lines."""

import json

import pytest

from fedrel.corpus import Annotation, Document, dygie
from fedrel.corpus.detection import detect
from fedrel.corpus.pairs import instances
from fedrel.corpus.splits import find_splits
from fedrel.corpus.types import Skipped
from tests.documents import covered, everything, place, refusal

ROW = {
    "clusters": [[[0, 1], [6, 6]]],
    "sentences": [["Deep", "nets", "parse", "text", "."], [], ["So", "they", "label", "long", "text", "."]],
    "ner": [[[0, 1, "Method"], [3, 3, "Material", 9.1, 0.9]], [], [[6, 6, "Generic"], [8, 9, "Material"]]],
    "relations": [[[0, 1, 3, 3, "USED-FOR", 4.2, 0.8]], [], [[6, 6, 8, 9, "USED-FOR"], [9, 9, 8, 9, "PART-OF"]]],
    "predicted_ner": [[[0, 0, "x"]], [], []],
    "doc_key": "K1",
    "dataset": "made",
    "weight": 0.5,
}
PLAIN = {"doc_key": "K2", "sentences": [["No", "marks", "."]]}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(folder, *rows):
    return place(folder, {"train.json": lines(*rows)}) / "train.json"


def test_documents_with_entities_and_relations(tmp_path):
    path = written(tmp_path, ROW, PLAIN)
    (found, plain), skipped = everything(dygie.read, path)
    assert found == Document(
        "K1",
        "Deep nets parse text .\n\nSo they label long text .",
        (
            Annotation("T0", 0, 9, "Method"),
            Annotation("T1", 16, 20, "Material"),
            Annotation("T2", 27, 31, "Generic"),
            Annotation("T3", 38, 47, "Material"),
            Annotation("T4", 43, 47, ""),
        ),
        (("T0", "USED-FOR", "T1"), ("T2", "USED-FOR", "T3"), ("T4", "PART-OF", "T3")),
        f"{path}:1",
        ((0, 22), (24, 49)),
        ((0, 4), (5, 9), (10, 15), (16, 20), (21, 22), (24, 26), (27, 31), (32, 37), (38, 42), (43, 47), (48, 49)),
    )
    assert covered(found) == {"T0": "Deep nets", "T1": "text", "T2": "they", "T3": "long text", "T4": "text"}
    assert (plain.id, plain.text, plain.annotations, plain.relations) == ("K2", "No marks .", None, None)
    assert skipped.total == 0
    assert [it.relation for it in instances(lambda: [found], Skipped())] == ["USED-FOR", "USED-FOR", "PART-OF"]


def test_what_is_not_marked_is_not_there(tmp_path):
    first = {"sentences": [["a", "b"]], "ner": [[[0, 0, "X"], [1, 1, None]]]}
    second = {"sentences": [["a", "b"]], "relations": [[[0, 0, 1, 1, "r"]]]}
    (one, other), skipped = everything(dygie.read, written(tmp_path, first, second))
    assert (one.annotations, one.relations) == ((Annotation("T0", 0, 1, "X"), Annotation("T1", 2, 3)), None)
    assert (other.annotations, other.relations) == (
        (Annotation("T0", 0, 1), Annotation("T1", 2, 3)),
        (("T0", "r", "T1"),),
    )
    assert [one.id, other.id] == ["train.json:1", "train.json:2"]
    assert skipped.total == 0


def test_two_types_in_one_place_and_a_relation_of_two_sentences(tmp_path):
    row = {
        "sentences": [["a", "b"], ["c"]],
        "ner": [[[0, 0, "X"], [0, 0, "Y"]], [[2, 2, "X"]]],
        "relations": [[[0, 0, 2, 2, "r"], [0, 0, 2, 2, "r"]], []],
    }
    [found], skipped = everything(dygie.read, written(tmp_path, row))
    assert [(it.key, it.type) for it in found.annotations] == [("T0", "X"), ("T1", "Y"), ("T2", "X")]
    assert found.relations == (("T0", "r", "T2"),)
    assert skipped.reasons == {"the relation is there twice": 1}
    left_out = Skipped()
    assert list(instances(lambda: [found], left_out)) == []
    assert left_out.reasons == {"the two entities stand in different sentences": 1}


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (
            [9, 12, "X"],
            "the entity 4 has the tokens 9 to 12 of a document of 11; the first is 0, and ends are inclusive",
        ),
        ([-1, 0, "X"], "the entity 4 has the tokens -1 to 0 of a document of 11"),
        ([2, 1, "X"], "the entity 4 has the tokens 2 to 1 of a document of 11"),
        ([4, 5, "X"], 'the entity "T4" has the tokens 4..6 of a sentence of 5; positions must lie within it'),
    ],
)
def test_a_broken_entity_is_left_out_with_its_relations(tmp_path, item, says):
    row = ROW | {
        "ner": [*ROW["ner"][:2], [*ROW["ner"][2], item]],
        "relations": [*ROW["relations"][:2], [[*item[:2], 8, 9, "r"], ROW["relations"][2][0]]],
    }
    path = written(tmp_path, row, PLAIN)
    (found, _), skipped = everything(dygie.read, path)
    assert len(found.annotations) == 4
    assert found.relations == (("T0", "USED-FOR", "T1"), ("T2", "USED-FOR", "T3"))
    [message] = skipped.broken_examples
    assert message.startswith(f"{path}:1: {says}")
    assert skipped.reasons["the relation needs an entity that was left out"] == 1
    assert skipped.total == 2


@pytest.mark.parametrize(
    ("key", "item", "says"),
    [
        ("ner", [0, 1], "the entity 4 needs 2 positions and a label"),
        ("ner", "x", "the entity 4 needs 2 positions and a label"),
        ("ner", ["0", 1, "X"], 'the entity 4: a position must be a whole number, not "0"'),
        ("relations", [0, 1, 3, 3], "the relation 3 needs 4 positions and a label"),
        ("relations", [0, 1, None, None, "r"], 'the relation 3: a position must be a whole number, not "None"'),
        ("relations", [0, 1, 3, 3, ""], "the relation 3: its label is missing or no text"),
        ("relations", [0, 1, 3, 30, "r"], "the relation 3 has the tokens 3 to 30 of a document of 11; the first is 0"),
    ],
)
def test_what_is_broken_is_left_out(tmp_path, key, item, says):
    path = written(tmp_path, ROW | {key: [*ROW[key][:2], [*ROW[key][2], item]]})
    [found], skipped = everything(dygie.read, path)
    assert len(found.relations) == 3
    assert len(found.annotations) == 5
    [message] = skipped.broken_examples
    assert message.startswith(f"{path}:1: {says}")
    assert skipped.total == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ROW | {"ner": [[], []]}, '"ner" has 2 items, and needs a list for each of 3 sentences'),
        (ROW | {"relations": [[], [], 3]}, '"relations" has 3 items, and needs a list for each of 3 sentences'),
        (ROW | {"ner": {}}, '"ner" is missing or no list'),
        (ROW | {"sentences": ["Deep nets"]}, '"sentences" must hold tokens, each of them text'),
        ({"doc_key": "K"}, '"sentences" is missing or no list'),
        ([ROW], "not a JSON object"),
    ],
)
def test_a_broken_row_is_counted_and_the_rest_read(tmp_path, row, says):
    path = written(tmp_path, PLAIN, row)
    [found], skipped = everything(dygie.read, path)
    assert found.id == "K2"
    assert skipped.broken_examples == [f"{path}:2: {says}"]


def test_a_document_without_text_is_skipped_and_a_missing_file_refused(tmp_path):
    found, skipped = everything(dygie.read, written(tmp_path, {"sentences": [[], [" "]]}, {"sentences": []}))
    assert found == []
    assert skipped.reasons == {"there is no text in it": 2}
    assert refusal(dygie.read, tmp_path / "none.json") == f"{tmp_path}/none.json: No such file or directory"


def test_a_folder_is_recognised(tmp_path):
    place(tmp_path, {f"{name}.json": lines(ROW) for name in ("train", "dev", "test")})
    assert detect(tmp_path).source == "dygie"
    assert len(find_splits(tmp_path, "dygie")) == 3
    for row in (PLAIN, {"sentences": [["a"]], "ner": [[]]}, {"clusters": [], "sentences": [["a"]]}):
        place(tmp_path, {"a.json": json.dumps(row)})
        assert detect(tmp_path / "a.json").source == "dygie"
    place(tmp_path, {"a.json": lines(ROW)[:150]})
    assert detect(tmp_path / "a.json").source == "dygie"
