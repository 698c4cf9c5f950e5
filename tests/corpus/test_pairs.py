"""From documents to labelled sentences."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import NA, Annotation, Document, Skipped
from fedrel.corpus.pairs import instances
from fedrel.corpus.rules import Rules
from fedrel.errors import UserError
from tests.documents import covered, words


def document(text: str, marks: str, *relations: tuple[str, str, str], id_="d", **fields) -> Document:
    """`marks`: words and their types; the key of a mark is its word, and it stands where the word does first."""
    annotations = []
    for mark in marks.split(", ") if marks else []:
        word, type_ = mark.rsplit(":", 1)
        annotations.append(Annotation(word, text.index(word), text.index(word) + len(word), type_))
    return Document(id_, text, tuple(annotations), relations, f"{id_}.txt", **fields)


def made(*documents: Document, rules: Rules | None = None) -> tuple[list[tuple[str, str, str]], Skipped]:
    """(head, relation, tail) in words."""
    skipped = Skipped()
    found = [
        (
            " ".join(it.tokens[it.head.start : it.head.end]),
            it.relation,
            " ".join(it.tokens[it.tail.start : it.tail.end]),
        )
        for it in instances(lambda: documents, skipped, rules)
    ]
    return found, skipped


def test_a_relation_and_the_pairs_of_its_types_that_no_relation_joins():
    text = "Aspirin eases headache. Ibuprofen and aspirin were given for fever in 1999."
    marks = "Aspirin:drug, headache:pain, Ibuprofen:drug, aspirin:drug, fever:pain, 1999:date"
    found, skipped = made(document(text, marks, ("Aspirin", "eases", "headache")))
    assert found == [("Aspirin", "eases", "headache"), ("Ibuprofen", NA, "fever"), ("aspirin", NA, "fever")]
    assert skipped.total == 0


def test_an_instance_has_the_tokens_of_its_sentence_and_says_where_it_is_from():
    text = "Well. Alpha-blockers ease pain."
    marked = (Annotation("T1", 6, 20, "drug", "MESH:1"), Annotation("T2", 26, 30, "pain"))
    [found] = instances(lambda: [Document("d1", text, marked, (("T1", "eases", "T2"),))], Skipped())
    assert found.tokens == ["Alpha", "-", "blockers", "ease", "pain", "."]
    assert (found.head.id, found.head.start, found.head.end) == ("MESH:1", 0, 3)
    assert (found.tail.id, found.tail.local, found.tail.start, found.tail.end) == ("", "T2", 4, 5)
    assert (found.source, found.expressed) == ("d1", None)


def test_types_are_gathered_from_all_documents_before_the_first_instance():
    first = document("Aspirin and fever.", "Aspirin:drug, fever:pain", id_="1")
    second = document("Zinc cures colds.", "Zinc:drug, colds:pain", ("Zinc", "cures", "colds"), id_="2")
    assert made(first, second)[0] == [("Aspirin", NA, "fever"), ("Zinc", "cures", "colds")]


def test_of_two_entities_of_one_type_the_first_is_the_head_unless_a_relation_says_otherwise():
    text = "Fever and cough follow flu."
    marks = "flu:p, cough:p, Fever:p"
    assert made(document(text, marks, ("flu", "causes", "Fever")))[0] == [
        ("flu", "causes", "Fever"),
        ("Fever", NA, "cough"),
        ("cough", NA, "flu"),
    ]


def test_a_pair_with_a_relation_has_no_twin_without_one_and_any_other_pair_is_there_once():
    first = document("A b e.", "A:x, b:y, e:x", ("A", "r", "b"), id_="1")
    second = document("C d.", "C:x, d:y", ("d", "s", "C"), id_="2")
    assert made(first, second)[0] == [("A", "r", "b"), ("b", NA, "e"), ("d", "s", "C")]


def test_a_pair_may_have_two_relations():
    text = "Ann met and married Bob."
    found, _ = made(document(text, "Ann:p, Bob:p", ("Ann", "met", "Bob"), ("Ann", "wed", "Bob")))
    assert found == [("Ann", "met", "Bob"), ("Ann", "wed", "Bob")]


def test_a_relation_across_sentences_is_counted():
    text = "Aspirin was given. The fever fell."
    found, skipped = made(document(text, "Aspirin:drug, fever:pain", ("Aspirin", "eases", "fever")))
    assert found == []
    assert skipped.examples == ["d.txt: the two entities stand in different sentences"]


def test_an_annotation_is_never_cut_in_two():
    text = "It was vol. 3. Then. The end."
    apart = document(text, "It:a, Then:b, end:b", ("It", "r", "Then"))
    assert made(apart)[0] == []
    bridged = document(text, "It:a, vol. 3. Then:b, end:b", ("It", "r", "vol. 3. Then"))
    assert made(bridged)[0] == [("It", "r", "vol . 3 . Then")]


def test_sentences_that_a_document_knows_are_kept():
    text = "Fever\ncough and flu"
    lines = document(text, "Fever:p, cough:p, flu:p", ("cough", "r", "flu"), sentences=((0, 5), (6, 19)))
    assert made(lines)[0] == [("cough", "r", "flu")]
    free = document(text, "Fever:p, cough:p, flu:p", ("cough", "r", "flu"))
    assert made(free)[0] == [("cough", "r", "flu"), ("Fever", NA, "cough"), ("Fever", NA, "flu")]


def test_documents_without_marks_are_counted():
    found, skipped = made(Document("1", "A.", where="1.txt"), Document("2", "A.", ()), document("A b.", "A:x, b:x"))
    assert found == []
    assert skipped.examples == [
        "1.txt: no entities are marked in the document",
        "2: no relations are marked in the document",
    ]


def test_what_the_reader_leaves_out_counts_once():
    skipped = Skipped()
    skipped("before", "why")

    def read():
        skipped("a.txt:1", "too bad")
        yield document("Ann met Bob. Eve left.", "Ann:x, Bob:x, Eve:x", ("Ann", "r", "Bob"), ("Ann", "r", "Eve"))

    assert len(list(instances(read, skipped))) == 1
    assert skipped.reasons == {"why": 1, "too bad": 1, "the two entities stand in different sentences": 1}
    assert len(skipped.examples) == 3


@st.composite
def documents(draw) -> Document:
    gap = st.sampled_from([" ", ". ", ".\n", "\n\n", " Dr. ", "! ", "\u2028", "", "…", "?"])
    text, spans = "", []
    for word in draw(st.lists(words | st.sampled_from(["Ann", "met", "Bob", "e.g.", "3.5"]), min_size=1, max_size=12)):
        spans.append((len(text), len(text) + len(word)))
        text += word + draw(gap)
    ends = st.tuples(st.sampled_from(spans), st.sampled_from(spans)).map(sorted)
    chosen = draw(st.lists(ends, max_size=6))
    marked = tuple(
        Annotation(f"T{n}", first[0], last[1], draw(st.sampled_from("xy"))) for n, (first, last) in enumerate(chosen)
    )
    keys = st.sampled_from([it.key for it in marked]) if marked else st.nothing()
    joined = draw(st.lists(st.tuples(keys, st.sampled_from("rs"), keys), max_size=3)) if marked else []
    return Document("d", text, marked, tuple(joined))


@given(st.lists(documents(), max_size=2))
def test_any_documents_give_whole_mentions_and_every_relation_once(made):
    skipped = Skipped()
    found = list(instances(lambda: made, skipped))
    related = [it for it in found if it.relation != NA]
    assert len(related) + skipped.total == sum(len(it.relations) for it in made)
    marks = Counter("".join(words.split()) for it in made for words in covered(it).values())
    for it in found:
        for mention in (it.head, it.tail):
            inside = "".join(it.tokens[mention.start : mention.end])
            assert any(mark in inside for mark in marks)
    pairs = [frozenset((it.head.local, it.tail.local)) for it in found if it.relation == NA]
    if len(made) == 1:
        assert len(pairs) == len(set(pairs))
        assert not set(pairs) & {frozenset((it.head.local, it.tail.local)) for it in related}


@pytest.mark.parametrize("count", [2, 500])
def test_many_annotations_in_one_sentence_do_no_harm(count):
    text = "a " * count
    marked = tuple(Annotation(f"T{n}", 2 * n, 2 * n + 1, str(n)) for n in range(count))
    [only] = instances(lambda: [Document("d", text, marked, (("T0", "r", f"T{count - 1}"),))], Skipped())
    assert only.tail.end == count


def test_a_relation_of_an_entity_with_itself_and_one_that_is_there_twice_are_counted():
    text = "Ann met Bob."
    found, skipped = made(document(text, "Ann:p, Bob:p", *[("Ann", "met", "Bob")] * 2, ("Ann", "r", "Ann")))
    assert found == [("Ann", "met", "Bob")]
    assert skipped.reasons == {
        "the relation is stated twice for the same two mentions": 1,
        "the relation joins an entity with itself": 1,
    }


# ------------------------------------------------------------------------------- entities and directions


def test_a_relation_of_entities_holds_for_their_mentions_in_one_sentence():
    text = "Zinc cures colds. Colds fear zinc. Iron is grey."
    marks = [("Zinc", 0, "M1"), ("colds", 11, "M2"), ("Colds", 18, "M2|M3"), ("zinc", 29, "M1"), ("Iron", 35, "M4")]
    annotations = tuple(
        Annotation(f"T{n}", at, at + len(word), "x" if "1" in ids or "4" in ids else "y", ids, tuple(ids.split("|")))
        for n, (word, at, ids) in enumerate(marks)
    )
    relations = (("M1", "cures", "M2"), ("M4", "cures", "M2"))
    skipped = Skipped()
    found = list(instances(lambda: [Document("d", text, annotations, relations)], skipped))
    assert [(it.head.id, it.relation, it.tail.id, it.tokens[it.tail.start]) for it in found] == [
        ("M1", "cures", "M2", "colds"),
        ("M1", "cures", "M2", "Colds"),  # meant as M2, though it is a mention of M3 too
    ]
    assert skipped.reasons == {"the two entities stand in different sentences": 1}


def test_two_mentions_of_one_entity_are_no_pair():
    marked = tuple(Annotation(f"T{n}", 2 * n, 2 * n + 1, "x", id_) for n, id_ in enumerate("ABAC"))
    found = instances(lambda: [Document("d", "a b c d", marked, (("T0", "r", "T1"),))], Skipped())
    assert [(it.head.id, it.relation, it.tail.id) for it in found] == [
        ("A", "r", "B"),
        ("A", NA, "C"),
        ("B", NA, "A"),
        ("B", NA, "C"),
        ("A", NA, "C"),
    ]


def test_an_undirected_relation_begins_with_the_mention_that_comes_first():
    rules = Rules(directions={"*": "undirected"})
    text = "Iron and zinc and gold."
    marks = "Iron:drug, zinc:brand, gold:drug"
    joined = (("zinc", "int", "Iron"), ("Iron", "int", "zinc"))
    found, skipped = made(document(text, marks, *joined), rules=rules)
    assert found == [("Iron", "int", "zinc"), ("zinc", NA, "gold")]
    assert skipped.total == 1


def test_declared_types_turn_a_relation_and_refuse_others():
    rules = Rules(directions={"treats": "drug -> pain"})
    text = "Fever and zinc and aches and 1999."
    marks = "Fever:pain, zinc:drug, aches:pain, 1999:date"
    joined = (("Fever", "treats", "zinc"), ("1999", "treats", "zinc"))
    found, skipped = made(document(text, marks, *joined), rules=rules)
    assert found == [("zinc", "treats", "Fever"), ("zinc", NA, "aches")]
    assert skipped.reasons == {"the relation joins entities of other types than data.directions says": 1}


def test_a_direction_that_is_none_is_refused():
    with pytest.raises(UserError, match='"upwards" of "r" is no direction; write undirected, directed, or the types'):
        Rules(directions={"r": "upwards"})


def test_listed_pairs_are_all_there_is():
    text = "Iron, zinc, gold."
    found, _ = made(document(text, "Iron:d, zinc:d, gold:d", ("Iron", "r", "zinc"), ("zinc", NA, "gold"), listed=True))
    assert found == [("Iron", "r", "zinc"), ("zinc", NA, "gold")]


def test_a_sentence_has_no_more_pairs_than_the_limit_and_the_nearest_stay():
    marks = "A:x, b:x, c:x, d:x"
    found, skipped = made(document("A b c d.", marks, ("A", "r", "b")), rules=Rules(max_pairs=3))
    assert found == [("A", "r", "b"), ("A", NA, "c"), ("b", NA, "c"), ("c", NA, "d")]
    assert skipped.reasons == {"the pair has no relation, and its sentence has data.max_pairs nearer ones": 2}
    found, skipped = made(document("A b c d.", marks, ("A", "r", "b")), rules=Rules(max_distance=1))
    assert found == [("A", "r", "b"), ("A", NA, "c"), ("b", NA, "c"), ("b", NA, "d"), ("c", NA, "d")]
    assert skipped.reasons == {"the pair without a relation is further apart than data.max_distance": 1}


def test_four_hundred_entities_make_a_bounded_number_of_rows():
    text = "a " * 400
    marked = tuple(Annotation(f"T{n}", 2 * n, 2 * n + 1, "x") for n in range(400))
    found = list(instances(lambda: [Document("d", text, marked, (("T0", "r", "T399"),))], Skipped()))
    assert len(found) == 1 + 5_000


def test_given_tokens_are_kept():
    text = "U.S. steel (1901) ."
    tokens = ((0, 4), (5, 10), (11, 17), (18, 19))
    marked = (Annotation("T1", 0, 4, "x"), Annotation("T2", 11, 17, "y"))
    [found] = instances(lambda: [Document("d", text, marked, (("T1", "r", "T2"),), tokens=tokens)], Skipped())
    assert found.tokens == ["U.S.", "steel", "(1901)", "."]
    assert (found.head.start, found.head.end, found.tail.start, found.tail.end) == (0, 1, 2, 3)


def test_entities_of_two_copies_of_a_text_are_not_the_same():
    found = list(instances(lambda: [document("A b.", "A:x, b:y", ("A", "r", "b"), id_=id_) for id_ in "12"], Skipped()))
    assert found[0].document == found[1].document
    assert found[0].head.local != found[1].head.local


def test_a_mention_of_two_entities_is_of_as_many_facts_as_relations_mean():
    text = "Zincol caused renal and hepatic failure."
    marked = (
        Annotation("T1", 0, 6, "drug", "D1", ("D1",)),
        Annotation("T2", 14, 39, "disease", "D2|D3", ("D2", "D3")),
    )
    stated = (("D1", "causes", "D2"), ("D1", "causes", "D3"), ("T1", "causes", "D3"))
    skipped = Skipped()
    found = list(instances(lambda: [Document("d", text, marked, stated)], skipped))
    assert [(it.head.id, it.relation, it.tail.id) for it in found] == [("D1", "causes", "D2"), ("D1", "causes", "D3")]
    assert skipped.reasons == {"the relation is stated twice for the same two mentions": 1}
