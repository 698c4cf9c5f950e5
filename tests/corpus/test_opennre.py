"""OpenNRE's JSON: what is written is read back, and a row that cannot be read is counted with its line."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrel.corpus import Instance, Mention, Skipped, opennre
from fedrel.corpus.detection import detect
from fedrel.corpus.tokens import tokenize
from fedrel.errors import UserError
from tests.broken_rows import with_a_broken_row
from tests.instances import anything, ids, instances, items, row, sentence, write


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("opennre") / "train.jsonl"


def read(path: Path, *lines: str | bytes):
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines))
    return list(items(opennre.read, path))


def broken(path: Path, *lines: str | bytes):
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines))
    return with_a_broken_row(opennre.read, path)


def two_entities(instance: Instance) -> bool:
    return instance.head != instance.tail


@given(st.lists(instances(ids=ids | st.just("")).filter(two_entities), max_size=4))
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
                assert mention.id.strip() or mention.id == ""
                assert mention.local == ""


def test_a_position_counts_characters_in_a_text_and_finds_the_words_it_touches(path):
    head, tail = {"id": "Q1", "pos": [2, 11]}, {"id": "Q2", "name": "Bonn", "pos": [24, 28]}
    [instance] = read(path, row(text="  Ann-Sofie was born in Bonn.", h=head, t=tail))
    assert instance.tokens == ["Ann", "-", "Sofie", "was", "born", "in", "Bonn", "."]
    assert instance.tokens[instance.head.start : instance.head.end] == ["Ann", "-", "Sofie"]
    assert (instance.tail.id, instance.tokens[instance.tail.start : instance.tail.end]) == ("Q2", ["Bonn"])


@pytest.mark.parametrize("entity", [{"name": "Bonn"}, {"id": "", "name": "Bonn"}, {"id": " "}, {"id": None}, {}])
def test_an_entity_without_an_id_has_none_whatever_its_name(path, entity):
    [instance] = read(path, row(t={**entity, "pos": [16, 20], "type": "city"}))
    assert instance.tail == Mention("", 4, 5, "city")


def test_a_position_may_end_after_a_text_that_lost_its_last_blank_if_the_name_says_so(path):
    for end, name in ((20, "Bonn"), (20, "Bonn "), (21, "Bonn  ")):
        [instance] = read(path, row(text="Ann was born in Bonn", t={"name": name, "pos": [16, end]}))
        assert (instance.tail.start, instance.tail.end) == (4, 5)
    for name in ("Born", "", "in Bonn"):
        said, _ = broken(path, row(text="Ann was born in Bonn", t={"name": name, "pos": [16, 21]}))
        assert said.endswith("tail position 16..21 lies outside the 20 characters")


def test_an_entity_at_the_place_of_the_other_is_another_only_by_its_id(path):
    twice = {"name": "Ann", "pos": [0, 3]}
    assert len(read(path, row(h={**twice, "id": "Q1"}, t={**twice, "id": "Q2"}))) == 1
    for head, tail in ((twice, twice), ({**twice, "id": "Q1"}, {**twice, "id": "Q1"})):
        said, _ = broken(path, row(h=head, t=tail))
        assert "head and tail are one entity at one place; mend the positions, or remove the row" in said


def test_an_array_is_read_like_lines(path):
    made = [row(), row(relation=None), row(relation="r2")]
    path.write_text("[" + ",\n ".join(made) + "]\n")
    said, found = with_a_broken_row(opennre.read, path)
    assert said == f'{path}:2, row 2: "relation" is missing or no text'
    assert [where for where, _ in found] == [f"{path}:1, row 1", f"{path}:3, row 3"]
    assert [it for _, it in found] == read(path, row(), row(relation="r2"))
    path.write_text("[" + made[0] + "," + made[2][:-5])
    with pytest.raises(UserError, match="not JSON from here on; is the file damaged or cut off"):
        list(opennre.read(path, Skipped()))


def test_a_sentence_of_too_many_tokens_is_broken(path):
    tokens = ["a", "b", *["x"] * 9_998]
    ends = {"h": {"id": "a", "pos": [0, 1]}, "t": {"id": "b", "pos": [1, 2]}}
    assert len(read(path, row(text=None, token=tokens, **ends))[0].tokens) == 10_000
    said, found = broken(path, row(), row(text=None, token=[*tokens, "x"], **ends), row())
    assert said == f"{path}:2: a sentence of 10,001 tokens; at most 10,000 are read: split it"
    assert len(found) == 2
    ends = {"h": {"id": "a", "pos": [0, 1]}, "t": {"id": "b", "pos": [2, 3]}}
    assert len(read(path, row(text=" ".join(tokens), **ends))[0].tokens) == 10_000
    assert "a sentence of 30,001 tokens" in broken(path, row(text="a b c" + ". ;" * 14_999, **ends))[0]


@pytest.mark.parametrize(
    ("head", "tail", "relation"),
    [
        ('{"name": "ann", "id": "Q1", "pos": [0, 1]}', '{"name": "bonn", "id": "Q2", "pos": [4, 5]}', "place of birth"),
        ('{"pos": [0, 1], "id": "m.01", "name": "ann"}', '{"pos": [4, 5], "id": "m.02", "name": "bonn"}', "/p/p/birth"),
        ('{"name": "ann", "pos": [0, 1]}', '{"name": "bonn", "pos": [4, 5]}', "Entity-Origin(e1,e2)"),
    ],
)
def test_files_named_as_the_published_ones_are_found_and_read(tmp_path, head, tail, relation):
    line = f'{{"token": ["ann", "was", "born", "in", "bonn"], "h": {head}, "t": {tail}, "relation": "{relation}"}}\n'
    for name in ("wiki80_train.txt", "wiki80_val.txt", "wiki80_rel2id.json"):
        (tmp_path / name).write_text(line if name.endswith("txt") else '{"r": 0}')
    assert detect(tmp_path).source == "opennre"
    assert detect(tmp_path / "wiki80_val.txt").source == "opennre"
    [instance] = items(opennre.read, tmp_path / "wiki80_train.txt")
    assert (instance.head.start, instance.tail.start, instance.relation) == (0, 4, relation)


@pytest.mark.parametrize(
    "content",
    [
        f"[{row()}]",
        f"[{row()},",
        "[\n" + row(text=None, token=["a", "b"]) + ",\n",
        '{"relation": "r", "text": "a b", "h": {"id": "a", "pos"',
    ],
)
def test_an_array_or_a_cut_line_is_recognised(tmp_path, content):
    (tmp_path / "train.json").write_text(content)
    assert detect(tmp_path / "train.json").source == "opennre"


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "1", "relation": "r", "token": ["a"], "subj_start": 0, "subj_end": 0, "obj_start": 0}',
        '[{"id": "1", "relation": "r", "token": ["a"], "subj_start": 0, "subj_end": 0, "obj_start": 0}]',
        '[{"title": "a", "sents": [["a"]], "vertexSet": [[{"pos": [0, 1]}]], "labels": [{"h": 0, "t": 1, "r": "P1"}]}]',
        '{"tokens": ["a", "b"], "h": ["a", "Q1", [[0]]], "t": ["b", "Q2", [[1]]]}',
    ],
)
def test_other_json_is_not_claimed(tmp_path, content):
    (tmp_path / "train.json").write_text(content)
    try:
        assert detect(tmp_path / "train.json").source != "opennre"
    except UserError as error:
        assert "in no format that is known" in str(error)


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
        (row(h={"id": 7, "pos": [0, 3]}), 'the "id" of an entity must be text; leave it out where there is none'),
        (row(h={"id": ["Q1"], "pos": [0, 3]}), 'the "id" of an entity must be text'),
        (row(source=3), '"source" must be text'),
        (row(expressed="yes"), '"expressed" true or false'),
        (row(relation="\ud800"), "half a character"),
        ('{"relation": "\\uDFFF"}', "half a character"),
        (b"\xff\xfe\n", "not UTF-8 text; convert the file to UTF-8"),
        (row().encode()[:30] + b"\xe9" + row().encode()[30:], "not UTF-8 text"),
    ],
)
def test_a_bad_line_is_counted_with_its_file_and_number(path, line, says):
    sentence, found = broken(path, row(), "", row(), line, *([] if isinstance(line, bytes) else [row()]))
    assert sentence.startswith(f"{path}:4: ")
    assert says in sentence
    assert len(sentence) < 1_000
    assert len(found) == (2 if isinstance(line, bytes) else 3)


def test_a_whole_character_outside_the_basic_plane_may_be_escaped(path):
    [instance] = read(path, row(relation="\N{ROCKET}"))
    assert instance.relation == "\N{ROCKET}"


def test_a_line_number_counts_line_feeds_alone(path):
    odd = row(text="Ann\x85 \u2028was\x0bborn in Bonn .", t={"id": "Q2", "pos": [17, 21]})
    assert "\\u2028" in odd
    raw = json.dumps(json.loads(odd), ensure_ascii=False)
    assert broken(path, raw, raw, "{")[0].startswith(f"{path}:3: ")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.jsonl: No such file"):
        list(items(opennre.read, tmp_path / "none.jsonl"))
