import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.data.store import pair_bags
from fedrel.encoding.packed import pack
from fedrel.encoding.shard import ragged
from tests.helpers import random_split, shard_of


@given(st.integers(0, 2**16), st.integers(1, 30))
def test_packing_keeps_every_token_in_its_place(seed, sentences):
    split = random_split(sentences, seed=seed)
    shard = shard_of(split)
    for place, row in enumerate(shard.rows):
        a, b = int(shard.starts[place]), int(shard.starts[place + 1]) - 1
        words = shard.vocabulary[shard.tokens[a:b].numpy()] - 2
        assert words.tolist() == split.tokens[split.offsets[row] : split.offsets[row + 1]].tolist()
        assert shard.tokens[b] == 0
        head, tail = split.spans[row, 0], split.spans[row, 2]
        within = np.arange(b - a)
        assert (shard.head_distance[a:b].numpy() == np.clip(within - head, -5, 5) + 6).all()
        assert (shard.tail_distance[a:b].numpy() == np.clip(within - tail, -5, 5) + 6).all()
        assert int(shard.piece_lengths[place].sum()) == b - a + 1
        first = min(split.spans[row, 1], split.spans[row, 3])
        assert int(shard.piece_lengths[place, 0]) == first  # up to and including the first entity


@given(st.integers(0, 2**16))
def test_chunks_cover_all_bags_once_and_never_cut_one(seed):
    split = random_split(50, seed=seed)
    rows, starts = pair_bags(split)
    shard = pack(split, rows, starts, np.arange(30) + 2, reach=5)
    seen = [bag for first, last in shard.chunks() for bag in range(first, last)]
    assert seen == list(range(shard.bags))


def test_bags_come_whole():
    shard = shard_of(random_split(40))
    batch = shard.bags_of(torch.tensor([2, 0]))
    sizes = torch.bincount(batch.bag)
    assert sizes.tolist() == shard.bag_sizes(torch.tensor([2, 0])).tolist()
    assert batch.labels.tolist() == [int(shard.labels[shard.bag_starts[2]]), int(shard.labels[0])]


def test_ragged_ranges_end_to_end():
    assert ragged(torch.tensor([5, 0, 9]), torch.tensor([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_who_must_not_see_labels_does_not_find_them_on_another_device():
    shard = shard_of(random_split(6))
    elsewhere = torch.device("meta")
    shard.at(elsewhere)
    bare = shard.unlabelled()
    assert not bare.labels.any() and elsewhere not in bare.copies
    assert shard.labels.any() and shard.at(elsewhere) is shard.copies[elsewhere]
