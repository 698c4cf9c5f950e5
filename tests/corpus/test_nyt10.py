"""The original NYT10 format."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrel.corpus import nyt10
from fedrel.errors import UserError
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
        (line(head_name="bob"), 'the entity "bob" is not in the sentence'),
        (line(tail_name=""), "has no name"),
        (line(head=" "), "has no name"),
        (line(relation=""), "has no name"),
        (line(text=""), "is not in the sentence"),
        (b"\xff\n", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_line_is_refused_with_its_file_and_number(path, bad, says):
    with pytest.raises(UserError) as caught:
        read(path, line(), "\n", bad)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert says in str(caught.value)
