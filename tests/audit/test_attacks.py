"""Attacks on real runs in a small world: those that must succeed do, and what gives nothing gives chance."""

from functools import cache

import numpy as np
import pytest
import torch

from fedrel.audit import audit
from fedrel.audit.few import words_in_span
from fedrel.audit.finding import looks
from fedrel.audit.labels import divergence
from fedrel.audit.target import hold_out, known_words
from fedrel.audit.words import changed_rows
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare, read_experiment
from fedrel.learning.named import Named, apply_patch, table_patch

SMALL = ("data.size=600", "partition.platforms=4", "extractor.filters=8", "engine.workers=1")


@cache
def attacks(*settings, rounds=3, shadows=0):
    report = audit(read_experiment(None, (*SMALL, *settings)), rounds=rounds, shadows=shadows)
    return {it["attack"]: it for it in report["attacks"]}


def value(found, measure):
    return found["measures"][measure]["value"]


def test_the_words_of_a_platform_are_the_rows_that_it_sends():
    found = attacks()["words"]
    assert value(found, "auc") > 0.99
    assert found["details"]["recall"] == 1.0
    assert found["verdict"] == "succeeds"


def test_a_score_is_a_fingerprint_unless_it_is_rounded():
    found = attacks()["fingerprint"]
    rounded = found["details"]["rounded to"] > 0
    assert value(found, "tpr") < 0.2 if rounded else value(found, "tpr") > 0.4
    if not rounded:
        right = found["details"]["found with the right platform and fact"]
        assert right > 0.8 * found["details"]["found"] > 0


def test_a_fact_is_followed_by_its_key_as_long_as_keys_last():
    assert value(attacks()["linkage"], "key") == 1.0
    found = attacks("method.name=lazy-mil", "method.warmup=0")["linkage"]
    assert value(found, "key") == 0.0
    assert value(found, "place") == 1.0 or value(found, "place") < 0.2  # kept, or in the order of new keys


def test_facts_show_by_the_words_of_both_names():
    assert attacks()["names"]["measures"]["auc"]["interval"][0] > 0.55


def test_members_are_told_from_sentences_that_were_held_out():
    found = attacks("method.name=none", "extractor.filters=64", rounds=6, shadows=2)
    assert found["membership"]["measures"]["auc"]["interval"][0] > 0.52
    assert value(found["model"], "auc") > 0.52
    assert found["model"]["details"]["shadows"] == 2
    assert found["attribution"]["measures"]["auc"]["interval"][0] > 0.55


def test_frozen_vectors_send_no_rows():
    found = attacks("extractor.embeddings=frozen", "method.name=none")
    for name in ("words", "names"):
        assert not found[name]["applies"]
        assert found[name]["why"] == "no row of a word table is sent"
    for name in ("fingerprint", "linkage"):
        assert found[name]["why"] == "no scores of facts are sent"


def test_uneven_labels_show_and_even_ones_do_not():
    uneven = attacks("method.name=none", "partition.kind=dirichlet", "partition.alpha=0.3", "partition.minimum=20")
    assert uneven["labels"]["measures"]["gain"]["interval"][0] > 0.1
    assert value(attacks("method.name=none")["labels"], "gain") < 0.75


@pytest.mark.parametrize("vectors", ["trainable", "frozen"])
def test_the_words_of_a_sentence_that_trained_alone_are_read(vectors, fedrel, tmp_path):
    data = tmp_path / "data"
    assert fedrel("data", "world", "--out", data, "--size", 600).code == 0
    settings = ["data.source=opennre", f"data.path={data}", "data.na=drop", "partition.platforms=20"]
    settings += ["training.metric=micro_f1"]
    settings += [
        "method.name=lazy-mil",
        "method.warmup=0",
        f"extractor.embeddings={vectors}",
        "extractor.filters=64",
        "engine.workers=1",
    ]
    report = audit(read_experiment(None, settings), rounds=2, shadows=0)
    found = next(it for it in report["attacks"] if it["attack"] == "few")
    assert value(found, "share") > 0.02
    assert found["details"]["sentences of the smallest"] <= 3
    if vectors == "trainable":
        assert value(found, "read") == 1.0
        assert found["details"]["precision of the words read"] == 1.0
    else:
        assert value(found, "read") > 0.5


def test_nothing_leaves_a_single_holder_but_its_model():
    found = attacks("partition.platforms=1", rounds=2)
    assert {name for name, it in found.items() if it["applies"]} == {"model"}
    assert found["words"]["why"] == "there is one holder: nothing leaves"


def test_a_model_that_no_platform_trained_tells_nothing():
    found = attacks("method.name=server-only", "partition.server=0.2")
    assert not any(it["applies"] for it in found.values())


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_a_table_that_is_sent_whole_shows_its_words_too(name):
    found = attacks(f"method.name={name}", "training.lr=0.1", "data.size=2000", "partition.platforms=20")
    assert value(found["words"], "auc") > 0.9


def test_an_audit_repeats_exactly():
    one, two = (audit(read_experiment(None, SMALL), rounds=1, shadows=0) for _ in range(2))
    assert [it["measures"] for it in one["attacks"]] == [it["measures"] for it in two["attacks"]]


def test_what_is_held_out_is_a_tenth_of_every_platform_and_nobody_trains_on_it():
    setup = prepare(read_experiment(None, SMALL))
    target = hold_out(setup, 1000)
    trained = {name: set(rows.tolist()) for name, rows in target.setup.sites.rows.items()}
    for name, rows in setup.sites.rows.items():
        assert len(trained[name]) == len(rows) - round(len(rows) / 10)
    for row, member, owner in zip(target.rows.tolist(), target.member, target.owner, strict=True):
        assert (row in trained[target.watched[owner]]) == member
    assert not set(target.rows[~target.member].tolist()) & set().union(*trained.values())


def test_too_few_sentences_are_refused():
    with pytest.raises(UserError, match="an audit needs 20 of them"):
        audit(read_experiment(None, ["data.size=500", "partition.platforms=200"]), rounds=1)


# ------------------------------------------------------------------------------------------ parts


def test_rows_are_read_from_a_patch_and_from_a_table_sent_whole():
    base = Named(words=torch.randn(50, 4, generator=torch.Generator().manual_seed(1)))
    patch = table_patch("words", torch.tensor([3, 7], dtype=torch.int32), torch.ones(2, 4), 0.9)
    for weights in (patch, apply_patch(base, patch)):
        assert np.flatnonzero(changed_rows(base, weights)).tolist() == [3, 7]


def test_words_in_the_span_of_a_change():
    draw = torch.Generator().manual_seed(2)
    table = torch.randn(200, 20, generator=draw)
    change = torch.randn(30, 3, generator=draw).double() @ table[[5, 17, 140]].double()
    assert words_in_span(change, table).tolist() == [5, 17, 140]
    assert words_in_span(torch.randn(30, 20, generator=draw).double(), table).tolist() == []  # all of the space


def test_words_of_a_shard_are_without_padding():
    setup = prepare(read_experiment(None, SMALL))
    words = known_words(setup.sites["p0"].shard)
    assert 0 not in words
    assert len(words) > 50


def test_rounds_that_are_looked_at():
    assert looks(20, 10) == set(range(1, 20, 2))
    assert looks(3, 10) == {0, 1, 2}
    assert looks(1, 2) == {0}


def test_the_divergence_of_a_right_guess_is_zero():
    share = np.array([0.5, 0.5, 0.0])
    assert divergence(share, np.array([0.5, 0.5, 0.1])) == 0
    assert divergence(share, np.array([0.25, 0.75, 0.1])) > 0
