"""Plain text, of any size."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Skipped, plain_text
from tests.broken_rows import with_a_broken_row
from tests.documents import everything, place, refusal


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("text") / "a.txt"


@pytest.fixture
def short(monkeypatch):
    """Documents of at most ten characters."""
    monkeypatch.setattr(plain_text, "LONGEST", 10)


def texts(path, content: str | bytes) -> list[str]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [document.text for document in everything(plain_text.read, path)[0]]


def test_a_folder_is_read_in_order_with_the_folders_below_it(tmp_path):
    place(
        tmp_path, {"b.txt": "B.", "a/z.TXT": "Z.", "a/b/c.txt": "C.", "a.py": "no", ".a.txt": "no", ".git/a.txt": "no"}
    )
    found, skipped = everything(plain_text.read, tmp_path)
    assert [(it.id, it.text) for it in found] == [("a/b/c.txt", "C."), ("a/z.TXT", "Z."), ("b.txt", "B.")]
    assert all(it.annotations is None and it.relations is None and it.sentences is None for it in found)
    assert found[0].where == str(tmp_path / "a" / "b" / "c.txt")
    assert skipped.total == 0


def test_a_file_alone_goes_by_its_name(tmp_path):
    place(tmp_path, {"notes.log": "**Hello.**"})
    [found], _ = everything(plain_text.read, tmp_path / "notes.log")
    assert (found.id, found.text) == ("notes.log", "**Hello.**")


@pytest.mark.parametrize("content", [b"", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_blank_file_is_counted(tmp_path, content):
    place(tmp_path, {"a.txt": content, "b.txt": "B."})
    found, skipped = everything(plain_text.read, tmp_path)
    assert [it.id for it in found] == ["b.txt"]
    assert skipped.reasons == {"there is no text in it": 1}
    assert skipped.examples == [f"{tmp_path / 'a.txt'}: there is no text in it"]


@given(st.text().filter(lambda text: text.strip() and text[0] != "\ufeff"))
def test_the_text_is_what_the_file_holds(path, text):
    assert texts(path, text) == texts(path, "\ufeff" + text) == [text]


def test_line_ends_are_kept(path):
    assert texts(path, "a\r\nb\rc\n") == ["a\r\nb\rc\n"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one\n\ntwo\nthree four", ["one\n\n", "two\n", "three four"]),
        ("one\r\n\r\ntwo\r\n", ["one\r\n\r\n", "two\r\n"]),
        ("one\n \t\ntwo three", ["one\n \t\n", "two three"]),
        ("one\ntwo three four", ["one\n", "two three ", "four"]),
        ("one two three four", ["one two ", "three four"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghij", "klmnopqrst", "uvwxyz"]),
        ("one\n\n" + " " * 25 + "two", ["one\n\n", "two"]),
    ],
)
def test_a_long_text_is_cut_where_it_hurts_least(path, short, text, parts):
    got = texts(path, text)
    assert [it.strip() for it in got] == [it.strip() for it in parts]
    assert got[:1] == parts[:1]
    assert all(len(it) <= 10 for it in got)


def test_parts_have_names_and_lines(path, short):
    path.write_text("one\n\ntwo\n\nthree\n", encoding="utf-8")
    found, _ = everything(plain_text.read, path)
    assert [it.id for it in found] == ["a.txt", "a.txt#2"]
    assert [it.where for it in found] == [str(path), f"{path}:5"]


@given(st.lists(st.sampled_from(["a", "bc", " ", "\n", "\r\n", "\u2028", "éé", "👩‍🚀"])).map("".join))
def test_the_parts_make_up_the_text(path, text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "LONGEST", 4)
        path.write_text(text, encoding="utf-8", newline="")
        pieces = [piece for piece, _ in plain_text._parts(plain_text._chunks(path))]
        assert "".join(pieces) == text
        assert all(0 < len(piece) <= 4 for piece in pieces)
        assert texts(path, text) == [piece for piece in pieces if not piece.isspace()]


def test_a_big_file_is_never_whole_in_memory(path):
    with path.open("wb") as file:
        for _ in range(30):
            file.write(b"x" * 999_999 + b" ")
    tracemalloc.start()
    try:
        sizes = [len(document.text) for document in plain_text.read(path, Skipped())]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes == [1_000_000] * 30
    assert peak < 12_000_000


def test_what_is_no_utf8_is_refused_with_its_line_and_in_a_folder_counted(tmp_path):
    place(tmp_path, {"a/b.txt": b"good\r\n\r\nna\xefve\n", "a/c.txt": "naïve"})
    says = f"{tmp_path / 'a' / 'b.txt'}:3: not UTF-8 text; convert the file to UTF-8"
    sentence, [found] = with_a_broken_row(plain_text.read, tmp_path)
    assert (sentence, found.id) == (says, "a/c.txt")
    assert refusal(plain_text.read, tmp_path / "a" / "b.txt") == says


def test_a_character_cut_off_at_the_end_is_refused(path):
    path.write_bytes("one\né".encode()[:-1])
    assert refusal(plain_text.read, path) == f"{path}:2: not UTF-8 text; convert the file to UTF-8"


def test_a_folder_without_texts_or_none_at_all_is_refused(tmp_path):
    assert refusal(plain_text.read, tmp_path) == (
        f"{tmp_path}: no text in this folder; .txt, .md, .markdown, .html, .htm, .xhtml, .pdf, .docx, .odt, .json, "
        ".jsonl files are read"
    )
    assert refusal(plain_text.read, tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"


def test_a_name_that_is_no_utf8_is_broken(tmp_path):
    try:
        (tmp_path / "caf\udce9.txt").write_text("x")
    except OSError:
        pytest.skip("the file system takes no such name")
    found, skipped = everything(plain_text.read, tmp_path)
    assert found == []
    assert skipped.files.broken == {"caf\\xe9.txt": "the name of the file is not UTF-8; rename it"}
