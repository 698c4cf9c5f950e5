"""BioC XML, also from people who mean harm."""

import io
import resource
import time
import tracemalloc

import bioc
import pytest
from bioc import biocxml
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Skipped, bioc_xml
from tests.documents import broken, covered, everything, refusal

TITLE = "<passage><infon key='type'>title</infon><offset>0</offset><text>Café &amp; aspirin</text></passage>"
BODY = "<offset>20</offset><text>Aspirin eases <!-- and how -->headache.</text>"
DRUG = (
    "<annotation id='1'><infon key='type'>Drug</infon><infon key='MESH'>D001241</infon>"
    "<location offset='20' length='7'/><text>Aspirin</text></annotation>"
)
PAIN = (
    "<annotation id='2'><infon key='type'>Pain</infon><infon key='Identifier'>MESH:D006261</infon>"
    "<location offset='34' length='8'/><text>headache</text></annotation>"
)


def node(refid, role):
    return f"<node refid='{refid}' role='{role}'/>"


def relation(*nodes, type_="<infon key='type'>Eases</infon>", id_="R1"):
    return f"<relation id='{id_}'>{type_}{''.join(nodes)}</relation>"


EASES = relation(node("1", "Arg1"), node("2", "Arg2"))


def collection(*passages, prolog='<!DOCTYPE collection SYSTEM "BioC.dtd">', id_="<id>12</id>", rest=""):
    body = f"<document>{id_}\n{''.join(passages)}{rest}</document>"
    return f"{prolog}<collection><source>x</source><date/><key/>\n{body}\n</collection>"


def passage(*inside):
    return f"<passage>{BODY}{''.join(inside)}</passage>"


GOOD = collection(TITLE, passage(DRUG, PAIN, EASES))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("bioc") / "cdr.xml"


def read(path, content: str | bytes):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return everything(bioc_xml.read, path)


def refused(path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    sentence = refusal(bioc_xml.read, path)
    assert sentence.startswith(f"{path}:")
    return sentence


def test_passages_become_one_text_with_the_offsets_of_the_file(path):
    [found], skipped = read(path, GOOD)
    assert (found.id, found.where) == ("12", f"{path}:2: document 12")
    assert found.text == "Café & aspirin\n\n\n\n\n\nAspirin eases headache."
    assert found.annotations == (
        Annotation("1", 20, 27, "Drug", "MESH:D001241", ("MESH:D001241",)),
        Annotation("2", 34, 42, "Pain", "MESH:D006261", ("MESH:D006261",)),
    )
    assert covered(found) == {"1": "Aspirin", "2": "headache"}
    assert found.relations == (("1", "Eases", "2"),)
    assert [found.text[start:end] for start, end in found.sentences] == ["Café & aspirin", "Aspirin eases headache."]
    assert skipped.total == 0


def test_sentences_of_the_file_are_kept_and_annotations_may_stand_anywhere(path):
    sentences = (
        f"<sentence><offset>0</offset><text>Dr. X.  Y. </text></sentence><sentence>{BODY}{DRUG}{PAIN}{EASES}</sentence>"
    )
    elsewhere = "<annotation id='3'><location offset='4' length='1'/></annotation>"
    content = collection(f"<passage><offset>0</offset>{sentences}</passage>", rest=elsewhere)
    [found], skipped = read(path, content)
    assert [found.text[start:end] for start, end in found.sentences] == ["Dr. X.  Y.", "Aspirin eases headache."]
    assert covered(found) == {"3": "X", "1": "Aspirin", "2": "headache"}
    assert found.relations == (("1", "Eases", "2"),)
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("nodes", "pair"),
    [
        ((node("1", "Arg1"), node("2", "Arg2")), ("1", "2")),
        ((node("1", "Arg2"), node("2", "Arg1")), ("2", "1")),
        ((node("1", "object"), node("2", "Subject")), ("2", "1")),
        ((node("1", "tail"), node("2", "head")), ("2", "1")),
        ((node("1", "head"), node("2", "tail")), ("1", "2")),
        ((node("1", ""), node("2", "head")), ("1", "2")),
        ((node("1", "Pain"), node("2", "Drug")), ("1", "2")),
        (("<node refid='1'/>", "<node refid='2'/>"), ("1", "2")),
    ],
)
@pytest.mark.parametrize("key", ["type", "relation type", "Relation"])
def test_roles_tell_the_head_where_they_can(path, nodes, pair, key):
    eases = relation(*nodes, type_=f"<infon key='{key}'>Eases</infon>")
    [found], _ = read(path, collection(passage(DRUG, PAIN, eases)))
    assert found.relations == ((pair[0], "Eases", pair[1]),)


