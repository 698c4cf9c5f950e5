"""Words that are agreed on without anybody's private text: public vectors, the coordinator's own text, a file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel import config
from fedrel.config import Extractor
from fedrel.data.building import build
from fedrel.data.store import Dataset
from fedrel.encoding.vocabulary import PADDING, UNKNOWN, Vocabulary, agreed, of_words, read_words, unknown_share
from fedrel.errors import UserError
from fedrel.experiment import assembly
from tests.helpers import vocabulary_of
from tests.instances import ODD, sentence

NOBODY = np.zeros(0, dtype=np.int64)


def stored(folder: Path, train: list[list[str]], dev: list[list[str]]) -> Dataset:
    def made(texts):
        return lambda: [sentence(words=words) for words in texts]

    return build(folder, {"train": made(train), "dev": made(dev), "test": made([["Test", "only", "here"]])})


def words(vocabulary: Vocabulary | None) -> list[str]:
    assert vocabulary is not None
    assert vocabulary.words[:2] == (PADDING, UNKNOWN)
    return list(vocabulary.words[2:])


TRAIN = [["Private", "x", "y"], ["own", "The", "c"], ["secret", "name", "z"]]
DEV = [["the", "Zebra", "b"], ["THE", "b", "a"]]


def test_without_vectors_the_public_words_are_those_of_the_coordinators_own_text(tmp_path):
    dataset = stored(tmp_path / "d", TRAIN, DEV)
    public = Extractor(vocabulary="public")
    assert words(agreed(public, dataset, NOBODY)) == ["a", "b", "the", "zebra"]
    assert words(agreed(public, dataset, np.array([1]))) == ["a", "b", "c", "own", "the", "zebra"]


def test_their_order_does_not_tell_what_else_is_in_the_store(tmp_path):
    whole = stored(tmp_path / "whole", TRAIN, DEV)
    alone = stored(tmp_path / "alone", [TRAIN[1]], DEV)
    public = Extractor(vocabulary="public")
    assert agreed(public, whole, np.array([1])) == agreed(public, alone, np.array([0]))


def test_with_vectors_the_public_words_are_all_that_have_one_and_no_text_is_read(tmp_path):
    dataset = stored(tmp_path / "d", TRAIN, DEV)
    assert words(agreed(Extractor(vocabulary="public"), dataset, NOBODY, ["zoo", "The", "the", "a"])) == [
        *("zoo", "the", "a")
    ]


def test_the_words_of_a_file_alone_or_beside_the_public_ones(tmp_path):
    dataset = stored(tmp_path / "d", TRAIN, DEV)
    file = tmp_path / "words.txt"
    file.write_bytes("\ufeffGout\r\n\n  ague \nthe\ngout\n".encode())
    assert read_words(file) == ["Gout", "ague", "the", "gout"]
    assert words(agreed(Extractor(vocabulary=str(file)), dataset, NOBODY)) == ["gout", "ague", "the"]
    assert words(agreed(Extractor(vocabulary=f"public+{file}"), dataset, NOBODY)) == [
        *("a", "b", "the", "zebra", "gout", "ague")
    ]
    assert words(agreed(Extractor(vocabulary=f"public+{file}"), dataset, NOBODY, ["one"])) == [
        *("one", "gout", "ague", "the")
    ]


def test_a_file_of_words_that_is_none_is_refused(tmp_path):
    with pytest.raises(
        UserError, match=r'pblic: no such file; extractor\.vocabulary is "training", "public", "public\+'
    ):
        read_words(tmp_path / "pblic")
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(UserError, match=r"empty: no words; write one per line$"):
        read_words(tmp_path / "empty")
    (tmp_path / "latin").write_bytes(b"word\ncaf\xe9\n")
    with pytest.raises(UserError, match="latin:2: not UTF-8 text"):
        read_words(tmp_path / "latin")


@given(st.lists(st.text(max_size=4) | st.sampled_from([*ODD, PADDING, UNKNOWN])))
def test_every_word_has_one_number_and_a_list_of_words_is_read_back(given_):
    vocabulary = of_words(given_)
    assert len(vocabulary.numbers) == len(vocabulary)
    assert "\n".join(vocabulary.words).split("\n") == list(vocabulary.words)
    assert of_words(vocabulary.words) == vocabulary
    assert all(word.lower() in vocabulary.numbers for word in given_ if not {"\r", "\n"} & set(word.lower()))


def test_unknown_words_are_counted_as_often_as_they_stand_there(tmp_path):
    dataset = stored(tmp_path / "d", [["The", "cat", "met", "the", "cat"], ["a", "b", "c"]], DEV)
    vocabulary = of_words(["the", "b"])
    assert unknown_share(dataset, dataset.train, vocabulary) == (5, 8)
    assert unknown_share(dataset, dataset.dev, vocabulary) == (2, 6)
    assert unknown_share(dataset, dataset.dev, of_words(["the", "b", "a", "zebra"])) == (0, 6)


def prepared(*settings: str) -> tuple[assembly.Setup, list[str]]:
    told: list[str] = []
    small = ["data.size=600", "partition.platforms=3", "extractor.filters=4", "method.name=fedavg"]
    return assembly.prepare(config.read(None, [*small, *settings]), say=told.append), told


def test_a_run_says_how_many_words_nobody_agreed_on():
    setup, told = prepared("extractor.vocabulary=public")
    unknown, running = unknown_share(setup.dataset, setup.dataset.train, vocabulary_of(setup))
    assert 0 < unknown < running
    assert told[-1] == (
        f"{unknown:,} of the {running:,} running words of train are not among the {len(setup.encoding) - 2:,} agreed on"
    )
    assert not any("agreed on" in line for line in prepared()[1])


def test_the_servers_own_sentences_are_public_and_no_others():
    without, with_ = (
        prepared("extractor.vocabulary=public", f"partition.server={share}")[0].encoding for share in (0, 0.3)
    )
    assert len(without) < len(with_)


@pytest.mark.parametrize("vocabulary", ["public", "public+words.txt", "words.txt"])
def test_random_vectors_that_nobody_trains_are_refused(vocabulary):
    with pytest.raises(UserError) as caught:
        prepared(f"extractor.vocabulary={vocabulary}", "extractor.embeddings=frozen")
    assert str(caught.value) == (
        f'extractor.vocabulary = "{vocabulary}": random vectors that stay as they are tell the model nothing about '
        'words; set extractor.vectors = "glove" or a file, or extractor.embeddings = "trainable"'
    )


def test_frozen_vectors_of_all_words_are_held_once_and_a_platform_loads_its_own_rows_alone(tmp_path):
    file = tmp_path / "vectors.txt"
    names = ["the", "in", "of", *(f"word{n}" for n in range(500))]
    file.write_text("".join(f"{name} {n} 1 2\n" for n, name in enumerate(names)))
    setup, _ = prepared(
        *("extractor.vocabulary=public", f"extractor.vectors={file}", "extractor.word_dim=3"),
        *("extractor.embeddings=frozen", "extractor.spread=0"),
    )
    model = setup.model
    assert len(setup.encoding) == len(names) + 2
    assert model.frozen_words is not None and model.frozen_words.shape == (505, 3)
    assert model.twin().frozen_words is model.frozen_words
    assert "words" not in setup.weights
    site = setup.sites["p0"]
    model.load(setup.weights, site.shard)
    assert len(model.encoder.words.rows) == len(site.shard.vocabulary) <= 5
    assert model.frozen_words[2:, 0].tolist() == list(range(503))
