"""Labels that mean no relation, and new names for labels."""

import pytest

from fedrel.corpus import NA
from fedrel.corpus.rules import Labels, Rules


@pytest.mark.parametrize(
    "label",
    ["NA", "N/A", "none", "NONE", "Other", "no_relation", "No Relation", "no-relation", "norel", "unrelated", "false"],
)
def test_the_usual_names_mean_no_relation(label):
    assert Labels(Rules())(label) == NA


@pytest.mark.parametrize("label", ["nationality", "another", "Component-Whole(e1,e2)", "negative", "0", "CPR:3", "on"])
def test_other_names_are_relations(label):
    assert Labels(Rules())(label) == label


def test_a_label_of_the_users_takes_the_place_of_the_usual_ones():
    labels = Labels(Rules(na_label="nothing"))
    assert [labels(it) for it in ("nothing", "Other", "NA")] == [NA, "Other", NA]
    assert labels.notes() == [
        '1 sentence labelled "nothing", which is taken to mean no relation (data.na_label)',
        'the label "Other" (1 sentence) counts as a relation; if it means no relation, set data.na_label="Other"',
    ]


def test_labels_are_renamed_and_may_become_none():
    labels = Labels(Rules(labels={"CPR:3": "activates", "CPR:10": "NA", "x": "Other"}))
    assert [labels(it) for it in ("CPR:3", "CPR:10", "x", "y")] == ["activates", NA, NA, "y"]


def test_a_relation_that_was_agreed_on_is_one_whatever_it_is_called():
    assert Labels(Rules(), frozenset({"Other"}))("Other") == "Other"


@pytest.mark.parametrize(
    "label", ["negative", "not_sure", "rel:none", "no interaction", "0", "none of the above", "No association"]
)
def test_a_label_that_looks_like_none_of_them_is_named(label):
    labels = Labels(Rules())
    assert labels(label) == label
    assert label in labels.notes()[0]
