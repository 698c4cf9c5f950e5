"""The built-in world as documents and a knowledge base."""

import re

import pytest

from fedrel.alignment import kb as kbs
from fedrel.alignment.label import Labeller, Rules
from fedrel.corpus import world_text
from fedrel.corpus.documents import Documents
from fedrel.corpus.sentences import sentence_spans
from fedrel.corpus.world import World
from fedrel.corpus.world_phrases import phrases

WORLD = World(size=1_000)
SYMMETRIC = {relation.name for relation in phrases().relations if relation.symmetric}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("world")
    world_text.write(WORLD, path)
    return path


def rows(path):
    return [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_world_is_the_same_bytes(folder, tmp_path):
    world_text.write(WORLD, tmp_path)
    assert contents(tmp_path) == contents(folder)
    assert not any(b"\r" in content for content in contents(folder).values())


def test_the_knowledge_base_has_what_text_says_and_half_of_what_new_says(folder):
    known = set(rows(folder / "kb" / "triples.tsv"))
    truth = {part: [row[:3] for row in rows(folder / "truth.tsv") if row[3] == part] for part in ("text", "new")}
    assert len(truth["text"]) + len(truth["new"]) == len(rows(folder / "truth.tsv"))
    assert set(truth["text"]) <= known
    new = {frozenset((head, relation, tail)) for head, relation, tail in truth["new"]}
    new_and_known = {frozenset(fact) for fact in truth["new"] if fact in known}
    assert len(new_and_known) == pytest.approx(len(new) / 2, abs=1)
    assert known == set(truth["text"]) | {fact for fact in truth["new"] if frozenset(fact) in new_and_known}
    pairs = {part: {frozenset((head, tail)) for head, _, tail in truth[part]} for part in truth}
    assert not pairs["text"] & pairs["new"]


def test_the_facts_are_those_of_the_world_symmetric_ones_in_both_directions(folder):
    truth = {row[:3] for row in rows(folder / "truth.tsv")}
    straight = set(WORLD.triples())
    assert truth == straight | {(tail, relation, head) for head, relation, tail in straight if relation in SYMMETRIC}
    kb = kbs.load(folder / "kb")
    assert {kb.relations[number] for number in kb.symmetric} == SYMMETRIC & set(kb.relations)
    assert set(kb.problems.counts) <= {kbs.AMBIGUOUS}


@pytest.mark.parametrize("part", ["text", "new"])
def test_documents_read_like_text(folder, part):
    for path in (folder / part).iterdir():
        assert re.fullmatch(r"[a-z-]+-\d{3}\.txt", path.name)
        lines = path.read_text(encoding="utf-8").splitlines()
        assert 1 <= len(lines) <= world_text._SENTENCES
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            assert line != following
            assert not re.search(r"\s[,.;:!?)]|\(\s|\s's\b|\s\s|^\s|\s$", line), line


def test_a_line_is_a_sentence(folder):
    lines = split = 0
    for path in (folder / "text").iterdir():
        text = path.read_text(encoding="utf-8")
        spans = {text[start:end] for start, end in sentence_spans(text)}
        lines += len(set(text.splitlines()))
        split += len(set(text.splitlines()) - spans)
    assert split < 0.01 * lines


def test_its_facts_are_found_by_their_names(folder):
    kb = kbs.load(folder / "kb")
    batch = Labeller(kb, Rules()).label(Documents(folder / "text"))
    named = {row[:3] for row in rows(folder / "truth.tsv") if row[3] == "text"}
    assert len(batch.facts & named) > 0.95 * len(named)
    assert batch.skipped.total == 0