@pytest.mark.parametrize(
    ("infons", "id_"),
    [
        ({}, ""),
        ({"identifier": "MESH:D1"}, "MESH:D1"),
        ({"Identifier": "-"}, ""),
        ({"identifier": "None", "NCBI Gene": "672"}, "NCBI Gene:672"),
        ({"MESH": "D1"}, "MESH:D1"),
        ({"MESH": "MESH:D1"}, "MESH:D1"),
        ({"MESH": "-1"}, ""),
        ({"comment": "D1"}, ""),
    ],
)
def test_an_identifier_is_found_among_the_infons(path, infons, id_):
    inside = "".join(f"<infon key='{key}'>{value}</infon>" for key, value in infons.items())
    drug = f"<annotation id='1'>{inside}<location offset='20' length='7'/></annotation>"
    [found], _ = read(path, collection(passage(drug)))
    assert found.annotations == (Annotation("1", 20, 27, "", id_, (id_,) if id_ else ()),)


@pytest.mark.parametrize("words", ["Aspirin headache", "Aspirin eases\nheadache"])
def test_an_annotation_in_pieces_is_the_whole_stretch(path, words):
    pieces = f"<location offset='20' length='7'/><location offset='34' length='8'/><text>{words}</text>"
    [found], _ = read(path, collection(passage(f"<annotation id='1'>{pieces}</annotation>")))
    assert covered(found) == {"1": "Aspirin eases headache"}


def test_what_cannot_be_a_pair_is_counted(path):
    nowhere = "<annotation id='9'><infon key='type'>Drug</infon></annotation>"
    odd = [
        relation(node("1", "")),
        relation(node("1", ""), node("2", ""), node("1", "")),
        relation(node("1", ""), node("2", ""), type_=""),
        relation(node("1", ""), node("R1", "")),
        relation(node("1", ""), node("9", "")),
    ]
    empty = "<document><id>13</id><passage><offset>0</offset></passage></document></collection>"
    content = collection(passage(DRUG, PAIN, nowhere, *odd)).replace("</collection>", empty)
    [found], skipped = read(path, content)
    assert found.relations == ()
    assert skipped.reasons == {
        "the annotation has no place in the text": 1,
        "the relation joins other than two entities": 2,
        "the relation has no type": 1,
        "the relation joins something other than two annotations with ids of their own": 1,
        "the relation needs an entity that was left out": 1,
        "there is no text in it": 1,
    }


def test_annotations_that_share_an_id_are_told_apart_but_not_joined(path):
    again = PAIN.replace("id='2'", "id='1'")
    [found], skipped = read(path, collection(passage(DRUG, again, DRUG.replace("id='1'", "id='1/2'"), EASES, PAIN)))
    assert list(covered(found)) == ["1", "1/2", "1/2/3", "2"]
    assert found.relations == ()
    assert skipped.total == 1


def test_documents_without_an_id_are_numbered(path):
    one = collection(TITLE, id_="")
    found, _ = read(path, one.replace("</collection>", f"<document>{TITLE}</document></collection>"))
    assert [it.id for it in found] == ["cdr.xml#1", "cdr.xml#2"]


def infons(**given):
    return "".join(f"<infon key='{key}'>{value}</infon>" for key, value in given.items())


def concept(id_, offset, words, **given):
    place = f"<location offset='{offset}' length='{len(words)}'/><text>{words}</text>"
    return f"<annotation id='{id_}'>{infons(**given)}{place}</annotation>"


