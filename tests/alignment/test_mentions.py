"""Entities in sentences: marked ones, or the names of a knowledge base; and the pairs of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.alignment import mentions
from fedrel.alignment.mentions import MOST_SPOTS, NOT_IN_KB, TOO_MANY, Spot, Spotter, ordered_pairs, pairs
from fedrel.corpus import Annotation, Document
from fedrel.errors import UserError
from tests.knowledge import knowledge

PEOPLE = {
    "Q1": "person: Ann Lee|Lee",
    "Q2": "person: Bo Lee|Lee",
    "Q3": "city: Bonn",
    "Q4": "river: Rhine",
    "M:9": "drug: Aspirin",
}
KB = knowledge(PEOPLE, ["Q1 born_in Q3", "Q3 on Q4"])


def spotted(*documents: Document | str, kb=KB, **more):
    """For each sentence, (words, ids) of its spots."""
    spotter = Spotter(kb, **more)
    whole = [it if isinstance(it, Document) else Document(f"d{n}", it) for n, it in enumerate(documents)]
    texts = {it.id: it.text for it in whole}
    found = []
    for sentence in spotter.sentences(whole):
        assert texts[sentence.document][sentence.start : sentence.start + len(sentence.text)] == sentence.text
        found.append([(sentence.text[spot.start : spot.end], "|".join(spot.ids)) for spot in sentence.spots])
    return found, spotter


def marked(text: str, *marks: tuple[str, str], id_="d", where="d.ann") -> Document:
    """Words, each where it stands first, with their ids."""
    return Document(
        id_,
        text,
        tuple(
            Annotation(f"T{n}", text.index(words), text.index(words) + len(words), "", mark)
            for n, (words, mark) in enumerate(marks)
        ),
        where=where,
    )


# ------------------------------------------------------------------------------------------------- names


def test_names_are_found_sentence_by_sentence_with_exact_offsets():
    text = "  Ann Lee was born in Bonn.\n\nIt rained. The\u3000Rhine flows on."
    found, spotter = spotted(text)
    assert found == [[("Ann Lee", "Q1"), ("Bonn", "Q3")], [], [("Rhine", "Q4")]]
    assert [(it.start, it.text) for it in spotter.sentences([Document("d", text)])] == [
        (2, "Ann Lee was born in Bonn."),
        (29, "It rained."),
        (40, "The\u3000Rhine flows on."),
    ]
    [first, *_] = Spotter(KB).sentences([Document("d", text)])
    assert first.spots == [Spot(0, 7, ("Q1",), (0,)), Spot(20, 24, ("Q3",), (2,))]


def test_everything_is_counted():
    _, spotter = spotted("Ann Lee met Lee. Lee left.", "Lee slept.", marked("Bonn", ("Bonn", "Q3"), id_="e"))
    assert spotter.counts == {
        **{"documents": 3, "marked documents": 1, "characters": 40, "sentences": 4},
        **{"mentions": 5, "ambiguous": 1, "settled": 2},
    }
    assert spotter.skipped.total == 0


def test_a_shared_name_means_the_one_that_its_document_names_in_full():
    found, spotter = spotted("Lee came early. Bo Lee was late.")
    assert found == [[("Lee", "Q2")], [("Bo Lee", "Q2")]]
    assert (spotter.counts["settled"], spotter.counts["ambiguous"]) == (1, 0)


@pytest.mark.parametrize("text", ["Lee came early.", "Lee came early. Ann Lee and Bo Lee were late."])
def test_a_shared_name_keeps_all_candidates_where_the_document_names_none_or_both(text):
    found, spotter = spotted(text)
    assert found[0] == [("Lee", "Q1|Q2")]
    assert (spotter.counts["settled"], spotter.counts["ambiguous"]) == (0, 1)
    [first, *_] = Spotter(KB).sentences([Document("d", text)])
    assert first.spots == [Spot(0, 3, ("Q1", "Q2"), (0, 1))]
    assert first.spots[0].key == "Q1|Q2"


def test_one_document_does_not_settle_a_name_in_another():
    found, _ = spotted("Ann Lee came.", "Lee left.", marked("Lee slept.", ("Lee", ""), id_="e"))
    assert found == [[("Ann Lee", "Q1")], [("Lee", "Q1|Q2")], [("Lee", "Q1|Q2")]]


def test_how_many_documents_are_searched_together_changes_nothing(monkeypatch):
    documents = ["Ann Lee met Bonn. Lee left.", marked("In Bonn.", ("Bonn", "Q3"), id_="m"), "Lee.", "", "Rhine. Bonn!"]
    at_once = spotted(*documents)
    monkeypatch.setattr(mentions, "_TOGETHER", 1)
    one_by_one = spotted(*documents)
    assert at_once[0] == one_by_one[0]
    assert at_once[1].counts == one_by_one[1].counts


def test_a_sentence_that_is_a_list_has_its_entities_left_out_and_counted():
    found, spotter = spotted(f"{'Bonn, ' * MOST_SPOTS}Rhine", f"{'Bonn, ' * (MOST_SPOTS - 1)}Rhine")
    assert [len(spots) for spots in found] == [0, MOST_SPOTS]
    assert spotter.counts["mentions"] == 2 * MOST_SPOTS + 1
    assert spotter.skipped.reasons == {TOO_MANY: 1}
    assert spotter.skipped.examples == [f"d0, character 0: {TOO_MANY}"]


@pytest.mark.parametrize("language", ["english", "EN", "", "e", "de_DE"])
def test_what_is_no_code_of_a_language_is_refused(language):
    with pytest.raises(UserError, match="is not a language code; give two letters, such as en"):
        Spotter(KB, language)


def test_the_language_decides_where_sentences_end():
    text = "Er kam am 3. Mai nach Bonn. Der Rhein."
    assert [len(spotted(text, language=language)[0]) for language in ("en", "de")] == [3, 2]


# ------------------------------------------------------------------------------------------------- marks


def test_marks_are_used_instead_of_names():
    document = marked("Ann Lee took aspirin in Bonn.", ("Ann", "Q2"), ("aspirin", "M:9"))
    assert spotted(document)[0] == [[("Ann", "Q2"), ("aspirin", "M:9")]]


@pytest.mark.parametrize(
    ("words", "id_", "tied"),
    [
        ("aspirin", "Q3", "Q3"),  # the id counts, whatever the words
        ("aspirin", "", "M:9"),
        ("ASPIRIN", "unknown", "M:9"),
        (" aspirin\n", "", "M:9"),
        ("ann\n lee", "", "Q1"),
        ("Lee", "", "Q1|Q2"),
    ],
)
def test_a_mark_is_tied_by_its_id_or_else_by_its_name(words, id_, tied):
    found, spotter = spotted(marked(f"We saw {words} there.", (words, id_)))
    assert found == [[(words, tied)]]
    assert spotter.skipped.total == 0


def test_marks_that_are_not_in_the_knowledge_base_are_counted_and_the_first_shown():
    document = marked("Ibuprofen helps\nAspirin users in Bonn.", ("Ibuprofen", "M:1"), ("Aspirin users", ""))
    found, spotter = spotted(document)
    assert found == [[("Ibuprofen", "M:1"), ("Aspirin users", "aspirin users")]]
    assert spotter.skipped.reasons == {NOT_IN_KB: 2}
    assert spotter.skipped.examples == [
        f'd.ann: "Ibuprofen" (M:1): {NOT_IN_KB}',
        f'd.ann: "Aspirin users": {NOT_IN_KB}',
    ]
    assert all(spot.numbers == () for spot in next(Spotter(KB).sentences([document])).spots)


def test_marks_settle_shared_names_of_their_document():
    document = marked("Lee came. Ann was late.", ("Lee", ""), ("Ann", "Q1"))
    assert spotted(document)[0] == [[("Lee", "Q1")], [("Ann", "Q1")]]


def test_a_mark_that_bridges_two_sentences_makes_them_one():
    document = marked("He met Mr. X. Bonn is fine. Rhine.", ("X. Bonn", "Q3"), ("Rhine", "Q4"))
    found, spotter = spotted(document)
    assert found == [[("X. Bonn", "Q3")], [("Rhine", "Q4")]]
    assert spotter.counts["sentences"] == 2


def test_sentences_may_touch():
    document = replace(marked("東京。京都。", ("東京", "Q3"), ("京都", "Q4")), sentences=((0, 3), (3, 6)))
    assert spotted(document)[0] == [[("東京", "Q3")], [("京都", "Q4")]]


def test_a_document_without_marks_among_marked_ones_is_searched():
    documents = [marked("Bonn, Rhine", ("Rhine", "Q4"), id_="1"), "Bonn", Document("2", "Bonn", ())]
    found, spotter = spotted(*documents)
    assert found == [[("Rhine", "Q4")], [("Bonn", "Q3")], [("Bonn", "Q3")]]
    assert spotter.counts["marked documents"] == 1


def test_without_a_knowledge_base_marks_stand_for_themselves():
    document = marked("Aspirin and  Zinc\tOxide.", ("Aspirin", "M:9"), ("Zinc\tOxide", ""))
    found, spotter = spotted(document, Document("2", "Nothing is marked.", ()), kb=None)
    assert found == [[("Aspirin", "M:9"), ("Zinc\tOxide", "zinc oxide")], []]
    assert spotter.skipped.total == 0


def test_without_a_knowledge_base_text_that_nobody_marked_is_refused():
    with pytest.raises(UserError, match=r"^b.txt:3: no entities are marked in this text; give a knowledge base with"):
        spotted(marked("Bonn", ("Bonn", "")), Document("b", "Bonn", where="b.txt:3"), kb=None)


@given(st.text("ab .\n\u3000é", min_size=1, max_size=40).filter(str.strip), st.data())
def test_every_mark_is_a_spot_at_its_exact_place(text, data):
    spans = [(start, end) for start in range(len(text)) for end in range(start + 1, len(text) + 1)]
    chosen = data.draw(st.lists(st.sampled_from([it for it in spans if text[slice(*it)].strip()]), max_size=6))
    document = Document("d", text, tuple(Annotation(f"T{n}", *span) for n, span in enumerate(chosen)))
    found = [
        (sentence.start + spot.start, sentence.start + spot.end)
        for sentence in Spotter(None).sentences([document])
        for spot in sentence.spots
    ]
    assert found == sorted(chosen)


# ------------------------------------------------------------------------------------------------- pairs


def spot(start: int, end: int, *ids: str) -> Spot:
    return Spot(start, end, ids, ())


def test_pairs_have_both_directions_in_the_order_of_the_sentence():
    a, b, c = spot(0, 1, "a"), spot(2, 3, "b"), spot(4, 5, "c")
    assert pairs([a, b, c]) == [(a, b), (a, c), (b, c)]
    assert ordered_pairs([a, b, c]) == [(a, b), (b, a), (a, c), (c, a), (b, c), (c, b)]
    assert pairs([]) == pairs([a]) == pairs([a, spot(7, 8, "a")]) == []


def test_of_an_entity_named_twice_the_closest_mention_counts_in_both_directions():
    a, b, c, d = spot(0, 3, "a"), spot(10, 13, "b"), spot(15, 18, "a"), spot(40, 43, "b")
    assert pairs([a, b, c, d]) == [(c, b)]
    assert ordered_pairs([a, b, c, d]) == [(c, b), (b, c)]
    assert pairs([a, spot(5, 8, "b"), spot(10, 13, "a")]) == [(a, spot(5, 8, "b"))], "the first of equally close ones"


def test_mentions_that_overlap_are_no_pair_but_those_that_touch_are():
    new_york, york, bonn = spot(0, 8, "ny"), spot(4, 8, "york"), spot(8, 12, "bonn")
    assert pairs([new_york, york]) == []
    assert pairs([new_york, york, bonn]) == [(new_york, bonn), (york, bonn)]
    later = spot(20, 24, "york")
    assert pairs([new_york, york, later]) == [(new_york, later)], "another mention, which does not overlap"


def test_entities_that_may_be_the_same_are_no_pair():
    lee, ann, other = spot(0, 3, "q1", "q2"), spot(5, 8, "q1"), spot(10, 13, "q3", "q4")
    assert pairs([lee, ann, spot(20, 23, "q2", "q3")]) == [(ann, spot(20, 23, "q2", "q3"))]
    assert pairs([lee, other]) == [(lee, other)]
    assert pairs([spot(0, 3, "a|b"), spot(5, 8, "a", "b")]) != [], "an id is not taken apart"


@given(
    st.lists(
        st.builds(
            lambda start, length, ids: Spot(start, start + length, tuple(sorted(ids)), ()),
            st.integers(0, 30),
            st.integers(1, 6),
            st.sets(st.sampled_from("abcd"), min_size=1, max_size=2),
        ),
        max_size=8,
    )
)
def test_pairs_are_those_of_a_plain_search(spots):
    expected = {}
    for a in spots:
        for b in spots:
            if not set(a.ids) & set(b.ids) and (a.end <= b.start or b.end <= a.start):
                expected.setdefault((a.ids, b.ids), []).append(max(b.start - a.end, a.start - b.end))
    found = {(a.ids, b.ids): max(b.start - a.end, a.start - b.end) for a, b in ordered_pairs(spots)}
    assert found == {ids: min(distances) for ids, distances in expected.items()}
    assert len(found) == len(ordered_pairs(spots))
