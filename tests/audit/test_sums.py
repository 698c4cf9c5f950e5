"""With secure sums, attacks see what their coordinator sees: nothing tells one platform from another."""

from functools import cache

import pytest

from fedrel.audit import audit
from fedrel.audit.explaining import explain
from fedrel.experiment.assembly import read_experiment

SMALL = ("data.size=600", "partition.platforms=4", "extractor.filters=8", "engine.workers=1")
SECURE = "privacy.sums=secure"


@cache
def attacks(*settings, rounds=3):
    report = audit(read_experiment(None, (*SMALL, *settings)), rounds=rounds, shadows=0)
    assert report["sums"] == ("secure" if SECURE in settings else "off")
    return {it["attack"]: it for it in report["attacks"]}


def value(found, measure):
    return found["measures"][measure]["value"]


def test_rows_of_a_word_table_tell_no_platform_from_another():
    assert value(attacks("method.name=none")["words"], "auc") > 0.99
    assert value(attacks("method.name=none", SECURE)["words"], "auc") < 0.6
    # Facts that many hold have names that are in the vocabulary: so much is known without any update
    assert value(attacks("method.name=none", SECURE)["names"], "auc") < value(
        attacks("method.name=none")["names"], "auc"
    )


def test_shares_of_labels_are_guessed_no_better_than_by_their_mean():
    found = attacks("method.name=none", "partition.kind=dirichlet", SECURE)["labels"]
    assert found["verdict"] == "no better than chance"


def test_no_score_is_a_fingerprint_and_no_fact_is_followed():
    found = attacks("method.name=evidence", SECURE)
    assert found["fingerprint"]["applies"] and value(found["fingerprint"], "auc") < 0.55
    assert value(found["fingerprint"], "tpr") <= 0.1
    assert value(found["linkage"], "key") == 0.0
    assert value(found["linkage"], "place") == 0.0


def test_no_upload_is_of_few_sentences():
    found = attacks("method.name=none", SECURE)["few"]
    assert value(found, "share") == 0.0 and found["details"]["sentences of the smallest"] > 100


def test_whose_a_sentence_is_nobody_can_tell_who_sees_all_platforms_in_every_sum():
    found = attacks("method.name=none", SECURE)["attribution"]
    assert (value(found, "auc"), value(found, "tpr")) == (0.5, 0.0)
    assert found["details"]["platforms that some round tells from others"] == 0
    off = attacks("method.name=none")["attribution"]
    assert off["measures"]["auc"]["interval"][0] > 0.5


def test_who_is_in_which_sum_tells_something_where_not_all_are_in_all():
    found = attacks("method.name=none", "training.fraction=0.75", SECURE, rounds=8)["attribution"]
    assert found["details"]["platforms that some round tells from others"] >= 3
    assert 0.4 < value(found, "auc") < 0.8 and value(found, "auc") != 0.5


@pytest.mark.parametrize("method", ["evidence", "lazy-mil"])
def test_a_platform_looks_up_who_has_what(method):
    """With several times as many slots as facts, hardly one that nobody holds seems to be held."""
    found = attacks(f"method.name={method}", *(["method.warmup=0"] if method == "lazy-mil" else []), SECURE)["lookup"]
    assert value(found, "auc") > 0.9
    assert attacks("method.name=none", SECURE)["lookup"]["why"] == "no table of all facts is sent"


def test_runs_with_noise_are_attacked_by_what_is_left_to_be_seen():
    found = attacks("method.name=none", "dp.unit=sentence", SECURE)
    assert not found["few"]["applies"]
    assert found["few"]["why"] == "nobody is told how many sentences an update was trained on"
    assert value(found["membership"], "auc") < 0.65


@pytest.mark.parametrize("method", ["none", "evidence"])
def test_what_leaves_is_explained(method):
    said = "\n".join(explain(read_experiment(None, (*SMALL, f"method.name={method}", SECURE))))
    assert "added up under a mask" in said
    assert "no platform's own numbers" in said and "platform by platform" not in said
    assert ("how good the best evidence" in said) == (method == "evidence")


def test_secure_sums_are_recommended_where_they_work():
    assert 'privacy.sums = "secure"' in explain(read_experiment(None, (*SMALL, "method.name=none")))[-2]
    assert "privacy.sums" not in "\n".join(explain(read_experiment(None, (*SMALL, "method.name=fedatt"))))
