"""The corpus of DDI Extraction 2013."""

import pytest

from fedrel.corpus import FORMATS, NA, Annotation, Document, ddi
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits
from tests.documents import broken, covered, everything, place, refusal

FIRST = """<?xml version="1.0" encoding="UTF-8"?>
<document id="X.d1">
    <sentence id="X.d1.s0" text="Aspirin &amp; zinc may boost warfarin. ">
        <entity id="X.d1.s0.e0" charOffset="0-6" type="drug" text="Aspirin"/>
        <entity id="X.d1.s0.e1" charOffset="10-13" type="drug_n" text="zinc"/>
        <entity id="X.d1.s0.e2" charOffset="25-32" type="brand" text="warfarin"/>
        <pair id="X.d1.s0.p0" e1="X.d1.s0.e0" e2="X.d1.s0.e1" ddi="false"/>
        <pair id="X.d1.s0.p1" e1="X.d1.s0.e0" e2="X.d1.s0.e2" ddi="true" type="effect"/>
        <pair id="X.d1.s0.p2" e1="X.d1.s0.e1" e2="X.d1.s0.e2" ddi="true"/>
    </sentence>
    <sentence id="X.d1.s1" text=""/>
    <sentence id="X.d1.s2" text="Mind beta and H2 blockers. They are many.">
        <entity id="X.d1.s2.e0" charOffset="5-8;17-24" type="group" text="beta blockers"/>
        <entity id="X.d1.s2.e1" charOffset="14-24" type="group" text="H2 blockers"/>
        <pair id="X.d1.s2.p0" e1="X.d1.s2.e0" e2="X.d1.s2.e1" ddi="false"/>
    </sentence>
    <sentence id="X.d1.s3" text="That is all."/>
</document>
"""
SECOND = '<document id="X.d2"><sentence id="X.d2.s0" text="Nothing here."></sentence></document>'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "Aspirin_ddi.xml"


def read(path, content: str):
    path.write_text(content, encoding="utf-8")
    return everything(ddi.read, path)


def test_a_document_with_its_sentences_entities_and_pairs(path):
    [found], skipped = read(path, FIRST)
    text = "Aspirin & zinc may boost warfarin. \nMind beta and H2 blockers. They are many.\nThat is all."
    assert found == Document(
        "X.d1",
        text,
        (
            Annotation("X.d1.s0.e0", 0, 7, "drug"),
            Annotation("X.d1.s0.e1", 10, 14, "drug_n"),
            Annotation("X.d1.s0.e2", 25, 33, "brand"),
            Annotation("X.d1.s2.e0", 41, 61, "group"),
            Annotation("X.d1.s2.e1", 50, 61, "group"),
        ),
        (
            ("X.d1.s0.e0", NA, "X.d1.s0.e1"),
            ("X.d1.s0.e0", "effect", "X.d1.s0.e2"),
            ("X.d1.s0.e1", "int", "X.d1.s0.e2"),
            ("X.d1.s2.e0", NA, "X.d1.s2.e1"),
        ),
        str(path),
        ((0, 34), (36, 77), (78, 90)),
        listed=True,
    )
    assert covered(found)["X.d1.s2.e0"] == "beta and H2 blockers"
    assert skipped.total == 0
    assert FORMATS["ddi"].undirected


def test_the_published_folders_are_found_at_any_depth(tmp_path):
    place(
        tmp_path,
        {
            "Train/DrugBank/Aspirin_ddi.xml": FIRST,
            "Train/MedLine/1234.xml": SECOND,
            "Test/Test for DDI Extraction task/DrugBank/Zinc_ddi.xml": FIRST.replace("X.d1", "X.d3"),
            "Test/Test for DDI Extraction task/MedLine/deep/er/5.xml": SECOND.replace("X.d2", "X.d4"),
            "Test/Test for DrugNER task/DrugBank/Iron_ddi.xml": FIRST.replace("X.d1", "X.d5"),
        },
    )
    assert detect(tmp_path).source == "ddi"
    splits = find_splits(tmp_path, "ddi")
    assert {name: it.name for name, it in splits.items()} == {"train": "Train", "test": "Test"}
    found, skipped = everything(ddi.read, splits["train"])
    assert ([it.id for it in found], skipped.total) == (["X.d1", "X.d2"], 0)
    found, skipped = everything(ddi.read, splits["test"])
    assert [it.id for it in found] == ["X.d3", "X.d4"]
    assert skipped.reasons == {"it is of the task of finding drugs, not of their interactions": 1}
    [found], _ = everything(ddi.read, tmp_path / "Test" / "Test for DrugNER task")  # if it is asked for
    assert found.id == "X.d5"


