"""Data sets as published: what `fedrel data check` counts is what the publisher counts."""

import json
from dataclasses import asdict

import pytest

from tests.corpus.published_documents import DOCUMENTS
from tests.corpus.published_rows import ROWS, SIZES, Counts, Row, put
from tests.corpus.published_standoff import STANDOFF, ddi_document, write_ddi

SHAPES = ROWS | DOCUMENTS | STANDOFF


def counted(splits: list[Row]) -> Counts:
    """What a split holds, with what was carved from it."""

    def total(name: str) -> int:
        return sum(it.get(name) or 0 for it in splits)

    related = [it["sentences_per_relation"] for it in splits]
    na = sum(it.get("NA", 0) for it in related)
    return Counts(
        rows=total("rows"),
        documents=total("documents"),
        sentences=total("text_sentences"),
        mentions=total("mentions"),
        gold=total("gold_relations"),
        apart=total("relations_without_a_row"),
        positive=sum(sum(it.values()) for it in related) - na,
        facts=total("facts"),
        na=na,
        left_out=total("left_out"),
    )


@pytest.mark.parametrize("name", SHAPES)
def test_counts_are_those_of_the_publisher(fedrel, tmp_path, name):
    shape = SHAPES[name]
    shape.write(tmp_path)
    done = fedrel("data", "check", tmp_path / shape.path, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["format"] == shape.source
    carved = [it for split, it in found["splits"].items() if split not in shape.splits]
    assert all(it["path"] is None for it in carved)
    for split in shape.splits:
        unit, once = asdict(shape.unit), asdict(shape.extra.get(split, Counts()))
        expected = Counts(**{key: SIZES[split] * count + once[key] for key, count in unit.items()})
        assert counted([found["splits"][split], *(carved if split == "train" else [])]) == expected, split
    assert set(shape.passed_over) <= set(found["passed_over"])
    told = [note for note in found["notes"] if "passed over" in note or "no model" in note]
    assert tuple(told) == shape.notes
    assert found["overlap"] == 0
    assert "duplicate rows" not in found["suspicious"]


def test_an_interaction_that_is_stated_both_ways_is_one(fedrel, tmp_path):
    write_ddi(tmp_path)
    both = ddi_document("DDI.both").replace(
        "</sentence>",
        '<pair id="p9" e1="DDI.both.s0.e1" e2="DDI.both.s0.e0" ddi="true" type="effect"/></sentence>',
        1,
    )
    put(tmp_path, "DDICorpus/Train/DrugBank/both.xml", both)
    found = json.loads(fedrel("data", "check", tmp_path / "DDICorpus", "--json").out)
    train = counted([found["splits"]["train"], found["splits"]["dev"]])
    assert (train.documents, train.gold, train.positive, train.na, train.left_out) == (31, 63, 62, 31, 1)
    assert found["skipped"]["reasons"]["the relation is stated twice for the same two mentions"] == 1
