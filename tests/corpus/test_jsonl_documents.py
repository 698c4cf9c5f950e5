"""Documents as JSON lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, jsonl_documents
from fedrel.errors import UserError
from tests.documents import covered, everything, refusal


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("jsonl") / "notes.jsonl"


def row(**changes: object) -> str:
    """A good line with some fields replaced; None removes a field."""
    fields: dict[str, object] = {
        "id": "n1",
        "text": "Aspirin eases pain.",
        "entities": [
            {"key": "T1", "start": 0, "end": 7, "type": "drug", "id": "MESH:D001241"},
            {"key": "T2", "start": 14, "end": 18, "type": "symptom"},
        ],
        "relations": [{"head": "T1", "relation": "eases", "tail": "T2"}],
    }
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not None})


def read(path, *lines: str | bytes):
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return everything(jsonl_documents.read, path)


def test_a_line_is_a_document(path):
    [found], skipped = read(path, row())
    assert found == Document(
        "n1",
        "Aspirin eases pain.",
        (Annotation("T1", 0, 7, "drug", "MESH:D001241"), Annotation("T2", 14, 18, "symptom")),
        (("T1", "eases", "T2"),),
        f"{path}:1",
    )
    assert covered(found) == {"T1": "Aspirin", "T2": "pain"}
    assert skipped.total == 0


def test_all_but_the_text_may_be_left_out(path):
    [first, second, third], _ = read(
        path,
        b'\xef\xbb\xbf{"text": "Hello"}\r',
        "",
        '{"text": "A b", "entities": [{"start": 0, "end": 1}, {"start": 2, "end": 3}], "note": 7}',
        '{"text": "A", "id": 123, "entities": [], "relations": []}',
    )
    assert first == Document("notes.jsonl:1", "Hello", where=f"{path}:1")
    assert (second.id, covered(second), second.relations) == ("notes.jsonl:3", {"T1": "A", "T2": "b"}, None)
    assert (third.id, third.annotations, third.relations) == ("123", (), ())


def test_a_blank_text_is_counted(path):
    found, skipped = read(path, row(), '{"text": " \\n"}')
    assert len(found) == 1
    assert skipped.examples == [f"{path}:2: there is no text in it"]


@st.composite
def documents(draw):
    text = draw(st.text(min_size=1, max_size=12).filter(str.strip))
    spans = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text)))
    good = spans.filter(lambda it: it[0] < it[1] and text[it[0] : it[1]].strip())
    names = st.text(min_size=1, max_size=4).map(str.strip).filter(bool)
    keys = draw(st.lists(names, max_size=4, unique=True))
    marked = tuple(Annotation(key, *draw(good), draw(st.text(max_size=3)), draw(names | st.just(""))) for key in keys)
    triples = (
        st.lists(st.tuples(st.sampled_from(keys), names, st.sampled_from(keys)), max_size=3) if keys else st.just([])
    )
    return Document(draw(names), text, marked, tuple(draw(triples)))


@given(st.lists(documents(), max_size=3))
def test_what_is_written_is_read_back_identical(path, made):
    lines = [
        json.dumps(
            {
                "id": it.id,
                "text": it.text,
                "entities": [
                    {"key": a.key, "start": a.start, "end": a.end, "type": a.type, "id": a.id} for a in it.annotations
                ],
                "relations": [{"head": h, "relation": r, "tail": t} for h, r, t in it.relations],
            },
            ensure_ascii=False,
        )
        for it in made
    ]
    found, skipped = read(path, *lines)
    assert [(it.id, it.text, it.annotations, it.relations) for it in found] == [
        (it.id, it.text, it.annotations, it.relations) for it in made
    ]
    assert skipped.total == 0


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 30) | st.floats() | st.text(max_size=3) | st.just("T1"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
_fields = st.dictionaries(
    st.sampled_from(["key", "start", "end", "type", "id", "head", "relation", "tail"]), _json, max_size=5
)


@given(
    st.dictionaries(
        st.sampled_from(["text", "id", "entities", "relations"]),
        _json | st.just("some text here") | st.lists(_fields, max_size=2),
    )
)
def test_arbitrary_json_is_read_whole_or_refused(path, value):
    try:
        found, _ = read(path, json.dumps(value))
    except UserError as error:
        assert str(error).startswith(f"{path}:1: ")
    else:
        for document in found:
            assert all(words.strip() for words in covered(document).values())
            assert all(key in covered(document) for head, _, tail in document.relations or () for key in (head, tail))


def entity(**fields: object) -> str:
    return row(entities=[{"start": 0, "end": 7, **fields}], relations=None)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (row()[:-5], "not a JSON object (is the file cut off?)"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        (row(text=None), '"text" is missing or no text'),
        (row(text=["a"]), '"text" is missing or no text'),
        (row(text="\ud800"), "half a character"),
        (row(id=1.5), '"id" must be text or a whole number'),
        (row(id=True), '"id" must be text or a whole number'),
        (row(entities={}), '"entities" must be a list of objects'),
        (row(entities=["T1"]), '"entities" must be a list of objects'),
        (entity(start="0"), 'entity 1 needs "start" and "end", whole numbers'),
        (entity(start=False), 'entity 1 needs "start" and "end", whole numbers'),
        (entity(end=20), "entity 1: position 0..20 lies outside the 19 characters of the text"),
        (entity(end=10**4000), "entity 1: position of many digits lies outside the 19 characters of the text"),
        (entity(start=-1), "position -1..7 lies outside"),
        (entity(start=7), "position 7..7 lies outside"),
        (entity(start=7, end=8), "position 7..8 covers white space alone"),
        (entity(type=3), '"type" must be text'),
        (entity(id=[]), '"id" must be text or a whole number'),
        (entity(key={}), '"key" must be text or a whole number'),
        (row(entities=[{"key": "a", "start": 0, "end": 1}] * 2, relations=None), 'two entities have the "key" "a"'),
        (row(relations="T1"), '"relations" must be a list of objects'),
        (row(relations=[{"head": "T1", "tail": "T2"}]), 'relation 1: "relation" is missing or no text'),
        (row(relations=[{"head": "T1", "relation": "r", "tail": "T3"}]), 'relation 1: no entity has the "key" "T3"'),
        (row(relations=[{"head": "T1", "relation": "r"}]), 'no entity has the "key" ""'),
        (row(entities=None), 'no entity has the "key" "T1"'),
        (b"\xff", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_line_is_refused_with_its_file_and_number(path, line, says):
    with pytest.raises(UserError) as caught:
        read(path, row(), "", line)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert says in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    assert refusal(jsonl_documents.read, tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"