@pytest.mark.parametrize(
    "told",
    [
        {"relation": "CID", "Chemical": "D1", "Disease": "D2"},
        {"entity1": "D1", "entity2": "D2", "type": "CID", "novel": "No"},
        {"score": "0.99", "role1": "Chemical|MESH:D1", "role2": "Disease|MESH:D2", "type": "CID"},
        {"role1": "MESH:D1", "role2": "MESH:D2", "type": "CID"},
    ],
    ids=["BC5CDR", "BioRED", "PubTator 3", "prefixed"],
)
def test_a_relation_may_join_concepts(path, told):
    marks = [
        concept("1", 20, "Aspirin", type="Chemical", MESH="D1"),
        concept("2", 34, "headache", type="Disease", MESH="D2|D3"),
        concept("3", 34, "head", type="Disease", MESH="-1"),
    ]
    [found], skipped = read(path, collection(TITLE, passage(*marks), rest=relation(type_=infons(**told))))
    assert found.annotations == (
        Annotation("1", 20, 27, "Chemical", "MESH:D1", ("MESH:D1",)),
        Annotation("2", 34, 42, "Disease", "MESH:D2|D3", ("MESH:D2", "MESH:D3")),
        Annotation("3", 34, 38, "Disease"),
    )
    assert found.relations == (("MESH:D1", "CID", "MESH:D2"),)
    assert skipped.total == 0


def test_a_concept_that_is_not_marked_is_counted(path):
    marks = passage(concept("1", 20, "Aspirin", type="Chemical", MESH="D1"))
    told = [
        {"relation": "CID", "Chemical": "D1", "Disease": "D9"},
        {"type": "r", "entity1": "D9", "entity2": "D1"},
        {"type": "r", "entity1": "D1"},
    ]
    relations = "".join(relation(type_=infons(**it)) for it in told)
    [found], skipped = read(path, collection(TITLE, marks, rest=relations))
    assert found.relations == ()
    assert skipped.reasons == {
        "the relation joins a concept that is not marked in the text": 2,
        "the relation joins other than two entities": 1,
    }


def test_variants_are_one_concept_and_no_key_is_the_name_of_an_entity(path):
    """As in BioRED: annotations are numbered, and so are genes."""
    marks = [
        concept("0", 20, "Aspirin", type="Variant", identifier="c|DEL|1314_1328|"),
        concept("1", 28, "eases", type="Gene", identifier="0"),
        concept("2", 34, "headache", type="Disease", identifier="D1,D2"),
    ]
    told = [("c|DEL|1314_1328|", "0"), ("0", "D2"), ("D1,D2", "0")]
    relations = "".join(relation(type_=infons(type="r", entity1=one, entity2=other)) for one, other in told)
    [found], skipped = read(path, collection(TITLE, passage(*marks), rest=relations))
    assert [(it.key, it.entities) for it in found.annotations] == [
        ("0/1", ("c|DEL|1314_1328|",)),
        ("1", ("0",)),
        ("2", ("D1,D2", "D1", "D2")),
    ]
    assert found.relations == tuple((one, "r", other) for one, other in told)
    assert skipped.total == 0


def test_a_composite_mention_stands_for_its_parts(path):
    """As in BC5CDR, where those in pieces would come out with the same span and different labels."""
    whole = concept("1", 34, "headache", type="Disease", MESH="D1|D2", CompositeRole="CompositeMention")
    parts = [
        concept(n, start, words, type="Disease", MESH=f"D{n}", CompositeRole="IndividualMention")
        for n, start, words in ((2, 34, "head"), (3, 38, "ache"), (4, 20, "Aspirin"))
    ]
    relations = relation(node(2, "Arg1"), node(4, "Arg2"))
    [found], skipped = read(path, collection(TITLE, passage(parts[0], whole, *parts[1:]), rest=relations))
    assert [(it.key, it.id, it.entities) for it in found.annotations] == [
        ("1", "MESH:D1|D2", ("MESH:D1", "MESH:D2", "MESH:D3")),
        ("4", "MESH:D4", ("MESH:D4",)),
    ]
    assert found.relations == (("1", "Eases", "4"),)
    assert skipped.reasons == {"the annotation is a part of a composite mention, which is kept": 2}


def test_sentences_beside_the_text_of_a_passage_are_kept(path):
    sentences = "<sentence><offset>20</offset><text>Aspirin </text></sentence>"
    sentences += "<sentence><offset>28</offset><text>eases headache.</text></sentence>"
    [found], _ = read(path, collection(TITLE, passage(sentences)))
    assert found.sentences == ((0, 14), (20, 27), (28, 43))
    [found], _ = read(path, collection(TITLE, passage(sentences.replace(">28<", ">99<"))))
    assert found.sentences == ((0, 14), (20, 43))  # they do not fit


# What XML can hold: no control characters, and line ends are always line feeds.
_text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=12)
_words = _text.filter(lambda it: it.strip() == it != "")


