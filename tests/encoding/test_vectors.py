"""Word vectors from a file: which rows they fill, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.encoding import vectors
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.errors import UserError


def vector_file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


VOCABULARY = Vocabulary(("<pad>", "<unk>", "the", "cat", "never"))


def test_a_file_of_word_vectors_fills_the_rows_of_its_words(tmp_path):
    file = vector_file(tmp_path / "v.txt", "3 2\nThe 1 2\nthe 5 6 \n\ncat -0.5 1e-3\nother 7 8\n")
    table = vectors.initial_table(VOCABULARY, 2, vectors.load(str(file)), 1)
    assert table[0].tolist() == [0, 0]
    assert table[2].tolist() == [1, 2], "the first, which is the more frequent"
    assert table[3].tolist() == pytest.approx([-0.5, 1e-3])
    random = vectors.initial_table(VOCABULARY, 2, None, 1)
    assert table[[1, 4]].tolist() == random[[1, 4]].tolist()


def test_vectors_of_one_number_are_not_taken_for_a_headline(tmp_path):
    file = vector_file(tmp_path / "v.txt", "the 0.5\ncat 2\n")
    assert vectors.load(str(file)).words == ["the", "cat"]


def test_vectors_that_share_no_word_leave_the_table_random(tmp_path):
    file = vector_file(tmp_path / "v.txt", "dog 1 2\n")
    table = vectors.initial_table(VOCABULARY, 2, vectors.load(str(file)), 1)
    assert (table == vectors.initial_table(VOCABULARY, 2, None, 1)).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("the 1 2\ncat 1\n", ":2: expected a word and 2 numbers"),
        ("the 1 2\ncat 1 2 3\n", ":2: expected a word and 2 numbers"),
        ("the 1 2\ncat\n", ":2: expected a word and 2 numbers"),
        ("the 1 2\n\ncat 1 two\n", ":3: expected a word and 2 numbers"),
        ("the 1 2\ncat 1 nan\n", ":2: expected a word and 2 numbers"),
        ("the 1 1e39\n", ":1: expected a word and its numbers"),
        ("the 1 inf\n", ":1: expected a word and its numbers"),
        ("the\t1\t2\n", ":1: expected a word and its numbers"),
        ("the one two\n", ":1: expected a word and its numbers"),
        (b"the 1 2\ncaf\xe9 1 2\n", ":2: not UTF-8 text"),
        ("", ": no word vectors"),
        ("400000 50\n", ": no word vectors"),
    ],
)
def test_a_bad_file_of_word_vectors_is_refused_with_its_line(tmp_path, content, says):
    file = vector_file(tmp_path / "v.txt", content)
    with pytest.raises(UserError) as caught:
        vectors.load(str(file))
    assert str(caught.value).startswith(f"{file}{says}")


def test_missing_word_vectors_and_another_dimension_are_refused(tmp_path):
    with pytest.raises(UserError, match=r'glov: no such file; extractor\.vectors is "random", "glove" or a file'):
        vectors.load(str(tmp_path / "glov"))
    pretrained = vectors.load(str(vector_file(tmp_path / "v.txt", "the 1 2 3\n")))
    with pytest.raises(UserError, match=r"3 dimensions; set extractor\.word_dim = 3"):
        vectors.initial_table(VOCABULARY, 50, pretrained, 1)


@given(st.binary(max_size=60) | st.text("a1 .\n-e", max_size=40).map(str.encode))
def test_arbitrary_bytes_are_word_vectors_or_refused(tmp_path_factory, content):
    file = vector_file(tmp_path_factory.getbasetemp() / "arbitrary.txt", content)
    try:
        loaded = vectors.load(str(file))
    except UserError as error:
        assert str(error).startswith(str(file))
    else:
        assert loaded.vectors.shape[0] == len(loaded.words) > 0
