"""Whatever happens to a file on its way, its reader gives documents that are whole, or one sentence of refusal."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import (
    Document,
    Skipped,
    bioc_json,
    bioc_xml,
    bionlp,
    brat,
    ddi,
    doccano,
    docred,
    dygie,
    i2b2,
    jsonl_documents,
    label_studio,
    plain_text,
    pubtator,
    spert,
    tables,
    triples,
)
from fedrel.corpus.pairs import instances
from fedrel.errors import UserError
from tests.documents import Read, covered, everything, place

Files = dict[str, bytes]


@dataclass(frozen=True)
class Example:
    """A small good data set of a format; `path` is what its reader is given."""

    read: Read
    path: str
    files: dict[str, str]

    @property
    def clean(self) -> Files:
        return {name: text.encode() for name, text in self.files.items()}

    def written(self, folder: Path, files: Files) -> Path:
        place(folder, dict(files))
        return folder / self.path


EXAMPLES = {
    "plain_text": Example(
        plain_text.read, ".", {"a.txt": "Café crème eases pain.\n\nSo they say.\n", "b/c.txt": "Aspirin harms.\n"}
    ),
    "jsonl": Example(
        jsonl_documents.read,
        "a.jsonl",
        {
            "a.jsonl": '{"id": "1", "text": "Café eases pain.", "entities": [{"start": 0, "end": 4}, '
            '{"key": "T2", "start": 11, "end": 15, "type": "p", "id": "D1"}], '
            '"relations": [{"head": "T1", "relation": "eases", "tail": "T2"}]}\n'
            '{"text": "Aspirin\\nharms.", "sentences": [[0, 14]], "tokens": [[0, 7], [8, 13], [13, 14]], '
            '"listed": true}\n'
        },
    ),
    "doccano": Example(
        doccano.read,
        "a.jsonl",
        {
            "a.jsonl": '{"id": 1, "text": "Café eases pain.", "entities": [{"id": 4, "label": "d", "start_offset": 0, '
            '"end_offset": 4}, {"id": 5, "label": "p", "start_offset": 11, "end_offset": 15}], '
            '"relations": [{"id": 1, "from_id": 4, "to_id": 5, "type": "eases"}], "Comments": []}\n'
            '{"id": 2, "text": "Thé\\nharms.", "label": [[0, 3, "d"]]}\n'
        },
    ),
    "label-studio": Example(
        label_studio.read,
        "a.json",
        {
            "a.json": '[{"id": 1, "data": {"text": "Café eases pain."}, "annotations": [{"result": [{"id": "x", '
            '"type": "labels", "value": {"start": 0, "end": 4, "text": "Café", "labels": ["d"]}}, {"id": "y", '
            '"type": "labels", "value": {"start": 11, "end": 15, "labels": ["p"]}}, {"from_id": "x", "to_id": "y", '
            '"type": "relation", "direction": "left", "labels": ["eased by"]}], "was_cancelled": false}]},\n'
            '{"id": 2, "text": "Thé harms.", "label": [{"start": 0, "end": 3, "text": "Thé", "labels": ["d"]}]}]\n'
        },
    ),
    "csv": Example(tables.read, "a.csv", {"a.csv": 'id,text\n1,"Café eases ""pain"",\nmostly."\n2,Aspirin harms.\n'}),
    "tsv": Example(tables.read, "a.tsv", {"a.tsv": "id\tsite\tnote\n1\tA\tCafé eases pain.\n2\tB\tAspirin harms.\n"}),
    "brat": Example(
        brat.read,
        ".",
        {
            "a.txt": "Café\nand aspirin ease pain.\n",
            "a.ann": "T1\tDrug 0 4\tCafé\nT2\tDrug 9 16\taspirin\nT3\tPain 22 26\tpain\nT4\tX 0 4;9 16\tCafé aspirin\n"
            "N1\tReference T2 MESH:D001241\taspirin\nR1\tEases Arg1:T1 Arg2:T3\n#1\tNote T1\thm\n",
            "b/c.txt": "No marks.\n",
        },
    ),
    "bioc": Example(
        bioc_xml.read,
        "a.xml",
        {
            "a.xml": '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
            "<collection><source/><date/><key/>\n"
            "<document><id>1</id>\n<passage><offset>0</offset><text>Café &amp; pain</text></passage>\n"
            "<passage><offset>12</offset><text>Café eases\npain.</text>\n"
            '<annotation id="1"><infon key="type">Drug</infon><infon key="MESH">D1</infon>'
            '<location offset="12" length="4"/><text>Café</text></annotation>\n'
            '<annotation id="2"><infon key="type">Pain</infon><location offset="23" length="4"/><text>pain</text>'
            "</annotation>\n"
            '<relation id="R"><infon key="type">Eases</infon><node refid="1" role="Arg1"/><node refid="2" role="Arg2"/>'
            "</relation></passage></document>\n"
            "<document><id>2</id><passage><offset>0</offset><sentence><offset>0</offset><text>Aspirin harms.</text>"
            "</sentence></passage></document>\n</collection>\n"
        },
    ),
    "bioc-json": Example(
        bioc_json.read,
        "a.json",
        {
            "a.json": '{"source": "x", "date": "", "key": "", "infons": {}, "documents": [\n'
            '{"id": "1", "infons": {}, "passages": [{"infons": {"type": "title"}, "offset": 0, "text": "Café, pain"},\n'
            '{"offset": 12, "text": "Café eases\\npain.", "sentences": [], "annotations": [\n'
            '{"id": "1", "infons": {"type": "Drug", "identifier": "D1"}, "text": "Café", '
            '"locations": [{"offset": 12, "length": 4}]},\n'
            '{"id": "2", "infons": {"type": "Pain", "identifier": "D2|D3"}, "text": "pain", '
            '"locations": [{"offset": 23, "length": 4}]}]}],\n'
            '"relations": [{"id": "R1", "infons": {"type": "r"}, "nodes": [{"refid": "1"}, {"refid": "2"}]},\n'
            '{"id": "R2", "infons": {"type": "r", "entity1": "D1", "entity2": "D2"}}]},\n'
            '{"id": 2, "passages": [{"offset": 0, "sentences": [{"offset": 0, "text": "Aspirin harms."}]}]}]}\n'
        },
    ),
    "bioc-json lines": Example(
        bioc_json.read,
        "a.json",
        {
            "a.json": '{"id": "1", "passages": [{"offset": 0, "text": "Café and pain.", "annotations": [{"id": "1", '
            '"infons": {"identifier": "D1"}, "locations": [{"offset": 0, "length": 4}]}, {"id": "2", '
            '"infons": {"identifier": "D2"}, "locations": [{"offset": 9, "length": 4}]}]}], '
            '"relations": [{"infons": {"role1": {"identifier": "D1"}, "role2": "x|D2", "type": "r"}}]}\n'
            '{"PubTator3": [{"id": "2", "passages": [{"offset": 0, "text": "Aspirin harms."}]}]}\n'
        },
    ),
    "ddi": Example(
        ddi.read,
        ".",
        {
            "a/a.xml": '<?xml version="1.0" encoding="UTF-8"?>\n<document id="d1">\n'
            '<sentence id="d1.s0" text="Café and zinc.">\n'
            '<entity id="d1.s0.e0" charOffset="0-3" type="drug" text="Café"/>\n'
            '<entity id="d1.s0.e1" charOffset="0-3;9-12" type="drug" text="Café zinc"/>\n'
            '<pair id="d1.s0.p0" e1="d1.s0.e0" e2="d1.s0.e1" ddi="true" type="effect"/>\n'
            '</sentence>\n<sentence id="d1.s1" text="So it is."/></document>\n',
            "b.xml": '<document id="d2"><sentence id="d2.s0" text="Aspirin harms."/></document>\n',
        },
    ),
    "bionlp": Example(
        bionlp.read,
        ".",
        {
            "a.txt": "Café\nand aspirin ease pain.\n",
            "a.a1": "T1\tDrug 0 4\tCafé\nT2\tDrug 9 16\taspirin\nT3\tPain 22 26\tpain\nT4\tTitle 0 4\tCafé\n",
            "a.a2": "T5\tEase 17 21\tease\nE1\tEase:T5 Theme:T3 Cause:T1\nE2\tEase Agent:T2 Pain:T3\n"
            "R1\tWith Arg1:T1 Arg2:T2\nN1\tMESH Annotation:T2 Referent:D001241\n",
            "b/c.txt": "No marks.\n",
            "b/c.a1": "",
            "b/c.rel": "",
        },
    ),
    "pubtator": Example(
        pubtator.read,
        "a.txt",
        {
            "a.txt": "1|t|Café and pain\n1|a|Café eases pain.\n1\t0\t4\tCafé\tDrug\tD1\n1\t14\t18\tCafé\tDrug\tD1\n"
            "1\t25\t29\tpain\tPain\tD2\n1\tEases\tD1\tD2\n\n2|t|Aspirin\n2|a|It harms.\n2\t8\t10\tIt\tDrug\t-1\n"
        },
    ),
    "i2b2": Example(
        i2b2.read,
        ".",
        {
            "txt/r-1.txt": "Café eased\n her  pain .\n",
            "concept/r-1.con": 'c="café" 1:0 1:0||t="treatment"\nc="her pain" 2:0 2:1||t="problem"\n',
            "rel/r-1.rel": 'c="café" 1:0 1:0||r="TrAP"||c="her pain" 2:0 2:1\n',
            "txt/r-2.txt": "No concepts .\n",
        },
    ),
    "spert": Example(
        spert.read,
        "a.json",
        {
            "a.json": '[{"tokens": ["Café", "eases", "her", "pain", "."], "entities": [{"type": "D", "start": 0, '
            '"end": 1}, {"type": "P", "start": 2, "end": 4}], "relations": [{"type": "r", "head": 0, "tail": 1}], '
            '"orig_id": 1},\n{"tokens": ["Aspirin", "harms", "."], "entities": [], "relations": [], "orig_id": "2"}]\n'
        },
    ),
    "dygie": Example(
        dygie.read,
        "a.json",
        {
            "a.json": '{"doc_key": "1", "sentences": [["Café", "eases", "pain", "."], ["So", "be", "it"]], '
            '"ner": [[[0, 0, "D"], [2, 2, "P", 1.5]], [[6, 6, "X"]]], '
            '"relations": [[[0, 0, 2, 2, "r"]], [[4, 4, 6, 6, "s"]]], "clusters": [[[2, 2], [6, 6]]]}\n'
            '{"doc_key": "2", "sentences": [["Café", "harms", "."]]}\n'
        },
    ),
    "docred": Example(
        docred.read,
        "a.json",
        {
            "a.json": '[{"title": "1", "sents": [["Café", "eases", "pain", "."], ["It", "does", "."]], '
            '"vertexSet": [[{"name": "Café", "sent_id": 0, "pos": [0, 1], "type": "D"}, '
            '{"name": "It", "sent_id": 1, "pos": [0, 1], "type": "D"}], '
            '[{"name": "pain", "sent_id": 0, "pos": [2, 3], "type": "P"}]], '
            '"labels": [{"h": 0, "t": 1, "r": "P9", "evidence": [0]}]},\n'
            '{"title": "2", "sents": [["Aspirin", "harms", "."]], "vertexSet": []}]\n'
        },
    ),
    "triples": Example(
        triples.read,
        "a.json",
        {
            "a.json": '{"sentText": "Café eases pain .", "articleId": "1", "sentId": "2", "relationMentions": '
            '[{"em1Text": "Café", "em2Text": "pain", "label": "r"}, {"em1Text": "pain", "em2Text": "Café", '
            '"label": "None"}], "entityMentions": [{"start": 0, "text": "Café", "label": "D"}]}\n'
            '{"text": "Café harms .", "triple_list": [["Café", "r", "harms"]]}\n'
        },
    ),
}

formats = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A new folder for each call would take most of the time; every name is written anew each time."""
    root = tmp_path_factory.mktemp("fuzz")
    return lambda example: root / next(name for name, it in EXAMPLES.items() if it is example)


