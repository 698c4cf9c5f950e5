"""OpenNRE's JSON lines: what is written is read back, and what cannot be read is refused with its line."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrel.corpus import opennre
from fedrel.corpus.tokens import tokenize
from fedrel.errors import UserError
from tests.instances import anything, instances, items, row, sentence, write


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("opennre") / "train.jsonl"


def read(path: Path, *lines: str | bytes):
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines))
    return list(items(opennre.read, path))


def refusal(path: Path, *lines: str | bytes) -> str:
    with pytest.raises(UserError) as caught:
        read(path, *lines)
    return str(caught.value)


@given(st.lists(instances(), max_size=4))
@example([sentence("a\tb", "c\nd", words=("\n", "", "\u2028", "\r"))])
def test_what_is_written_is_read_back_identical(path, made):
    write(path, made)
    assert list(items(opennre.read, path)) == made


@given(st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b"[" * 100_000)
@example(b"1" * 5_000)
@example(b'{"relation": "r", "text": "\\ud800", "h": {"id": "a", "pos": [0, 1]}, "t": {"id": "b", "pos": [0, 1]}}')
def test_arbitrary_bytes_are_read_or_refused(path, content):
    path.write_bytes(content)
    try:
        for instance in items(opennre.read, path):
            "".join(instance.tokens).encode()
    except UserError as error:
        assert str(error).startswith(f"{path}:")


_entity = st.fixed_dictionaries(
    {},
    optional={"id": anything, "name": anything, "pos": anything | st.lists(st.integers(-2, 8), min_size=2, max_size=2)},
)


@given(
    st.fixed_dictionaries(
        {"relation": anything | st.just("r"), "h": _entity | anything, "t": _entity | anything},
        optional={
            "text": anything | st.just("a bc de"),
            "token": anything | st.lists(st.text(max_size=3), max_size=4),
            "source": anything,
            "expressed": anything,
        },
    )
    | anything
)
def test_arbitrary_json_is_read_whole_or_refused(path, value):
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")
    try:
        found = list(items(opennre.read, path))
    except UserError as error:
        assert str(error).startswith(f"{path}:1: ")
    else:
        for instance in found:
            for mention in (instance.head, instance.tail):
                assert 0 <= mention.start < mention.end <= len(instance.tokens)
                assert mention.id.strip()


def test_a_position_counts_characters_in_a_text_and_finds_the_words_it_touches(path):
    head, tail = {"id": "Q1", "pos": [2, 11]}, {"name": "Bonn", "pos": [24, 28]}
    [instance] = read(path, row(text="  Ann-Sofie was born in Bonn.", h=head, t=tail))
    assert instance.tokens == ["Ann", "-", "Sofie", "was", "born", "in", "Bonn", "."]
    assert instance.tokens[instance.head.start : instance.head.end] == ["Ann", "-", "Sofie"]
    assert (instance.tail.id, instance.tokens[instance.tail.start : instance.tail.end]) == ("Bonn", ["Bonn"])


@given(st.text())
def test_tokens_are_the_text_without_its_spaces(text):
    tokens, begins, ends = tokenize(text)
    assert [text[b:e] for b, e in zip(begins, ends, strict=True)] == tokens
    assert "".join(tokens) == "".join(text.split())


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_do_no_harm(path):
    assert len(read(path, b"\xef\xbb\xbf" + row().encode() + b"\r\n", b"\r\n", b"  \n", row())) == 2


def _head(position: object) -> dict[str, object]:
    return {"id": "Q1", "pos": position}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (row()[:-20], "not a JSON object (is the file cut off?)"),
        ("[]", "not a JSON object"),
        ("3", "not a JSON object"),
        (row(relation=None), '"relation" is missing'),
        (row(relation=""), '"relation" is missing'),
        (row(relation=3), '"relation" is missing or no text'),
        (row(text=None), 'neither "text" nor "token"'),
        (row(text=None, token=["a", 3]), 'neither "text" nor "token"'),
        (row(h=None), '"h" needs "pos"'),
        (row(t="Bonn"), '"t" needs "pos"'),
        (row(h={"id": "Q1"}), '"h" needs "pos"'),
        (row(h=_head([0])), '"h" needs "pos"'),
        (row(h=_head([0, 1.5])), '"h" needs "pos"'),
        (row(h=_head([False, True])), '"h" needs "pos"'),
        (row(h=_head([0, 23])), "head position 0..23 lies outside the 22 characters"),
        (row(h=_head([-1, 3])), "head position -1..3 lies outside"),
        (row(h=_head([3, 3])), "head position 3..3 lies outside"),
        (row(h=_head([2, 1])), "head position 2..1 lies outside"),
        (row(h=_head([3, 4])), "head position 3..4 touches no word"),
        (row(t=_head([10**30, 10**31])), "tail position"),
        (
            row(text=None, token=["a", "b"], h=_head([0, 1]), t=_head([1, 3])),
            "tail position 1..3 lies outside the 2 tokens",
        ),
        (row(text=None, token=[], h=_head([0, 1])), "head position 0..1 lies outside the 0 tokens"),
        (row(h={"pos": [0, 3]}), 'an entity needs an "id" or a "name"'),
        (row(h={"id": " ", "pos": [0, 3]}), 'an entity needs an "id" or a "name"'),
        (row(h={"id": 7, "pos": [0, 3]}), 'an entity needs an "id" or a "name"'),
        (row(source=3), '"source" must be text'),
        (row(expressed="yes"), '"expressed" true or false'),
        (row(relation="\ud800"), "half a character"),
        ('{"relation": "\\uDFFF"}', "half a character"),
        (b"\xff\xfe\n", "not UTF-8 text; convert the file to UTF-8"),
        (row().encode()[:30] + b"\xe9" + row().encode()[30:], "not UTF-8 text"),
    ],
)
def test_a_bad_line_is_refused_with_its_file_and_number(path, line, says):
    sentence = refusal(path, row(), "", row(), line)
    assert sentence.startswith(f"{path}:4: ")
    assert says in sentence
    assert "\n" not in sentence


def test_a_whole_character_outside_the_basic_plane_may_be_escaped(path):
    [instance] = read(path, row(relation="\N{ROCKET}"))
    assert instance.relation == "\N{ROCKET}"


def test_a_line_number_counts_line_feeds_alone(path):
    odd = row(text="Ann\x85 \u2028was\x0bborn in Bonn .", t={"id": "Q2", "pos": [17, 21]})
    assert "\\u2028" in odd
    raw = json.dumps(json.loads(odd), ensure_ascii=False)
    assert refusal(path, raw, raw, "{").startswith(f"{path}:3: ")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.jsonl: No such file"):
        list(items(opennre.read, tmp_path / "none.jsonl"))
