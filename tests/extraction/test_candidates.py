"""Sightings: what is put in comes out by pair, whether it stayed in memory or went to disk."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.extraction import candidates as module
from fedrel.extraction.candidates import Sightings

words = st.text(max_size=8) | st.sampled_from(["", "é", "👩‍🚀", "\0", "\ud800", "a\nb"])
spots = st.tuples(*[st.integers(0, 9)] * 4)
seen = st.tuples(st.integers(0, 4), st.integers(0, 4), spots, spots)
sentences = st.tuples(
    *(words, st.integers(0, 2**40), words, st.lists(st.integers(0, 99), max_size=5)),
    *(st.none() | st.integers(1, 2**31 - 1), st.lists(seen, max_size=3)),
)


def fill(sightings, given_):
    for *sentence, inside in given_:
        sightings.add_sentence(*sentence)
        for sighting in inside:
            sightings.add(*sighting)
    sightings.close()


def everything(sightings, size, meaning=None, most=1_000):
    """All chunks as (pair, [(tokens, spans, place) …]) and how many sightings each chunk had."""
    found, sizes = [], []
    meaning = np.arange(len(sightings.pairs)) if meaning is None else meaning
    for chunk in sightings.chunks(size, most, meaning):
        split, starts, pairs, rows = chunk.split, chunk.starts, chunk.pairs, chunk.rows
        sizes.append(len(rows))
        assert len(split) == len(rows) == starts[-1]
        assert np.minimum(chunk.seen, most).tolist() == np.diff(starts).tolist()
        for bag, pair in enumerate(pairs.tolist()):
            inside = []
            for at in range(starts[bag], starts[bag + 1]):
                tokens = split.tokens[split.offsets[at] : split.offsets[at + 1]].tolist()
                inside.append((tokens, tuple(split.spans[at].tolist()), sightings.place(int(rows[at]))))
            found.append((tuple(sightings.pairs[pair].tolist()), inside))
    return found, sizes


@pytest.mark.parametrize("buffered", [0, 20, 1 << 20])
@given(given_=st.lists(sentences, max_size=8), size=st.integers(1, 9))
def test_every_pair_comes_once_with_all_its_sightings_in_order(buffered, given_, size):
    expected = {}
    for document, start, text, tokens, page, inside in given_:
        for head, tail, spans, places in inside:
            where = {"document": document, "page": page, "start": start}
            place = {**where, "text": text, "head": places[:2], "tail": places[2:]}
            expected.setdefault((head, tail), []).append((tokens, spans, place))
    with pytest.MonkeyPatch.context() as patch, Sightings() as sightings:
        patch.setattr(module, "_BUFFERED", buffered)
        fill(sightings, given_)
        assert len(sightings) == sum(map(len, expected.values()))
        found, sizes = everything(sightings, size)
    assert found == sorted(expected.items())
    for chunk in sizes:  # more only where a single pair has more
        assert chunk <= size or chunk in map(len, expected.values())


def test_a_pair_goes_to_the_bag_of_the_one_it_stands_for():
    with Sightings() as sightings:
        spots_ = ((0, 1, 1, 2), (0, 1, 2, 3))
        fill(sightings, [("d", n, f"t{n}", [n], [(*pair, *spots_)]) for n, pair in enumerate([(0, 1), (2, 1), (0, 1)])])
        [(pair, inside)], _ = everything(sightings, 9, np.array([0, 0]))
    assert pair == (0, 1)
    assert [place["text"] for *_, place in inside] == ["t0", "t1", "t2"]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 9), st.integers(1, 9))
def test_of_a_pair_seen_too_often_some_are_taken_from_all_over(pairs, size, most):
    spots_ = ((0, 1, 1, 2), (0, 1, 2, 3))
    with Sightings() as sightings:
        fill(sightings, [("d", n, str(n), [n], [(pair, 9, *spots_)]) for n, pair in enumerate(pairs)])
        found, _ = everything(sightings, size, most=most)
    assert [head for (head, _), _ in found] == sorted(set(pairs))
    for (head, _), inside in found:
        everywhere = [n for n, pair in enumerate(pairs) if pair == head]
        taken = [place["start"] for *_, place in inside]
        assert len(taken) == min(len(everywhere), most)
        assert taken == sorted(set(taken) & set(everywhere))
        if len(everywhere) > most:  # one of each stretch of equal length
            stretches = [everywhere.index(n) * most // len(everywhere) for n in taken]
            assert stretches == list(range(most))


def test_little_stays_in_memory_and_much_goes_to_disk_until_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one = ("d", 0, "text", [1, 2], [(0, 1, (0, 1, 1, 2), (0, 1, 2, 3))])
    with Sightings() as sightings:
        fill(sightings, [one])
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(module, "_BUFFERED", 100)
    with Sightings() as sightings:
        fill(sightings, [one] * 100)
        [folder] = tmp_path.iterdir()
        assert (folder / "texts").read_bytes() == b"text" * 100
        assert len(sightings) == 100
        assert len(sightings.pairs) == 1
    assert list(tmp_path.iterdir()) == []


def test_many_pairs_in_one_sentence_go_to_disk_too(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_BUFFERED", 1_000)
    with Sightings() as sightings:
        for _ in range(2):
            sightings.add_sentence("d", 0, "t", [1])
            for pair in range(100):
                sightings.add(0, pair, (0, 1, 0, 1), (0, 1, 0, 1))
        [folder] = tmp_path.iterdir()
        assert Path(folder, "pairs").stat().st_size == 800


def test_nothing_seen_is_nothing_to_score():
    with Sightings() as sightings:
        sightings.close()
        assert (len(sightings), len(sightings.pairs)) == (0, 0)
        assert list(sightings.chunks(4, 9, np.arange(0))) == []
