"""The model that ships with fedrel: the first sentences that somebody types, its files, its types."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import fedrel
from fedrel.alignment import kb
from fedrel.corpus import Annotation, Document
from fedrel.errors import UserError
from fedrel.extraction import Fact, GeneralExtractor, load
from fedrel.extraction.extract import Words
from fedrel.extraction.general import FOLDER, MARKERS, SIGNATURES, blinded, fits

LARGEST = 5_000_000  # bytes that the package may carry for it


@pytest.fixture(scope="module")
def general() -> GeneralExtractor:
    extractor = fedrel.load()
    assert isinstance(extractor, GeneralExtractor)
    return extractor


def triples(facts: Iterable[Fact]) -> set[tuple[str, str, str]]:
    return {(fact.head_name, fact.relation, fact.tail_name) for fact in facts}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Marie Curie was born in Warsaw.", ("Marie Curie", "born_in", "Warsaw")),
        ("Camille Laurent was born in Lyon.", ("Camille Laurent", "born_in", "Lyon")),
        ("Jane Austen wrote Pride and Prejudice.", ("Jane Austen", "wrote", "Pride and Prejudice")),
        ("Apple was founded by Steve Jobs.", ("Steve Jobs", "founder_of", "Apple")),
        ("Paris is the capital of France.", ("Paris", "capital_of", "France")),
        ("Tim Cook is the CEO of Apple.", ("Tim Cook", "heads", "Apple")),
        ("Alan Turing studied at Princeton University.", ("Alan Turing", "studied_at", "Princeton University")),
        ("Angela Merkel is married to Joachim Sauer.", ("Angela Merkel", "spouse_of", "Joachim Sauer")),
        ("The Louvre is located in Paris.", ("Louvre", "located_in", "Paris")),
        ("Siemens is headquartered in Munich.", ("Siemens", "headquartered_in", "Munich")),
        ("Schindler's List was directed by Steven Spielberg.", ("Steven Spielberg", "directed", "Schindler's List")),
        ("Tomasz Zielinski was born in Gliwice.", ("Tomasz Zielinski", "born_in", "Gliwice")),  # in no list
    ],
)
def test_the_first_sentence_that_somebody_types_gets_its_fact(
    general: GeneralExtractor, text: str, fact: tuple[str, str, str]
) -> None:
    found = triples(general.extract([text]))
    assert fact in found
    head, relation, tail = fact
    assert found <= {fact, (tail, relation, head)}


@pytest.mark.parametrize(
    "text",
    [
        "A street in London carries the name of Rosalind Franklin.",
        "Marie Curie visited Warsaw in 1913.",
        "Barack Obama met Angela Merkel in Berlin.",
        "Apple sued Samsung over the design of its phones.",
        "Tim Cook flew to Shanghai to open a shop.",
        "London is larger than Paris.",
        "Anna Becker was not born in Bremen.",
    ],
)
def test_two_names_in_a_sentence_are_no_fact(general: GeneralExtractor, text: str) -> None:
    assert not triples(general.extract([text]))


def test_a_last_name_means_the_person_named_in_full(general: GeneralExtractor) -> None:
    [fact] = general.extract(["Marie Curie was a chemist. Curie was born in Warsaw."])
    assert (fact.head, fact.head_name, fact.tail, fact.known) == ("marie curie", "Curie", "warsaw", None)


def test_names_may_come_from_a_knowledge_base_or_from_marks_in_the_text(
    general: GeneralExtractor, tmp_path: Path
) -> None:
    (tmp_path / "entities.tsv").write_text("Q1\tperson\tgrum the elder\nQ2\tcity\tqzil\n", encoding="utf-8")
    (tmp_path / "triples.tsv").write_text("Q1\tborn_in\tQ2\n", encoding="utf-8")
    text = "In his youth, grum the elder was born in qzil."
    [fact] = general.extract([text], kb=kb.load(tmp_path))
    assert (fact.head, fact.relation, fact.tail, fact.known) == ("Q1", "born_in", "Q2", True)
    marks = tuple(
        Annotation(name, text.index(name), text.index(name) + len(name), type_)
        for name, type_ in (("grum the elder", "PER"), ("qzil", "GPE"))
    )
    [fact] = general.extract([Document("d", text, marks)])
    assert (fact.head, fact.relation, fact.tail) == ("grum the elder", "born_in", "qzil")


def test_predict_says_what_holds_between_two_spans(general: GeneralExtractor) -> None:
    text = "Marie Curie was born in Warsaw."
    found = general.predict(text, head=(0, 11), tail=(24, 30))
    assert found.relation == "born_in" and found.confidence > 0.9


def test_relations_hold_between_their_types_alone(general: GeneralExtractor) -> None:
    assert set(general.relations) - {"NA"} == SIGNATURES.keys()
    assert fits("born_in", "person", "place") and fits("born_in", "name", "name")
    assert not fits("born_in", "place", "person") and not fits("capital_of", "place", "event")


def test_names_give_way_to_markers_that_the_vocabulary_knows(general: GeneralExtractor) -> None:
    words = Words.of("Marie Curie, née Skłodowska, left Ulm.")
    names = [(0, 11, "person"), (17, 27, "name"), (34, 37, "place"), (6, 11, "person")]
    tokens, spans = blinded(words, names)
    assert tokens == ["<person>", ",", "née", "<name>", ",", "left", "<place>", "."]
    assert spans == {(0, 11): (0, 1), (6, 11): (0, 1), (17, 27): (3, 4), (34, 37): (6, 7)}
    assert (general.saved.encoding.numbers(MARKERS) > 1).all()


def test_its_files_are_sealed_and_small() -> None:
    files = {path.name: path for path in FOLDER.iterdir()}
    assert files.keys() == {"config.json", "vocabulary.txt", "weights.safetensors"}
    assert sum(path.stat().st_size for path in files.values()) < LARGEST
    described = json.loads(files["config.json"].read_text(encoding="utf-8"))
    assert described["sha256"].keys() == {"vocabulary.txt", "weights.safetensors"}
    assert isinstance(load(FOLDER), GeneralExtractor)  # which compares the digests


def test_it_reads_english_alone(general: GeneralExtractor) -> None:
    with pytest.raises(UserError, match="reads English"):
        list(general.extract(["Marie Curie est née à Varsovie."], language="fr"))
