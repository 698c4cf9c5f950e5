"""Sentences with triples of words."""

import json

import pytest

from fedrel.corpus import NA, Annotation, Document, Skipped, triples
from fedrel.corpus.detection import detect
from fedrel.corpus.pairs import instances
from fedrel.corpus.splits import find_splits
from fedrel.errors import UserError
from tests.documents import covered, everything, place, refusal

TEXT = "Ann Lee sings in Bonn , not in Graz ."
NYT = {
    "sentText": TEXT,
    "articleId": "/x/1.xml.pb",
    "sentId": "2",
    "relationMentions": [{"em1Text": "Ann Lee", "em2Text": "Bonn", "label": "/people/person/place_lived"}],
    "entityMentions": [
        {"start": 0, "text": "Ann Lee", "label": "PERSON"},
        {"start": 1, "text": "Bonn", "label": "LOCATION"},
        {"start": 2, "text": "Graz", "label": "LOCATION"},
    ],
}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(folder, *rows):
    return place(folder, {"train.json": lines(*rows)}) / "train.json"


def only(tmp_path, **row):
    found, skipped = everything(triples.read, written(tmp_path, row))
    assert len(found) == 1
    return found[0], skipped


def joined(document):
    """Relations with words instead of keys."""
    words = covered(document)
    return [(words[head], relation, words[tail]) for head, relation, tail in document.relations]


def test_the_layout_of_nyt(tmp_path):
    path = written(tmp_path, NYT)
    [found], skipped = everything(triples.read, path)
    assert found == Document(
        "/x/1.xml.pb#2",
        TEXT,
        (
            Annotation("T0-2", 0, 7, "PERSON"),
            Annotation("T4-5", 17, 21, "LOCATION"),
            Annotation("T8-9", 31, 35, "LOCATION"),
        ),
        (("T0-2", "/people/person/place_lived", "T4-5"),),
        f"{path}:1",
        ((0, 37),),
    )
    assert skipped.total == 0
    assert [it.relation for it in instances(lambda: [found], Skipped())] == ["/people/person/place_lived", NA]


@pytest.mark.parametrize(
    "row",
    [
        {"text": TEXT, "triple_list": [["Ann Lee", "lives", "Bonn"], ["Graz", "near", "Bonn"]]},
        {
            "text": TEXT,
            "id": "train_0",
            "relation_list": [
                {"subject": "Ann Lee", "predicate": "lives", "object": "Bonn", "subj_char_span": [0, 7]},
                {"subject": "Graz", "predicate": "near", "object": "Bonn", "obj_tok_span": [4, 5]},
            ],
            "entity_list": [{"text": "Ann Lee", "type": "", "char_span": [0, 7]}],
        },
        {
            "sentext": TEXT,
            "relations": [
                {"em1": "Ann Lee", "rtext": "lives", "em2": "Bonn", "tags": [1]},
                {"em1": "Graz", "rtext": "near", "em2": "Bonn"},
            ],
        },
        {
            "sentText": TEXT,
            "relationMentions": [
                {"em1Text": "Ann Lee", "label": "lives", "em2Text": "Bonn", "em1IsTrue": True},
                {"em1Text": "Graz", "label": "near", "em2Text": "Bonn"},
            ],
        },
    ],
)
@pytest.mark.parametrize("array", [False, True])
def test_the_same_in_every_layout(tmp_path, row, array):
    place(tmp_path, {"a.json": json.dumps([row], indent=4) if array else json.dumps(row)})
    [found], skipped = everything(triples.read, tmp_path / "a.json")
    assert found.annotations == (Annotation("T0-2", 0, 7), Annotation("T4-5", 17, 21), Annotation("T8-9", 31, 35))
    assert found.relations == (("T0-2", "lives", "T4-5"), ("T8-9", "near", "T4-5"))
    assert found.id == row.get("id", "a.json:2, row 1" if array else "a.json:1")
    assert not found.listed
    assert skipped.total == 0
    assert detect(tmp_path / "a.json").source == "triples"


