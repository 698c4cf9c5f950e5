"""Names in text: by hand, and against a slow search that does what the docstring says word for word."""

import multiprocessing
import re
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.core import caching

from fedrel.alignment import gazetteer, trie
from fedrel.alignment.characters import CAPITAL, FOLDED, LETTER, SPACE, WORD, characters
from fedrel.alignment.gazetteer import Gazetteer, Match
from fedrel.corpus.tokens import tokenize

CITIES = [("New York", 1), ("New York City", 2), ("York", 3), ("City of London", 4)]


def fold(token):
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in token)


class SlowGazetteer:
    def __init__(self, names):
        self.exact, self.folded = {}, {}
        for name, entity in names:
            tokens = tuple(tokenize(name)[0])
            letters = [c for c in name if c.isalpha()]
            if not re.search(r"\w", name):
                continue
            if len("".join(name.split())) <= 3 or (letters and all(c.isupper() for c in letters)):
                self.exact.setdefault(tokens, set()).add(entity)
            else:
                self.folded.setdefault(tuple(map(fold, tokens)), set()).add(entity)
        self.longest = max(map(len, (*self.exact, *self.folded)), default=0)

    def find(self, text):
        tokens, begins, ends = tokenize(text)
        folded = list(map(fold, tokens))
        found, at = [], 0
        while at < len(tokens):
            for stop in range(min(len(tokens), at + self.longest), at, -1):
                entities = self.exact.get(tuple(tokens[at:stop]), set()) | self.folded.get(
                    tuple(folded[at:stop]), set()
                )
                if entities:
                    found.append(Match(begins[at], ends[stop - 1], tuple(sorted(entities))))
                    at = stop
                    break
            else:
                at += 1
        return found


def mentions(names, text):
    return [(text[match.start : match.end], *match.candidates) for match in Gazetteer(names).find(text)]


def test_the_longest_name_counts_and_the_search_goes_on_after_it():
    assert mentions(CITIES, "New York City of London") == [("New York City", 2)]
    assert mentions(CITIES, "new York, YORK, City of London; New London") == [
        ("new York", 1),
        ("YORK", 3),
        ("City of London", 4),
    ]


def test_a_long_path_that_ends_in_nothing_gives_way_to_the_shorter_name_on_it():
    names = [("a b c d e f", 1), ("a b", 2), ("c d e", 3), ("f", 4)]
    assert mentions(names, "a b c d e g") == [("a b", 2), ("c d e", 3)]
    assert mentions(names, "a b c d e f") == [("a b c d e f", 1)]
    assert mentions(names, "a a b c d f") == [("a b", 2), ("f", 4)]


def test_white_space_does_not_matter_but_punctuation_does():
    assert mentions(CITIES, "new\n \tyork, New-York") == [("new\n \tyork", 1), ("York", 3)]
    assert mentions([("U.S.", 1)], "the U.S. and U . S . but not US or U.S") == [("U.S.", 1), ("U . S .", 1)]
    assert mentions([("  New   York ", 1)], "New York") == [("New York", 1)]


def test_names_are_whole_tokens():
    assert mentions(CITIES, "Yorkshire NewYork York_ York2 Yorks") == []
    assert mentions(CITIES, "York-York's") == [("York", 3), ("York", 3)]
    assert mentions([("東京", 1)], "東京 東京都") == [("東京", 1)]