@given(st.lists(st.tuples(st.integers(0, 3), _words), min_size=1, max_size=3), st.data())
def test_what_the_library_writes_is_read_back(path, passages, data):
    made = bioc.BioCCollection()
    document = bioc.BioCDocument()
    document.id = "d"
    made.add_document(document)
    text = ""
    for gap, inside in passages:
        item = bioc.BioCPassage()
        text += "\n" * gap
        item.offset, item.text = len(text), inside
        start = data.draw(st.integers(0, len(inside) - 1))
        end = data.draw(st.integers(start + 1, len(inside)))
        if inside[start:end].strip():
            mark = bioc.BioCAnnotation()
            mark.id, mark.text = str(len(text)), inside[start:end]
            mark.add_location(bioc.BioCLocation(len(text) + start, end - start))
            item.add_annotation(mark)
        text += inside
        document.add_passage(item)
    written = io.StringIO()
    biocxml.dump(made, written)
    [found], skipped = read(path, written.getvalue())
    assert found.text == text
    assert covered(found) == {mark.id: mark.text for item in document.passages for mark in item.annotations}
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not XML"),
        ("hello", "not XML"),
        (GOOD[:-30], "is the file damaged or cut off?"),
        (GOOD.replace("<date/>", "<date>"), "not XML"),
        ("<html><body/></html>", "not BioC, which begins with <collection>"),
        (GOOD.encode("latin-1"), "not XML"),
        (GOOD.replace("<date/>", "<day/>"), "<day> has no place in <collection>"),
        (GOOD.replace("<collection>", "<collection xmlns='x'>"), "not BioC, which begins with <collection>"),
    ],
)
def test_a_bad_file_is_refused(path, content, says):
    assert says in refused(path, content)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD.replace("'34'", "'35'"), "document 12, annotation 2: the text at 35..43 is "),
        (GOOD.replace("'34'", "'35'"), "the offsets do not match (they must count characters, not bytes"),
        (GOOD.replace("'34'", "'90'"), "position 90..98 lies outside the 43 characters of the text"),
        (GOOD.replace("'34'", "'15'").replace("'8'", "'2'"), "covers white space alone"),
        (GOOD.replace("'34'", f"'{'9' * 4_300}'"), "position of many digits lies outside"),
        (GOOD.replace("'34'", "'x'"), "an offset or length is missing or no whole number"),
        (GOOD.replace("length='8'", ""), "an offset or length is missing or no whole number"),
    ],
)
def test_a_bad_annotation_is_counted_and_so_is_its_relation(path, content, says):
    path.write_text(content, encoding="utf-8")
    [found], sentence = broken(bioc_xml.read, path)
    assert sentence.startswith(f"{path}:2: document 12, annotation 2: ")
    assert says in sentence
    assert (covered(found), found.relations) == ({"1": "Aspirin"}, ())
    assert everything(bioc_xml.read, path)[1].reasons["the relation needs an entity that was left out"] == 1


def test_a_relation_of_an_unknown_annotation_is_counted(path):
    path.write_text(GOOD.replace("refid='2'", "refid='7'"), encoding="utf-8")
    [found], sentence = broken(bioc_xml.read, path)
    assert 'document 12: a relation names the annotation "7", which is not there; add it' in sentence
    assert (len(found.annotations), found.relations) == (2, ())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD.replace("<offset>20</offset>", "<offset/>"), "an offset or length is missing or no whole number"),
        (GOOD.replace("<offset>20</offset>", ""), "no <offset> in a <passage>; add it"),
        (GOOD.replace("offset>20<", "offset>-1<"), "a passage has the offset -1"),
        (GOOD.replace("<offset>20", "<text>x</text><offset>20"), "two <text> in one <passage>; remove one"),
        (GOOD.replace("offset>20<", "offset>3<"), "a passage has the offset 3 where the one before it ends at 14"),
        (GOOD.replace("offset>20<", "offset>99999999999<"), "a passage has the offset 99999999999 where"),
        (GOOD.replace("<!-- and how -->", "<b>x</b>"), "<b> has no place in <text> of BioC"),
        (GOOD.replace("<!-- and how -->", "&undeclared;"), "&undeclared; has no place in <text> of BioC"),
        (GOOD.replace("<passage>", "<p>").replace("</passage>", "</p>"), "<p> has no place in <document>"),
    ],
)
def test_a_bad_document_is_counted_and_the_others_are_read(path, content, says):
    other = f"<document><id>13</id>{TITLE}</document></collection>"
    path.write_text(content.replace("</collection>", other), encoding="utf-8")
    [found], sentence = broken(bioc_xml.read, path)
    assert found.id == "13"
    assert sentence.startswith(f"{path}:2: document 12: ")
    assert says in sentence