def whole_or_refused(example: Example, folder: Path, files: Files) -> list[Document]:
    path = example.written(folder, files)
    try:
        found, skipped = everything(example.read, path)
    except UserError as error:
        sentence = str(error)
        assert str(folder) in sentence
        assert any(str(folder / name) in sentence for name in files) or sentence.startswith(f"{path}:")
        assert "\n" not in sentence
        assert len(sentence) < 1_000
        return []
    for sentence in skipped.broken_examples:
        assert str(folder) in sentence
        assert "\n" not in sentence
        assert len(sentence) < 1_000
        sentence.encode()
    for document in found:
        document.text.encode()
        document.id.encode()
        assert document.text.strip()
        assert document.id
        for it in document.annotations or ():
            assert 0 <= it.start < it.end <= len(document.text)
        assert all(words.strip() for words in covered(document).values())
        keys = [it.key for it in document.annotations or ()]
        assert len(keys) == len(set(keys))
        names = {*keys, *(name for it in document.annotations or () for name in it.entities)}
        assert all(name in names for head, _, tail in document.relations or () for name in (head, tail))
        assert all(0 <= start < end <= len(document.text) for start, end in document.sentences or ())
    for instance in instances(lambda: found, Skipped()):
        assert 0 <= instance.head.start < instance.head.end <= len(instance.tokens)
        assert 0 <= instance.tail.start < instance.tail.end <= len(instance.tokens)
    return found


