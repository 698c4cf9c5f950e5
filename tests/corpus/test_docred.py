"""DocRED's JSON, and Re-DocRED's."""

import json

import pytest

from fedrel.corpus import Annotation, Document, docred
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits, passed_over
from fedrel.errors import UserError
from tests.documents import covered, everything, place, refusal

ROW = {
    "title": "Ann Lee",
    "sents": [["Ann", "Lee", "was", "born", "in", "Bonn", "."], ["Lee", "sings", "in", "Graz", "."]],
    "vertexSet": [
        [
            {"name": "Ann Lee", "sent_id": 0, "pos": [0, 2], "type": "PER", "global_pos": [0, 0], "index": "0_0"},
            {"name": "Lee", "sent_id": 1, "pos": [0, 1], "type": "PER"},
            {"name": "Lee", "sent_id": 1, "pos": [0, 1], "type": "PER"},
        ],
        [{"name": "Bonn", "sent_id": 0, "pos": [5, 6], "type": "LOC"}],
        [{"name": "Graz", "sent_id": 1, "pos": [3, 4]}],
    ],
    "labels": [{"h": 0, "t": 1, "r": "P19", "evidence": [0]}, {"h": 0, "t": 2, "relation": "P551", "evidence": []}],
}
BLIND = {"title": "", "sents": [["It", "rains", "."]], "vertexSet": []}


def written(folder, *rows, name="train.json"):
    return place(folder, {name: json.dumps(rows)}) / name


def test_relations_join_entities_of_several_mentions(tmp_path):
    path = written(tmp_path, ROW, BLIND)
    (found, blind), skipped = everything(docred.read, path)
    assert found == Document(
        "Ann Lee",
        "Ann Lee was born in Bonn .\nLee sings in Graz .",
        (
            Annotation("0.0", 0, 7, "PER", entities=("0",)),
            Annotation("0.1", 27, 30, "PER", entities=("0",)),
            Annotation("1.0", 20, 24, "LOC", entities=("1",)),
            Annotation("2.0", 40, 44, "", entities=("2",)),
        ),
        (("0", "P19", "1"), ("0", "P551", "2")),
        f"{path}:1, row 1",
        ((0, 26), (27, 46)),
        (
            *((0, 3), (4, 7), (8, 11), (12, 16), (17, 19), (20, 24), (25, 26)),
            *((27, 30), (31, 36), (37, 39), (40, 44), (45, 46)),
        ),
    )
    assert covered(found) == {"0.0": "Ann Lee", "0.1": "Lee", "1.0": "Bonn", "2.0": "Graz"}
    assert (blind.id, blind.annotations, blind.relations) == ("train.json:1, row 2", (), None)
    assert skipped.total == 0


def test_no_relations_are_not_the_same_as_none_marked(tmp_path):
    rows = ROW | {"labels": []}, {key: value for key, value in ROW.items() if key != "labels"}
    found, _ = everything(docred.read, written(tmp_path, *rows))
    assert [it.relations for it in found] == [(), None]


@pytest.mark.parametrize(
    ("mention", "says"),
    [
        ({"sent_id": 2, "pos": [0, 1]}, 'the entity "2.0" is in sentence 2 of 2; sentences count from 0'),
        ({"sent_id": 1, "pos": [3, 6]}, 'the entity "2.0" has the tokens 3..6 of a sentence of 5'),
        ({"sent_id": 1, "pos": [3]}, 'the entity 2, mention 0 needs "sent_id" and "pos": [start, end]'),
        ({"sent_id": 1}, 'the entity 2, mention 0 needs "sent_id" and "pos": [start, end]'),
        ({"pos": [3, 4]}, 'the entity 2, mention 0: "sent_id" must be a whole number, not "None"'),
        ({"sent_id": 1, "pos": [3.0, 4]}, 'the entity 2, mention 0: "pos" must be a whole number, not "3.0"'),
        ([], 'the entity 2, mention 0 needs "sent_id" and "pos": [start, end]'),
    ],
)
def test_a_broken_mention_is_left_out_with_the_relations_of_its_entity(tmp_path, mention, says):
    path = written(tmp_path, ROW | {"vertexSet": [*ROW["vertexSet"][:2], [mention]]})
    [found], skipped = everything(docred.read, path)
    assert [it.key for it in found.annotations] == ["0.0", "0.1", "1.0"]
    assert found.relations == (("0", "P19", "1"),)
    [message] = skipped.broken_examples
    assert message.startswith(f"{path}:1, row 1: {says}")
    assert skipped.reasons["the relation needs an entity that was left out"] == 1
    assert skipped.total == 2


