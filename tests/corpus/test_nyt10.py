"""The original NYT10 format."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrel.corpus import Mention, nyt10
from fedrel.corpus.detection import detect
from fedrel.errors import UserError
from tests.broken_rows import with_a_broken_row
from tests.instances import items


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("nyt10") / "train.txt"


def line(head="m.1", tail="m.2", head_name="ann", tail_name="bonn", relation="/born", text="ann was born in bonn ."):
    return "\t".join((head, tail, head_name, tail_name, relation, text, "###END###")) + "\n"


def read(path: Path, *lines: str | bytes):
    path.write_bytes(b"".join(it if isinstance(it, bytes) else it.encode() for it in lines))
    return list(items(nyt10.read, path))


# A word has no space in it, and a field no tab; anything else goes.
_word = st.text(min_size=1, max_size=6).filter(
    lambda text: text.split() == [text] and "###END###" not in text and text[0] != "\ufeff"
)


@given(
    st.lists(
        st.tuples(_word, _word, _word, st.lists(_word, min_size=1, max_size=6), st.integers(0), st.integers(0)),
        max_size=4,
    )
)
@example([("a", "b", "r", ["new_york", "_", "new", "york"], 0, 3)])
def test_composed_lines_are_read_back(path, made):
    rows, expected = [], []
    for head, tail, relation, tokens, h, t in made:
        h, t = h % len(tokens), t % len(tokens)
        rows.append(line(head, tail, tokens[h], tokens[t], relation, " ".join(tokens)))
        expected.append((head, tail, relation, tokens, tokens.index(tokens[h]), tokens.index(tokens[t])))
    found = read(path, *rows)
    assert [(i.head.id, i.tail.id, i.relation, i.tokens, i.head.start, i.tail.start) for i in found] == expected
    assert all(m.end == m.start + 1 for i in found for m in (i.head, i.tail))
    assert all(i.source == "" and i.expressed is None for i in found)


@given(st.binary(max_size=200) | st.lists(st.sampled_from("a b_\t\n#")).map(lambda it: "".join(it).encode()))
@example(b"a\tb\t\t\tr\t_ ###END###\n")
@example(b"a\tb\tx\tx\tr\tx###END###")
def test_arbitrary_bytes_are_read_or_refused(path, content):
    path.write_bytes(content)
    try:
        for instance in items(nyt10.read, path):
            for mention in (instance.head, instance.tail):
                assert 0 <= mention.start < mention.end <= len(instance.tokens)
    except UserError as error:
        assert str(error).startswith(f"{path}:")


def test_a_name_is_found_where_a_name_inside_it_was_joined(path):
    text = "the los_angeles dodgers of new_york_city won"
    [found] = read(path, line(head_name="los_angeles_dodgers", tail_name="new york city", text=text))
    assert (found.head.start, found.head.end) == (1, 3)
    assert (found.tail.start, found.tail.end) == (4, 5)


def test_the_end_mark_may_stand_in_a_column_or_in_the_sentence(path):
    [one, other] = read(path, line(), line().replace("\t###END###", " ###END###"))
    assert one == other
    assert one.tokens == ["ann", "was", "born", "in", "bonn", "."]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (line()[:20] + "\n", "columns where 6 are needed (is the file cut off?)"),
        (line()[:-5], "does not end with ###END### (is the file cut off?)"),
        (line(head_name="bob"), 'the entity "bob" is not in the sentence; write its name as the sentence has it, with'),
        (line(head_name="onn"), 'the entity "onn" is not in the sentence'),
        (line(head_name="!!"), 'the entity "!!" is not in the sentence'),
        (line(head_name="x" * 999), "is not in the sentence"),
        (line(text="ann and bonn" + " x" * 9_998), "a sentence of 10,001 tokens; at most 10,000 are read: split it"),
        (line(tail_name=""), "has no name"),
        (line(head=" "), "has no name"),
        (line(relation=""), "has no name"),
        (line(text=""), "is not in the sentence"),
        (b"\xff\n", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_line_is_counted_with_its_file_and_number(path, bad, says):
    bad = bad if isinstance(bad, bytes) else bad.rstrip("\n").encode() + b"\n"
    path.write_bytes(line().encode() + b"\n" + bad + line().encode())
    sentence, found = with_a_broken_row(nyt10.read, path)
    assert sentence.startswith(f"{path}:3: ")
    assert says in sentence
    assert len(sentence) < 1_000
    assert [where for where, _ in found] == [f"{path}:1", f"{path}:4"]


@pytest.mark.parametrize(
    ("name", "text", "tokens", "span"),
    [
        ("Bonn", "ann of bonn", ["ann", "of", "bonn"], (2, 3)),
        ("Bonn", "ann of (Bonn), too", ["ann", "of", "(", "Bonn", "),", "too"], (3, 4)),
        ("Bonn", "a Bonn-based ann", ["a", "Bonn", "-based", "ann"], (1, 2)),
        ("Bonn_Mitte", "ann of Bonn-Mitte.", ["ann", "of", "Bonn-Mitte", "."], (2, 3)),
        ("Bonn-Mitte", "ann of bonn_mitte's", ["ann", "of", "bonn_mitte", "'s"], (2, 3)),
        ("Bonn Mitte", "ann of Bonn, Mitte", ["ann", "of", "Bonn,", "Mitte"], (2, 4)),
        ("St._Ann's", "ann of St_Anns now", ["ann", "of", "St_Anns", "now"], (2, 3)),
        ("B.A", "a b.a. for ann", ["a", "b.a", ".", "for", "ann"], (1, 2)),
        ("BONN", "ann of Bonn_am_Rhein, now", ["ann", "of", "Bonn_am_Rhein", ",", "now"], (2, 3)),
        ("STRASSE", "ann of straße", ["ann", "of", "straße"], (2, 3)),
        ("Bonn", "bonnet, ebonn and bonn: ann", ["bonnet,", "ebonn", "and", "bonn", ":", "ann"], (3, 4)),
    ],
)
def test_a_name_in_another_spelling_is_found_and_what_clings_to_it_split_off(path, name, text, tokens, span):
    [found] = read(path, line(tail_name=name, text=text))
    assert found.tokens == tokens
    assert (found.tail.start, found.tail.end) == span
    assert found.tokens[found.head.start : found.head.end] == ["ann"], "counted after the split"


def test_both_names_in_one_token(path):
    [found] = read(path, line(text="the Ann/Bonn. affair"))
    assert found.tokens == ["the", "Ann", "/", "Bonn", ".", "affair"]
    assert (found.head, found.tail) == (Mention("m.1", 1, 2), Mention("m.2", 3, 4))


def test_gids_is_read_and_recognised(tmp_path):
    rows = [
        ("/m/01", "/m/02", "Ann_Lee", "Bonn", "/people/person/place_of_birth", "Ann_Lee was born in Bonn , 1901."),
        ("/m/03", "/m/04", "Bo Roe", "PhD", "/people/person/education./education/education/degree", "Bo_Roe, Ph.D."),
    ]
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        (tmp_path / name).write_text("".join("\t".join(cells) + " ###END###\n" for cells in rows))
    assert detect(tmp_path).source == detect(tmp_path / "dev.tsv").source == "nyt10"
    [one, other] = items(nyt10.read, tmp_path / "test.tsv")
    assert (one.relation, other.relation) == tuple(cells[4] for cells in rows)
    assert other.tokens == ["Bo_Roe", ",", "Ph.D", "."]
    assert (other.head, other.tail) == (Mention("/m/03", 0, 1), Mention("/m/04", 2, 3))


@given(st.text(max_size=9).filter(str.strip), st.text(max_size=30))
def test_a_row_keeps_all_its_characters_however_names_are_found(path, name, text):
    name, text = ("".join(it.replace("\t", " ").splitlines()) for it in (name, text))
    if name.strip() and "###END###" not in text:
        for found in read(path, line(head_name=name, tail_name=name[::-1].strip() or "x", text=text)):
            assert "".join(found.tokens) == "".join(text.split())
            assert all(found.tokens[it.start : it.end] for it in (found.head, found.tail))
