"""BioBERT's tables: blinded pairs without ids; the head is of the same kind in every sentence."""

from pathlib import Path

import pytest

from fedrel.corpus import NA, Mention, biobert
from tests.broken_rows import with_a_broken_row
from tests.instances import items
from tests.labelled_examples import biobert as example


def read(folder: Path, content: str, name="train.tsv"):
    (folder / name).write_text(content, encoding="utf-8", newline="")
    return list(items(biobert.read, folder / name))


def words(instance, mention):
    return instance.tokens[mention.start : mention.end]


def test_a_row_is_an_instance_with_its_marks_as_tokens(tmp_path):
    [one, other] = read(tmp_path, "In fact @GENE$-linked @DISEASE$.\t1\n@DISEASE$, not by @GENE$\t0\n")
    assert one.tokens == ["In", "fact", "@GENE$", "-", "linked", "@DISEASE$", "."]
    assert (one.relation, other.relation) == ("related", NA)
    for instance in (one, other):
        assert words(instance, instance.head) == ["@GENE$"], "whichever comes first in the sentence"
        assert words(instance, instance.tail) == ["@DISEASE$"]


def test_entities_have_a_type_and_no_id(tmp_path):
    [found] = read(tmp_path, "@GENE$ and @DISEASE$\t1\n")
    assert (found.head, found.tail) == (Mention("", 0, 1, "GENE"), Mention("", 2, 3, "DISEASE"))


@pytest.mark.parametrize("name", ["train.tsv", "anything.tsv"])
def test_the_header_row_tells_of_the_index_and_not_the_name_of_the_file(tmp_path, name):
    plain, indexed = example("x"), example("x", header=True)
    one, other = read(tmp_path, plain, name), read(tmp_path, indexed, name)
    assert [(it.tokens, it.relation) for it in one] == [(it.tokens, it.relation) for it in other]


@pytest.mark.parametrize(
    ("sentence", "head", "tail"),
    [
        ("@GENE$ by @CHEMICAL$", "@CHEMICAL$", "@GENE$"),
        ("@DISEASE$ by @CHEMICAL$", "@CHEMICAL$", "@DISEASE$"),
        ("@DISEASE$ by @WORM$", "@DISEASE$", "@WORM$"),
        ("@WORM$ by @TREE$", "@TREE$", "@WORM$"),
    ],
)
def test_the_head_depends_on_the_kinds_alone(tmp_path, sentence, head, tail):
    [found] = read(tmp_path, f"{sentence}\t1\n")
    assert (words(found, found.head), words(found, found.tail)) == ([head], [tail])


def test_of_a_mark_that_is_there_twice_the_first_is_taken_and_the_row_kept(tmp_path):
    [found] = read(tmp_path, "@DISEASE$ or @GENE$ or @GENE$ or @DISEASE$\t1\n")
    assert (found.head.start, found.tail.start) == (2, 0)


def test_two_marks_of_one_kind_are_head_and_tail_in_their_order(tmp_path):
    [found] = read(tmp_path, "@DRUG$ with @DRUG$\t1\n")
    assert (found.head, found.tail) == (Mention("", 0, 1, "DRUG"), Mention("", 2, 3, "DRUG"))


def test_other_labels_keep_their_name(tmp_path):
    found = read(tmp_path, "".join(f"@A$ @B$\t{label}\n" for label in ("0", "1", " 1 ", "CPR:3", "NA", "2")))
    assert [it.relation for it in found] == [NA, "related", "related", "CPR:3", "NA", "2"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("@GENE$ alone\t1", "must mark two entities, such as @GENE$ and @DISEASE$, and it marks @GENE$; mend"),
        ("nothing here\t1", "it marks none"),
        ("@A$ @B$ @C$\t1", "it marks @A$, @B$, @C$"),
        ("@GENE$ and @DISEASE$", "1 column where 2 are needed (sentence, label); is the row cut off"),
        ("0\t@GENE$ and @DISEASE$\t1", "3 columns where 2 are needed"),
        ("@GENE$ and @DISEASE$\t ", "the label is missing"),
        ("index\tsentence\tlabel", "3 columns where 2 are needed"),
        ("@A$ @B$" + " x" * 9_999 + "\t1", "a sentence of 10,001 tokens; at most 10,000 are read: split it"),
        ("@A$" + ". ;" * 6_000 + "@B$\t1", "a sentence of 12,000 tokens; at most 10,000 are read"),
    ],
)
@pytest.mark.parametrize("header", [False, True])
def test_a_bad_row_is_counted_with_its_place(tmp_path, row, says, header):
    good = "@GENE$ and @DISEASE$\t1"
    lines = [good, "", row, good]
    if header:
        if "column" in says:
            return
        lines = ["index\tsentence\tlabel", *(f"0\t{it}" for it in (good, row, good))]
    path = tmp_path / "train.tsv"
    path.write_text("\n".join(lines))
    sentence, found = with_a_broken_row(biobert.read, path)
    assert sentence.startswith(f"{path}:3: ")
    assert says in sentence
    assert [where for where, _ in found] == [f"{path}:{2 if header else 1}", f"{path}:4"]


def test_a_row_before_the_header_that_is_not_utf8_is_counted(tmp_path):
    (tmp_path / "test.tsv").write_bytes(b"\xff\nindex\tsentence\tlabel\n0\t@A$ @B$\t1\n")
    sentence, found = with_a_broken_row(biobert.read, tmp_path / "test.tsv")
    assert sentence == f"{tmp_path}/test.tsv:1: not UTF-8 text; convert the file to UTF-8"
    assert len(found) == 1
