"""Readers of Markdown, web pages, PDF, Word and OpenDocument: whole sentences, and one sentence for what is broken."""

import io
import re
import subprocess
import sys
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from fedrel.corpus import Skipped, plain_text, prose
from fedrel.corpus.prose import pdf as pdf_reader
from fedrel.corpus.prose.lines import Page, joined
from fedrel.corpus.prose.paragraphs import clean
from fedrel.errors import UserError
from tests.documents import everything, place, refusal
from tests.written import docx, odt, pdf, zipped


def text_of(tmp_path, name: str, content: str | bytes) -> list[str]:
    """The paragraphs of a file."""
    place(tmp_path, {name: content})
    return "".join(it.text for it in everything(plain_text.read, tmp_path / name)[0]).split("\n\n")[:-1]


def refused(tmp_path, name: str, content: str | bytes) -> str:
    place(tmp_path, {name: content})
    said = refusal(plain_text.read, tmp_path / name)
    assert said.startswith(f"{tmp_path / name}: ")
    return said.removeprefix(f"{tmp_path / name}: ")


# ------------------------------------------------------------------------------------------- Markdown and HTML


def test_markdown_is_read_without_its_markup(tmp_path):
    page = (
        "---\ntitle: x\n---\n# Head *one*\n\nAnna **Weber** was\nborn in [Lyon](http://x.y).\n\n- item `one`\n- two\n\n"
        "| a | b |\n|---|---|\n| Anna | Lyon |\n\n```py\ncode\n```\n\n    indented text\n\n<div><p>Html <b>para</b></p>"
        "<script>x</script></div>\n\nlast <br> line &amp; ![alt](x.png)\n"
    )
    assert text_of(tmp_path, "a.md", page) == [
        *("Head one", "Anna Weber was born in Lyon.", "item one", "two", "a | b", "Anna | Lyon", "indented text"),
        *("Html para", "last\nline &"),
    ]


def test_long_markdown_is_parsed_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(prose.markdown, "_PIECE", 30)
    assert text_of(tmp_path, "a.md", "*Anna* went home.\n\n" * 9) == ["Anna went home."] * 9


def test_of_a_web_page_only_the_text_is_read(tmp_path):
    page = (
        "<html><head><title>T</title><style>x{}</style></head><body><nav><ul><li>Menu</ul></nav><h1>Head</h1><p>Anna "
        "<b>We</b>ber was\n born&nbsp;in <a href=x>Lyon</a>.<br>Next &eacute;<p>Two<table><tr><th>Who<th>Where<tr>"
        "<td>Anna<td>Lyon</table><pre>a\n b</pre><script>if (a<b) {}</script><!-- no -->tail so&shy;ft"
    )
    for name in ("a.html", "a.HTM"):
        assert text_of(tmp_path, name, page) == [
            *("Head", "Anna Weber was born in Lyon.\nNext é", "Two", "Who | Where", "Anna | Lyon", "a\nb", "tail soft"),
        ]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("café".encode(), "café"),
        ("\ufeffcafé".encode(), "café"),
        ("\ufeffcafé".encode("utf-16-le"), "café"),
        ('<meta charset="iso-8859-1"><p>café “q”'.encode("cp1252"), "café “q”"),
        ("<meta http-equiv=x content='text/html; charset=koi8-r'><p>Анна".encode("koi8-r"), "Анна"),
        ('<meta charset="iso-8859-1"><p>café'.encode(), "café"),
    ],
)
def test_the_encoding_of_a_page(tmp_path, page, text):
    assert text_of(tmp_path, "a.html", page) == [text]


def test_a_page_in_an_unknown_encoding_is_refused(tmp_path):
    assert refused(tmp_path, "a.html", b"caf\xe9") == (
        "not UTF-8 text, and it declares no encoding; convert the file to UTF-8"
    )
    for name in ("klingon", "zip", "undefined"):
        assert f'declares the encoding "{name}"' in refused(
            tmp_path, "a.html", f"<meta charset={name}>é".encode("cp1252")
        )


def test_nesting_without_end_is_read_to_the_end(tmp_path):
    page = "<div>" * 100_000 + "deep" + "</div>" * 100_000 + "<p>after"
    assert text_of(tmp_path, "a.html", page) == ["deep", "after"]


