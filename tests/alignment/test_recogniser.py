"""Names by their capitals: where they begin and end, what they are of, whom a last name means."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.alignment.known_names import known_names
from fedrel.alignment.recogniser import normalised, recognise, type_of


def found(text: str) -> list[tuple[str, str]]:
    [names] = recognise([text])
    return [(text[name.start : name.end], name.type) for name in names]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Marie Curie was born in Warsaw.", [("Marie Curie", "person"), ("Warsaw", "place")]),
        ("Ludwig van Beethoven admired Goethe.", [("Ludwig van Beethoven", "person"), ("Goethe", "person")]),
        ("J. K. Rowling met Dr. Martha Grum.", [("J. K. Rowling", "person"), ("Martha Grum", "person")]),
        ("President Barack Obama spoke.", [("Barack Obama", "person")]),
        ("Will Smith came in May.", [("Will Smith", "person")]),
        ("Irène Joliot-Curie lived in Mvezo.", [("Irène Joliot-Curie", "person"), ("Mvezo", "place")]),
        ("She studied at the University of Graz.", [("University of Graz", "organisation")]),
        ("The president of France came.", [("France", "place")]),
        ("Johnson & Johnson and Sony agreed.", [("Johnson & Johnson", "organisation"), ("Sony", "organisation")]),
        ("He joined the Swiss Patent Office.", [("Swiss Patent Office", "organisation")]),
        ("The Zurich-based bank UBS grew.", [("Zurich", "place"), ("UBS", "organisation")]),
        ("Jane Austen wrote Pride and Prejudice.", [("Jane Austen", "person"), ("Pride and Prejudice", "work")]),
        ("Ann Lee wrote Dust and Ashes.", [("Ann Lee", "name"), ("Dust and Ashes", "work")]),
        (
            "Steve Jobs and Tim Cook wrote to Apple.",
            [("Steve Jobs", "person"), ("Tim Cook", "person"), ("Apple", "organisation")],
        ),
        (
            "The Hound of the Moor is a novel by Emma Grum.",
            [("The Hound of the Moor", "work"), ("Emma Grum", "person")],
        ),
        (
            "Schindler's List was directed by Steven Spielberg.",
            [("Schindler's List", "work"), ("Steven Spielberg", "person")],
        ),
        ("Apple's Tim Cook spoke.", [("Apple", "organisation"), ("Tim Cook", "person")]),
        ("Bruce Grum sang Born to Run.", [("Bruce Grum", "person"), ("Born to Run", "work")]),
        ("Emma Grum starred in Casablanca.", [("Emma Grum", "person"), ("Casablanca", "work")]),
        ("Emma Grum lives in Casablanca.", [("Emma Grum", "person"), ("Casablanca", "place")]),
        (
            "Marie Curie won the Nobel Prize in Physics.",
            [("Marie Curie", "person"), ("Nobel Prize in Physics", "award")],
        ),
        ("In March, the German writer left.", []),
        ("However, he returned on Monday.", []),
        ("Lima, Peru, is large.", [("Lima", "place"), ("Peru", "place")]),
        ("Peru 's capital is Lima .", [("Peru", "place"), ("Lima", "place")]),
    ],
)
def test_spans_and_types(text: str, names: list[tuple[str, str]]) -> None:
    assert found(text) == names


def test_a_last_name_stands_for_the_name_in_full_and_types_spread_over_the_document() -> None:
    [first, second, third] = recognise(
        ["Marie Curie met Pierre Curie.", "Curie lived in Grumstad.", "Grumstad thanked Marie Curie."]
    )
    assert [name.id for name in first] == ["marie curie", "pierre curie"]
    assert [(name.id, name.type) for name in second] == [("pierre curie", "person"), ("grumstad", "place")]
    assert third[0].type == "place"


def test_a_name_is_known_by_its_small_letters_without_the_article() -> None:
    assert normalised("The  Louvre") == "louvre"
    assert normalised("The") == "the"


def test_the_type_of_a_given_span() -> None:
    text = "Emma Grum works for the bank Wexler in Grumstad."
    assert [
        type_of(text, text.index(name), text.index(name) + len(name)) for name in ("Emma Grum", "Wexler", "Grumstad")
    ] == [
        "person",
        "organisation",
        "place",
    ]
    assert type_of("...", 0, 1) == "name"


def test_lists_hold_no_blank_entries_and_no_name_is_two_kinds_of_word() -> None:
    known = known_names()
    assert all(known.given) and all(known.types) and "" not in known.betraying
    assert not known.particles & known.titles


_PIECES = [
    "Marie",
    "Curie",
    "The",
    "of",
    "and",
    "in",
    "wrote",
    "novel",
    "University",
    "Pride",
    "J.",
    "'s",
    "”",
    "“",
    "&",
    ",",
    "van",
]


@given(
    st.lists(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(_PIECES), max_size=12).map(" ".join)), max_size=4)
)
def test_whatever_the_text_names_lie_in_it_one_after_the_other(sentences: list[str]) -> None:
    document = recognise(sentences)
    assert len(document) == len(sentences)
    for text, names in zip(sentences, document, strict=True):
        assert all(0 <= name.start < name.end <= len(text) for name in names)
        assert all(one.end <= other.start for one, other in pairwise(names))
        assert all(text[name.start : name.end].strip() == text[name.start : name.end] != "" for name in names)
        assert all(name.id == name.id.lower() for name in names)
