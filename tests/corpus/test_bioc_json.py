"""BioC JSON, and that it means the same as BioC XML."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, bioc_json, bioc_xml
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits
from tests.documents import broken, covered, everything, place, refusal
from tests.labelled_examples import bioc as xml_example
from tests.labelled_examples import bioc_json as json_example


def mark(id_, offset, text, **infons):
    return {"id": id_, "infons": infons, "text": text, "locations": [{"offset": offset, "length": len(text)}]}


DOCUMENT = {
    "id": "12",
    "infons": {},
    "passages": [
        {"infons": {"type": "title"}, "offset": 0, "text": "Café & aspirin", "annotations": [], "relations": []},
        {
            "infons": {"type": "abstract"},
            "offset": 15,
            "text": "Aspirin eases headache. It works.",
            "sentences": [],
            "annotations": [
                mark("1", 15, "Aspirin", identifier="D1", type="Chemical"),
                mark("2", 29, "headache", identifier="D2,D3", type="Disease"),
            ],
            "relations": [],
        },
    ],
    "annotations": [],
    "relations": [
        {"id": "R0", "infons": {"entity1": "D1", "entity2": "D3", "type": "Treats", "novel": "No"}, "nodes": []},
        {
            "id": "R1",
            "infons": {"type": "Eases"},
            "nodes": [{"refid": "2", "role": "Arg2"}, {"refid": "1", "role": "Arg1"}],
        },
    ],
}
SECOND = {"id": 13, "passages": [{"offset": 0, "text": "No marks."}]}


def collection(*documents):
    return {"source": "x", "date": "2020", "key": "k", "infons": {}, "documents": list(documents)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.json"


def read(path, *values, indent=None):
    path.write_text("".join(json.dumps(it, indent=indent) + "\n" for it in values), encoding="utf-8")
    return everything(bioc_json.read, path)


def test_a_document_with_its_passages_annotations_and_relations(path):
    [found, other], skipped = read(path, collection(DOCUMENT, SECOND))
    assert found == Document(
        "12",
        "Café & aspirin\nAspirin eases headache. It works.",
        (
            Annotation("1", 15, 22, "Chemical", "D1", ("D1",)),
            Annotation("2", 29, 37, "Disease", "D2,D3", ("D2", "D3")),
        ),
        (("D1", "Treats", "D3"), ("1", "Eases", "2")),
        f"{path}:1: document 12",
        ((0, 14), (15, 38), (39, 48)),
    )
    assert (other.id, other.annotations, other.relations) == ("13", (), ())
    assert skipped.total == 0


WAYS = {
    "collection": [collection(DOCUMENT, SECOND)],
    "PubTator 3": [{"PubTator3": [DOCUMENT, SECOND]}],
    "lines": [DOCUMENT, SECOND],
    "lines of collections": [collection(DOCUMENT), collection(SECOND)],
    "array of collections": [[collection(DOCUMENT, SECOND)]],
    "array": [[DOCUMENT, SECOND]],
}


@pytest.mark.parametrize(
    ("way", "indent"), [(way, indent) for way in WAYS for indent in (None, 1) if not (indent and "lines" in way)]
)
def test_however_documents_are_put_into_a_file(path, way, indent):
    found, skipped = read(path, *WAYS[way], indent=indent)
    assert [(it.id, len(it.relations)) for it in found] == [("12", 2), ("13", 0)]
    assert skipped.total == 0
    assert detect(path).source == "bioc-json"


def test_xml_and_json_mean_the_same(tmp_path):
    place(tmp_path, {"a.xml": xml_example("x"), "a.json": json_example("x")})
    xml, _ = everything(bioc_xml.read, tmp_path / "a.xml")
    made, _ = everything(bioc_json.read, tmp_path / "a.json")
    assert [(it.id, it.text, it.annotations, it.relations, it.sentences) for it in xml] == [
        (it.id, it.text, it.annotations, it.relations, it.sentences) for it in made
    ]
    assert any(it.relations for it in made)


def test_roles_of_pubtator_3_are_objects_and_its_nodes_are_not_used(path):
    row = copy.deepcopy(DOCUMENT)
    row["_id"], row["pmid"] = "12|None", 12
    for it in row["passages"][1]["annotations"]:
        it["infons"] |= {"valid": True, "normalized": ["D1"], "database": None}
    role1, role2 = ({"identifier": name, "type": "x", "valid": True} for name in ("D1", "D2"))
    row["relations"] = [
        {
            "id": "R1",
            "infons": {"score": "0.9", "role1": role1, "role2": role2, "type": "Association"},
            "nodes": [{"refid": "0", "role": "0,1"}, {"refid": "7", "role": "7,2"}],
        }
    ]
    [found], skipped = read(path, {"PubTator3": [row]})
    assert found.relations == (("D1", "Association", "D2"),)
    assert skipped.total == 0


def test_documents_without_an_id_are_numbered_and_empty_ones_counted(path):
    found, skipped = read(path, {"passages": [{"offset": 0, "text": "One."}]}, {"id": "e", "passages": []})
    assert [it.id for it in found] == ["a.json#1"]
    assert skipped.reasons == {"there is no text in it": 1}


def test_sentences_are_kept(path):
    sentences = [{"offset": 0, "text": "Dr. X. "}, {"offset": 7, "text": "Y.", "annotations": [mark("1", 7, "Y")]}]
    for text in (None, "Dr. X. Y."):
        [found], _ = read(path, {"id": "1", "passages": [{"offset": 0, "text": text, "sentences": sentences}]})
        assert (found.sentences, covered(found)) == (((0, 6), (7, 9)), {"1": "Y"})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"locations": [{"offset": 16, "length": 7}]}, 'the text at 16..23 is "spirin", not "Aspirin"; the offsets'),
        ({"locations": [{"offset": 15.0, "length": 7}]}, "an offset or length is missing or no whole number"),
        ({"locations": [{"offset": True, "length": 7}]}, "an offset or length is missing or no whole number"),
        ({"locations": [{"offset": 15}]}, "an offset or length is missing or no whole number"),
        ({"locations": [{"offset": -1, "length": 7}]}, "position -1..6 lies outside the 48 characters"),
        ({"locations": [{"offset": 10**4000, "length": 7}]}, "position of many digits lies outside"),
        ({"locations": {}}, '"locations" must be a list'),
        ({"locations": [7]}, 'each of "locations" must be an object {…}'),
        ({"infons": []}, '"infons" must be an object {…}'),
        ({"text": 7}, '"text" must be text'),
    ],
)
def test_a_bad_annotation_is_counted_and_so_are_its_relations(path, changes, says):
    row = copy.deepcopy(DOCUMENT)
    row["passages"][1]["annotations"][0] |= changes
    read(path, collection(row, SECOND))
    [found, other], sentence = broken(bioc_json.read, path)
    assert sentence.startswith(f"{path}:1: document 12")
    assert says in sentence
    assert (covered(found), found.relations, other.id) == ({"2": "headache"}, (), "13")
    reasons = everything(bioc_json.read, path)[1].reasons
    assert reasons["the relation joins a concept that is not marked in the text"] == 1
    assert reasons["the relation needs an entity that was left out"] == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"passages": {}}, '"passages" must be a list'),
        ({"passages": ["x"]}, 'each of "passages" must be an object {…}'),
        ({"passages": [{"text": "x"}]}, "an offset or length is missing or no whole number; write one"),
        ({"passages": [{"offset": -1, "text": "x"}]}, "a passage has the offset -1 where the one before it ends at 0"),
        ({"passages": [{"offset": 0, "text": ["x"]}]}, '"text" must be text'),
        ({"annotations": 1}, '"annotations" must be a list'),
        ({"relations": "x"}, '"relations" must be a list'),
    ],
)
def test_a_bad_document_is_counted_and_the_others_are_read(path, changes, says):
    read(path, collection(DOCUMENT | changes, SECOND))
    [found], sentence = broken(bioc_json.read, path)
    assert found.id == "13"
    assert sentence.startswith(f"{path}:1: document 12: ")
    assert says in sentence


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"id": "1"}', ':2: neither "documents" nor "passages" is in it; BioC needs one of them'),
        ('{"documents": {}}', ':2: "documents" must be a list'),
        ("[1]", ":2: not a JSON object"),
        ('{"passages": [', ":2: not a JSON object (is the file cut off?)"),
        ('{"documents": [7]}', ":2: document a.json#2: a document must be an object {…}"),
    ],
)
def test_a_bad_line_is_counted_and_the_others_are_read(path, bad, says):
    path.write_text(f"{json.dumps(DOCUMENT)}\n{bad}\n{json.dumps(SECOND)}\n", encoding="utf-8")
    found, sentence = broken(bioc_json.read, path)
    assert [it.id for it in found] == ["12", "13"]
    assert says in sentence


def test_a_bad_first_line_is_one_of_many(path):
    path.write_text(f'{{"id": "1", }}\n{json.dumps(DOCUMENT)}\n', encoding="utf-8")
    [found], _ = broken(bioc_json.read, path)
    assert found.id == "12"


def test_bad_relations_are_counted(path):
    joined = [7, {"nodes": 1}, {"infons": 1}, {"infons": {"type": "r"}, "nodes": [{"refid": "9"}, {"refid": "1"}]}]
    [found], skipped = read(path, DOCUMENT | {"relations": joined})
    assert found.relations == ()
    assert sorted(skipped.broken.values()) == [1, 1, 1, 1]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "1", "D1", "Aspirin", "\0", "Arg1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "offset", "text"]), inner),
    max_leaves=4,
)


def _places(value, way=()):
    """The way to each value in a value."""
    yield way
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from _places(inner, (*way, key))


@settings(max_examples=150)
@given(st.data())
def test_whatever_stands_anywhere_it_is_read_or_counted(tmp_path_factory, data):
    whole = [copy.deepcopy(collection(DOCUMENT, SECOND))]
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from([way for way in _places(whole) if way]))
        inner = whole
        for key in way:
            inner = inner[key]
        inner[last] = data.draw(_json)
    path = tmp_path_factory.getbasetemp() / "any.json"
    found, skipped = read(path, whole[0] if data.draw(st.booleans()) else whole)
    for it in found:
        assert covered(it).keys().isdisjoint(name for mark in it.annotations for name in mark.entities)
        names = {*covered(it), *(name for mark in it.annotations for name in mark.entities)}
        assert all({head, tail} <= names for head, _, tail in it.relations)
    assert all(str(path) in sentence for sentence in skipped.broken_examples)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{\n", "not JSON from here on"),
        ('{\n"documents": 1}', '"documents" must be a list'),
        ('{\n"x": 1}', 'neither "documents" nor "passages" is in it'),
        ('{\n"x": ' + "9" * 5_000 + "}", "a number of too many digits"),
        ('{\n"x": ' + "[" * 100_000, "too deep to read"),
        ("[1", "not JSON from here on"),
    ],
)
def test_a_bad_file_is_refused(path, content, says):
    path.write_text(content, encoding="utf-8")
    sentence = refusal(bioc_json.read, path)
    assert sentence.startswith(f"{path}:")
    assert says in sentence


def test_the_published_folder_is_recognised_beside_the_other_formats_of_the_same_data(tmp_path):
    for split in ("Train", "Dev", "Test"):
        place(tmp_path, {f"{split}.BioC.JSON": json_example(split), f"{split}.BioC.XML": xml_example(split)})
    assert detect(tmp_path).source == "bioc-json"
    for source, suffix in (("bioc-json", ".JSON"), ("bioc", ".XML")):
        assert {it.suffix for it in find_splits(tmp_path, source).values()} == {suffix}
        assert len(find_splits(tmp_path, source)) == 3


def test_other_json_is_not_claimed(tmp_path):
    place(tmp_path, {"a.jsonl": '{"text": "We met.", "passages": 1, "source": "x"}\n'})
    assert detect(tmp_path / "a.jsonl").source == "jsonl"
