"""A platform's account of noisy answers over all runs."""

import math
from dataclasses import replace

import pytest

from fedrel.config import Dp, Engine, Experiment
from fedrel.errors import UserError
from fedrel.privacy.account import Account, Answer
from fedrel.privacy.accounting import epsilon_of
from fedrel.privacy.policy import Policy, Settings

FIRST = Answer("run", "a" * 32, 0, "train", "sentence", 4.0, asked="01", sent="02")


def test_answers_are_kept_and_the_same_answer_counts_once(tmp_path):
    account = Account.open(tmp_path / "ledger" / "privacy.jsonl")
    account.add(FIRST)
    account.add(FIRST)
    account.add(replace(FIRST, round=1))
    account.add(replace(FIRST, run_id="b" * 32, noise=2.0))
    again = Account.open(account.path)
    assert [it.question for it in again.answers] == [it.question for it in account.answers]
    assert again.epsilon("sentence", 1e-5) == epsilon_of(math.sqrt(2 / 16 + 1 / 4), 1e-5)
    assert account.path.stat().st_mode & 0o077 == 0


def test_other_numbers_for_the_same_question_would_show_the_noise(tmp_path):
    account = Account.open(tmp_path / "privacy.jsonl")
    account.add(FIRST)
    with pytest.raises(ValueError, match="would show the noise"):
        account.add(replace(FIRST, sent="03"))


def test_units_count_for_each_other_as_far_as_they_do(tmp_path):
    account = Account(tmp_path / "privacy.jsonl", [FIRST, replace(FIRST, unit="platform", round=1)])
    assert account.epsilon("sentence", 1e-5) == epsilon_of(math.sqrt(1 / 16 + 4 / 16), 1e-5)
    assert account.epsilon("platform", 1e-5) == math.inf


def test_an_incomplete_line_did_not_leave_and_a_damaged_one_is_told(tmp_path):
    path = tmp_path / "privacy.jsonl"
    Account.open(path).add(FIRST)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    account = Account.open(path)
    assert len(account.answers) == 1
    account.add(replace(FIRST, round=1))
    assert len(Account.open(path).answers) == 2
    path.write_bytes(whole.replace(b'"noise":4.0', b'"noise":-4'))
    with pytest.raises(UserError, match=r"privacy\.jsonl:1: damaged"):
        Account.open(path)


def rules(**settings):
    return Policy(settings=Settings(**settings))


def test_a_policy_can_ask_for_noise():
    plain, noisy = Experiment(), Experiment(dp=Dp(unit="sentence"))
    assert rules().objection_to_experiment(plain) is None
    assert "requires noise in what is sent" in rules(epsilon=8.0).objection_to_experiment(plain)
    assert rules(epsilon=8.0).objection_to_experiment(noisy) is None
    assert "hides a whole platform" in rules(epsilon=8.0, epsilon_unit="platform").objection_to_experiment(noisy)
    public = replace(noisy, engine=Engine(public_seeds=True))
    assert "noise that others do not know" in rules(epsilon=8.0).objection_to_experiment(public)


def test_a_policys_epsilon_is_of_all_runs_together(tmp_path):
    account = Account(tmp_path / "privacy.jsonl", [FIRST])
    spent = epsilon_of(0.25, 1e-5)
    both = epsilon_of(math.sqrt(2) / 4, 1e-5)
    new = {"planned": [4.0], "unit": "sentence", "run_id": "b" * 32}
    assert rules().objection_to_epsilon(account, **new) is None
    assert rules(epsilon=both).objection_to_epsilon(account, **new) is None
    assert "over all runs" in rules(epsilon=both * 0.999).objection_to_epsilon(account, **new)
    # of the same run, what was given away is part of what was planned
    assert rules(epsilon=spent).objection_to_epsilon(account, **{**new, "run_id": "a" * 32}) is None
    whole = rules(epsilon=100.0, epsilon_unit="platform")
    assert "over all runs" in whole.objection_to_epsilon(account, **{**new, "unit": "platform"})