def content(documents: list[Document]) -> list[object]:
    return [(it.id, " ".join(it.text.split()), covered(it), it.relations) for it in documents]


@formats
def test_the_examples_are_good(example, folder):
    found = whole_or_refused(example, folder(example), example.clean)
    assert len(found) == 2
    if example.read not in (plain_text.read, tables.read):
        assert found[0].annotations
        assert found[0].relations


@formats
@pytest.mark.parametrize("change", ["byte order mark", "windows line ends", "both", "no line end at the end"])
def test_marks_and_line_ends_change_nothing(example, folder, change):
    def changed(text: bytes) -> bytes:
        if change == "no line end at the end":
            return text.rstrip(b"\n")
        if change != "byte order mark":
            text = text.replace(b"\n", b"\r\n")
        return text if change == "windows line ends" else b"\xef\xbb\xbf" + text

    clean = whole_or_refused(example, folder(example), example.clean)
    turned = {name: changed(text) for name, text in example.clean.items()}
    assert content(whole_or_refused(example, folder(example), turned)) == content(clean)


@formats
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-32", "cp037"])
def test_other_encodings_are_refused_or_read_right(example, folder, encoding):
    clean = whole_or_refused(example, folder(example), example.clean)
    for name in example.files:
        turned = example.clean | {name: example.files[name].encode(encoding)}
        found = whole_or_refused(example, folder(example), turned)
        if encoding in ("latin-1", "utf-16") and "é" in example.files[name]:
            assert found == [] or content(found) == content(clean) or _broken(example, folder(example))


