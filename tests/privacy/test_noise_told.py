"""What people are told of noise: before a run, in its result, and of a platform's account."""

from dataclasses import replace

from fedrel import config
from fedrel.audit.explaining import explain
from fedrel.cli.ledger import given_away
from fedrel.experiment.budget import Budget, noise_notes
from fedrel.privacy.account import Account
from tests.privacy.test_account import FIRST

SETTINGS = [
    *("method.name=none", "dp.epsilon=2", "data.size=600", "partition.platforms=4", "training.rounds=16"),
    *("extractor.filters=4", "extractor.hide_names=0"),
]


def explained(*settings):
    return "\n".join(explain(config.read(None, [*SETTINGS, *settings])))


def test_beforehand_in_words_for_people_who_have_not_heard_of_epsilon():
    sentence = explained("dp.unit=sentence")
    assert "Noise hides any single sentence" in sentence
    assert "ε = 2, δ = 1e-05 after 16 rounds" in sentence
    assert "at most 7.39 times as likely with a sentence as without" in sentence
    assert "says how many sentences it holds" in sentence
    assert "It does not hide who takes part, and when, how many sentences each platform holds." in sentence
    assert 'dp.unit = "sentence"' not in sentence.partition("Less would leave")[2]


def test_of_a_platform_and_of_noise_that_all_know():
    platform = explained("dp.unit=platform", "engine.public_seeds=true")
    assert "Noise hides all text of a platform" in platform
    assert "says how many sentences it holds" not in platform
    assert "it hides nothing" in platform


def test_of_a_result():
    budget = Budget.of(config.read(None, [*SETTINGS, "dp.unit=sentence"]), ("a", "b", "c"))
    [note] = noise_notes(budget.described({"a": 16, "b": 4}))
    assert note.startswith("differential privacy: ε = 2 at δ = 1e-05 for any single sentence, in 16 rounds (noise ")
    [_, warning] = noise_notes({**budget.described({"a": 16}), "public_noise": True})
    assert warning.startswith("warning: the noise is drawn from the experiment's seed")
    assert noise_notes(None) == []


def test_of_an_account(tmp_path):
    path = tmp_path / "privacy.jsonl"
    assert list(given_away(path)) == []
    account = Account.open(path)
    account.add(FIRST)
    account.add(replace(FIRST, run="later", run_id="b" * 32, unit="platform"))
    assert list(given_away(path)) == [
        "run run: 1 noisy answers, ε = 0.926 for any sentence (δ = 1e-05)",
        "run later: 1 noisy answers, ε = 1.99 for any sentence, ε = 0.926 for all that the platform holds (δ = 1e-05)",
        "noisy answers of all runs together: ε = 2.26 for any sentence (δ = 1e-05)",
    ]
