"""The store keeps every sentence as it was, and groups sentences into the bags that brute force finds."""

import json
import shutil
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedrel.corpus import NA
from fedrel.data import store as columns
from fedrel.data.building import build
from fedrel.data.store import Dataset, fact_bags, fact_name, iterate, pair_bags
from fedrel.encoding.vocabulary import from_training
from fedrel.errors import UserError
from tests.instances import ODD, instances, sentence, sentences

few = st.sampled_from(["a", "b", "c"])
collections = st.lists(instances(few, few | st.just(NA)), min_size=1, max_size=12)
FACT = sentence("p", "q", "a")  # so that there is something to learn and to test


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The name of a folder that is not there, again and again."""
    base = tmp_path_factory.mktemp("bags")

    def name(folder="d"):
        shutil.rmtree(base / folder, ignore_errors=True)
        return base / folder

    return name


some = settings(max_examples=40)  # every example is some thirty files


def store(folder, train, dev=(), test=(FACT,), **more) -> Dataset:
    return build(folder, {"train": lambda: train, "dev": lambda: dev, "test": lambda: test}, **more)


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@some
@given(st.lists(instances(), max_size=6), st.lists(instances(), max_size=3))
@example([sentence("a\tb", "c\nd", words=ODD, source="\r\n")], [sentence(words=("", "\n", "x"))])
@example([], [])
def test_what_is_stored_comes_back_identical(fresh, train, dev):
    train, dev = [FACT, *train], dev and [FACT, *dev]
    stored = Dataset(store(fresh(), train, dev).folder)
    for split, given_ in ((stored.train, train), (stored.dev, dev), (stored.test, [FACT])):
        assert list(iterate(stored, split)) == given_
        assert len(split) == len(given_)


@some
@given(collections)
def test_bags_are_those_of_brute_force(fresh, made):
    made = [*made, FACT]
    stored = store(fresh(), made)
    split = stored.train
    by_fact, by_pair = defaultdict(list), defaultdict(list)
    for row, it in enumerate(made):
        by_fact[it.head.id, it.tail.id, it.relation].append(row)
        by_pair[it.head.id, it.tail.id].append(row)
    for (rows, starts), expected in ((fact_bags(split, np.arange(len(split))), by_fact), (pair_bags(split), by_pair)):
        found = [rows[a:b].tolist() for a, b in pairwise(starts)]
        assert sorted(found) == sorted(expected.values())
    facts = {
        (stored.entities[h], stored.entities[t], stored.relations[label])
        for pair, label in split.facts
        for h, t in [split.pair_entities[pair]]
    }
    assert facts == {fact for fact in by_fact if fact[2] != NA}
    assert len(split.facts) == len(facts)


@some
@given(collections, st.data())
def test_bags_of_some_rows_hold_those_rows_alone(fresh, made, data):
    split = store(fresh(), [*made, FACT]).train
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, len(split) - 1)))), dtype=np.int64)
    rows, starts = fact_bags(split, chosen)
    assert sorted(rows) == list(chosen)
    assert starts[0] == 0 and starts[-1] == len(chosen) and (np.diff(starts) > 0).all()
    keys = [{(int(split.pairs[r]), int(split.labels[r])) for r in rows[a:b]} for a, b in pairwise(starts)]
    assert all(len(key) == 1 for key in keys)
    assert len(set.union(set(), *keys)) == len(keys)


@some
@given(collections, st.data())
def test_whoever_holds_some_rows_alone_finds_the_bags_in_the_same_order(fresh, made, data):
    made = [FACT, *made]
    whole = store(fresh("whole"), made, relations=["c", "a", "b"])
    chosen = sorted(data.draw(st.sets(st.integers(0, len(made) - 1), min_size=1)))
    alone = store(fresh("alone"), [made[row] for row in chosen], relations=["c", "a", "b"], part=True)
    rows, starts = fact_bags(whole.train, np.array(chosen))
    own_rows, own_starts = fact_bags(alone.train, np.arange(len(chosen)))
    assert starts.tolist() == own_starts.tolist()
    assert [chosen.index(row) for row in rows] == own_rows.tolist()
    assert [fact_name(whole, whole.train, row) for row in rows] == [
        fact_name(alone, alone.train, row) for row in own_rows
    ]


def test_bags_come_as_their_pairs_appear_and_labels_count(tmp_path):
    made = [sentence("x", "y", "s"), sentence("u", "v", "r"), sentence("x", "y", "r"), sentence("x", "y", "s")]
    split = store(tmp_path / "d", made).train
    assert fact_bags(split, np.arange(4))[0].tolist() == [2, 0, 3, 1]
    assert fact_bags(split, np.array([1, 2, 3]))[0].tolist() == [1, 2, 3]


def test_a_pair_with_two_relations_makes_two_fact_bags_and_one_pair_bag(tmp_path):
    split = store(tmp_path / "d", [sentence(relation="r"), sentence(relation="s"), sentence(relation="r")]).train
    rows, starts = fact_bags(split, np.arange(3))
    assert [rows[a:b].tolist() for a, b in pairwise(starts)] == [[0, 2], [1]]
    assert pair_bags(split)[1].tolist() == [0, 3]
    assert len(split.facts) == 2


def test_direction_makes_a_different_pair(tmp_path):
    split = store(tmp_path / "d", [sentence("x", "y"), sentence("y", "x")]).train
    assert len(split.pair_entities) == 2


@some
@given(collections)
def test_building_twice_gives_the_same_bytes(fresh, made):
    made = [*made, FACT]
    one, other = store(fresh("one"), made), store(fresh("other"), list(made))
    assert bytes_of(one.folder) == bytes_of(other.folder)


def test_relations_are_sorted_after_na_whatever_their_order(tmp_path):
    stored = store(tmp_path / "d", [sentence(relation=name) for name in ("s", NA, "r", "q")])
    assert stored.relations == [NA, "a", "q", "r", "s"]
    assert [stored.relations[n] for n in stored.train.labels] == ["s", NA, "r", "q"]


def test_given_relations_keep_their_order(tmp_path):
    stored = store(tmp_path / "d", [sentence(relation="s")], test=[sentence(relation="r")], relations=["s", "t", "r"])
    assert stored.relations == [NA, "s", "t", "r"]
    assert stored.train.labels.tolist() == [1]
    assert stored.test.labels.tolist() == [3]


def test_given_relations_keep_their_order_without_na_too(tmp_path):
    stored = store(
        tmp_path / "d", [sentence(relation="s")], test=[sentence(relation="r")], relations=["s", "t", "r"], na=False
    )
    assert stored.relations == ["s", "t", "r"]
    assert (stored.train.labels.tolist(), stored.test.labels.tolist()) == ([0], [2])


def test_a_part_may_lack_splits_and_relations_in_train(tmp_path):
    alone = build(tmp_path / "p", {"train": lambda: [sentence(relation=NA)]}, relations=["r"], part=True)
    assert (len(alone.train), len(alone.dev), len(alone.test)) == (1, 0, 0)
    assert alone.relations == [NA, "r"]
    judge = build(tmp_path / "c", {"test": lambda: [FACT]}, relations=["a"], part=True)
    assert (len(judge.train), len(judge.test)) == (0, 1)
    with pytest.raises(UserError, match='no test sentence has a relation other than "NA"'):
        build(tmp_path / "d", {"test": lambda: [sentence(relation=NA)]}, relations=["a"], part=True)


def test_some_rows_alone_come_back_in_the_order_asked_for(tmp_path):
    made = [FACT, *sentences(4)]
    stored = store(tmp_path / "d", made)
    assert list(iterate(stored, stored.train, np.array([5, 0]))) == [made[5], made[0]]


def test_overlap_counts_pairs_in_both_train_and_test(tmp_path):
    train = [sentence("x", "y"), sentence("x", "y", NA), sentence("y", "z"), sentence("u", "v")]
    stored = store(tmp_path / "d", train, dev=[sentence("u", "v")], test=[sentence("x", "y", "s"), sentence("z", "y")])
    with pytest.raises(UserError, match=r"^1 entity pairs are in both train and test.*data\.allow_overlap = true"):
        stored.require_no_overlap(False)
    stored.require_no_overlap(True)


@pytest.mark.parametrize("empty", ["train", "test"])
def test_an_empty_split_is_refused_and_leaves_nothing_behind(tmp_path, empty):
    with pytest.raises(UserError, match=f"the {empty} split is empty"):
        store(tmp_path / "d", **{"train": [FACT], "test": [FACT], empty: []})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_split_without_any_relation_is_refused(tmp_path, split):
    with pytest.raises(UserError, match=f'no {split} sentence has a relation other than "NA"'):
        store(tmp_path / "d", **{"train": [FACT], split: [sentence(relation=NA)]})


def test_an_empty_dev_split_can_be_opened(tmp_path):
    dev = store(tmp_path / "d", [FACT]).dev
    assert (len(dev), len(dev.facts), pair_bags(dev)[1].tolist()) == (0, 0, [0])


def test_a_build_that_fails_while_reading_leaves_nothing_behind(tmp_path):
    def broken():
        yield from sentences(20)
        raise UserError("line 41 is bad")

    with pytest.raises(UserError, match="line 41"):
        build(tmp_path / "d", {"train": broken, "dev": list, "test": lambda: [FACT]})
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_fails_while_writing_leaves_nothing_behind(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        store(tmp_path / "d", [FACT, sentence(words=("\ud800", "x", "y"))])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_somebody_else_finished_meanwhile_is_left_as_it_is(tmp_path):
    first = bytes_of(store(tmp_path / "d", [FACT]).folder)
    again = store(tmp_path / "d", [FACT, sentence("z", "z")])
    assert bytes_of(again.folder) == first
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@some
@given(st.lists(st.tuples(*[st.text("a\t\\t", min_size=1, max_size=4)] * 3), min_size=2, max_size=12, unique=True))
@example([("a", "r\tr", "b"), ("a\tr", "r", "b")])
@example([("a\\", "r", "b"), ("a", "\\r", "b")])
@example([("a\t", "r", "b"), ("a\\t", "r", "b")])
def test_no_two_facts_share_a_key(fresh, facts):
    stored = store(fresh(), [sentence(head, tail, relation) for head, relation, tail in facts])
    keys = {fact_name(stored, stored.train, row) for row in range(len(facts))}
    assert len(keys) == len(facts)


def test_a_fact_has_the_same_key_in_every_store_that_holds_it(tmp_path):
    one = store(tmp_path / "1", [sentence("Q1", "Q2", "r")])
    other = store(tmp_path / "2", [*sentences(6), sentence("Q1", "Q2", "r")])
    assert fact_name(one, one.train, 0) == fact_name(other, other.train, 12) == "Q1\tr\tQ2"


def test_a_model_knows_no_word_that_would_break_its_list_of_words(tmp_path):
    stored = store(tmp_path / "d", [sentence(words=["Word", "word", "a b", *ODD])] * 2)
    vocabulary = from_training(stored, 3)
    assert set(vocabulary.words) >= {"word"}
    everything = from_training(stored, 1)
    (tmp_path / "vocabulary.txt").write_text("\n".join(everything.words), encoding="utf-8")
    again = (tmp_path / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    assert tuple(again) == everything.words
    assert {"", "a b", "\u2028", "\x85"} <= set(again)
    assert everything.lookup(["WORD", "\n", "never seen"]).tolist() == [everything.numbers["word"], 1, 1]


def test_what_the_folder_says_of_itself_is_true(tmp_path):
    stored = store(tmp_path / "d", sentences(6), dev=sentences(4, prefix="d"), notes=["told"], held={"a": 7, "b": 5})
    meta = json.loads((tmp_path / "d" / "meta.json").read_text())
    assert meta["format"] == columns.VERSION
    assert meta["sentences"] == {"train": 12, "dev": 8, "test": 1}
    assert meta["pairs"] == {"train": 6, "dev": 4, "test": 1}
    assert stored.notes == ["told"]
    assert list(stored.held.items()) == [("a", 7), ("b", 5)]
