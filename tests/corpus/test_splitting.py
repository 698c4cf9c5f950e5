"""Splits that leak neither a pair nor a sentence."""

from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus.splitting import NEITHER, Draft

TRAIN, DEV, TEST = 0, 1, 2


def draft(*rows: tuple[int, int, bool, int]) -> Draft:
    made = Draft()
    for sentence, pair, is_fact, drawn in rows:
        made.add(sentence, pair, is_fact=is_fact, drawn=drawn)
    return made


def test_sentences_with_one_pair_go_where_their_pair_was_drawn():
    assert list(draft((1, 1, True, TEST), (2, 2, False, DEV), (3, 1, True, TEST)).decide()) == [TEST, DEV, TEST]


def test_a_pair_without_a_relation_follows_the_first_fact_it_stands_beside():
    rows = [(1, 9, False, DEV), (1, 1, True, TEST), (2, 9, False, DEV), (2, 2, True, TRAIN), (3, 9, False, DEV)]
    assert list(draft(*rows).decide()) == [TEST, TEST, NEITHER, TRAIN, TEST]


def test_a_sentence_of_two_facts_goes_to_the_higher_split():
    assert list(draft((1, 1, True, TRAIN), (1, 2, True, TEST)).decide()) == [NEITHER, TEST]


def test_drafts_are_joined():
    one, other = draft((1, 1, True, TEST)), draft((2, 2, False, DEV))
    one.extend(other)
    assert one == draft((1, 1, True, TEST), (2, 2, False, DEV))


def test_chance_leaves_no_split_without_a_fact():
    rows = [(n, n, True, TRAIN) for n in range(10)]
    decided = draft(*rows).decide_with_facts({DEV: 0.1, TEST: 0.2})
    assert [decided.count(split) for split in (TRAIN, DEV, TEST)] == [7, 1, 2]
    assert draft(*rows[::-1]).decide_with_facts({DEV: 0.1, TEST: 0.2}) == decided[::-1], "the order of rows is nothing"
    drawn = draft(*rows[:8], (8, 8, True, DEV), (9, 9, True, TEST))
    assert drawn.decide_with_facts({DEV: 0.1, TEST: 0.1}) == drawn.decide(), "nothing to mend"


def test_too_few_facts_stay_where_they_were_drawn():
    one = draft((1, 1, True, TRAIN), (2, 2, False, DEV))
    assert list(one.decide_with_facts({DEV: 0.1, TEST: 0.1})) == [TRAIN, DEV]
    together = draft((1, 1, True, TRAIN), (1, 2, True, TRAIN))  # in one sentence
    assert list(together.decide_with_facts({TEST: 0.1})) == [TRAIN, TRAIN]
    two = draft((1, 1, True, TEST), (2, 2, True, TEST))
    assert sorted(two.decide_with_facts({TEST: 0.1})) == [TEST, TEST]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.booleans()), max_size=20), st.randoms())
def test_no_pair_and_no_sentence_is_in_two_splits(rows, random):
    drawn = {pair: random.choice([TRAIN, DEV, TEST]) for pair in range(7)}
    decided = draft(*((sentence, pair, is_fact, drawn[pair]) for sentence, pair, is_fact in rows)).decide()
    kept_apart(rows, decided)
    for (_, pair, is_fact), split in zip(rows, decided, strict=True):
        assert not is_fact or split in (drawn[pair], NEITHER)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=20))
def test_drawing_again_keeps_pairs_and_sentences_apart(rows):
    kept_apart(rows, draft(*((*row, TRAIN) for row in rows)).decide_with_facts({DEV: 0.3, TEST: 0.3}))


def kept_apart(rows, decided):
    """No pair and no sentence is in two splits."""
    assert len(decided) == len(rows)
    kept = [(row, split) for row, split in zip(rows, decided, strict=True) if split != NEITHER]
    for place in (0, 1):
        found: dict[int, int] = {}
        for row, split in kept:
            assert found.setdefault(row[place], split) == split
