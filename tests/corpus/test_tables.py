"""CSV and TSV."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import tables
from tests.broken_rows import with_a_broken_row
from tests.documents import everything, refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


def write(folder, content: str | bytes, name="notes.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(path) -> list[tuple[str, str]]:
    return [(it.id, it.text) for it in everything(tables.read, path)[0]]


def test_a_row_is_a_document(folder):
    path = write(folder, 'id,Text,site\nn1,"Aspirin eases pain, mostly.\nSo ""they"" say.",A\nn2,Hello,B\n')
    found, skipped = everything(tables.read, path)
    assert [(it.id, it.text, it.where) for it in found] == [
        ("n1", 'Aspirin eases pain, mostly.\nSo "they" say.', f"{path}:2"),
        ("n2", "Hello", f"{path}:4"),
    ]
    assert all(it.annotations is None and it.relations is None for it in found)
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "id\ttext\n1\ta, b; c\n"),
        ("a.tab", "id\ttext\r\n1\ta, b; c\r\n"),
        ("a.csv", 'id,text\n1,"a, b; c"\n'),
        ("a.csv", 'id;text\n1;"a, b; c"\n'),
        ("a.csv", "\ufeffid\ttext\n1\ta, b; c"),
        ("a.txt", "id\ttext\r1\ta, b; c\r"),
        ("a.csv", '\n\nid,text\n\n \n1,"a, b; c"\n'),
        ("a.csv", 'ID , DOC_ID,NOTE\n1,2,"a, b; c"'),
        ("a.csv", 'document,clinical_note,notebook\n1,"a, b; c",3'),
        ("a.csv", 'doc_id,Abstract (English),context\n1,"a, b; c",3'),
        ("a.csv", 'id,abstract,sentence\n1,x,"a, b; c"'),
    ],
)
def test_columns_are_found_by_name(folder, name, content):
    assert rows(write(folder, content, name)) == [("1", "a, b; c")]


def test_without_an_id_a_row_goes_by_its_line(folder):
    assert rows(write(folder, 'text\na\n"b\nc"\nd\n')) == [
        ("notes.csv:2", "a"),
        ("notes.csv:3", "b\nc"),
        ("notes.csv:5", "d"),
    ]
    assert rows(write(folder, "id,text\n ,a\n")) == [("notes.csv:2", "a")]


def test_a_row_without_text_is_counted(folder):
    path = write(folder, "id,text\n1,\n2,b\n,\n")
    found, skipped = everything(tables.read, path)
    assert [it.id for it in found] == ["2"]
    assert skipped.examples == [f"{path}:2: there is no text in it", f"{path}:4: there is no text in it"]


def test_a_long_cell_is_read(folder):
    path = write(folder, "text\n" + "x" * 300_000 + "\n")
    assert rows(path) == [("notes.csv:2", "x" * 300_000)]


cells = st.text(max_size=8).filter(lambda it: "\0" not in it)


@pytest.mark.parametrize(("name", "dialect"), [("a.csv", "excel"), ("a.tsv", "excel-tab"), ("b.csv", "unix")])
@given(st.lists(st.tuples(cells.map(str.strip).filter(bool), cells.filter(str.strip), cells), max_size=4))
def test_what_is_written_is_read_back_identical(folder, name, dialect, made):
    written = io.StringIO(newline="")
    csv.writer(written, dialect).writerows([("id", "text", "other"), *made])
    assert rows(write(folder, written.getvalue(), name)) == [(id_, text) for id_, text, _ in made]


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("", 1, 'no column is the text; name one of them "text" (the columns: none)'),
        ("id,words,label\n", 1, 'no column is the text; name one of them "text" (the columns: id, words, label)'),
        ("text,TEXT\n", 1, 'several columns could be the text; name one of them "text" (the columns: text, TEXT)'),
        ("my text,your text\n", 1, "several columns could be the text"),
        (",".join(f"c{n}" for n in range(99)), 1, "c18, c19, …)"),
        ("id,text\n1,a\n".encode("utf-16-le"), 1, "a NUL character"),
        ("id,text\n1,a\n".encode("utf-16"), 1, "not UTF-8 text; convert the file to UTF-8"),
        ('\nid,"text\n1,a\n', 2, "a quote is opened in this row and never closed"),
    ],
)
def test_a_bad_header_is_refused_with_its_line(folder, content, line, says):
    path = write(folder, content)
    sentence = refusal(tables.read, path)
    assert sentence.startswith(f"{path}:{line}: ")
    assert says in sentence


@pytest.mark.parametrize(
    ("row", "says", "ids"),
    [
        ("2", "1 cell where the header has 2 columns", ["1", "8", "9"]),
        ("2,b,c", "3 cells where the header has 2 columns", ["1", "8", "9"]),
        ('2,"b', "a quote is opened in this row and never closed", ["1", "8", "9"]),
        ('2,"b"c"', 'a quote stands alone within a quoted cell; write it twice ("")', ["1", "8", "9"]),
        ("2,a\0b", "a NUL character", ["1", "8", "9"]),
        (b"2,caf\xe9", "not UTF-8 text; convert the file to UTF-8", ["1", "8", "9"]),
        (b'2,"a\r\n7,caf\xe9"', "not UTF-8 text; convert the file to UTF-8", ["1", "8", "9"]),
    ],
)
def test_a_broken_row_is_counted_with_its_line_and_the_next_are_read(folder, row, says, ids):
    row = row.encode() if isinstance(row, str) else row
    path = write(folder, b"id,text\n1,a\n" + row + b"\n8,c\n9,d\n")
    if b"7" in row:  # the second line of a row, which is a row of its own when the first is lost
        found, skipped = everything(tables.read, path)
        assert skipped.broken.total() == 2
        sentence = skipped.broken_examples[0]
    else:
        sentence, found = with_a_broken_row(tables.read, path)
    assert sentence.startswith(f"{path}:3: ")
    assert says in sentence
    assert [it.id for it in found] == ids
    assert [it.where.rpartition(":")[2] for it in found[1:]] == (["5", "6"] if b"7" in row else ["4", "5"])


def test_a_quote_that_is_never_closed_loses_its_own_row_alone(folder, monkeypatch):
    limit = csv.field_size_limit()
    monkeypatch.setattr(tables, "LONGEST_CELL", 100)
    path = write(folder, 'text\na\n"b\n' + "c\n" * 100 + 'd\n"e\nf\n"g ""h"""\n')
    found, skipped = everything(tables.read, path)
    assert [it.text for it in found] == ["a", *["c"] * 100, "d", "f", 'g "h"']
    assert found[-1].where == f"{path}:107"
    assert [it.removeprefix(f"{path}:") for it in skipped.broken_examples] == [
        "3: a cell of more than 100 characters (is a quote never closed?); close or shorten it",
        '105: a quote stands alone within a quoted cell; write it twice ("")',
    ]
    assert csv.field_size_limit() == limit, "of the whole process"


def test_a_line_without_end_is_refused(folder, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_CELL", 100)
    for before in ("a", '"a'):
        path = write(folder, f"text\n{before}\n" + "b," * 51)
        assert refusal(tables.read, path) == f"{path}:3: a line of more than 100 characters; shorten it"


def test_a_folder_is_refused(folder):
    assert refusal(tables.read, folder) == f"{folder}: Is a directory"
