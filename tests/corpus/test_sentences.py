"""Sentences: exact, ordered, and nothing but white space between them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedrel.corpus import cutting
from fedrel.corpus import sentences as splitter
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


@given(texts, st.integers(1, 40))
def test_the_pieces_of_a_text_make_it_up_and_none_is_too_long(text, longest):
    pieces = [text[start:end] for start, end in cutting.spans(text, longest)]
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= longest for piece in pieces)


@settings(max_examples=300)
@given(
    st.lists(texts.map(lambda it: " ".join(it.split())[:50]), max_size=8),
    st.sampled_from(["\n\n", "\r\n\r\n", "\n\n\n"]),
    st.integers(60, 200),
)
def test_a_text_with_paragraphs_has_the_same_sentences_in_pieces(paragraphs, between, longest):
    text = between.join(paragraphs)
    whole = sentence_spans(text)
    usual, splitter._PIECE = splitter._PIECE, longest
    try:
        assert sentence_spans(text) == whole
    finally:
        splitter._PIECE = usual


@pytest.mark.parametrize("between", ["\n", " ", ""])
def test_a_text_without_paragraphs_is_cut_where_it_hurts_least(monkeypatch, between):
    text = between.join(["Ann came late."] * 50)
    monkeypatch.setattr(splitter, "_PIECE", 100)
    found = sentence_spans(text)
    assert "".join(text[start:end] for start, end in found).replace(" ", "") == "Anncamelate." * 50
    assert max(end - start for start, end in found) <= 100
    if between:
        assert all(text[start:end].split()[-1] in ("Ann", "came", "late.") for start, end in found)


def test_a_long_text_takes_little_memory(monkeypatch):
    sizes = []
    inner = splitter._in_piece

    def watched(text: str, language: str) -> list[tuple[int, int]]:
        sizes.append(len(text))
        return inner(text, language)

    monkeypatch.setattr(splitter, "_in_piece", watched)
    text = "Ann met Bo. It was late.\n\n" * 40_000
    assert len(sentence_spans(text)) == 80_000
    assert max(sizes) <= 200_000 < sum(sizes) == len(text)


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
