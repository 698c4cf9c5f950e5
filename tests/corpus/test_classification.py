"""Labelled texts: two columns, or a .tab file with three lines before its rows."""

from pathlib import Path

import pytest

from fedrel.corpus import LabelledText, Skipped, classification
from fedrel.errors import UserError
from tests.broken_rows import with_a_broken_row
from tests.instances import items
from tests.labelled_examples import tab


def read(path: Path, content: str):
    path.write_text(content, encoding="utf-8", newline="")
    skip = Skipped()
    return list(items(classification.read, path, skip)), skip


def refusal(path: Path, content: str) -> str:
    with pytest.raises(UserError) as caught:
        read(path, content)
    return str(caught.value)


@pytest.mark.parametrize("header", ["", "sentence\tlabel\n", "Text\tLabel\n"])
def test_text_and_label_between_tabs(tmp_path, header):
    found, skip = read(tmp_path / "train.tsv", f"{header}a fine film , truly\t1\n\nnot so .\t0\n")
    assert found == [LabelledText(["a", "fine", "film", ",", "truly"], "1"), LabelledText(["not", "so", "."], "0")]
    assert not skip.total


def test_a_tab_file_says_which_column_is_which(tmp_path):
    found, _ = read(tmp_path / "train.tab", tab("x"))
    assert [it.label for it in found] == ["sci.x", "rec.x"] * 2
    assert found[0].tokens == ["a", "fine", "café", "x", "0", "of", "it"]
    turned, _ = read(tmp_path / "test.tab", "t\tc\nstring\td\n\tclass\nsome text\tyes\n")
    assert turned == [LabelledText(["some", "text"], "yes")]


def test_an_empty_text_is_left_out_and_counted(tmp_path):
    found, skip = read(tmp_path / "train.tsv", "fine\t1\n \t0\n")
    assert len(found) == 1
    assert skip.examples == [f"{tmp_path}/train.tsv:2: the text is empty"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.tab", "c\tt\nd\tstring\n", "t.tab: a .tab file begins with three lines"),
        ("t.tab", "c\tt\n\nd\tstring\nclass\t\n", "t.tab: a .tab file begins with three lines"),
        ("t.tab", "c\tt\nd\tstring\nmeta\tmeta\n", "t.tab:1: one column must be"),
        ("t.tab", "c\tt\nstring\tstring\nclass\t\n", "t.tab:1: one column must be"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_with_its_place(tmp_path, name, content, says):
    assert says in refusal(tmp_path / name, content)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.tsv", "a\t1\nb\nc\t1\nd\t1\n", "t.tsv:2: 1 column where 2 are needed (text, label)"),
        ("t.tsv", "a\tb\t1\nc\t1\nd\t1\nd\t1\n", "t.tsv:1: 3 columns where 2 are needed"),
        ("t.tsv", "a\t \nc\t1\nd\t1\nd\t1\n", "t.tsv:1: the label is missing; write it after the text"),
        ("t.tsv", "a\t1\nb\0\t1\nc\t1\nd\t1\n", "t.tsv:2: not UTF-8 text (is it UTF-16?)"),
        ("t.tsv", "text\tlabel\na\t1\ntext\tb\tlabel\nc\t1\nd\t1\n", "t.tsv:3: 3 columns where 2 are needed"),
        ("t.tab", "c\tt\nd\tstring\nclass\t\nx\ta\nsci\nx\tb\ny\tc\n", "t.tab:5: 1 column where 2 are needed (c, t)"),
    ],
)
def test_a_broken_row_is_counted_with_its_place(tmp_path, name, content, says):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    sentence, found = with_a_broken_row(classification.read, tmp_path / name)
    assert says in sentence
    assert len(found) == 3
