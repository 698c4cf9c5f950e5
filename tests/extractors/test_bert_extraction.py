"""Facts from text with a transformer: read as in training, and blinded where it was trained blinded."""

import json
from dataclasses import replace

import pytest
import torch

import fedrel as package
from fedrel.corpus import Annotation, Document
from fedrel.encoding.pieces import PieceEncoding
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment.assembly import prepare
from fedrel.experiment.saved import load_model, save_model
from fedrel.extraction.extract import RelationExtractor
from fedrel.extraction.facts import from_json
from tests.algorithms.tiny import experiment


@pytest.fixture(scope="module", params=[False, True], ids=["open", "blind"])
def folder(request, tmp_path_factory):
    """A model that has learnt nothing: every score is different."""
    path = tmp_path_factory.mktemp("bert") / "model"
    setup = prepare(experiment("att", "bert", "data.size=500", f"extractor.blind={str(request.param).lower()}"))
    draw = torch.Generator().manual_seed(1)
    weights = setup.weights
    weights["classifier.weight"] = 0.1 * torch.randn(weights["classifier.weight"].shape, generator=draw)
    save_model(path, setup, weights, Calibration(1.0, 0.0, 0.0, 0.0))
    return path


@pytest.fixture
def extractor(folder) -> RelationExtractor:
    return package.load(folder)


def document(name: str, words: str, *marks: tuple[str, str, str]) -> Document:
    """One sentence with entities (id, type, name) where the text has {}."""
    text, annotations = "", []
    for number, part in enumerate(words.split("{}")):
        text += part
        if number < len(marks):
            id_, type_, called = marks[number]
            annotations.append(Annotation(f"T{number}", len(text), len(text) + len(called), type_, id_))
            text += called
    return Document(name, text, tuple(annotations), sentences=((0, len(text)),))


def confidences(extractor: RelationExtractor, *documents: Document) -> dict[tuple[str, str, str], float]:
    facts = extractor.extract(documents, min_confidence=0.0)
    return {(fact.head, fact.relation, fact.tail): fact.confidence for fact in facts}


ASPIRIN, GOUT = ("C1", "Drug", "aspirin"), ("D1", "Disease", "gout")


def test_facts_of_single_sentences_are_what_predict_says(extractor):
    documents = [
        document("d0", "We know {} eases {} at once.", ASPIRIN, GOUT),
        document("d1", "Neither {} nor {} is here.", ("C2", "", "zinc"), ("D2", "Disease", "ague")),
        document("d2", "{}{} side by side.", ("C3", "Drug", "tea"), ("D3", "", "-cold")),
    ]
    found = confidences(extractor, *documents)
    assert len(found) == len(documents) * 2 * (len(extractor.relations) - 1)
    for it in documents:
        assert it.annotations
        for head, tail in (it.annotations, it.annotations[::-1]):
            said = extractor.predict(
                it.text, head=(head.start, head.end), tail=(tail.start, tail.end), types=(head.type, tail.type)
            )
            for relation, confidence in said.confidences.items():
                assert found[head.id, relation, tail.id] == pytest.approx(confidence, abs=1e-5)


def test_a_blinded_model_sees_types_and_no_names(extractor):
    words = "We know {} eases {} at once."
    plain = confidences(extractor, document("d", words, ASPIRIN, GOUT))
    renamed = confidences(extractor, document("d", words, ("C1", "Drug", "tea and honey"), ("D1", "Disease", "cold")))
    retyped = confidences(extractor, document("d", words, ASPIRIN, ("D1", "Gene", "gout")))
    untold = confidences(extractor, document("d", words, ("C1", "", "aspirin"), ("D1", "", "gout")))
    blind = extractor.saved.extractor.blind
    assert (renamed == pytest.approx(plain, abs=1e-5)) is blind
    assert (retyped == pytest.approx(plain, abs=1e-5)) is not blind
    assert (untold == pytest.approx(plain, abs=1e-5)) is not blind


def test_types_are_those_of_the_right_sentence(extractor):
    """Places are counted from the beginning of a document, and of each sentence in it."""
    one = document("d", "We know {} eases {} at once.", ASPIRIN, GOUT)
    lead = "Nobody is named here. "
    moved = tuple(
        Annotation(it.key, it.start + len(lead), it.end + len(lead), it.type, it.id) for it in one.annotations or ()
    )
    later = Document("d", lead + one.text, moved, sentences=((0, len(lead)), (len(lead), len(lead) + len(one.text))))
    assert confidences(extractor, later) == pytest.approx(confidences(extractor, one), abs=1e-6)
    several = [replace(one, id="a"), document("b", "No {} for {}.", ("C9", "Food", "tea"), ("D9", "", "ague"))]
    both = confidences(extractor, *several)
    assert {key: both[key] for key in confidences(extractor, one)} == pytest.approx(
        confidences(extractor, one), abs=1e-5
    )


def test_sentences_longer_than_the_model_reads_still_tell(extractor):
    far = document("d", "{} " + "and so on " * 60 + "{}", ASPIRIN, GOUT)
    assert all(0 < value < 1 for value in confidences(extractor, far).values())


def test_the_command_reads_documents_with_it(fedrel, folder, tmp_path):
    rows = [
        {
            "id": "d1",
            "text": "We know aspirin eases gout at once.",
            "entities": [
                {"key": "T1", "start": 8, "end": 15, "type": "Drug"},
                {"key": "T2", "start": 22, "end": 26, "type": "Disease"},
            ],
        }
    ]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "facts.jsonl"
    told = ("extract", "--model", folder, "--text", tmp_path / "text.jsonl", "--out", out, "--min-confidence", 0)
    outcome = fedrel(*told)
    assert outcome.code == 0, outcome.err
    facts = [from_json(line) for line in out.read_text().splitlines()]
    marks = ("", "Drug", "aspirin"), ("", "Disease", "gout")
    expected = confidences(package.load(folder), document("d1", "We know {} eases {} at once.", *marks))
    found = {(it.head, it.relation, it.tail): it.confidence for it in facts}
    assert found == pytest.approx(expected, abs=1e-4)  # as many digits are written


def test_it_says_what_it_is(extractor):
    assert repr(extractor).startswith("RelationExtractor(bert, ")


def test_words_are_cut_as_in_training(folder):
    saved = load_model(folder)
    assert isinstance(saved.encoding, PieceEncoding)
    assert saved.encoding.blind is saved.extractor.blind
