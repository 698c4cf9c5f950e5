"""BioNLP shared tasks."""

import pytest

from fedrel.corpus import Annotation, Document, bionlp
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits, splits_in
from tests.documents import broken, covered, everything, place, refusal

TEXT = "Zinx stops abase at site S.\nAbase binds Zinx.\n"
A1 = "T1\tProtein 0 4\tZinx\nT2\tProtein 11 16\tabase\nT3\tProtein 28 33\tAbase\nT4\tProtein 40 44\tZinx\n"
A2 = (
    "T5\tNegative_regulation 5 10\tstops\n"
    "T6\tEntity 20 26\tsite S\n"
    "T7\tBinding 34 39\tbinds\n"
    "E1\tNegative_regulation:T5 Theme:T2 Cause:T1 Site:T6 \n"
    "E2\tBinding:T7 Theme:T3 Theme2:T4\n"
    "E3\tNegative_regulation:T5 Theme:E2 Cause:T1\n"
    "*\tEquiv T2 T3\n"
    "M1\tSpeculation E1\n"
    "R1\tPart_of Whole:T2 Part:T6\t[T1]\n"
)


def test_a_text_its_entities_and_what_is_to_be_found(tmp_path):
    place(tmp_path, {"a.txt": TEXT, "a.a1": A1, "a.a2": A2})
    [found], skipped = everything(bionlp.read, tmp_path)
    assert found == Document(
        "a",
        TEXT,
        (
            Annotation("T1", 0, 4, "Protein"),
            Annotation("T2", 11, 16, "Protein"),
            Annotation("T3", 28, 33, "Protein"),
            Annotation("T4", 40, 44, "Protein"),
            Annotation("T6", 20, 26, "Entity"),
        ),
        (("T1", "Negative_regulation", "T2"), ("T2", "Part_of", "T6")),
        str(tmp_path / "a.txt"),
    )
    assert skipped.reasons == {
        "the relation is an event that does not join two entities": 1,
        "the relation joins an event, not two entities": 1,
    }
    for name in ("a.txt", "a.a1", "a.a2"):
        assert everything(bionlp.read, tmp_path / name)[0] == [found]


def test_relations_may_be_in_a_file_of_their_own_and_none_may_be_marked(tmp_path):
    rel = "T5\tEntity 20 26\tsite S\nR1\tProtein-Component Arg1:T2 Arg2:T5\nR2\tSubunit-Complex Arg2:T1 Arg1:T5\n"
    place(tmp_path, {"x/a.txt": TEXT, "x/a.a1": A1, "x/a.REL": rel, "x/b.txt": TEXT, "x/b.a1": A1, "c.txt": "C"})
    [alone, gold, blind], skipped = everything(bionlp.read, tmp_path)
    assert (alone.id, alone.annotations, alone.relations) == ("c", None, None)
    assert gold.relations == (("T2", "Protein-Component", "T5"), ("T5", "Subunit-Complex", "T1"))
    assert (blind.id, len(blind.annotations), blind.relations) == ("x/b", 4, None)
    assert skipped.total == 0


def test_events_without_a_trigger_join_their_two_arguments(tmp_path):
    a2 = "E1\tBinds_To Agent:T1 Target:T2\nE2\tBinds_To Agent:T1 Target:T2 Tissue:T3\nE3\tOccurs Process:T4\n"
    a2 += "E4\tDepends Agent:T1 On:E1\n"
    [found], skipped = everything(bionlp.read, place(tmp_path, {"a.txt": TEXT, "a.a1": A1, "a.a2": a2}))
    assert found.relations == (("T1", "Binds_To", "T2"),)
    assert skipped.reasons == {
        "the relation is an event that does not join two entities": 2,
        "the relation joins an event, not two entities": 1,
    }


