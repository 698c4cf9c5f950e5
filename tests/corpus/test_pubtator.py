"""PubTator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, pubtator
from tests.documents import broken, covered, everything, refusal, words

TITLE, ABSTRACT = "Aspirin for the head", "Aspirin eases headache | pain. It may harm."
TEXT = f"{TITLE}\n{ABSTRACT}"
GOOD = (
    f"12|t|{TITLE}\n12|a|{ABSTRACT}\n"
    "12\t0\t7\tAspirin\tChemical\tD001241\n"
    "12\t21\t28\tAspirin\tChemical\tD001241\n"
    "12\t35\t50\theadache | pain\tDisease\tD006261|D010146\theadache|pain\n"
    "12\t52\t54\tIt\tChemical\t-1\n"
    "12\tCID\tD001241\tD010146\n"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("pubtator") / "cdr.txt"


def read(path, content: str | bytes):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return everything(pubtator.read, path)


def test_a_relation_joins_concepts_which_mentions_are_of(path):
    [found], skipped = read(path, GOOD)
    assert found == Document(
        "12",
        TEXT,
        (
            Annotation("T1", 0, 7, "Chemical", "D001241", ("D001241",)),
            Annotation("T2", 21, 28, "Chemical", "D001241", ("D001241",)),
            Annotation("T3", 35, 50, "Disease", "D006261|D010146", ("D006261", "D010146")),
            Annotation("T4", 52, 54, "Chemical"),
        ),
        (("D001241", "CID", "D010146"),),
        f"{path}:1",
        ((0, 20), (21, 51), (52, 64)),
    )
    assert covered(found) == {"T1": "Aspirin", "T2": "Aspirin", "T3": "headache | pain", "T4": "It"}
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("concept", "entities"),
    [
        ("D1", ("D1",)),
        ("D1|D2", ("D1", "D2")),
        ("D1,D2;D1", ("D1", "D2")),
        ("D001943+D010051", ("D001943", "D010051")),
        ("MESH:D1|-1", ("MESH:D1",)),
        ("c|DEL|1314_1328|", ("c|DEL|1314_1328|",)),
        ("c|SUB|G|IVS1+1|A", ("c|SUB|G|IVS1+1|A",)),
        ("p|SUB|V|600|E,p|SUB|K|601|E", ("p|SUB|V|600|E", "p|SUB|K|601|E")),
        ("tmVar:p|SUB|V|600|E;HGVS:p.V600E", ("tmVar:p|SUB|V|600|E;HGVS:p.V600E",)),
        ("-", ()),
        ("None", ()),
    ],
)
def test_an_id_may_be_of_several_concepts(path, concept, entities):
    [found], _ = read(path, f"1|t|Aspirin\n1\t0\t7\tAspirin\tX\t{concept}\n")
    assert found.annotations == (Annotation("T1", 0, 7, "X", concept if entities else "", entities),)


def test_a_relation_may_name_a_concept_by_its_type_or_several_at_once(path):
    rows = "1\t0\t7\tAspirin\tX\tD1,D2\n1\t8\t12\tpain\tX\tT1\n1\tr\tChemical|T1\tD2\n1\ts\tD1,D2\tT1\n"
    [found], skipped = read(path, f"1|t|Aspirin pain\n{rows}")
    assert found.relations == (("T1", "r", "D2"), ("D1,D2", "s", "T1"))
    assert found.annotations[0].entities == ("D1,D2", "D1", "D2")
    assert [it.key for it in found.annotations] == ["T1/1", "T2"]  # no key is the name of an entity
    assert skipped.total == 0


def test_documents_follow_each_other(path):
    other = GOOD.replace("12|", "PMC3|").replace("12\t", "PMC3\t")
    for between in ("\n", "", "\n\n \n"):
        found, _ = read(path, GOOD + between + other + between)
        assert [it.id for it in found] == ["12", "PMC3"]
        assert covered(found[0]) == covered(found[1])
        assert found[1].where == f"{path}:{8 + between.count(chr(10))}"


def test_a_title_alone_an_abstract_alone_and_an_empty_one(path):
    found, skipped = read(path, "1|t|Aspirin\n\n2|a|Aspirin\n2\t1\t8\tAspirin\tX\n\n3|t|\n3|a| \n\n4|t|Aspirin\n4|a|\n")
    assert [(it.id, it.text, covered(it)) for it in found] == [
        ("1", "Aspirin", {}),
        ("2", "\nAspirin", {"T1": "Aspirin"}),
        ("4", "Aspirin\n", {}),
    ]
    assert skipped.examples == [f"{path}:6: there is no text in it"]


def test_further_columns_and_unknown_concepts(path):
    extra = "12\tAssociation\tD001241\tD006261\tNovel\n12\tCID\tD9\tD006261\n12\tSelf\tD006261\tD010146\n"
    [found], skipped = read(path, GOOD + extra)
    assert [it[1] for it in found.relations] == ["CID", "Association", "Self"]
    assert skipped.reasons == {"the relation joins a concept that is not marked in the text": 1}
    assert skipped.examples[0].startswith(f"{path}:9: ")


@given(st.lists(words, min_size=1, max_size=5), st.lists(words, min_size=1, max_size=5), st.data())
def test_what_is_written_is_read_back(path, title, abstract, data):
    text = " ".join([*title, *abstract])
    tokens = st.sampled_from([*title, *abstract])
    marked = [(text.index(token), token) for token in data.draw(st.lists(tokens, max_size=4))]
    rows = "".join(f"7\t{start}\t{start + len(token)}\t{token}\tX\tC{start}\n" for start, token in marked)
    [found], skipped = read(path, f"7|t|{' '.join(title)}\n7|a|{' '.join(abstract)}\n{rows}")
    assert found.text.replace("\n", " ") == text
    assert list(covered(found).values()) == [token for _, token in marked]
    assert [it.id for it in found.annotations] == [f"C{start}" for start, _ in marked]
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("12\t0\t7\tAspirine\tChemical\tD1", 'the text at 0..7 is "Aspirin", not "Aspirine"; the offsets do not match'),
        ("12\t0\t99\tAspirin\tChemical\tD1", "position 0..99 lies outside the 64 characters of the text"),
        ("12\t-1\t7\tAspirin\tChemical\tD1", 'the start is "-1"; it must be a whole number'),
        ("12\t0\tAspirin\tChemical\tD1", 'the end is "Aspirin"; it must be a whole number'),
        ("12\t" + "1" * 5_000 + "\t7\tAspirin\tX\tD1", "must be a whole number"),
        ("12\t0\t7\tAspirin", "neither a mention nor a relation; is a column missing, or a tab?"),
        ("12\tCID\tD1", "neither a mention nor a relation"),
        ("12\tCID\t\tD1", "neither a mention nor a relation"),
        ("12 0 7 Aspirin Chemical D1", 'a row of "12 0 7 Aspirin Chemical D1" among those of document "12"'),
        ("13\t0\t7\tAspirin\tChemical\tD1", 'a row of "13" among those of document "12"'),
        ("12|a|Again", 'a second abstract of document "12"; remove one'),
        (b"12\t0\t7\tAspirin\tChemical\t\xe9", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_row_is_counted_with_its_file_and_number_and_the_rest_is_read(path, line, says):
    clean, _ = read(path, GOOD)
    path.write_bytes(GOOD.encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n")
    found, sentence = broken(pubtator.read, path)
    assert found == clean
    assert sentence.startswith(f"{path}:8: ")
    assert says in sentence


def test_rows_of_a_document_whose_title_is_broken_are_counted(path):
    title = b"11|t|caf\xe9\n11\t0\t3\tcaf\tX\tD1\n\n"
    found, skipped = read(path, title + GOOD.encode() + title)
    assert [it.id for it in found] == ["12"]
    assert sorted(skipped.broken.values()) == [1, 1, 2]
    assert skipped.broken['a row of "…" among those of document "…"; put it where it belongs'] == 1
    assert f"{path}:2: the first line must be a title, such as 1234|t|Title" in skipped.broken_examples


def test_what_begins_without_a_title_is_refused(path):
    path.write_text("\n12\t0\t7\tAspirin\tChemical\tD1\n", encoding="utf-8")
    assert refusal(pubtator.read, path) == f"{path}:2: the first line must be a title, such as 1234|t|Title"