# ------------------------------------------------------------------------------------------------ Word and ODT


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def test_word_documents_are_read_with_changes_tables_boxes_and_notes(tmp_path):
    box = f"<w:r><w:p>{run('In a box.')}</w:p></w:r>"
    changed = (
        f"<w:p>{run('She ')}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins>{run('went')}</w:ins>"
        f"<w:r><w:tab/><w:t>home</w:t><w:br/><w:t>Line two</w:t></w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice>"
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>{run(' again.')}</w:p>"
    )
    table = (
        f"<w:tbl><w:tr><w:tc><w:p>{run('Anna')}</w:p><w:p>{run('Weber')}</w:p></w:tc><w:tc><w:p>{run('Lyon')}</w:p>"
        f"</w:tc></w:tr><w:tr><w:tc><w:p>{run('Bo')}</w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>"
    )
    control = f"<w:sdt><w:sdtContent><w:p>{run('Chosen.')}</w:p></w:sdtContent></w:sdt>"
    notes = f"<w:footnote><w:p>{run('A note.')}</w:p></w:footnote>"
    for main in ("word/document.xml", "word/document2.xml"):
        made = docx("One & two.", body=changed + table + control, notes=notes, main=main)
        assert text_of(tmp_path, "a.docx", made) == [
            *("One & two.", "In a box.", "She went home\nLine two again.", "Anna Weber | Lyon", "Bo", "Chosen."),
            "A note.",
        ]


def test_open_document_texts_are_read(tmp_path):
    body = (
        "<text:h>Head</text:h><text:p>Anna<text:s/>went<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>A note.</text:p></text:note-body></text:note> home.</text:p><table:table>"
        "<table:table-row><table:table-cell><text:p>A</text:p></table:table-cell><table:table-cell><text:p>B</text:p>"
        "</table:table-cell></table:table-row></table:table><office:annotation><text:p>x</text:p></office:annotation>"
    )
    assert text_of(tmp_path, "a.odt", odt("One.", body=body)) == ["One.", "Head", "A note.", "Anna went home.", "A | B"]


DAMAGED = "not a whole .docx file; it is damaged or cut off: get it again"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no archive", DAMAGED),
        (docx("One.")[:-100], DAMAGED),
        (zipped({"a.txt": "x"}), DAMAGED),
        (docx(body="<w:p>"), DAMAGED),
        (zipped({"word/document.xml": "<a>&x;</a>"}), DAMAGED),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 99, "encrypted, or an old .doc file; save it as .docx without a"),
        (docx("x" * 50_000_000), "word/document.xml in it has 47 MB when unpacked, as no text has; it is refused"),
        (docx(body="<w:p>" * 9_999), "more than 1,000 elements within each other; is the file damaged?"),
        (
            zipped({"word/document.xml": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'}),
            "a DOCTYPE is in it, which no document has; it is refused",
        ),
    ],
    ids=["no zip", "cut off", "another zip", "no XML", "entity", "old", "bomb", "deep", "doctype"],
)
def test_a_word_document_that_cannot_be_read_is_one_sentence(tmp_path, content, says):
    assert refused(tmp_path, "a.docx", content).startswith(says)


def test_an_encrypted_open_document_is_refused(tmp_path):
    made = zipped({"META-INF/manifest.xml": "<a><encryption-data/></a>", "content.xml": b"\x00"})
    assert refused(tmp_path, "a.odt", made) == "encrypted; save it without a password"


def test_a_member_of_a_locked_archive_is_refused(tmp_path):
    raw = bytearray(docx("One.", "Two."))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := raw.find(signature, at + 1)) >= 0:
            raw[at + flags] |= 1
    assert refused(tmp_path, "a.docx", bytes(raw)) == "encrypted; save it without a password"


# --------------------------------------------------------------------------------------------------------- PDF

PAGES = [
    [
        *("The History of Lyon", "Anna Weber, who had lived in the town for a con-"),
        *("siderable time, was born in the well-", "known city of Lyon and met Jean-"),
        *("Paul Roux there. She then went to the", "coast, where she"),
    ],
    ["died in Brest. It was a well-known fact.", "• One item", "• Two items"],
]


def test_lines_of_a_pdf_are_joined_to_sentences_and_their_pages_are_known(tmp_path):
    place(tmp_path, {"a.pdf": pdf([*PAGES, None, []])})
    [found], skipped = everything(plain_text.read, tmp_path / "a.pdf")
    assert found.text.split("\n\n") == [
        "The History of Lyon",
        "Anna Weber, who had lived in the town for a considerable time, was born in the well-known city of Lyon and "
        "met Jean-Paul Roux there. She then went to the coast, where she died in Brest. It was a well-known fact.",
        *("• One item", "• Two items", ""),
    ]
    assert [found.page_at(found.text.index(words)) for words in ("The Hist", "where she", "died in", "Two")] == [
        1,
        1,
        2,
        2,
    ]
    assert skipped.reasons == {pdf_reader.PICTURE: 1}
    assert skipped.examples == [f"{tmp_path / 'a.pdf'}, page 3: {pdf_reader.PICTURE}"]