def test_titles_and_paragraphs_are_no_entities_and_references_give_ids(tmp_path):
    a1 = "T1\tTitle 0 27\tZinx stops abase at site S.\nT2\tParagraph 28 45\tAbase binds Zinx.\n"
    a1 += "T3\tBacteria 0 4\tZinx\nT4\tHabitat 20 26\tsite S\n"
    a2 = "R1\tLives_In Bacteria:T3 Location:T4\nR2\tLives_In Bacteria:T3 Location:T2\n"
    a2 += "N3\tX Annotation: Referent:1\nN4\tX Annotation:E1 Referent:1\n"  # of nothing, and of an event
    a2 += "N1\tNCBI_Taxonomy Annotation:T3 Referent:570\nN2\tOntoBiotope Annotation:T4 Referent:OBT:000061\n"
    [found], skipped = everything(bionlp.read, place(tmp_path, {"a.txt": TEXT, "a.a1": a1, "a.a2": a2}))
    assert [(it.key, it.id) for it in found.annotations] == [("T3", "NCBI_Taxonomy:570"), ("T4", "OBT:000061")]
    assert found.relations == (("T3", "Lives_In", "T4"),)
    assert skipped.reasons == {
        "the annotation is a title or a paragraph, not an entity": 2,
        "the relation needs an entity that was left out": 1,
    }


def test_a_relation_of_a_trigger_is_one_of_an_event(tmp_path):
    a2 = f"{A2}R2\tCoref Subject:T5 Object:T1\nE4\tRegulation:T7 Theme:T5 Cause:T1\n"
    [found], skipped = everything(bionlp.read, place(tmp_path, {"a.txt": TEXT, "a.a1": A1, "a.a2": a2}))
    assert len(found.relations) == 2
    assert skipped.reasons["the relation joins an event, not two entities"] == 3


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("T9\tX 0 4\tZinc", 'the text at 0..4 is "Zinx", not "Zinc"; the offsets do not match'),
        ("T1\tX 0 4\tZinx", '"T1" is there twice; give each entity its own number'),
        ("E9\tBinding T1", "not an event such as Regulation:T3 Theme:T2 Cause:T1: "),
        ("E9", "not an event such as "),
        ("E9\tRegulation:T5 Theme:T1 Cause:T99", 'the relation names "T99", which no T line marks'),
        ("R9\tr Arg1:T1 Arg2:T99", 'the relation names "T99", which no T line marks'),
        ("N9\tOBT Annotation:T99 Referent:1", 'the reference is for "T99", which no T line marks'),
        ("?", 'not a line of BioNLP standoff: "?"'),
        (b"R9\t\xff", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_line_is_counted_and_the_rest_is_read(tmp_path, line, says):
    place(tmp_path, {"a.txt": TEXT, "a.a1": A1, "a.a2": A2})
    clean, _ = everything(bionlp.read, tmp_path)
    place(tmp_path, {"a.a2": A2.encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n"})
    found, sentence = broken(bionlp.read, tmp_path)
    assert found == clean
    assert sentence.startswith(f"{tmp_path / 'a.a2'}:10: ")
    assert says in sentence


def test_what_lacks_its_text_is_refused(tmp_path):
    for name in ("a.a1", "b.a2", "c.rel"):
        folder = place(tmp_path / name, {name: A1, "other.txt": TEXT})
        assert refusal(bionlp.read, folder).endswith(f"there is no {name[0]}.txt beside it; add the text")
    assert refusal(bionlp.read, place(tmp_path / "x", {"a.md": ""})).startswith(f"{tmp_path / 'x'}: no .txt file here")


@pytest.mark.parametrize("answers", ["a2", "rel", None])
def test_the_published_folders_are_recognised(tmp_path, answers):
    for split in ("train", "dev", "test"):
        names = {f"d{n}.txt": TEXT for n in range(2)} | {f"d{n}.a1": A1 for n in range(2)}
        if answers and split != "test":
            names |= {f"d{n}.{answers}": A2 for n in range(2)}
        place(tmp_path / f"BioNLP-ST-2016_SeeDev-binary_{split}", names)
    assert detect(tmp_path).source == "bionlp"
    assert sorted(splits_in(tmp_path, "bionlp")) == ["dev", "test", "train"]
    assert sorted(find_splits(tmp_path, "bionlp")) == (["dev", "train"] if answers else ["dev", "test", "train"])
    folder = tmp_path / "BioNLP-ST-2016_SeeDev-binary_test"
    assert detect(folder).source == detect(folder / "d0.a1").source == "bionlp"
    assert [covered(it)["T3"] for it in everything(bionlp.read, folder)[0]] == ["Abase", "Abase"]
