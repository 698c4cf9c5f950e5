"""Data sets as published: what `fedrel data check` counts is what the publisher counts."""

import json
from dataclasses import asdict

import pytest

from tests.corpus.published_documents import DOCUMENTS
from tests.corpus.published_rows import ROWS, SIZES, Counts
from tests.corpus.published_standoff import STANDOFF

SHAPES = ROWS | DOCUMENTS | STANDOFF


def counted(splits: list[dict]) -> Counts:
    """What a split holds, with what was carved from it."""

    def total(name: str) -> int:
        return sum(it.get(name) or 0 for it in splits)

    related = [it["sentences_per_relation"] for it in splits]
    na = sum(it.get("NA", 0) for it in related)
    return Counts(
        *(total(name) for name in ("rows", "documents", "text_sentences", "mentions", "gold_relations")),
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
    assert found["overlap"] == 0
    assert "duplicate rows" not in found["suspicious"]