@pytest.mark.parametrize(
    ("name", "found", "not_found"),
    [
        ("US", "US", "us Us"),
        ("Ann", "Ann", "ann ANN"),
        ("A B C", "A B C", "a b c"),
        ("IBM Corp", "IBM Corp ibm corp IBM CORP", ""),
        ("WHO2020", "WHO2020", "who2020 Who2020"),
        ("NATO", "NATO", "Nato nato"),
        ("1984", "1984", "198"),
        ("straße", "straße STRAßE Straße", "strasse STRASSE"),
        ("İzmir", "İzmir İZMIR", "izmir i̇zmir"),
        ("ΟΔΟΣ", "ΟΔΟΣ", "οδοσ"),
        ("Οδος", "οδος ΟΔΟς", "ΟΔΟΣ"),
        ("café", "café CAFÉ", "cafe\u0301"),
        ("cafe\u0301", "cafe\u0301 CAFE\u0301", "café"),
        ("東京都庁", "東京都庁", "東京"),
        ("I ❤ NY", "I ❤ NY", "I ❤ ny"),
        ("Kelvin K", "kelvin K KELVIN k", ""),
    ],
)
def test_short_names_and_those_in_capitals_match_exactly_others_in_any_case(name, found, not_found):
    texts = [text for _, *text in mentions([(name, 7)], found)]
    assert texts == [[7]] * len(texts)
    assert "".join("".join(text.split()) for text, *_ in mentions([(name, 7)], found)) == "".join(found.split())
    assert mentions([(name, 7)], not_found) == []


def test_all_who_share_a_name_are_candidates():
    names = [("Paris", 5), ("PARIS", 1), ("paris", 9), ("Paris", 5), ("Paris", 2**40)]
    assert mentions(names, "Paris") == [("Paris", 5, 9, 2**40)]
    assert mentions(names, "PARIS") == [("PARIS", 1, 5, 9, 2**40)]
    assert mentions([("us", 1), ("US", 2), ("Us", 3), ("US", 4)], "us US Us uS") == [("us", 1), ("US", 2, 4), ("Us", 3)]


def test_names_without_a_letter_or_digit_are_counted_and_not_looked_for():
    made = Gazetteer([("?", 1), ("", 2), (" - ", 3), ("❤", 4), ("a?", 5), ("_", 6)])
    assert made.ignored == 4
    assert made.find("? - ❤ a? _") == [Match(6, 8, (5,)), Match(9, 10, (6,))]


def test_without_names_or_text_nothing_is_found():
    assert Gazetteer([]).find("New York") == []
    assert Gazetteer(CITIES).find("") == []
    assert Gazetteer(CITIES).find_all([]) == []
    assert Gazetteer(CITIES).find_all(["", " "]) == [[], []]


def test_a_name_does_not_reach_from_one_text_into_the_next():
    assert Gazetteer(CITIES).find_all(["new", "york", "New York", ""]) == [
        [],
        [Match(0, 4, (3,))],
        [Match(0, 8, (1,))],
        [],
    ]


def test_an_entity_number_must_not_be_negative():
    with pytest.raises(ValueError, match="negative"):
        Gazetteer([("New York", -1)])


def test_half_characters_do_no_harm():
    assert mentions([("ab\ud800c", 1)], "AB\ud800C \udfff") == [("AB\ud800C", 1)]


def test_the_table_of_characters_agrees_with_the_tokenizer_on_each_of_them():
    table = characters()
    every = [chr(code) for code in range(len(table))]
    words, spaces = (table & WORD > 0).tolist(), (table & SPACE > 0).tolist()
    for begin in range(0, len(every), 0x4000):  # all at once would take a gigabyte
        block = every[begin : begin + 0x4000]
        tokens = set(tokenize(" ".join(character * 2 for character in block))[0])
        assert words[begin : begin + 0x4000] == [c * 2 in tokens for c in block]
        assert spaces[begin : begin + 0x4000] == [c * 2 not in tokens and c not in tokens for c in block]
    assert (table & FOLDED).tolist() == [ord(fold(c)) for c in every]
    assert (table & LETTER > 0).tolist() == [c.isalpha() for c in every]
    assert (table & CAPITAL > 0).tolist() == [c.isalpha() and c.isupper() for c in every]


