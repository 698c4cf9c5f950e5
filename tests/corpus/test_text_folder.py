"""A folder of text: what became of every file in it is told, and broken ones end no run."""

import json
import os
from typing import Any

import pytest

from fedrel.corpus import FORMATS, Skipped, plain_text
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.errors import UserError
from tests.documents import place
from tests.written import docx, odt, pdf, zipped

SENTENCE = "Ann Lee left Bonn."


GOOD: dict[str, bytes | str] = {
    ".txt": SENTENCE,
    ".md": "# A\n\n*Ann* Lee left Bonn.",
    ".html": f"<p>{SENTENCE}",
    ".htm": f"<p>{SENTENCE}",
    ".pdf": pdf([[SENTENCE]]),
    ".docx": docx(SENTENCE),
    ".odt": odt(SENTENCE),
    ".jsonl": json.dumps({"text": SENTENCE}) + "\n" + json.dumps({"text": "Bo Lee hates Bonn."}) + "\n",
    ".csv": "id,when\n1,2\n",
    ".xml": "<a><b>x</b></a>\n",
}
OTHER: dict[str, bytes | str] = {".json": json.dumps([{"text": SENTENCE}]), ".zip": zipped({"a.zip": b"PK"})}
COUNTS = {
    **{".txt": 40, ".md": 30, ".html": 20, ".htm": 10, ".pdf": 30, ".docx": 25, ".jsonl": 10},  # 165 to read
    **{".csv": 9, ".xml": 6},  # which nothing reads
}
BROKEN = {
    "broken/a.txt": (b"x\n\xff", "line 2: not UTF-8 text; convert the file to UTF-8"),
    "broken/b.md": (b"\xff", "not UTF-8 text; convert the file to UTF-8"),
    "broken/c.html": (b"\xff", "not UTF-8 text, and it declares no encoding; convert the file to UTF-8"),
    "broken/d.pdf": (b"%PDF-1.4", "cut off, the end of the PDF is missing; get it again"),
    "broken/e.pdf": (SENTENCE, "not a PDF, whatever its name says; rename it, or get it again"),
    "broken/f.pdf": (
        pdf([None]),
        "no text layer, the pages are pictures; add one with text recognition, such as ocrmypdf",
    ),
    "broken/g.docx": (b"PK", "not a whole .docx file; it is damaged or cut off: get it again"),
    "broken/h.docx": (
        docx("x" * 20_000_000),
        "word/document.xml in it has 19 MB when unpacked, as no text has; it is refused",
    ),
    "broken/i.odt": (zipped({"a": "b"}), "not a whole .odt file; it is damaged or cut off: get it again"),
    "broken/j.jsonl": (
        '{"text": "x"',
        "1 of 1 rows cannot be read; is the file damaged?",
    ),
}
EMPTY = {"empty/a.txt": " \n", "empty/b.html": "<script>x</script>", "empty/c.pdf": pdf([[]]), "empty/d.jsonl": ""}
ASIDE = {".DS_Store": "x", "sub/._a.txt": "x", ".git/config": "x", "README.md": "x", "LICENSE.txt": "x", "sub/.b": "x"}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """200 files in eight formats and more, ten of them broken in ten ways."""
    files = {f"sub/{n % 7}/{n:03}{suffix}": GOOD[suffix] for suffix, count in COUNTS.items() for n in range(count)}
    files |= {name: content for name, (content, _) in BROKEN.items()} | EMPTY | ASIDE
    assert len(files) == 200
    return place(tmp_path_factory.mktemp("mixed"), files)


def check(files: dict[str, Any]) -> None:
    assert files["files"] == 200
    readable = {suffix: count for suffix, count in COUNTS.items() if suffix not in (".csv", ".xml")}
    assert files["read"] == {"count": 165, "by_extension": dict(sorted(readable.items()))}
    assert files["empty"] == {"count": 4, "first": sorted(EMPTY)}
    assert files["broken"] == {
        "count": 10,
        "files": [{"file": name, "why": why} for name, (_, why) in BROKEN.items()],
    }
    assert files["skipped"]["count"] == 15
    csv = files["skipped"]["by_extension"][".csv"]
    assert (csv["count"], csv["first"]) == (
        9,
        [f"sub/{n}/{m:03}.csv" for n, m in ((0, 0), (0, 7), (1, 1), (1, 8), (2, 2))],
    )
    assert csv["advice"].startswith("rows or records, no prose; name such a file itself")
    assert files["skipped"]["by_extension"][".xml"]["count"] == 6
    assert files["set_aside"] == {
        "count": 6,
        "first": [".DS_Store", ".git/", "LICENSE.txt", "README.md", "sub/._a.txt"],
    }


def test_every_file_is_accounted_for(mixed):
    documents = Documents(mixed)
    assert documents.source == "text"
    found = list(documents)
    assert len(found) == 175  # two in each file of JSON lines
    assert sum("Ann Lee left Bonn." in it.text for it in found) == 165
    check(documents.files.as_json())
    list(documents)
    check(documents.files.as_json())  # of the latest pass alone
    assert [it.page_at(0) for it in found if it.id.endswith(".pdf")] == [1] * 30