def test_pairs_labelled_none_are_all_there_are(tmp_path):
    mentions = [
        {"em1Text": "Ann Lee", "em2Text": "Bonn", "label": "lives"},
        {"em1Text": "Ann Lee", "em2Text": "Bonn", "label": "None"},
        {"em1Text": "Graz", "em2Text": "Bonn", "label": "None"},
        {"em1Text": "Graz", "em2Text": "Bonn", "label": "None"},
    ]
    found, skipped = only(tmp_path, **NYT | {"relationMentions": mentions})
    assert joined(found) == [("Ann Lee", "lives", "Bonn"), ("Graz", NA, "Bonn")]
    assert found.listed
    assert skipped.reasons == {
        "the relation is none, of words that a relation joins": 1,
        "the relation is there twice": 1,
    }


@pytest.mark.parametrize(
    ("text", "head", "tail", "places"),
    [
        ("York is not New York .", "York", "New York", ((0, 4), (12, 20))),
        ("New York is not York .", "York", "New York", ((16, 20), (0, 8))),
        ("New York is big .", "York", "New York", ((4, 8), (0, 8))),
        ("Bonn met Bonn , Bonn .", "Bonn", "Bonn", ((0, 4), (9, 13))),
        ("Yorkshire , York-based U.S. firms", "York", "U.S.", ((12, 16), (23, 27))),
        ("the New\n York  Times", "New York", "Times", ((4, 13), (15, 20))),
        ("( Éa ) and ß", "( Éa )", "ß", ((0, 6), (11, 12))),
    ],
)
def test_where_words_are_found(tmp_path, text, head, tail, places):
    found, skipped = only(tmp_path, text=text, triple_list=[[head, "r", tail]])
    spans = {it.key: (it.start, it.end) for it in found.annotations}
    [(first, _, second)] = found.relations
    assert (spans[first], spans[second]) == places
    assert len(spans) == 2
    assert skipped.total == 0


def test_a_triple_that_is_there_twice_counts_once(tmp_path):
    found, skipped = only(tmp_path, text=TEXT, triple_list=[["Ann", "r", "Bonn"], ["Ann", "s", "Bonn"]] * 2)
    assert joined(found) == [("Ann", "r", "Bonn"), ("Ann", "s", "Bonn")]
    assert skipped.reasons == {"the relation is there twice": 2}


def test_words_that_are_not_there(tmp_path):
    mentions = [*NYT["relationMentions"], {"em1Text": "Lee", "em2Text": "on", "label": "r"}]
    entities = [*NYT["entityMentions"], {"text": "nn", "label": "X"}, {"text": "on", "label": "X"}]
    found, skipped = only(tmp_path, **NYT | {"relationMentions": mentions, "entityMentions": entities})
    assert joined(found) == [("Ann Lee", "/people/person/place_lived", "Bonn")]
    assert skipped.broken_examples == [
        f'{tmp_path}/train.json:1: the relation joins "on", which is not in the text as whole words'
    ]
    assert skipped.reasons["the entity is not in the text as whole words"] == 1
    assert skipped.total == 2


def test_words_that_are_there_once_have_no_relation_with_themselves(tmp_path):
    found, skipped = only(tmp_path, text=TEXT, triple_list=[["Bonn", "r", "Bonn"]])
    assert found.relations == ()
    assert skipped.reasons == {"the relation joins words with themselves that are in the text once": 1}
    assert not skipped.broken


def test_a_text_is_one_sentence_without_the_space_around_it(tmp_path):
    found, _ = only(tmp_path, sentText='"Ann sings . Bob hums ."\r\n', relationMentions=[])
    assert found.sentences == ((0, 24),)
    assert found.text == '"Ann sings . Bob hums ."\r\n'
    assert (found.annotations, found.relations) == ((), ())


@pytest.mark.parametrize(
    ("triple", "says"),
    [
        (["Ann", "r"], "the relation 1 must be a list of three, head, relation and tail"),
        ({"subject": "Ann"}, "the relation 1 must be a list of three, head, relation and tail"),
        (["Ann", "r", ""], 'the relation 1: "tail" is missing or no text'),
        ([3, "r", "Bonn"], 'the relation 1: "head" is missing or no text'),
        (["Ann", None, "Bonn"], "the relation 1: its name is missing or no text"),
        (["\u200b", "r", "Bonn"], 'the relation joins "\u200b", which is not in the text as whole words'),
    ],
)
def test_a_broken_triple_is_left_out(tmp_path, triple, says):
    found, skipped = only(tmp_path, text=TEXT, triple_list=[["Ann", "r", "Bonn"], triple])
    assert joined(found) == [("Ann", "r", "Bonn")]
    assert skipped.broken_examples == [f"{tmp_path}/train.json:1: {says}"]
    assert skipped.total == 1