# Few words, so that names overlap, repeat and begin alike.
_latin = [*"abcAB", "new", "New", "NEW", "york", "ß", "SS", "ss", "İ", "i̇", "I", "ı", "ς", "Σ", "e\u0301", "É", "é"]
_other = ["🙂", "👩‍👩‍👧", "東", "東京", "_", "1", "a1", "ǅ", "ǆ", "K", "k", "\ud800", "²", "Ⅷ", "ⅷ"]
_word = st.sampled_from([*_latin, *_other])
_joint = st.sampled_from([" ", "  ", "", "-", ".", "'", "\n", "\u3000", "\x1f", "\u200b", ", "])


def _some(most):
    return st.lists(st.tuples(_word, _joint), max_size=most).map(lambda it: "".join(map("".join, it)))


_text = _some(12)
_names = st.lists(st.tuples(_some(2) | _some(5) | st.text(max_size=4), st.integers(0, 5)), max_size=12)


@given(_names, st.lists(_text | st.text(max_size=20), max_size=4), st.data())
@settings(max_examples=400)
@example([("a b c", 1), ("a b", 2), ("b c a", 3)], ["a b a b c a", "a"], None)
@example([("a", 1)], ["a " * 500], None)
def test_finds_what_the_slow_search_finds(names, texts, data):
    if data is not None and names:  # random text seldom holds a name
        texts = [*texts, *data.draw(st.lists(st.lists(st.sampled_from(names), max_size=5).map(_mixed), max_size=3))]
    fast, slow = Gazetteer(names), SlowGazetteer(names)
    expected = [slow.find(text) for text in texts]
    assert fast.find_all(texts) == expected
    assert [fast.find(text) for text in texts] == expected
    assert fast.ignored == sum(not re.search(r"\w", name) for name, _ in names)


def _mixed(names):
    return " ".join(name.upper() if entity % 2 else name for name, entity in names)


def test_many_names_and_long_texts_are_as_good_as_few(monkeypatch):
    """Through every growth of the arrays, several batches of names and texts, and rows that fill up."""
    monkeypatch.setattr(gazetteer, "NAMES_AT_ONCE", 100)
    monkeypatch.setattr(gazetteer, "CHARACTERS_AT_ONCE", 5_000)
    names = [(f"{a}{'.' if b % 7 else ' '}x{a * b % 97}", a % 50) for a in range(200) for b in range(40)]
    texts = [" ".join(f"{a} X{b}, {a}.x{b}" for b in range(0, 97, 3)) for a in range(0, 210, 3)]
    slow = SlowGazetteer(names)
    found = Gazetteer(iter(names)).find_all(texts)
    assert found == [slow.find(text) for text in texts]
    assert sum(map(len, found)) > 900


def test_a_very_long_name_and_a_very_long_token():
    words = " ".join(map(str, range(5_000)))
    assert mentions([(words, 1), ("x" * 100_000, 2)], f"{words} {'X' * 100_000}") == [(words, 1), ("X" * 100_000, 2)]


def _find(made, text):
    return made.find(text)


def _build_and_find(text):
    return Gazetteer(CITIES).find(text)


def test_works_in_other_processes():
    made = Gazetteer(CITIES)
    expected = made.find("new york")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_find, (made, "new york")) == expected
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_build_and_find, ("new york",)) == expected


def test_names_are_compared_even_where_all_hashes_are_alike_and_numba_can_write_its_cache_nowhere(monkeypatch):
    source = Path(trie.__file__).read_text(encoding="utf-8")
    good = "return ((digest ^ (digest >> _HALF)) * _MULTIPLIER) >> _HALF"
    assert good in source
    weak = ModuleType("weak")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    exec(compile(source.replace(good, "return digest & np.uint64(0)"), trie.__file__, "exec"), vars(weak))
    monkeypatch.setattr(gazetteer, "trie", weak)
    words = ["abc", "ab", "abd", "bad", "cab", "x", "y", "z"]
    names = [(f"{a} {b}", number) for number, (a, b) in enumerate(product(words, words[:5]))]
    text = " ".join(f"{a} {b} {c}" for a, b, c in product([*words, "dab"], repeat=3))
    assert Gazetteer(names).find(text) == SlowGazetteer(names).find(text)