def test_an_entity_with_another_mention_stays(tmp_path):
    [found], skipped = everything(
        docred.read,
        written(
            tmp_path,
            ROW | {"vertexSet": [*ROW["vertexSet"][:2], [{"sent_id": 9, "pos": [0, 1]}, *ROW["vertexSet"][2]]]},
        ),
    )
    assert [it.key for it in found.annotations] == ["0.0", "0.1", "1.0", "2.1"]
    assert len(found.relations) == 2
    assert skipped.total == 1


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ({"h": 3, "t": 1, "r": "P1"}, "the relation 2 names the entity 3 of 3; they are counted from 0"),
        ({"h": 0, "t": -1, "r": "P1"}, "the relation 2 names the entity -1 of 3; they are counted from 0"),
        ({"h": 0, "r": "P1"}, 'the relation 2: "t" must be a whole number, not "None"'),
        ({"h": 0, "t": 1}, 'the relation 2: "r" is missing or no text'),
        ({"h": 0, "t": 1, "r": 19}, 'the relation 2: "r" is missing or no text'),
        (["P19"], "the relation 2 is no object"),
    ],
)
def test_a_broken_relation_is_left_out(tmp_path, label, says):
    path = written(tmp_path, ROW | {"labels": [*ROW["labels"], label]})
    [found], skipped = everything(docred.read, path)
    assert found.relations == (("0", "P19", "1"), ("0", "P551", "2"))
    assert skipped.broken_examples == [f"{path}:1, row 1: {says}"]
    assert skipped.total == 1


def test_a_relation_that_is_there_twice_counts_once(tmp_path):
    [found], skipped = everything(docred.read, written(tmp_path, ROW | {"labels": ROW["labels"] * 2}))
    assert found.relations == (("0", "P19", "1"), ("0", "P551", "2"))
    assert skipped.reasons == {"the relation is there twice": 2}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"title": "x"}, '"sents" is missing or no list'),
        (ROW | {"sents": [["a", None]]}, '"sents" must hold tokens, each of them text'),
        (ROW | {"vertexSet": None}, '"vertexSet" is missing or no list'),
        (ROW | {"labels": {"head": [0]}}, '"labels" is missing or no list'),
        (3, "not a JSON object"),
    ],
)
def test_a_broken_row_is_counted_and_the_rest_read(tmp_path, row, says):
    path = written(tmp_path, row, BLIND)
    [found], skipped = everything(docred.read, path)
    assert found.text == "It rains ."
    assert skipped.broken_examples == [f"{path}:1, row 1: {says}"]


def test_a_vertex_that_is_no_list(tmp_path):
    path = written(tmp_path, ROW | {"vertexSet": [*ROW["vertexSet"][:2], {}]})
    [found], skipped = everything(docred.read, path)
    assert len(found.relations) == 1
    assert skipped.broken_examples == [f"{path}:1, row 1: the entity 2 is no list of mentions"]


def test_an_array_cut_off_is_refused(tmp_path):
    path = place(tmp_path, {"train.json": json.dumps([ROW, BLIND])[:-9]}) / "train.json"
    assert refusal(docred.read, path) == f"{path}:1: not JSON from here on; is the file damaged or cut off?"


def beside(folder):
    words = {"rel_info.json": '{"P19": "place of birth"}', "label_map.json": '{"Na": 0}', "word2id.json": '{"a": 1}'}
    place(folder, words)


def test_the_published_folder_of_docred(tmp_path):
    names = ("train_annotated.json", "train_distant.json", "dev.json", "test.json")
    place(tmp_path, {name: json.dumps([ROW]) for name in names})
    beside(tmp_path)
    assert detect(tmp_path).source == "docred"
    found = {split: file.name for split, file in find_splits(tmp_path, "docred").items()}
    assert found == {"train": "train_annotated.json", "dev": "dev.json", "test": "test.json"}
    assert "train_distant.json" in passed_over(tmp_path, "docred")
    (tmp_path / "train_annotated.json").unlink()
    assert find_splits(tmp_path, "docred")["train"].name == "train_distant.json"
    assert not any("train" in it for it in passed_over(tmp_path, "docred"))
    (tmp_path / "train_distant.json").unlink()
    with pytest.raises(UserError, match=r"no training file; expected train_annotated\.json, train_revised\.json or"):
        find_splits(tmp_path, "docred")


def test_the_published_folder_of_re_docred(tmp_path):
    names = [f"{split}_revised.json" for split in ("train", "dev", "test")]
    place(tmp_path, {name: json.dumps([ROW]) for name in names})
    beside(tmp_path)
    assert detect(tmp_path).source == "docred"
    assert [file.name for file in find_splits(tmp_path, "docred").values()] == sorted(
        names, key=lambda it: it[1] != "e"
    )
    place(tmp_path, {"train_annotated.json": "[]"})
    with pytest.raises(UserError, match=r"both train_annotated\.json and train_revised\.json could be train"):
        find_splits(tmp_path, "docred")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("first", [("vertexSet", "labels"), ("title", "sents")])
def test_files_are_recognised_however_their_keys_are_ordered(tmp_path, first, indent):
    row = {key: ROW[key] for key in (*first, *(key for key in ROW if key not in first))}
    place(tmp_path, {"a.json": json.dumps([row], indent=indent), "b.json": json.dumps([row])[:300]})
    assert detect(tmp_path / "a.json").source == "docred"
    assert detect(tmp_path / "b.json").source == "docred"
