"""BioBERT's tables: one row, one pair of its own; the head is of the same kind in every sentence."""

from pathlib import Path

import pytest

from fedrel.corpus import NA, biobert
from fedrel.errors import UserError
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


def test_no_two_rows_share_a_pair_nor_two_files(tmp_path):
    rows = "@GENE$ and @DISEASE$\t1\n" * 3
    made = [*read(tmp_path, rows), *read(tmp_path, "index\tsentence\tlabel\n0\t" + rows[:23], "test.tsv")]
    assert [it.head.id for it in made] == ["train:1#GENE", "train:2#GENE", "train:3#GENE", "test:2#GENE"]
    assert len({it.tail.id for it in made}) == 4


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
    assert (found.head.start, found.tail.start) == (0, 2)
    assert found.head.id != found.tail.id


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
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path, row, says):
    with pytest.raises(UserError) as caught:
        read(tmp_path, f"@GENE$ and @DISEASE$\t1\n\n{row}\n")
    assert str(caught.value).startswith(f"{tmp_path}/train.tsv:3: ")
    assert says in str(caught.value)
