"""With secure sums, attacks see what their coordinator sees: nothing tells one platform from another."""

from functools import cache

import pytest

from fedrel.audit import audit
from fedrel.audit.explaining import explain
from fedrel.experiment.assembly import read_experiment

SMALL = ("data.size=600", "partition.platforms=4", "extractor.filters=8", "engine.workers=1")
SECURE = "privacy.sums=secure"


@cache
def attacks(*settings):
    report = audit(read_experiment(None, (*SMALL, *settings)), rounds=3, shadows=0)
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