def test_pages_are_known_in_every_part_of_a_long_pdf(tmp_path, monkeypatch):
    monkeypatch.setattr(plain_text, "LONGEST", 40)
    place(tmp_path, {"a.pdf": pdf([[f"Page {n} has a sentence of its own."] for n in ["one", "two", "six"]])})
    found, _ = everything(plain_text.read, tmp_path / "a.pdf")
    assert [(it.id, it.text, it.page_at(0)) for it in found] == [
        ("a.pdf", "Page one has a sentence of its own.\n\n", 1),
        ("a.pdf#2", "Page two has a sentence of its own.\n\n", 2),
        ("a.pdf#3", "Page six has a sentence of its own.\n\n", 3),
    ]


def joint(*pages: str) -> str:
    return "".join(piece for piece, _ in joined([Page(n, page.split("/")) for n, page in enumerate(pages, 1)]))[:-2]


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (("in the long and/winding road",), "in the long and winding road"),
        (("a bound-/ary of the state",), "a boundary of the state"),
        (("the COVID-/related and COVID-related",), "the COVID-related and COVID-related"),
        (("from 1914-/year on",), "from 1914-year on"),
        (
            ("A Heading/Anna Weber was born in a house by the sea/in Lyon.",),
            "A Heading\n\nAnna Weber was born in a house by the sea in Lyon.",
        ),
        (("It was so.//Another day.",), "It was so.\n\nAnother day."),
        (("it goes//on and on.",), "it goes on and on."),
        (
            (
                "ends here.",
                "Begins here.",
            ),
            "ends here.\n\nBegins here.",
        ),
        (("東京は日本の/首都である",), "東京は日本の首都である"),
        (
            ("1. first point is made here/2. second point is made",),
            "1. first point is made here 2. second point is made",
        ),
        (
            ("1. first point is made here./2. second point is made",),
            "1. first point is made here.\n\n2. second point is made",
        ),
        (
            tuple(f"Annals of Lyon/body {word} goes on/{n}" for n, word in enumerate(["one", "two", "six"])),
            "body one goes on body two goes on body six goes on",
        ),
        (
            tuple("We regret the delay./Yours" for _ in range(3)),
            "We regret the delay.\n\n" * 2 + "We regret the delay.",
        ),
    ],
)
def test_lines_become_paragraphs(pages, text):
    assert joint(*pages) == text


@given(
    st.lists(st.lists(st.text(st.characters(codec="cp1252", exclude_categories=["Cc", "Z"]), max_size=9), max_size=6))
)
def test_joining_loses_nothing_but_running_heads_and_hyphens(pages):
    pages = [Page(n, [f"{word}{n}.".strip() for word in lines]) for n, lines in enumerate(pages, 1)]
    letters = "".join(line for page in pages for line in page.lines)
    assert "".join("".join(piece for piece, _ in joined(pages)).split()) == "".join(letters.split())


def encrypted(password: str) -> bytes:
    file, writer = io.BytesIO(), PdfWriter(PdfReader(io.BytesIO(pdf([["Anna went home."]]))))
    writer.encrypt(password, "owner", algorithm="AES-256")
    writer.write(file)
    return file.getvalue()


def test_a_pdf_that_opens_without_a_password_is_read(tmp_path):
    assert text_of(tmp_path, "a.pdf", encrypted("")) == ["Anna went home."]


WHOLE = pdf([["Anna went home."]])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"We met.", "not a PDF, whatever its name says; rename it, or get it again"),
        (WHOLE[:-30], "cut off, the end of the PDF is missing; get it again"),
        (encrypted("secret"), "encrypted; save it without a password"),
        (pdf([None, None]), "no text layer, the pages are pictures; add one with text recognition, such as ocrmypdf"),
        (b"%PDF-1.4\n%%EOF", "damaged beyond mending; print it to a new PDF, or get it again"),
        (
            re.sub(rb"(FlateDecode >>\nstream\n).*?(\nendstream)", rb"\1????????????????\2", WHOLE, flags=re.DOTALL),
            "its pages are damaged; get it again",
        ),
        (pdf([]), "damaged, there is no page in it; get it again"),
        (pdf([[]], contents=b" " * 90_000_000), "its pages unpack to far more than pages hold; it is refused"),
    ],
    ids=["no pdf", "cut off", "encrypted", "scanned", "no objects", "no contents", "no pages", "bomb"],
)
def test_a_pdf_that_cannot_be_read_is_one_sentence(tmp_path, content, says):
    assert refused(tmp_path, "a.pdf", content) == says


