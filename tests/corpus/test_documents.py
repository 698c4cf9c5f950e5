"""Documents of any format in pieces of work."""

import os

import pytest

from fedrel.corpus import documents as module
from fedrel.corpus.documents import Documents
from fedrel.corpus.formats import FORMATS
from fedrel.errors import UserError
from tests.documents import place

TEXTS = [name for name, form in FORMATS.items() if form.documents]


def refusal(*arguments) -> str:
    with pytest.raises(UserError) as caught:
        list(Documents(*arguments))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_format_is_detected_and_it_is_said_why(tmp_path):
    place(tmp_path, {"a.txt": "Aspirin.", "a.ann": "T1\tDrug 0 7\tAspirin\n"})
    found = Documents(tmp_path)
    assert (found.source, found.why) == ("brat", "it holds a.ann")
    [document] = found
    assert document.annotations[0].type == "Drug"
    assert [it.annotations for it in Documents(tmp_path, "text")] == [None]


def test_pieces_are_cut_between_documents_and_keep_their_order(tmp_path, monkeypatch):
    names = [f"{n:02}.txt" for n in range(9, -1, -1)]
    place(tmp_path, {name: "x" * 10 for name in names})
    assert [len(piece) for piece in Documents(tmp_path).pieces()] == [10]
    monkeypatch.setattr(module, "_PIECE", 25)
    pieces = list(Documents(tmp_path).pieces())
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1]
    assert [document.id for piece in pieces for document in piece] == sorted(names)


def test_the_order_does_not_depend_on_the_file_system(tmp_path, monkeypatch):
    place(tmp_path, {f"{folder}/{name}.txt": name for folder in "ba" for name in "dc"})
    walk = os.walk

    def backwards(path, **more):
        for parent, folders, names in walk(path, **more):
            folders.sort(reverse=True)
            yield parent, folders, sorted(names, reverse=True)

    monkeypatch.setattr(os, "walk", backwards)
    assert [document.id for document in Documents(tmp_path)] == ["a/c.txt", "a/d.txt", "b/c.txt", "b/d.txt"]


def test_a_pass_may_be_repeated(tmp_path):
    found = Documents(place(tmp_path, {"a.txt": "Aspirin.", "b.txt": "Zinc."}))
    assert list(found) == list(found)


def test_the_size_is_that_of_all_files(tmp_path):
    place(tmp_path, {"a.txt": "é", "b/c.txt": "xyz"})
    assert Documents(tmp_path).bytes == 5
    assert Documents(tmp_path / "a.txt").bytes == 2


def test_what_is_left_out_is_counted(tmp_path):
    found = Documents(place(tmp_path, {"a.txt": "Aspirin.", "b.txt": " \n"}))
    assert [document.id for document in found] == ["a.txt"]
    assert found.skipped.reasons == {"there is no text in it": 1}


def test_what_is_not_there_is_refused_at_once_also_where_the_format_is_given(tmp_path):
    for arguments in ((), ("text",), ("brat",)):
        with pytest.raises(UserError, match="nowhere: no such file or folder"):
            Documents(tmp_path / "nowhere", *arguments)


def test_an_unknown_format_is_refused_with_what_it_may_mean(tmp_path):
    assert refusal(tmp_path, "bart") == '"bart" is no format of documents; did you mean "brat"?'
    assert refusal(tmp_path, "world") == f'"world" is no format of documents; there is {", ".join(sorted(TEXTS))}'
    assert refusal(tmp_path, "nyt10").startswith('"nyt10" is no format of documents')


@pytest.mark.parametrize(
    ("name", "line", "source"),
    [
        ("train.jsonl", '{"text": "a b", "h": {"pos": [0, 1]}, "t": {"pos": [2, 3]}, "relation": "r"}', "opennre"),
        ("train.txt", "m1\tm2\ta\tb\tr\ta b ###END###", "nyt10"),
        ("train.tsv", "0\t@GENE$ and @DISEASE$\t1", "biobert"),
        ("train.tab", "label\ta text", "classification"),
    ],
)
def test_labelled_data_is_no_text_to_read(tmp_path, name, line, source):
    place(tmp_path, {name: f"{line}\n"})
    for path in (tmp_path, tmp_path / name):
        said = refusal(path)
        assert said.startswith(f"{path}: ")
        assert said.endswith(f"({source}); text to read is wanted here: {', '.join(TEXTS)}")


def test_a_name_that_is_no_text_is_refused(tmp_path):
    for name in (b"caf\xe9.txt", b"caf\xe9"):
        path = tmp_path / os.fsdecode(name)
        path.write_text("Aspirin.", encoding="utf-8")
        assert "is not UTF-8; rename it" in refusal(path, "text")
        refusal(path).encode()  # and can be printed
