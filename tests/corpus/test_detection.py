"""Which format a file or folder is in, and what is said where nobody can tell."""

from pathlib import Path

import pytest

from fedrel.corpus.detection import detect
from fedrel.corpus.formats import FORMATS
from fedrel.errors import UserError
from tests import labelled_examples as made
from tests.instances import row

FILES = {
    "a.jsonl": (row() + "\n", "opennre"),
    "cut.jsonl": (row()[:-9], "opennre"),
    "b.jsonl": ('{"text": "We met."}\n', "jsonl"),
    "c.txt": (made.nyt10("x"), "nyt10"),
    "d.tsv": (made.biobert("x"), "biobert"),
    "e.tsv": (made.biobert("x", header=True), "biobert"),
    "f.tsv": (made.pgr("x"), "pgr"),
    "g.xml": (made.bioc("x"), "bioc"),
    "g.json": (made.bioc_json("x"), "bioc-json"),
    "g_ddi.xml": (made.ddi("x", interacts=True), "ddi"),
    "h.txt": (made.pubtator("x"), "pubtator"),
    "h.pubtator": (made.pubtator("x"), "pubtator"),
    "i.tsv": (made.classification("x"), "classification"),
    "j.tsv": ("text\tlabel\nsome more words here\tno\n", "classification"),
    "k.tab": (made.tab("x"), "classification"),
    "l.csv": ("id,text\n1,We met.\n", "table"),
    "m.tsv": ("id\tabstract\tyear\n1\tWe met.\t1999\n", "table"),
    "n.txt": ("We met. It was late.\n", "text"),
    "o.ann": ("", "brat"),
    "p.con": ("", "i2b2"),
    "q.a1": ("", "bionlp"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_extension_and_first_lines(tmp_path, name):
    content, source = FILES[name]
    (tmp_path / name).write_text(content)
    found = detect(tmp_path / name)
    assert found.source == source
    assert found.why


@pytest.mark.parametrize("source", made.WRITERS)
def test_a_folder_is_known_by_what_it_holds(tmp_path, source):
    made.WRITERS[source](tmp_path, 3)
    (tmp_path / ".hidden.ann").write_text("")
    found = detect(tmp_path)
    assert found.source == source
    assert found.why


@pytest.mark.parametrize(
    ("files", "source"),
    [
        (["a.txt", "b.txt", "below/c.txt"], "text"),
        (["a.txt", "readme.md"], "text"),
        (["only.txt"], "text"),
        (["train.txt", "train.ann"], "brat"),
    ],
)
def test_a_folder_of_texts(tmp_path, files, source):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("We met. It was late.\n")
    assert detect(tmp_path).source == source


def test_the_words_of_the_built_in_world_do_not_mislead(tmp_path):
    (tmp_path / "train.jsonl").write_text(row() + "\n")
    (tmp_path / "entities.tsv").write_text("Q1\tperson\tAnn\n")
    assert detect(tmp_path).source == "opennre"


def test_the_first_split_that_is_not_empty_decides(tmp_path):
    (tmp_path / "train.tsv").write_text("")
    (tmp_path / "test.tsv").write_text(made.biobert("x", header=True))
    assert detect(tmp_path).source == "biobert"


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        detect(path)
    assert str(caught.value).startswith(f"{path}")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_where_nothing_fits_the_formats_are_listed(tmp_path):
    for name, content in (("a.tsv", "x\ty\tz\n"), ("b.json", "[1]\n"), ("c.xml", "<html/>\n"), ("d.bin", "x\n")):
        (tmp_path / name).write_text(content)
        said = refusal(tmp_path / name)
        assert all(f"{known} (" in said for known in FORMATS)


def test_what_cannot_be_looked_at_is_refused(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: no file in this folder"
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file or folder"
    (tmp_path / "train.tsv").write_text("")
    assert refusal(tmp_path) == f"{tmp_path}: train.tsv: every file is empty"
    assert refusal(tmp_path / "train.tsv") == f"{tmp_path}/train.tsv: the file is empty"
    (tmp_path / "train.tsv").write_bytes(b"caf\xe9\t1\n")
    assert refusal(tmp_path) == f"{tmp_path}/train.tsv:1: not UTF-8 text; convert the file to UTF-8"


def test_a_folder_of_data_sets_is_none_itself(tmp_path):
    for source in ("opennre", "chemprot", "i2b2"):
        (tmp_path / source).mkdir()
        made.WRITERS[source](tmp_path / source, 3)
    assert refusal(tmp_path) == (
        f"{tmp_path}: several data sets are in this folder; name one of them: "
        "chemprot (chemprot), i2b2 (i2b2), opennre (opennre)"
    )


def test_files_of_different_kinds_are_no_data_set(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,We met.\n")
    (tmp_path / "b.tsv").write_text("x\ty\n1\t2\n")
    assert "files of different kinds (a.csv, b.tsv …); name one of them" in refusal(tmp_path)


def test_old_line_ends_and_links_that_lead_in_a_circle_do_no_harm(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,text\r1,We met.\r")
    assert detect(tmp_path / "a.csv").source == "table"
    for name in ("one", "other"):
        (tmp_path / name).symlink_to(tmp_path)
    assert detect(tmp_path).source == "table"


def test_an_empty_document_among_others_does_not_matter(tmp_path):
    (tmp_path / "a.txt").write_text(" \n\n")
    (tmp_path / "b.txt").write_text("Ann was born in Bonn.\n")
    assert detect(tmp_path).source == "text"
