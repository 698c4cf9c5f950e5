import pytest

from fedrel.errors import UserError
from fedrel.sweeps.choosing import chosen_options, edges, options_of, read_choices, read_grid


def runs(**dev):
    """Runs of one row, by the value of `a`: the dev score of each, None if it diverged."""
    return [
        {"row": "r", "column": "c", "option": [f"a={value[1:]}"], "dev_score": score}
        for value, scores in dev.items()
        for score in scores
    ]


def test_options_are_all_combinations():
    grid = read_grid({"a.b": [1, 0.5], "c.d": ["x"]}, "here")
    assert options_of(grid) == (("a.b=1", "c.d=x"), ("a.b=0.5", "c.d=x"))
    assert read_choices(["a.b=1,0.5", "c.d=x"]) == grid
    assert options_of(()) == ((),)


@pytest.mark.parametrize("value", [3, {"a": 1}, {"a": []}, {"a": [[1]]}])
def test_a_grid_that_is_none_is_refused(value):
    with pytest.raises(UserError, match=r"^here.* must be a "):
        read_grid(value, "here")


@pytest.mark.parametrize("text", ["a", "a=", "a=1,,2", "a=1,"])
def test_a_choice_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="write it as key=value,value"):
        read_choices([text])


def test_dev_chooses_by_its_mean_over_all_runs():
    best, told = chosen_options(runs(_1=[0.9, 0.1], _2=[0.6, 0.5]))
    assert best == {("r", "c"): ["a=2"]}
    assert [(it["settings"], it["dev"], it["n"], it["chosen"]) for it in told] == [
        (["a=1"], 0.5, 2, False),
        (["a=2"], 0.55, 2, True),
    ]


def test_settings_that_diverge_lose_and_of_equal_ones_the_first_wins():
    assert chosen_options(runs(_1=[0.9, None], _2=[0.5, 0.5], _3=[0.5, 0.5]))[0] == {("r", "c"): ["a=2"]}
    assert chosen_options(runs(_1=[None], _2=[None]))[0] == {("r", "c"): ["a=1"]}


def test_without_a_choice_nothing_is_told_of_it():
    row = {"row": "r", "column": "c", "option": [], "dev_score": 0.5}
    assert chosen_options([row]) == ({("r", "c"): []}, [])


@pytest.mark.parametrize(("best", "warned"), [("_1", 1), ("_2", 0), ("_10", 1)])
def test_a_best_number_at_an_end_of_its_grid_is_told(best, warned):
    scores = {"_1": [0.1], "_2": [0.2], "_10": [0.15]} | {best: [0.9]}
    found = edges(chosen_options(runs(**scores))[1])
    assert len(found) == warned
    assert all(it.startswith(f"r, c: the best a on dev, {best[1:]}, lies at an end") for it in found)


def test_words_and_pairs_have_no_ends():
    for scores in ({"_x": [0.9], "_y": [0.1], "_z": [0.2]}, {"_1": [0.9], "_2": [0.1]}):
        assert edges(chosen_options(runs(**scores))[1]) == []