@pytest.mark.parametrize("content", [FIRST, SECOND, FIRST.replace("\n", " ")])
def test_a_file_is_recognised(path, content):
    path.write_text(content, encoding="utf-8")
    assert detect(path).source == "ddi"


def test_a_document_without_an_id_is_called_after_its_file_and_one_without_text_is_counted(path):
    [found], _ = read(path, SECOND.replace(' id="X.d2"', ""))
    assert found.id == "Aspirin_ddi.xml"
    for empty in ("<document/>", SECOND.replace("Nothing here.", " ")):
        found, skipped = read(path, empty)
        assert (found, skipped.reasons) == ([], {"there is no text in it": 1})


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('"25-32"', '"25-33"', 6, 'the text at 25..34 is "warfarin.", not "warfarin"; the offsets do not match'),
        ('"25-32"', '"25-99"', 6, "position 25..100 lies outside the 35 characters of the text"),
        ('"25-32"', '"32-25"', 6, "position 32..26 lies outside"),
        ('"25-32"', '"25"', 6, 'charOffset is "25"; it must be such as 0-6 or 0-6;10-12'),
        ('"25-32"', f'"25-{"9" * 5_000}"', 6, "charOffset is "),
        ('charOffset="25-32" ', "", 6, 'charOffset is ""'),
        ('id="X.d1.s0.e2"', "", 6, "an <entity> without a name; give it one"),
    ],
)
def test_a_bad_entity_is_counted_and_so_are_its_pairs(path, old, new, line, says):
    path.write_text(FIRST.replace(old, new), encoding="utf-8")
    if "e2" in old:  # then nobody can tell that it was left out
        _, skipped = everything(ddi.read, path)
        assert skipped.broken.total() == 3
        assert skipped.broken['the pair names the entity "…", which is not there; add it'] == 2
        return
    [found], sentence = broken(ddi.read, path)
    assert sentence.startswith(f"{path}:{line}: ")
    assert says in sentence
    assert [it[1] for it in found.relations] == [NA, NA]
    reasons = everything(ddi.read, path)[1].reasons
    assert reasons["the relation needs an entity that was left out"] == 2


@pytest.mark.parametrize(
    ("old", "new", "line", "says", "pairs"),
    [
        ('e2="X.d1.s0.e2" ddi="true"/>', 'e2="e9" ddi="true"/>', 9, 'the pair names the entity "e9", which is not', 3),
        ('ddi="true"/>', 'ddi="maybe"/>', 9, 'a <pair> must say whether it interacts, ddi="true" or ddi="false"', 3),
        ('ddi="true"/>', "/>", 9, "a <pair> must say whether it interacts", 3),
        ('e1="X.d1.s2.e0"', "", 15, 'the pair names the entity "", which is not there; add it', 3),
        ('id="X.d1.s2.e1"', 'id="X.d1.s0.e0"', 14, 'the entity "X.d1.s0.e0" is there twice; give each its own id', 3),
        ('<sentence id="X.d1.s3" text="That is all."/>', "<sentence/>", 17, "a <sentence> without its text", 4),
    ],
)
def test_anything_else_that_is_bad_is_counted_and_the_rest_is_read(path, old, new, line, says, pairs):
    path.write_text(FIRST.replace(old, new), encoding="utf-8")
    found, skipped = everything(ddi.read, path)
    assert skipped.broken_examples[0].startswith(f"{path}:{line}: ")
    assert says in skipped.broken_examples[0]
    assert [len(it.relations) for it in found] == [pairs]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not XML"),
        (FIRST[:-20], "is the file damaged or cut off?"),
        ("<collection/>", "not the DDI corpus, which begins with <document>"),
        (FIRST.replace("<document", '<!DOCTYPE document [<!ENTITY x "y">]><document'), "declares an entity of its own"),
    ],
)
def test_a_bad_file_is_refused(path, content, says):
    path.write_text(content, encoding="utf-8")
    sentence = refusal(ddi.read, path)
    assert sentence.startswith(f"{path}:")
    assert says in sentence


def test_a_folder_without_documents_is_refused(tmp_path):
    assert refusal(ddi.read, tmp_path) == f"{tmp_path}: no .xml file in this folder"
