"""Documents as JSON lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, Skipped, jsonl_documents
from fedrel.corpus.detection import detect
from tests.broken_rows import with_a_broken_row
from tests.documents import covered, everything, refusal

RELATIONS = [{"head": "T1", "relation": "eases", "tail": "T2"}]


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
        "relations": RELATIONS,
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
    ids = st.just("") | names.filter(lambda it: it not in keys)
    marked = tuple(Annotation(key, *draw(good), draw(st.text(max_size=3)), draw(ids)) for key in keys)
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


_places = st.lists(st.lists(st.integers(-1, 16), min_size=1, max_size=2) | _json, max_size=3)


@given(
    st.dictionaries(
        st.sampled_from(["text", "id", "entities", "relations", "sentences", "tokens", "listed"]),
        _json | st.just("some text here") | st.lists(_fields, max_size=2) | _places,
    )
)
def test_arbitrary_json_is_read_whole_or_counted(path, value):
    found, skipped = read(path, json.dumps(value))
    assert len(found) <= 1
    assert found or skipped.total
    assert all(it.startswith(f"{path}:1: ") and len(it) < 1_000 for it in skipped.broken_examples)
    for document in found:
        assert all(words.strip() for words in covered(document).values())
        names = {*covered(document), *(name for it in document.annotations or () for name in it.entities)}
        assert all(name in names for head, _, tail in document.relations or () for name in (head, tail))
        for spans in (document.sentences or (), document.tokens or ()):
            edges = [edge for span in spans for edge in span]
            assert edges == sorted(edges)
            assert all(0 <= start < end <= len(document.text) for start, end in spans)


def entity(**fields: object) -> str:
    return row(entities=[{"start": 0, "end": 7, **fields}], relations=None)


def test_a_name_that_is_no_key_is_an_id_and_means_every_mention_of_it(path):
    entities = [
        {"start": 0, "end": 7, "id": "D1"},
        {"key": "x", "start": 8, "end": 13},
        {"start": 14, "end": 18, "id": "D2"},
        {"start": 18, "end": 19, "id": "D1"},
    ]
    relations = [
        {"head": "D1", "relation": "eases", "tail": "D2"},
        {"head": "T1", "relation": "r", "tail": "T3"},
        {"head": "D1", "relation": "r", "tail": "x"},
    ]
    [joined, apart], skipped = read(
        path, row(entities=entities, relations=relations), row(entities=entities, relations=relations[1:2])
    )
    assert joined.relations == (("D1", "eases", "D2"), ("T1", "r", "T3"), ("D1", "r", "x"))
    assert [(it.key, it.id, it.entities) for it in joined.annotations] == [
        ("T1", "D1", ("D1",)),
        ("x", "", ()),
        ("T3", "D2", ("D2",)),
        ("T4", "D1", ("D1",)),
    ]
    assert [it.entities for it in apart.annotations] == [()] * 4, "its relations join mentions"
    assert skipped.total == 0


def test_a_name_that_is_a_key_here_and_an_id_there_is_broken(path):
    marked = [{"start": 0, "end": 7, "id": "T2"}, {"start": 14, "end": 18, "id": "T1"}]
    relations = [{"head": "T1", "relation": "r", "tail": "T2"}]
    path.write_text(row(entities=marked, relations=relations))
    sentence, [found] = with_a_broken_row(jsonl_documents.read, path)
    assert sentence == (
        f'{path}:1: relation 1: "T1" is the "key" of one entity and the "id" of another; change the "key"'
    )
    assert found.relations == ()
    same = [{**marked[0], "key": "T2"}, {**marked[1], "key": "T1"}]
    [found], skipped = read(path, row(entities=same, relations=relations))
    assert (found.relations, skipped.total) == ((("T1", "r", "T2"),), 0)


def test_a_relation_that_needs_what_was_left_out_is_left_out_too(path):
    entities = [
        {"key": "a", "start": 0, "end": 70, "id": "D1"},
        {"start": 0, "end": 7, "type": 1},
        {"key": "b", "start": 8, "end": 13, "id": "D2"},
        {"key": "c", "start": "?", "id": "D2"},
        {"key": "d", "start": 14, "end": 18},
        {"key": "d", "start": 18, "end": 19},
    ]
    pairs = [("a", "b"), ("b", "D1"), ("T2", "b"), ("b", "c"), ("b", "d"), ("b", "D2"), ("b", "b")]
    relations = [{"head": head, "relation": "r", "tail": tail} for head, tail in pairs]
    [found], skipped = read(path, row(entities=entities, relations=relations))
    assert list(covered(found)) == ["b", "d"]
    assert found.relations == (("b", "r", "D2"), ("b", "r", "b")), "D2 is still there, as b"
    assert skipped.broken.total() == 4
    assert skipped.reasons["the relation needs an entity that was left out"] == 5


def test_sentences_tokens_and_listed_pairs_are_kept(path):
    tokens = [[0, 7], [8, 13], [14, 18], [18, 19]]
    relations = [{"head": "T2", "relation": "NA", "tail": "T1"}]
    [found], skipped = read(path, row(sentences=[[0, 13], [14, 19]], tokens=tokens, relations=relations, listed=True))
    assert found.sentences == ((0, 13), (14, 19))
    assert found.tokens == tuple(map(tuple, tokens))
    assert (found.listed, found.relations) == (True, (("T2", "NA", "T1"),))
    [plain], _ = read(path, row(listed=False, sentences=[], tokens=None))
    assert (plain.listed, plain.sentences, plain.tokens) == (False, (), None)
    assert skipped.total == 0


def test_an_array_is_read_like_lines(tmp_path):
    path = tmp_path / "train.json"
    path.write_text(f"[{row()},\n{row(id=None)}, 3]\n")
    sentence, found = with_a_broken_row(jsonl_documents.read, path)
    assert sentence == f"{path}:2, row 3: not a JSON object"
    assert [it.id for it in found] == ["n1", "train.json:2, row 2"]
    assert detect(path).source == "jsonl"


def test_a_folder_is_recognised_and_read(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.jsonl").write_text(row())
    assert detect(tmp_path).source == "jsonl"
    assert [it.id for it in jsonl_documents.FORMAT.documents(tmp_path / "train", Skipped())] == ["n1"]


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
        (row(relations="T1"), '"relations" must be a list of objects'),
        (b"\xff", "not UTF-8 text; convert the file to UTF-8"),
        (row(listed=1), '"listed" must be true or false'),
        (row(sentences={}), '"sentences" must be a list of [start, end], whole numbers'),
        (row(sentences=[0, 19]), '"sentences" must be a list of [start, end], whole numbers'),
        (row(tokens=[[0, 7, 8]]), '"tokens" must be a list of [start, end], whole numbers'),
        (row(tokens=[[0, True]]), '"tokens" must be a list of [start, end], whole numbers'),
        (row(tokens=[[0, 7], [8, 20]]), "token 2: position 8..20 lies outside the 19 characters"),
        (row(tokens=[[0, 0]]), "token 1: position 0..0 lies outside"),
        (row(sentences=[[0, 7], [7, 8]]), "sentence 2: position 7..8 covers white space alone"),
        (
            row(sentences=[[0, 7], [6, 19]]),
            "sentence 2 begins at 6, before the end of the one before it; give them in order, without overlaps",
        ),
        (row(tokens=[[8, 13], [0, 7]]), "token 2 begins at 0, before the end of the one before it"),
        (
            row(sentences=[[0, 10], [10, 19]], tokens=[[0, 7], [8, 13]]),
            "token 2 at 8..13 crosses the edge of a sentence; mend one of them",
        ),
        (row(sentences=[[10, 19]], tokens=[[8, 13]]), "token 1 at 8..13 crosses the edge of a sentence"),
    ],
)
def test_a_bad_line_is_counted_with_its_file_and_number(path, line, says):
    bad = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b"\n".join((row().encode(), b"", bad, row().encode())))
    sentence, found = with_a_broken_row(jsonl_documents.read, path)
    assert sentence.startswith(f"{path}:3: ")
    assert says in sentence
    assert [it.where for it in found] == [f"{path}:1", f"{path}:4"]


@pytest.mark.parametrize(
    ("line", "says", "entities", "relations"),
    [
        (row(entities=["T1"]), '"entities" must be a list of objects', 0, 0),
        (entity(start="0"), 'entity 1 needs "start" and "end", whole numbers', 0, 0),
        (entity(start=False), 'entity 1 needs "start" and "end", whole numbers', 0, 0),
        (entity(end=20), "entity 1: position 0..20 lies outside the 19 characters of the text", 0, 0),
        (entity(end=10**4000), "entity 1: position of many digits lies outside the 19 characters of the text", 0, 0),
        (entity(start=-1), "position -1..7 lies outside", 0, 0),
        (entity(start=7), "position 7..7 lies outside", 0, 0),
        (entity(start=7, end=8), "position 7..8 covers white space alone", 0, 0),
        (entity(type=3), '"type" must be text', 0, 0),
        (entity(id=[]), '"id" must be text or a whole number', 0, 0),
        (entity(key={}), '"key" must be text or a whole number', 0, 0),
        (row(entities=[{"key": "a", "start": 0, "end": 1}] * 2, relations=[]), 'two entities have the "key" "a"', 1, 0),
        (row(tokens=[[8, 13], [14, 18]]), "entity 1: position 0..7 touches none of the tokens", 1, 0),
        (row(tokens=[[0, 7], [8, 13], [18, 19]]), "entity 2: position 14..18 touches none of the tokens", 1, 0),
        (row(relations=["T1", *RELATIONS]), '"relations" must be a list of objects', 2, 1),
        (
            row(relations=[{"head": "T1", "tail": "T2"}, *RELATIONS]),
            'relation 1: "relation" is missing or no text',
            2,
            1,
        ),
        (row(relations=[*RELATIONS, {**RELATIONS[0], "tail": "T3"}]), 'relation 2: no entity has the "key" "T3"', 2, 1),
        (row(relations=[{"head": "T1", "relation": "r"}]), 'no entity has the "key" ""', 2, 0),
        (row(relations=[{"head": [], "relation": "r", "tail": "T1"}]), '"head" must be text or a whole number', 2, 0),
        (row(entities=None), 'no entity has the "key" "T1"', 0, 0),
    ],
)
def test_of_a_document_the_bad_part_alone_is_left_out(path, line, says, entities, relations):
    path.write_text("\n".join((row(), "", line, row())))
    sentence, [_, found, last] = with_a_broken_row(jsonl_documents.read, path)
    assert sentence.startswith(f"{path}:3: ")
    assert says in sentence
    assert (len(found.annotations or ()), len(found.relations or ())) == (entities, relations)
    assert last.where == f"{path}:4"


def test_a_missing_file_is_refused(tmp_path):
    assert refusal(jsonl_documents.read, tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"