def test_bad_annotations_of_a_kind_are_counted_together(path):
    marks = [PAIN.replace("'34'", f"'{n}'").replace("id='2'", f"id='x{n}'") for n in (35, 36, 90)]
    _, skipped = read(path, GOOD.replace("</document>", f"{''.join(marks)}</document>"))
    assert sorted(skipped.broken.values()) == [1, 2]


def test_bytes_counted_for_characters_are_noticed(path):
    shifted = PAIN.replace("'34'", "'39'")  # that of 37 characters: each é takes two bytes
    body = passage(shifted).replace("Aspirin eases", "Café, café eases").replace("headache.", "headache, mostly.")
    path.write_text(collection(TITLE, body), encoding="utf-8")
    assert "the offsets do not match" in broken(bioc_xml.read, path)[1]


# ------------------------------------------------------------------------------------------------ harm


def test_an_entity_cannot_read_a_file_of_this_machine(path, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET", encoding="utf-8")
    for declaration in (
        f'<!ENTITY x SYSTEM "{secret.as_uri()}">',
        f'<!ENTITY % y SYSTEM "{secret.as_uri()}"> %y;',
        '<!ENTITY x "harmless">',
    ):
        content = GOOD.replace("<!-- and how -->", "&x;").replace(
            'SYSTEM "BioC.dtd"', f'SYSTEM "BioC.dtd" [{declaration}]'
        )
        sentence = refused(path, content)
        assert "SECRET" not in sentence
        assert "declares an entity of its own" in sentence or "not XML" in sentence


def test_a_doctype_loads_nothing(path, tmp_path):
    dtd = tmp_path / "BioC.dtd"
    dtd.write_text('<!ENTITY x "SECRET"><!ATTLIST document id CDATA "SECRET">', encoding="utf-8")
    doctype = f'<!DOCTYPE collection SYSTEM "{dtd.as_uri()}">'
    [found], _ = read(path, collection(TITLE, passage(DRUG), prolog=doctype))
    assert found.id == "12"
    remote = '<!DOCTYPE collection SYSTEM "http://127.0.0.1:9/BioC.dtd">'
    assert len(read(path, collection(TITLE, prolog=remote))[0]) == 1
    path.write_text(collection(TITLE.replace("&amp;", "&x;"), prolog=doctype), encoding="utf-8")
    assert "&x; has no place" in broken(bioc_xml.read, path)[1]


@pytest.mark.parametrize("at", ["text", "attribute", "root", "parameter"])
def test_a_billion_laughs_cost_nothing(path, at):
    mark = "% " if at == "parameter" else ""
    use = "%" if at == "parameter" else "&"
    declarations = [f'<!ENTITY {mark}a0 "{"ha" * 50}">']
    declarations += [f'<!ENTITY {mark}a{n} "{f"{use}a{n - 1};" * 10}">' for n in range(1, 10)]
    content = GOOD.replace('"BioC.dtd"', f'"BioC.dtd" [{" ".join(declarations)}{" %a9;" if mark else ""}]')
    if at == "text":
        content = content.replace("<!-- and how -->", "&a9;")
    elif at == "attribute":
        content = content.replace("key='MESH'", "key='&a9;'")
    elif at == "root":
        content = content.replace("<collection>", "<collection x='&a9;'>")
    begun = time.monotonic()
    tracemalloc.start()
    try:
        refused(path, content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000
    assert time.monotonic() - begun < 10


def test_documents_are_freed_after_use(path):
    one = GOOD[GOOD.index("<document>") : GOOD.index("</collection>")].replace("headache.", "headache. " + "x " * 5_000)
    start, end = GOOD[: GOOD.index("<document>")], "</collection>"
    with path.open("w", encoding="utf-8") as file:
        file.writelines([start, *[one] * 3_000, end])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in bioc_xml.read(path, Skipped())) == 3_000
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 20_000  # KB; the file has 30 MB