@pytest.mark.parametrize(
    ("mention", "says"),
    [
        ({"em1Text": "Ann", "em2Text": "Bonn"}, "the relation 1: its name is missing or no text"),
        ({"em1Text": "Ann", "label": "r"}, 'the relation 1: "em2Text" is missing or no text'),
        (["Ann", "r", "Bonn"], "the relation 1 is no object"),
    ],
)
def test_a_broken_mention_of_a_relation_is_left_out(tmp_path, mention, says):
    found, skipped = only(tmp_path, **NYT | {"relationMentions": [*NYT["relationMentions"], mention]})
    assert len(found.relations) == 1
    assert skipped.broken_examples == [f"{tmp_path}/train.json:1: {says}"]


def test_a_broken_entity_is_left_out(tmp_path):
    found, skipped = only(tmp_path, **NYT | {"entityMentions": [{"label": "X"}, "Bonn", {"text": "Graz", "label": 3}]})
    assert [(it.key, it.type) for it in found.annotations] == [("T0-2", ""), ("T4-5", ""), ("T8-9", "")]
    assert skipped.broken_examples == [
        f'{tmp_path}/train.json:1: the entity 0: "text" is missing or no text',
        f"{tmp_path}/train.json:1: the entity 1 is no object",
    ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"triple_list": []}, 'none of "sentText", "sentext", "text" holds the sentence'),
        (
            {"text": "x"},
            'none of "relationMentions", "triple_list", "relation_list", "relations" holds the triples',
        ),
        ({"text": "x", "triple_list": None}, '"triple_list" is missing or no list'),
        (NYT | {"entityMentions": {}}, '"entityMentions" is missing or no list'),
        ([], "not a JSON object"),
    ],
)
def test_a_broken_row_is_counted_and_the_rest_read(tmp_path, row, says):
    path = written(tmp_path, NYT, row, NYT)
    found, skipped = everything(triples.read, path)
    assert len(found) == 2
    assert skipped.broken_examples == [f"{path}:2: {says}"]


def test_no_text_is_skipped_and_no_json_refused(tmp_path):
    found, skipped = everything(triples.read, written(tmp_path, {"text": " ", "triple_list": []}))
    assert found == []
    assert skipped.reasons == {"there is no text in it": 1}
    place(tmp_path, {"a.json": "[" + json.dumps(NYT)})
    assert "not JSON from here on" in refusal(triples.read, tmp_path / "a.json")


@pytest.mark.parametrize(
    "names",
    [
        ("train.json", "valid.json", "test.json"),
        ("train_triples.json", "dev_triples.json", "test_triples.json"),
        ("new_train.json", "new_valid.json", "new_test.json"),
        ("raw_train.json", "raw_valid.json", "raw_test.json"),
        ("train_data.json", "valid_data.json", "test_data.json"),
    ],
)
def test_published_folders(tmp_path, names):
    place(tmp_path, {name: lines(NYT) for name in names})
    place(tmp_path, {"rel2id.json": '[{"0": "r"}, {"r": 0}]', "test_triples_seo.json": lines(NYT)})
    assert detect(tmp_path).source == "triples"
    found = find_splits(tmp_path, "triples")
    assert [found[split].name for split in ("train", "dev", "test")] == list(names)
    place(tmp_path, {"train.jsonl": lines(NYT)})
    with pytest.raises(UserError, match="could be train; remove one"):
        find_splits(tmp_path, "triples")


def test_other_files_are_not_claimed(tmp_path):
    for row in ({"text": "x"}, {"text": "x", "relations": []}, {"text": "x", "h": {}, "t": {}, "relation": "r"}):
        place(tmp_path, {"a.jsonl": lines(row)})
        assert detect(tmp_path / "a.jsonl").source != "triples"
