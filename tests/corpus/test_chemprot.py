"""ChemProt: three files a split, offsets that fit exactly, and nothing that goes missing between them."""

from pathlib import Path

import pytest

from fedrel.corpus import Skipped, chemprot
from fedrel.errors import UserError
from tests.broken_rows import with_a_broken_row
from tests.labelled_examples import chemprot as example


def write(folder: Path, files: dict[str, str], name: str = "chemprot_training_{kind}.tsv") -> Path:
    for kind, content in files.items():
        (folder / name.format(kind=kind)).write_text(content, encoding="utf-8", newline="")
    return folder / name.format(kind="abstracts")


def read(path: Path):
    skip = Skipped()
    found = list(chemprot.read(path, skip))
    assert not skip.total
    return found


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read(path)
    return str(caught.value)


def test_a_document_is_title_blank_and_abstract_with_its_entities_and_relations(tmp_path):
    documents = read(write(tmp_path, example("x")))
    assert [it.id for it in documents] == ["x0", "x1", "x2", "x3"]
    first = documents[0]
    assert first.text == "On zincé and xase. It seems that copper stops xine."
    assert first.annotations
    assert [(it.key, it.type, first.text[it.start : it.end]) for it in first.annotations] == [
        ("T1", "CHEMICAL", "zincé"),
        ("T2", "GENE", "xase"),
        ("T3", "CHEMICAL", "copper"),
        ("T4", "GENE", "xine"),
    ]
    assert first.relations == (("T3", "CPR:3", "T4"),)
    assert first.where == f"{tmp_path}/chemprot_training_abstracts.tsv:1"


def test_a_document_may_have_no_entities_or_relations(tmp_path):
    files = example("x", 2)
    [_, without] = read(
        write(tmp_path, files | {"entities": files["entities"].split("x1\t")[0]} | {"gold_standard": ""})
    )
    assert (without.annotations, without.relations) == ((), ())


@pytest.mark.parametrize(
    ("abstracts", "entities", "gold"),
    [
        ("c_test_gs_abstracts.tsv", "c_test_gs_entities.tsv", "c_test_gs_gold_standard.tsv"),
        ("c_test_abstracts_gs.tsv", "c_test_entities_gs.tsv", "c_test_gold_standard.tsv"),  # as published
    ],
)
def test_the_other_files_lie_beside_the_abstracts(tmp_path, abstracts, entities, gold):
    for name, kind in ((abstracts, "abstracts"), (entities, "entities"), (gold, "gold_standard")):
        (tmp_path / name).write_text(example("x")[kind], encoding="utf-8")
    assert len(read(tmp_path / abstracts)) == 4
    (tmp_path / entities).unlink()
    assert refusal(tmp_path / abstracts) == f"{tmp_path / entities}: no such file; ChemProt needs it beside {abstracts}"


def test_another_file_than_the_abstracts_is_refused(tmp_path):
    write(tmp_path, example("x"))
    assert "name the file that ends in _abstracts.tsv" in refusal(tmp_path / "chemprot_training_entities.tsv")


def test_a_document_that_is_there_twice_is_refused(tmp_path):
    files = example("x")
    path = write(tmp_path, files | {"abstracts": files["abstracts"].replace("x1\t", "x0\t")})
    assert refusal(path) == f"{path}:2: document x0 is there twice; remove one"


@pytest.mark.parametrize(
    ("kind", "old", "new", "says", "entities", "relations", "without"),
    [
        (
            *("abstracts", "copper stops xine", "copper stops"),
            *("_entities.tsv:4: position 46..50 lies outside the 46 characters", 15, 3, 1),
        ),
        (
            *("abstracts", "On zincé", "Of zincs"),
            *('_entities.tsv:1: the text at 3..8 is "zincs", not "zincé"; offsets must', 15, 4, 0),
        ),
        ("abstracts", "\tIt", " It", "_abstracts.tsv:1: 2 columns where 3 are needed", 12, 3, 5),
        ("entities", "x0\tT2", "x0\tT1", "_entities.tsv:2: entity T1 of document x0 is there twice", 15, 4, 0),
        ("entities", "x0\tT4", "x0\tT3", "_entities.tsv:4: entity T3 of document x0 is there twice", 15, 3, None),
        (
            "entities",
            "\t3\t8\t",
            "\t3\teight\t",
            '_entities.tsv:1: end is "eight"; it must be a whole number',
            15,
            4,
            0,
        ),
        ("entities", "\t3\t8\t", "\t8\t3\t", "_entities.tsv:1: position 8..3 lies outside", 15, 4, 0),
        (
            "entities",
            "x0\tT1",
            "y0\tT1",
            "_entities.tsv:1: document y0 is not in chemprot_training_abstracts",
            15,
            4,
            0,
        ),
        ("gold_standard", "Arg2:T4", "Arg2:T9", "_gold_standard.tsv:1: entity T9 of document x0 is not in", 16, 3, 0),
        ("gold_standard", "x1\t", "y1\t", "_gold_standard.tsv:2: entity T3 of document y1 is not in", 16, 3, 0),
        ("gold_standard", "Arg2:T4", "T4", "_gold_standard.tsv:1: a relation needs Arg1:T… and Arg2:T…", 16, 3, 0),
        ("gold_standard", "CPR:3", " ", "_gold_standard.tsv:1: the relation has no name", 16, 3, 0),
    ],
)
def test_a_broken_row_is_counted_with_what_needs_it(tmp_path, kind, old, new, says, entities, relations, without):
    files = example("x")
    assert old in files[kind]
    path = write(tmp_path, files | {kind: files[kind].replace(old, new, 1)})
    if without is None:  # the relation names an entity that is not there at all, and one of which there are two
        skip = Skipped()
        found = list(chemprot.read(path, skip))
        assert (skip.broken.total(), skip.total) == (2, 2)
        sentence = skip.broken_examples[0]
    else:
        sentence, found = with_a_broken_row(chemprot.read, path)
        skip = Skipped()
        assert list(chemprot.read(path, skip)) == found
        assert skip.total == 1 + without
    assert says in sentence
    assert len(found) == (3 if "_abstracts.tsv:" in says else 4)
    assert sum(len(it.annotations) for it in found) == entities
    assert sum(len(it.relations) for it in found) == relations


def test_what_belongs_to_a_broken_abstract_is_left_out_for_that_reason(tmp_path):
    files = example("x")
    skip = Skipped()
    list(chemprot.read(write(tmp_path, files | {"abstracts": files["abstracts"].replace("\tIt", " It", 1)}), skip))
    del skip.reasons[next(iter(skip.broken))]
    assert skip.reasons == {
        "the entity needs a document that was left out": 4,
        "the relation needs an entity that was left out": 1,
    }
