"""Simulated users: how often they are right, and tables of measured ones."""

from pathlib import Path

import pytest
import torch

from fedrel.errors import UserError
from fedrel.feedback.users import BEHAVIOURS, User, draw_users, judge, read_users

MANY = 20_000
PREDICTED = torch.arange(MANY) % 3
TRUTH = torch.where(torch.arange(MANY) % 10 < 6, PREDICTED, (PREDICTED + 1) % 3)  # 60 % correct
CORRECT = PREDICTED == TRUTH


def verdicts(user, seed=1):
    return judge(PREDICTED, TRUTH, user, torch.Generator().manual_seed(seed))


def table(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "users.csv"
    path.write_text(content, encoding="utf-8")
    return path


def test_who_is_always_right_tells_the_truth_and_who_never_is_the_opposite():
    assert verdicts(User(1.0, 1.0)).equal(CORRECT.to(torch.int8))
    assert verdicts(User(0.0, 0.0)).equal((~CORRECT).to(torch.int8))
    assert verdicts(User(1.0, 0.0)).all()
    assert not verdicts(User(0.0, 1.0)).any()


@pytest.mark.parametrize(("gamma", "delta"), [(0.76, 0.70), (0.79, 0.55), (0.3, 0.5)])
def test_rates_are_those_of_the_user(gamma, delta):
    said = verdicts(User(gamma, delta))
    assert said.dtype == torch.int8
    assert said[CORRECT].float().mean().item() == pytest.approx(gamma, abs=0.015)
    assert 1 - said[~CORRECT].float().mean().item() == pytest.approx(delta, abs=0.015)
    assert said.equal(verdicts(User(gamma, delta)))
    assert not said.equal(verdicts(User(gamma, delta), seed=2))


def test_nothing_predicted_gets_no_verdict():
    nothing = torch.tensor([], dtype=torch.long)
    assert judge(nothing, nothing, User(0.5, 0.5), torch.Generator()).shape == (0,)


@pytest.mark.parametrize(
    ("behaviour", "gamma", "delta"),
    [
        ("low-noise", 10 / 11, 10 / 11),
        ("adversarial", 1 / 11, 1 / 11),
        ("always-positive", 10 / 11, 1 / 11),
        ("always-negative", 1 / 11, 10 / 11),
    ],
)
def test_behaviours_have_the_moments_of_their_beta(behaviour, gamma, delta):
    users = draw_users(behaviour, 2_000, seed=1)
    rates = torch.tensor([(user.gamma, user.delta) for user in users])
    assert ((rates >= 0) & (rates <= 1)).all()
    torch.testing.assert_close(rates.mean(0), torch.tensor([gamma, delta]), rtol=0, atol=0.006)
    variance = 10 / (11**2 * 12)
    torch.testing.assert_close(rates.var(0), torch.tensor([variance, variance]), rtol=0.15, atol=0)
    assert abs(torch.corrcoef(rates.T)[0, 1]) < 0.07  # drawn apart
    assert draw_users(behaviour, 3, seed=1) == users[:3]
    assert draw_users(behaviour, 3, seed=2) != users[:3]


def test_fixed_users_are_all_alike():
    assert draw_users("fixed", 3, seed=1, gamma=0.76, delta=0.7) == [User(0.76, 0.7)] * 3
    assert draw_users("fixed", 2, seed=1) == [User(1.0, 1.0)] * 2
    assert BEHAVIOURS == ("fixed", "low-noise", "adversarial", "always-positive", "always-negative", "table")


def test_measured_users_are_drawn_without_repetition_where_there_are_enough(tmp_path):
    content = "user,gamma,delta\n" + "".join(f"w{i},0.{i},0.5\n" for i in range(1, 10))
    path = table(tmp_path, content)
    drawn = draw_users("table", 9, seed=1, table=path)
    assert sorted(user.gamma for user in drawn) == [i / 10 for i in range(1, 10)]
    assert drawn == draw_users("table", 9, seed=1, table=path)
    assert drawn != draw_users("table", 9, seed=2, table=path)
    assert len(draw_users("table", 30, seed=1, table=path)) == 30


def test_a_weight_says_how_often_a_user_is_drawn(tmp_path):
    path = table(tmp_path, "weight\tuser\tdelta\tgamma\n3\ta\t0\t1\n1\tb\t1\t0\n0\tc\t0.5\t0.5\n\n")
    assert read_users(path) == [(User(1.0, 0.0), 3.0), (User(0.0, 1.0), 1.0), (User(0.5, 0.5), 0.0)]
    drawn = draw_users("table", 2_000, seed=1, table=path)
    assert drawn.count(User(1.0, 0.0)) == pytest.approx(1_500, abs=60)
    assert User(0.5, 0.5) not in drawn


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", r'users.csv:1: the column "user" is missing; the header row needs user, gamma, delta and may have weight'),
        ("user,gamma\na,1\n", r'users.csv:1: the column "delta" is missing'),
        ("user,gamma,delta,gamma\n", r'users.csv:1: the column "gamma" is listed twice'),
        ("user,gamma,delta,age\n", r'users.csv:1: unknown column "age"'),
        ("user,gamma,delta\na,1\n", r"users.csv:2: 2 cells where the header row has 3"),
        ("user,gamma,delta\n\na,1.2,0\n", r'users.csv:3: gamma is "1.2"; it must be a number between 0 and 1'),
        ("user,gamma,delta\na,1,nan\n", r'users.csv:2: delta is "nan"; it must be a number between 0 and 1'),
        ("user,gamma,delta,weight\na,1,1,inf\n", r'users.csv:2: weight is "inf"; it must be a number of at least 0'),
        ('user,gamma,delta\n"a,1,1\n', r"users.csv:2: not a row of a table"),
        ("user,gamma,delta\n ,1,1\n", r"users.csv:2: the user has no name"),
        ("user,gamma,delta\na,1,1\na,0,0\n", r'users.csv:3: the user "a" is listed twice'),
        ("user,gamma,delta\n", r"users.csv: no user is in the table"),
        ("user,gamma,delta,weight\na,1,1,0\n", r"users.csv: no user has a weight above 0"),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, content, sentence):
    with pytest.raises(UserError, match=sentence):
        read_users(table(tmp_path, content))


def test_bad_questions_are_refused(tmp_path):
    with pytest.raises(UserError, match='"low noise" is not a behaviour; did you mean "low-noise"'):
        draw_users("low noise", 1, seed=1)
    with pytest.raises(UserError, match=r"needs feedback.table"):
        draw_users("table", 1, seed=1)
    with pytest.raises(UserError, match="No such file"):
        draw_users("table", 1, seed=1, table=tmp_path / "nothing.csv")
    with pytest.raises(UserError, match=r"feedback.delta = 1.5 is not a probability"):
        draw_users("fixed", 1, seed=1, delta=1.5)