def test_a_page_that_is_drawn_a_thousand_times_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf_reader, "_SMALL", 1_000)
    monkeypatch.setattr(pdf_reader, "_WORK", 1)
    assert "far more text than a file of its size holds" in refused(
        tmp_path, "a.pdf", pdf([["Anna went home."] * 99] * 9)
    )


def test_a_blank_pdf_is_empty(tmp_path):
    place(tmp_path, {"a.pdf": pdf([[], []])})
    found, skipped = everything(plain_text.read, tmp_path / "a.pdf")
    assert (found, skipped.reasons) == ([], {"there is no text in it": 1})


# ------------------------------------------------------------------------------------------- whatever the bytes

GOOD = {
    "a.md": b"# Head\n\nAnna **Weber** met [Bo](x). <b>So</b>\n\n| a | b |\n|---|---|\n| c | d |\n",
    "a.html": b"<html><body><h1>Head</h1><p>Anna <b>met</b> Bo.<table><tr><td>a<td>b</table></body></html>",
    "a.pdf": pdf(PAGES, packed=False),
    "packed.pdf": pdf(PAGES),
    "locked.pdf": encrypted(""),
    "a.docx": docx("Anna met Bo.", "She went home.", notes="<w:p/>"),
    "stored.docx": zipped(
        {"word/document.xml": b"<a><p><t>Anna</t></p><tr><tc><p/></tc></tr></a>"}, method=zipfile.ZIP_STORED
    ),
    "a.odt": odt("Anna met Bo.", "She went home."),
}
changes = st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=4), st.integers(0, 4)), max_size=6)


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=60)
@given(changes=changes, end=st.none() | st.integers(0, 10_000))
def test_of_a_damaged_file_there_is_text_or_one_sentence(tmp_path_factory, name, changes, end):
    raw = bytearray(GOOD[name])
    for at, new, gone in changes:
        raw[at % len(raw) : at % len(raw) + gone] = new
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(raw[: end if end is None else end % len(raw)])
    try:
        for document in plain_text.read(path, Skipped()):
            document.text.encode()
            assert all(0 <= at < len(document.text) for at, _ in document.pages)
    except UserError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)


@pytest.mark.parametrize("suffix", [".md", ".html", ".pdf", ".docx", ".odt"])
@given(raw=st.binary(max_size=200))
def test_of_any_bytes_there_is_text_or_one_sentence(tmp_path_factory, suffix, raw):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes({".pdf": b"%PDF-1.4\n" + raw + b"\n%%EOF"}.get(suffix, raw))
    try:
        for document in plain_text.read(path, Skipped()):
            document.text.encode()
    except UserError as error:
        assert str(error).startswith(str(path))


@given(st.text(st.characters()))
def test_clean_text_can_be_written(text):
    clean(text).encode()


def test_without_its_package_a_pdf_is_refused_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refused(tmp_path, "a.pdf", WHOLE) == 'PDF needs a package: pip install "fedrel[documents]"'


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "a.html").open("wb") as file:
        file.truncate(65 * 2**20)
    assert refusal(plain_text.read, tmp_path / "a.html").endswith(
        "65 MB; a web page of at most 64 MB is read: cut it into parts"
    )


_MEASURED = """
import resource, sys
from pathlib import Path
from fedrel.corpus import Skipped, plain_text
from fedrel.errors import UserError
import pypdf, lxml.etree, markdown_it
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for document in plain_text.read(Path(sys.argv[1]), Skipped()):
        pass
except UserError:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("name", "content", "most"),
    [
        ("bomb.pdf", pdf([[]], contents=b" " * 90_000_000), 200),
        ("bomb.docx", docx("x" * 50_000_000), 20),
        ("long.docx", docx(*["Anna met Bo by the sea, and went home."] * 60_000), 60),
        ("deep.html", b"<div>" * 1_000_000, 60),
        ("long.html", b"<p>Anna met Bo by the sea." * 300_000, 60),
    ],
)
def test_memory_is_bounded(tmp_path, name, content, most):
    """In megabytes, over what the parsers themselves take."""
    place(tmp_path, {name: content})
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, tmp_path / name], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) / 1024 < most
