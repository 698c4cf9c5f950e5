"""Sentences: exact, ordered, and nothing but white space between them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedrel.corpus.sentences import sentence_spans

WHITE = [chr(code) for code in range(0x110000) if chr(code).isspace()]
PIECES = [
    *(".", "!", "?", "…", "。", "！", "؟", "।", '"', "“", "”", "(", ")", "«", "»", "'", "-", "•", "\0", "\u200b"),
    *(
        "\ufeff",
        "\u0301",
        "👩‍🚀",
        "Dr.",
        "e.g.",
        "U.S.",
        "No. 1",
        "3.",
        "J. R.",
        "https://a.b/c?d=e.f",
        "a@b.c",
        "\r\n",
    ),
    *("\n\n", "The", "word", "Bonn", "東京", "Ende", "B", "É"),
]
texts = st.lists(st.sampled_from([*PIECES, *WHITE, " "]) | st.text(max_size=5), max_size=25).map("".join)


@settings(max_examples=500)
@given(texts, st.sampled_from(["en", "de", "ja", "ar", "hi", "xx"]))
@example("B\u3000.", "en")  # here the splitter panics, if it is not kept from it
@example("\u3000", "en")
@example("One. One. One.", "en")
def test_every_character_but_white_space_is_in_one_sentence(text, language):
    place = 0
    for start, end in sentence_spans(text, language):
        assert place <= start < end
        assert not text[place:start].strip()
        assert text[start:end] == text[start:end].strip()
        place = end
    assert not text[place:].strip()


def sentences(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


@pytest.mark.parametrize("space", WHITE, ids=lambda it: f"U+{ord(it):04X}")
def test_white_space_of_any_kind_is_no_obstacle(space):
    assert sentences(f"{space}Ann came.{space}Bo{space}left.{space}")[0] == "Ann came."
    assert sentences(f"é.{space}É came.")[-1] == "É came."
    assert sentence_spans(f"B{space}.")[-1][1] == sentence_spans(f"É{space}.")[-1][1] == 3, "no panic"
    assert sentences(space) == []


@pytest.mark.parametrize("space", [" ", "\t", "\xa0", "\u2009", "\u202f", "\u3000"])
def test_white_space_within_a_line_ends_no_sentence(space):
    assert sentences(f"It rained. Ann{space}Lee came.") == ["It rained.", f"Ann{space}Lee came."]


def test_abbreviations_end_no_sentence_and_paragraphs_do():
    text = "Dr. Ann Lee met Mr. Fox at 3 p.m. in the U.S. capital. It rained!\n\nA heading\n\nWas it 3.5 cm?  Yes."
    assert sentences(text) == [
        "Dr. Ann Lee met Mr. Fox at 3 p.m. in the U.S. capital.",
        "It rained!",
        "A heading",
        "Was it 3.5 cm?",
        "Yes.",
    ]


def test_there_is_no_sentence_without_a_character():
    assert sentence_spans("") == sentence_spans(" \n\t\u3000 ") == []
    assert sentence_spans(".") == [(0, 1)]