def test_label_and_check_tell_of_every_file(fedrel, mixed, tmp_path):
    place(
        tmp_path / "kb", {"entities.tsv": "Q1\tperson\tAnn Lee\nQ3\tcity\tBonn\n", "triples.tsv": "Q1\tborn_in\tQ3\n"}
    )
    outcome = fedrel("label", "--kb", tmp_path / "kb", "--text", mixed, "--out", tmp_path / "o", "--workers", 1)
    assert outcome.code == 0
    for line in (
        "200 files",
        "│ read          │   165 │ 40 .txt, 30 .md, 30 .pdf, ",
        "│ skipped: .csv │     9 │ sub/0/000.csv, ",
    ):
        assert line in outcome.out
    assert "│ broken        │    10 │ broken/a.txt: line 2: not UTF-8 text" in outcome.out
    assert "left out: not UTF-8" not in outcome.out
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    check(summary["files"])
    assert summary["documents"] == 175
    lines = [json.loads(it) for file in (tmp_path / "o").glob("*.jsonl") for it in file.read_text().splitlines()]
    assert {it.get("page") for it in lines if it["source"].endswith(".pdf")} == {1}
    assert {it.get("page") for it in lines if not it["source"].endswith(".pdf")} == {None}
    check(json.loads(fedrel("data", "check", mixed, "--source", "text", "--json").out)["files"])
    outcome = fedrel("data", "check", mixed)
    assert "│ broken        │    10 │ broken/a.txt: line 2: not UTF-8 text" in outcome.out


def test_more_is_said_only_below_what_there_is_more_of(fedrel, tmp_path):
    """A row of a file that is in the table as broken, after as many broken files as are remembered with their lines;
    these come first in the folder, which is one of text all the same.
    """
    broken = {f"{n}.txt": b"\xff" for n in range(6)} | {"rows.jsonl": b'{"id": "x", "text": "cut'}
    folder = place(tmp_path / "t", {f"good{n}.txt": f"{n} {SENTENCE}" for n in range(9)} | broken)
    outcome = fedrel("data", "check", folder)
    assert "│ broken │     7 │ 0.txt: line 1: not UTF-8 text" in outcome.out
    assert "1 left out: not a JSON object (is the file cut off?)" in outcome.out
    assert " more" not in outcome.out


def test_a_thousand_files_with_some_broken_end_with_a_table(tmp_path):
    files = {f"{n:04}.txt": SENTENCE if n % 3 else b"\xff" for n in range(1_000)}
    documents = Documents(place(tmp_path, files))
    assert len(list(documents)) == 666
    assert (documents.files.broken_count, documents.files.read) == (334, {".txt": 666})