def _broken(example: Example, folder: Path) -> int:
    """How many rows of what was written last are broken."""
    return everything(example.read, folder / example.path)[1].broken.total()


@formats
@pytest.mark.parametrize("what", [b"", b"\n", b" \r\n", b"\0", b"x" * 1_000_000, b"x " * 500_000, b"1" * 1_000_000])
def test_an_empty_file_or_one_of_a_single_line(example, folder, what):
    for name in example.files:
        whole_or_refused(example, folder(example), example.clean | {name: what})
        whole_or_refused(example, folder(example), example.clean | {name: example.clean[name] + what})


@formats
def test_a_missing_file(example, tmp_path):
    for number, missing in enumerate(example.files):
        files = {name: text for name, text in example.clean.items() if name != missing}
        whole_or_refused(example, tmp_path / str(number), files)


@formats
def test_a_file_cut_off_at_any_byte(example, folder):
    for name, text in example.clean.items():
        for end in range(0, len(text), 1 + len(text) // 60):
            whole_or_refused(example, folder(example), example.clean | {name: text[:end]})


_bytes = st.binary(min_size=1, max_size=4) | st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\t",
        b"\0",
        b'"',
        b" ",
        b"|",
        b";",
        b":",
        b"9",
        b"-1",
        b"<",
        b"&",
        b"\x1b",
        "\u2028".encode(),
        b"\xff",
    ]
)


def mangled(draw, text):
    kind = draw(st.sampled_from(["insert", "delete", "replace", "shuffle", "double", "columns", "numbers", "long"]))
    lines = text.split(b"\n")
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 8)))
    if kind in ("insert", "delete", "replace"):
        new = b"" if kind == "delete" else draw(_bytes)
        return text[:start] + new + text[start if kind == "insert" else end :]
    if kind == "shuffle":
        return b"\n".join(draw(st.permutations(lines)))
    if kind == "double":
        return b"\n".join(line for line in lines for _ in range(draw(st.integers(0, 2))))
    if kind == "columns":
        mark = draw(st.sampled_from([b"\t", b",", b" ", b"|", b'"', b"||"]))
        at = draw(st.integers(0, 3))
        return b"\n".join(mark.join(it for n, it in enumerate(line.split(mark)) if n != at) for line in lines)
    if kind == "numbers":
        old = draw(st.sampled_from([b"0", b"1", b"2", b"4", b"9", b"12", b"16"]))
        return text.replace(
            old, draw(st.sampled_from([b"", b"-3", b"7", b"99", b"1" * 30, b"0x1", "٣".encode(), b"1.5"]))
        )
    return text[:start] + draw(st.sampled_from([b"x", b"\n", b"\t", b"0", b'"', b"[", b"<a>"])) * 5_000 + text[start:]


@formats
@settings(max_examples=60)
@given(data=st.data())
def test_anything_else_that_may_happen(example, folder, data):
    files = example.clean
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(files)))
        files[name] = mangled(data.draw, files[name])
    whole_or_refused(example, folder(example), files)


@formats
@settings(max_examples=25)
@given(data=st.data())
def test_arbitrary_bytes(example, folder, data):
    name = data.draw(st.sampled_from(sorted(example.files)))
    whole_or_refused(example, folder(example), example.clean | {name: data.draw(st.binary(max_size=60))})


@formats
def test_nothing_at_all(example, tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        everything(example.read, tmp_path / "none")
