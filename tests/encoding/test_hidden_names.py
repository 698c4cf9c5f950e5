"""Names that training hides: stand-ins for words, and sentences with names shown, hidden, or both."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.data.store import fact_bags
from fedrel.encoding.packed import pack
from fedrel.encoding.vectors import Pretrained, stand_ins
from fedrel.encoding.vocabulary import of_words
from fedrel.learning.model import BOTH_VIEWS, HIDDEN, SHOWN
from tests.helpers import random_split, shard_of, small_model

WORDS = 32  # of the model: padding, the unknown word, and those of the split
OF_ONE_KIND = np.r_[0, 1, np.full(15, 3), np.full(15, 20)]  # word 3 stands in for the first half, word 20 for the rest


def hiding_shard(split, numbers=OF_ONE_KIND):
    rows, starts = fact_bags(split, np.arange(len(split)))
    return pack(split, rows, starts, np.arange(WORDS - 2) + 2, reach=5, stand_ins=numbers)


def mentions(split, shard):
    """(T,) 1 in the first mention, 2 in the second, of sentences whose mentions are one word each."""
    marks = torch.zeros(len(shard.tokens), dtype=torch.int64)
    for place, row in enumerate(shard.rows):
        first, second = sorted(int(split.spans[row, begin]) for begin in (0, 2))
        marks[int(shard.starts[place]) + first], marks[int(shard.starts[place]) + second] = 1, 2
    return marks


# ---------------------------------------------------------------------------------------------- shards


@given(st.integers(0, 2**16), st.integers(1, 30))
def test_only_the_words_of_mentions_have_stand_ins(seed, sentences):
    split = random_split(sentences, seed=seed)
    plain, shard = shard_of(split), hiding_shard(split)
    shown, hidden = (shard.vocabulary[column.numpy()] for column in (shard.tokens, shard.hidden))
    assert (shown == plain.vocabulary[plain.tokens.numpy()]).all()
    named = mentions(split, shard).numpy() > 0
    assert (hidden[~named] == shown[~named]).all()
    assert (hidden[named] == OF_ONE_KIND[shown[named]]).all()


def test_a_shard_without_stand_ins_hides_nothing():
    shard = shard_of(random_split(20))
    assert shard.hidden is None and shard.hiding_names(0.9, seed=1) is shard
    assert shard.bags_of(torch.arange(3)).names_hidden() is None


def test_each_mention_is_hidden_by_itself_and_whole():
    split = random_split(4_000, seed=3)
    shard = hiding_shard(split, np.r_[0, np.ones(WORDS - 1, np.int64)])  # every name an unknown word
    unknown = int(np.searchsorted(shard.vocabulary, 1))
    marks, tokens = mentions(split, shard), shard.hiding_names(0.3, seed=5).tokens
    first, second = tokens[marks == 1] == unknown, tokens[marks == 2] == unknown
    for gone in (first, second):
        assert abs(float(gone.float().mean()) - 0.3) < 0.03
    assert abs(float((first[: len(second)] & second).float().mean()) - 0.09) < 0.03
    assert tokens[marks == 0].equal(shard.tokens[marks == 0])


@pytest.mark.parametrize(("share", "column"), [(0.0, "tokens"), (1.0, "hidden")])
def test_none_and_all_are_the_two_views(share, column):
    shard = hiding_shard(random_split(30))
    assert shard.hiding_names(share, seed=1).tokens.equal(getattr(shard, column))


def test_what_is_hidden_depends_on_the_seed_alone():
    shard = hiding_shard(random_split(200))
    assert shard.hiding_names(0.5, 1).tokens.equal(shard.hiding_names(0.5, 1).tokens)
    assert not shard.hiding_names(0.5, 1).tokens.equal(shard.hiding_names(0.5, 2).tokens)


def test_rows_of_stand_ins_travel_too():
    shard = hiding_shard(random_split(30))
    some = torch.tensor([0, 4])
    one, other = (
        set(replace(shard, tokens=it, hidden=None).words_of(some).tolist()) for it in (shard.tokens, shard.hidden)
    )
    assert shard.words_of(some).tolist() == sorted(one | other)


# ---------------------------------------------------------------------------------------------- models


def test_both_views_are_the_mean_of_their_logits():
    shard = hiding_shard(random_split(30))
    model, weights = small_model()
    model.load(weights, shard)

    def logits(view):
        model.hidden_view = view
        return model.classifier(model.vectors(shard))

    shown, hidden, both = logits(SHOWN), logits(HIDDEN), logits(BOTH_VIEWS)
    assert not torch.allclose(shown, hidden, atol=1e-3)
    torch.testing.assert_close(both, (shown + hidden) / 2)


def test_with_names_hidden_a_score_does_not_depend_on_who_is_named():
    split = random_split(30, seed=2)
    tokens = split.tokens.copy()
    for row, (a, _, b, _) in enumerate(split.spans):
        for place in (split.offsets[row] + a, split.offsets[row] + b):
            tokens[place] = (tokens[place] + 1) % 15 if tokens[place] < 15 else (tokens[place] - 14) % 15 + 15
    renamed = replace(split, tokens=tokens)
    found = []
    for it in (split, renamed):
        shard = hiding_shard(it)
        model, weights = small_model()
        model.load(weights, shard)
        found.append({view: model.label_log_odds(shard, view) for view in (HIDDEN, SHOWN)})
    assert found[0][HIDDEN].equal(found[1][HIDDEN]) and not found[0][SHOWN].equal(found[1][SHOWN])


# ---------------------------------------------------------------------------------------------- stand-ins


def vectors_of(kinds: dict[str, list[str]]) -> Pretrained:
    """Words of a kind lie close to each other."""
    draw = np.random.default_rng(1)
    names = [word for words in kinds.values() for word in words]
    middles = {kind: draw.normal(size=20) for kind in kinds}
    rows = [middles[kind] + 0.05 * draw.normal(size=20) for kind, words in kinds.items() for _ in words]
    return Pretrained(names, np.array(rows, dtype=np.float32))


def test_words_of_a_kind_share_a_stand_in_of_that_kind(monkeypatch):
    monkeypatch.setattr("fedrel.encoding.vectors._CLASSES", 2)
    kinds = {"city": [f"city{n}" for n in range(40)], "person": [f"person{n}" for n in range(40)]}
    vocabulary = of_words([*kinds["person"][:20], *kinds["city"][:20], "rare"])
    found = stand_ins(vocabulary, vectors_of(kinds))
    by_kind = {kind: {int(found[vocabulary.numbers[word]]) for word in words[:20]} for kind, words in kinds.items()}
    assert [len(it) for it in by_kind.values()] == [1, 1]
    for kind, numbers in by_kind.items():
        assert vocabulary.words[numbers.pop()].startswith(kind)
    assert found[vocabulary.numbers["rare"]] == 1 and found[0] == 0  # without a vector: the unknown word; padding


def test_without_vectors_every_name_is_an_unknown_word():
    found = stand_ins(of_words(["a", "b"]), None)
    assert found.tolist() == [0, 1, 1, 1]
    assert stand_ins(of_words(["a", "b"]), vectors_of({"city": ["c", "d"]})).tolist() == [0, 1, 1, 1]


def test_stand_ins_follow_from_vectors_and_vocabulary_alone():
    kinds = {kind: [f"{kind}{n}" for n in range(30)] for kind in "abcdef"}
    vectors = vectors_of(kinds)
    vocabulary = of_words(vectors.words)
    assert (stand_ins(vocabulary, vectors) == stand_ins(vocabulary, vectors)).all()