def test_more_than_half_broken_is_an_error_and_one_is_if_strict(tmp_path):
    place(tmp_path, {"a.txt": SENTENCE, "b.pdf": "x"})
    assert len(list(Documents(tmp_path))) == 1
    with pytest.raises(UserError, match=r"b\.pdf: not a PDF, .* get it again$"):
        list(Documents(tmp_path, bad_rows=0))
    place(tmp_path, {"c.pdf": "x", "d.csv": "x"})
    with pytest.raises(UserError) as caught:
        list(Documents(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path / 'b.pdf'}: not a PDF, whatever its name says; rename it, or get it again (2 of the 3 files of "
        f"{tmp_path} that are text cannot be read; up to half of them may be left out)"
    )


def test_without_the_package_a_pdf_is_skipped_with_what_to_install(tmp_path, monkeypatch):
    place(tmp_path, {"a.txt": SENTENCE, "b.pdf": GOOD[".pdf"]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    documents = Documents(tmp_path)
    assert len(list(documents)) == 1
    skipped = documents.files.skipped[".pdf"]
    assert (skipped.first, skipped.advice) == (["b.pdf"], 'pip install "fedrel[documents]"')
    (tmp_path / "a.txt").unlink()
    with pytest.raises(UserError, match=r'b\.pdf: reading these needs a package: pip install "fedrel\[documents\]"'):
        list(Documents(tmp_path))


def test_what_is_no_file_is_named_too(tmp_path):
    place(tmp_path, {"a.txt": SENTENCE, "b.txt": SENTENCE, "c.txt": SENTENCE})
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "gone.txt").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    documents = Documents(tmp_path)
    assert len(list(documents)) == 3
    assert documents.files.broken == {
        "gone.txt": "a link that leads nowhere",
        "pipe.txt": "neither a file nor a folder",
    }
    assert documents.files.skipped["(link)"].first == ["loop/"]
    assert documents.files.total == 6


def test_rows_of_json_lines_that_are_broken_are_left_out_unless_they_are_most(tmp_path):
    good, bad = json.dumps({"text": SENTENCE}) + "\n", "{\n"
    place(tmp_path, {"a.txt": SENTENCE, "b.txt": SENTENCE, "c.jsonl": good * 2 + bad, "d.jsonl": good + bad * 2})
    documents = Documents(tmp_path)
    assert len(list(documents)) == 5
    assert documents.files.read == {".txt": 2, ".jsonl": 1}
    assert documents.files.broken == {"d.jsonl": "2 of 3 rows cannot be read; is the file damaged?"}


def test_json_lines_with_labels_are_no_text(tmp_path):
    place(tmp_path, {"a.md": SENTENCE, "b.jsonl": '{"text": "x", "label": "y"}'})
    documents = Documents(tmp_path, "text")
    assert [it.id for it in documents] == ["a.md"]
    assert documents.files.broken["b.jsonl"].startswith(
        'not JSON lines with a "text" each, or labels are in them; name'
    )


def test_json_is_read_in_every_layout_if_it_holds_documents(tmp_path):
    place(tmp_path, {"a.md": SENTENCE, "b.json": json.dumps([{"text": "b"}, {"text": "c"}], indent=1)})
    place(tmp_path, {"c.json": json.dumps({"text": "d"}, indent=1), "d.json": '{"theme": "dark"}', "e.json": b"\xff"})
    place(tmp_path, {"f.json": json.dumps([{"text": "x y", "label": "y"}]), "g.json": ""})
    documents = Documents(tmp_path)
    assert documents.source == "text"
    assert [it.text.strip() for it in documents] == [SENTENCE, "b", "c", "d"]
    assert (documents.files.read, documents.files.empty.first) == ({".md": 1, ".json": 2}, ["g.json"])
    assert documents.files.skipped[".json"].first == ["d.json", "f.json"]
    assert documents.files.broken == {"e.json": "line 1: not UTF-8 text; convert the file to UTF-8"}


def test_files_beside_documents_of_another_format_are_counted(tmp_path):
    marked = {"a.txt": "Aspirin.", "a.ann": "T1\tDrug 0 7\tAspirin\n"}
    documents = Documents(place(tmp_path, {**marked, "b.pdf": "x", "README": "x", "c.dat": "x"}))
    assert documents.source == "brat"
    list(documents)
    files = documents.files
    assert (files.read, files.total) == ({".txt": 1, ".ann": 1}, 5)
    assert {extension: names.first for extension, names in files.skipped.items()} == {
        ".pdf": ["b.pdf"],
        ".dat": ["c.dat"],
    }
    assert files.aside.first == ["README"]


@pytest.mark.parametrize(
    ("names", "source"),
    [
        (("a.pdf",), "text"),
        (("a.md", "b.jsonl"), "text"),
        (("a.txt", "b.jsonl"), "text"),
        (("a.txt", "b.csv", "c.csv"), "text"),
        (("a.pdf", "b.csv"), ""),
        (("a.pdf", "b.pdf", "c.csv"), "text"),
        (("b.jsonl",), "jsonl"),
        (("a.md", "b.json"), "text"),
        (("a.txt", "b.json"), "text"),
        (("b.json",), "jsonl"),
        (("a.pdf", "b.zip"), ""),
        (("a.pdf", "b.pdf", "c.zip"), "text"),
        (("a.pdf", "data/x/train.csv", "data/x/test.csv", "b.txt"), "text"),
    ],
)
def test_a_folder_with_text_is_one_of_text_where_text_is_wanted(tmp_path, names, source):
    place(tmp_path, {name: (GOOD | OTHER)[name[name.index(".") :]] for name in names})
    if source:
        assert detect(tmp_path, text=True).source == source
    else:
        with pytest.raises(UserError):
            detect(tmp_path, text=True)


def test_labelled_data_with_papers_beside_them_stay_labelled_data(tmp_path):
    row = {"text": "a b", "entities": [{"start": 0, "end": 1}, {"start": 2, "end": 3}]}
    related = {**row, "relations": [{"head": "T1", "relation": "r", "tail": "T2"}]}
    place(tmp_path, {"a.jsonl": json.dumps(related) + "\n", "paper.pdf": GOOD[".pdf"]})
    assert detect(tmp_path).source == "jsonl"
    assert detect(tmp_path, text=True).source == "text"
    place(
        tmp_path, {"a.jsonl": json.dumps({"text": "a b", "h": {"pos": [0, 1]}, "t": {"pos": [2, 3]}, "relation": "r"})}
    )
    assert detect(tmp_path).source == "opennre"


def test_a_reader_reports_files_as_it_goes(tmp_path):
    skip = Skipped()
    place(tmp_path, {"a.txt": SENTENCE, "b.txt": "", "c.txt": b"\xff"})
    read = FORMATS["text"].documents
    assert [it.id for it in read(tmp_path, skip)] == ["a.txt"]
    assert skip.files.reasons == {plain_text.EMPTY: 1, "not UTF-8 text; convert the file to UTF-8": 1}
    assert skip.reasons == skip.files.reasons
