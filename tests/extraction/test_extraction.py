"""From text to facts: the scores are those of the evaluation, the places are exact, and every mistake is a sentence."""

import gc
import random
import tempfile
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.alignment.kb import KB
from fedrel.alignment.kb import load as load_kb
from fedrel.corpus import Annotation, Document, Instance, Mention
from fedrel.corpus.tokens import token_span, tokenize
from fedrel.data.building import build
from fedrel.data.store import pair_bags
from fedrel.encoding.packed import pack
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Calibration, sigmoid
from fedrel.experiment.saved import SavedModel
from fedrel.extraction import candidates, extract
from fedrel.extraction.extract import RelationExtractor
from fedrel.extraction.facts import Fact
from fedrel.extraction.predictions import Prediction
from tests.experiment.test_saved import prepared
from tests.helpers import vocabulary_of

CALIBRATION = Calibration(0.6, 0.8, 0.2, 0.1)
LIVES, BORN = "person/lives_in", "person/born_in"
SENTENCE = "Ann was born in Bonn, and left."


def extractor_of(method="none", **settings_) -> RelationExtractor:
    """A small model that has learnt nothing: every score is different, and none is near 0 or 1."""
    setup = prepared(method, **settings_)
    saved = SavedModel(
        setup.model.twin(),
        setup.weights,
        setup.encoding,
        setup.dataset.relations,
        True,
        True,
        setup.experiment.extractor,
        CALIBRATION,
        "0",
    )
    return RelationExtractor(saved)


@pytest.fixture(scope="module")
def extractor() -> RelationExtractor:
    return extractor_of()


def marked(document: str, pieces: list[str | tuple[str, str]]) -> Document:
    """A document of words and, as (id, name), entities, with a blank after each."""
    text = ""
    annotations: list[Annotation] = []
    for piece in pieces:
        if isinstance(piece, tuple):
            key = f"T{len(annotations)}"
            annotations.append(Annotation(key, len(text), len(text) + len(piece[1]), "", piece[0]))
        text += (piece if isinstance(piece, str) else piece[1]) + " "
    return Document(document, text[:-1], tuple(annotations))


def some_documents(count=40, entities=8, seed=0) -> list[Document]:
    """One sentence each, about two entities, in words of which the model knows some."""
    draw = random.Random(seed)
    words = [*vocabulary_of(prepared()).words[2:40], "zebra", "Ünïcode", "x1"]
    made = []
    for number in range(count):
        one, other = draw.sample(range(entities), 2)
        parts = [draw.choices(words, k=draw.randrange(1, 6)) for _ in range(3)]
        first, second = (f"Q{one}", f"Name{one}"), (f"Q{other}", f"Name {other}")
        made.append(marked(f"d{number}", [*parts[0], first, *parts[1], second, *parts[2]]))
    return [replace(it, sentences=((0, len(it.text)),)) for it in made]


def by_fact(facts) -> dict[tuple[str, str, str], Fact]:
    listed = list(facts)
    found = {(it.head, it.relation, it.tail): it for it in listed}
    assert len(found) == len(listed), "a fact came twice"
    return found


def assert_same(one: dict[tuple[str, str, str], Fact], other: dict[tuple[str, str, str], Fact]) -> None:
    assert one.keys() == other.keys()
    for key, fact in one.items():
        assert fact.confidence == pytest.approx(other[key].confidence, abs=1e-6)
        assert (fact.known, fact.sentences) == (other[key].known, other[key].sentences)
        if fact.sentences <= extract.SHOWN:
            assert {s.document for s in fact.support} == {s.document for s in other[key].support}


def base(folder, entities: str, triples: str, relations: str = "") -> KB:
    """From `Q1 person Ann|Annie; …` and `Q1 person/lives_in Q2; …`."""
    folder.mkdir(exist_ok=True)
    for name, rows, columns in (("entities", entities, 2), ("triples", triples, 2), ("relations", relations, 2)):
        if rows:
            lines = ["\t".join(row.strip().split(" ", columns)) + "\n" for row in rows.split(";")]
            (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return load_kb(folder)


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> KB:
    return base(
        tmp_path_factory.mktemp("people"),
        "Q1 person Ann Meler|Meler; Q2 person Bea Meler|Meler; Q3 person Cem;"
        "Q8 city Bonn; Q9 city Lyon; Q10 river Elbe",
        f"Q1 {LIVES} Q8; Q2 {BORN} Q9; Q3 {BORN} Q8",
    )


# ------------------------------------------------------------------------------------ the scores of the evaluation


def evaluated(extractor: RelationExtractor, documents: list[Document], folder) -> dict[tuple[str, str], np.ndarray]:
    """The scores of every pair as a run's evaluation has them: sentences in a data set, packed as pair bags."""
    instances = []
    for document in documents:
        tokens, begins, ends = tokenize(document.text)
        one, other = (
            Mention(it.id, *token_span(begins, ends, it.start, it.end, "")) for it in document.annotations or ()
        )
        instances += [Instance(tokens, one, other, "r"), Instance(tokens, other, one, "r")]
    dataset = build(folder, {"train": lambda: instances, "test": lambda: instances})
    split, settings_ = dataset.test, extractor.saved.extractor
    numbers = extractor.saved.encoding.numbers(dataset.words)
    shard = pack(split, *pair_bags(split), numbers, reach=settings_.reach, gap=settings_.window // 2)
    model = extractor.saved.model.twin()
    model.load(extractor.saved.weights, shard)
    names = [(dataset.entities[head], dataset.entities[tail]) for head, tail in split.pair_entities]
    return dict(zip(names, model.score_bags(shard).numpy(), strict=True))


@pytest.mark.parametrize("method", ["none", "one", "ave", "att", "att-ra"])
@pytest.mark.parametrize("settings_", [{"kind": "pcnn"}, {"kind": "cnn", "window": 5}, {"embeddings": "frozen"}])
def test_confidences_are_the_scores_of_the_evaluation_calibrated(tmp_path, method, settings_):
    extractor, documents = extractor_of(method, **settings_), some_documents()
    expected = evaluated(extractor, documents, tmp_path / "data")
    found = by_fact(extractor.extract(documents, min_confidence=0))
    assert {(head, tail) for head, _, tail in found} == set(expected)
    assert max(it.sentences for it in found.values()) > 1
    for (head, tail), scores in expected.items():
        for number, relation in enumerate(extractor.relations[1:], 1):
            exact = CALIBRATION.confidence(scores)[number]
            assert found[head, relation, tail].confidence == pytest.approx(exact, rel=1e-6)
    assert len(found) == len(expected) * (len(extractor.relations) - 1)


def test_the_score_of_a_support_is_that_of_its_sentence_alone(extractor, tmp_path):
    documents = some_documents(12, entities=3)
    by_id = {it.id: it for it in documents}
    for fact in extractor.extract(documents, min_confidence=0):
        assert len(fact.support) == min(fact.sentences, extract.SHOWN)
        scores = [it.score for it in fact.support]
        assert scores == sorted(scores, reverse=True)
        number = extractor.relations.index(fact.relation)
        best = fact.support[0]
        alone = evaluated(extractor, [by_id[best.document]], tmp_path / f"{best.document}")
        assert best.score == pytest.approx(float(sigmoid(alone[fact.head, fact.tail][number])), rel=1e-5)


@pytest.mark.parametrize("method", ["none", "ave", "att"])
def test_bags_are_gathered_over_documents_chunks_and_the_disk(monkeypatch, method):
    extractor, documents = extractor_of(method), some_documents()
    whole = by_fact(extractor.extract(documents, min_confidence=0))
    for at_once, buffered in ((1, 0), (7, 300)):
        monkeypatch.setattr(extract, "_AT_ONCE", at_once)
        monkeypatch.setattr(candidates, "_BUFFERED", buffered)
        assert_same(by_fact(extractor.extract(documents, min_confidence=0)), whole)


def test_the_order_of_documents_does_not_matter(extractor):
    documents = some_documents()
    one = by_fact(extractor.extract(documents, min_confidence=0))
    random.Random(1).shuffle(documents)
    assert_same(by_fact(extractor.extract(documents, min_confidence=0)), one)


def test_one_text_in_one_document_or_in_many_is_the_same(extractor, people):
    sentences = [
        "Ann Meler saw Bonn.",
        "Bonn saw Ann Meler again.",
        "Cem left Lyon.",
        "Nobody came.",
        "Cem likes Bonn.",
    ]
    one = by_fact(extractor.extract(" ".join(sentences), kb=people, min_confidence=0))
    many = by_fact(extractor.extract(sentences, kb=people, min_confidence=0))
    assert {key: (it.confidence, it.sentences) for key, it in one.items()} == {
        key: (pytest.approx(it.confidence, abs=1e-6), it.sentences) for key, it in many.items()
    }


def test_a_pair_in_countless_sentences_is_scored_by_some_and_counted_by_all(extractor, monkeypatch):
    monkeypatch.setattr(extract, "_MOST", 6)
    documents = some_documents(50, entities=2)
    found = by_fact(extractor.extract(documents, min_confidence=0))
    assert {it.sentences for it in found.values()} == {50}
    chosen = [documents[-(-lot * 50 // 6)] for lot in range(6)]  # the first of each sixth
    assert {key: it.confidence for key, it in by_fact(extractor.extract(chosen, min_confidence=0)).items()} == {
        key: pytest.approx(it.confidence, abs=1e-6) for key, it in found.items()
    }


def test_min_confidence_leaves_out_what_is_less_certain(extractor):
    documents = some_documents(10)
    everything = by_fact(extractor.extract(documents, min_confidence=0))
    middle = float(np.median([it.confidence for it in everything.values()]))
    kept = by_fact(extractor.extract(documents, min_confidence=middle))
    assert kept.keys() == {key for key, it in everything.items() if it.confidence >= middle}
    assert list(extractor.extract(documents, min_confidence=1)) == []


# -------------------------------------------------------------------------------------------------------- predict


@pytest.mark.parametrize("method", ["none", "ave", "att", "att-ra"])
def test_predict_is_extract_on_the_sentence_alone(method):
    extractor = extractor_of(method)
    for document in some_documents(10):
        one, other = ((it.start, it.end) for it in document.annotations or ())
        found = by_fact(extractor.extract(document, min_confidence=0))
        for ends, spans in (((0, 1), (one, other)), ((1, 0), (other, one))):
            prediction = extractor.predict(document.text, head=spans[0], tail=spans[1])
            head, tail = ((document.annotations or ())[end].id for end in ends)
            assert prediction.confidences == {
                relation: pytest.approx(found[head, relation, tail].confidence, rel=1e-6)
                for relation in extractor.relations[1:]
            }
            assert (prediction.head, prediction.tail) == tuple(document.text[a:b] for a, b in spans)


def test_a_prediction_prints_well(extractor):
    prediction = extractor.predict(SENTENCE, head=(0, 3), tail=(16, 20))
    ranked = list(prediction.confidences.values())
    assert ranked == sorted(ranked, reverse=True)
    assert "NA" not in prediction.confidences
    assert (prediction.relation, prediction.confidence) == next(iter(prediction.confidences.items()))
    assert str(prediction) == f"Ann —{prediction.relation}→ Bonn  {prediction.confidence:.2f}"
    assert repr(prediction) == f"Prediction({prediction})"
    assert repr(extractor) == f"RelationExtractor(pcnn, 14 relations, {len(prepared().encoding)} words)"
    assert isinstance(prediction, Prediction)


def test_head_and_tail_have_an_order(extractor):
    one = extractor.predict(SENTENCE, head=(0, 3), tail=(16, 20))
    other = extractor.predict(SENTENCE, head=(16, 20), tail=(0, 3))
    assert (other.head, other.tail) == ("Bonn", "Ann")
    assert one.confidences != other.confidences


def test_a_place_means_the_words_it_touches(extractor):
    exact = extractor.predict(SENTENCE, head=(0, 3), tail=(16, 20))
    part = extractor.predict(SENTENCE, head=(1, 2), tail=(15, 20))
    assert part.confidences == exact.confidences
    assert (part.head, part.tail) == ("n", " Bonn")
    assert extractor.predict(SENTENCE, head=np.array([0, 3]), tail=[16, 20]).confidences == exact.confidences


@pytest.mark.parametrize(
    ("head", "tail", "says"),
    [
        ((0, 99), (16, 20), "head: position 0..99 lies outside the 31 characters of the text"),
        ((-3, 3), (16, 20), "head: position -3..3 lies outside the 31 characters of the text"),
        ((0, 3), (20, 16), "tail: position 20..16 lies outside the 31 characters of the text"),
        ((0, 3), (4, 4), "tail: position 4..4 lies outside the 31 characters of the text"),
        ((0, 3), (3, 4), "tail: position 3..4 covers white space alone; it must cover a word"),
        ((0, 3), (0, 3), "head 0..3 and tail 0..3 overlap; they must be separate"),
        ((0, 7), (4, 12), "head 0..7 and tail 4..12 overlap; they must be separate"),
        ((0.5, 3), (16, 20), "head must be two offsets into the text, (start, end), not (0.5, 3)"),
        (3, (16, 20), "head must be two offsets into the text, (start, end), not 3"),
        ("Ann", (16, 20), "head must be two offsets into the text, (start, end), not 'Ann'"),
        ((0, 1, 3), (16, 20), "head must be two offsets into the text, (start, end), not (0, 1, 3)"),
    ],
)
def test_a_wrong_place_is_a_sentence(extractor, head, tail, says):
    with pytest.raises(UserError) as caught:
        extractor.predict(SENTENCE, head=head, tail=tail)
    assert str(caught.value) == says


def test_a_text_too_long_to_be_a_sentence_says_what_to_do(extractor):
    at_most = " ".join(["Ann", *["word"] * 398, "Bonn"])
    assert extractor.predict(at_most, head=(0, 3), tail=(len(at_most) - 4, len(at_most))).tail == "Bonn"
    with pytest.raises(UserError) as caught:
        extractor.predict(at_most + " .", head=(0, 3), tail=(4, 8))
    assert str(caught.value) == (
        "the text has 401 tokens, but predict reads one sentence of at most 400; pass only the one around head and "
        "tail, or use extract"
    )


def test_predicting_leaves_nothing_behind(extractor, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    extractor.predict(SENTENCE, head=(0, 3), tail=(16, 20))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------- exact places


@settings(max_examples=60)
@given(data=st.data())
def test_every_place_is_exact_in_any_script(data, extractor, people):
    """Names between words of any kind: what a support points to is the name, and the sentence is in the document."""
    odd = [
        "é",
        "e\u0301",
        "👩‍🚀",
        "𝔘𝔫𝔦",
        "日本。",
        "\u200d",
        "\xa0",
        "\u2028",
        "\n\n",
        ".",
        "!",
        "Dr.",
        "ß",
        "İ",
        "ﬁ",
        "\ufeff",
        "(",
        "\0",
    ]
    words = st.text(max_size=5) | st.sampled_from(odd)
    names = st.sampled_from(["Ann Meler", "Cem", "CEM", "cem", "Bonn", "Lyon", "Meler"])
    documents = []
    for number in range(2):
        pieces = data.draw(st.lists(words | names | names, max_size=12))
        documents.append(Document(f"d{number}", " ".join(pieces)))
    known = {"Q1": {"ann meler", "meler"}, "Q2": {"bea meler", "meler"}, "Q3": {"cem"}, "Q8": {"bonn"}, "Q9": {"lyon"}}
    check_places(documents, extractor.extract(documents, kb=people, min_confidence=0), known)


@settings(max_examples=60)
@given(data=st.data())
def test_marked_places_are_kept_exactly(data, extractor):
    words = st.text(min_size=1, max_size=5) | st.sampled_from(
        ["é", "e\u0301", "👩‍🚀", "𝔘𝔫𝔦", ". ", "! ", "\n", "\u2028"]
    )
    text = "".join(data.draw(st.lists(words, min_size=2, max_size=12)))
    spans = data.draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))), max_size=5))
    marks = [(a, b) for a, b in spans if a < b and not text[a:b].isspace()]
    annotations = tuple(Annotation(f"T{n}", a, b, "", f"E{n}") for n, (a, b) in enumerate(marks))
    document = Document("d", text, annotations)
    known = {f"E{n}": {text[a:b].lower()} for n, (a, b) in enumerate(marks)}
    found = list(extractor.extract([document], min_confidence=0))
    check_places([document], found, known)
    apart = {(f"E{i}", f"E{j}") for i, (a, b) in enumerate(marks) for j, (c, d) in enumerate(marks) if b <= c or d <= a}
    assert {(it.head, it.tail) for it in found} <= apart


def check_places(documents, facts, names) -> None:
    texts = {it.id: it.text for it in documents}
    for fact in facts:
        assert fact.head != fact.tail
        for support in fact.support:
            assert texts[support.document][support.start :].startswith(support.text)
            assert support.text[slice(*support.head)].lower() in names[fact.head]
            assert support.text[slice(*support.tail)].lower() in names[fact.tail]
        best = fact.support[0]
        assert (fact.head_text, fact.tail_text) == (best.text[slice(*best.head)], best.text[slice(*best.tail)])


def test_offsets_count_characters_also_after_those_of_four_bytes(extractor, people):
    text = "😀 Hm. 𝔘 Rene\u0301 and Cem saw 👩‍🚀 Bonn 😀."
    fact = next(extractor.extract(text, kb=people, min_confidence=0))
    [support] = fact.support
    assert support.start == text.index("𝔘")
    assert text[support.start : support.start + len(support.text)] == support.text
    assert {support.text[slice(*support.head)], support.text[slice(*support.tail)]} == {"Cem", "Bonn"}


# ------------------------------------------------------------------------------------------------- what is read


def test_texts_come_in_every_shape(extractor, people):
    texts = ["Cem saw Bonn.", "Ann Meler left Lyon."]
    listed = by_fact(extractor.extract(texts, kb=people, min_confidence=0))
    assert {it.support[0].document for it in listed.values()} == {"text 1", "text 2"}
    assert by_fact(extractor.extract((it for it in texts), kb=people, min_confidence=0)) == listed
    assert by_fact(extractor.extract(" ".join(texts), kb=people, min_confidence=0)).keys() == listed.keys()
    marked_ = marked("m", [("X1", "Zoe"), "saw", ("Q8", "Bonn"), "."])
    mixed = by_fact(extractor.extract([texts[0], marked_], kb=people, min_confidence=0))
    assert {(head, tail) for head, _, tail in mixed} == {("Q3", "Q8"), ("X1", "Q8"), ("Q8", "X1")}
    assert by_fact(extractor.extract(marked_, min_confidence=0)).keys() == {
        (head, relation, tail) for head, tail in (("X1", "Q8"), ("Q8", "X1")) for relation in extractor.relations[1:]
    }
    assert list(extractor.extract([], kb=people)) == list(extractor.extract("", kb=people)) == []


def test_a_knowledge_base_may_be_given_by_its_path(extractor, tmp_path):
    loaded = base(tmp_path / "kb", "Q1 person Ann; Q2 city Bonn", f"Q1 {BORN} Q2")
    facts = list(extractor.extract(SENTENCE, kb=loaded, min_confidence=0))
    assert list(extractor.extract(SENTENCE, kb=tmp_path / "kb", min_confidence=0)) == facts
    assert list(extractor.extract(SENTENCE, kb=str(tmp_path / "kb"), min_confidence=0)) == facts
    assert len(facts) > 0


def test_an_entity_without_an_id_is_its_name(extractor):
    documents = [
        marked("a", [("", "ACME  Corp"), "in", ("", "Bonn")]),
        marked("b", [("", "Acme corp"), "at", ("", "BONN")]),
    ]
    found = by_fact(extractor.extract(documents, min_confidence=0))
    assert {(head, tail, it.sentences) for (head, _, tail), it in found.items()} == {
        ("acme corp", "bonn", 2),
        ("bonn", "acme corp", 2),
    }


@pytest.mark.parametrize(
    ("texts", "options", "says"),
    [
        (["Ann saw Bonn."], {}, "text 1: no entities are marked in this text; give a knowledge base"),
        ([marked("d", [("a", "A"), ("b", "B")]), "Ann"], {}, "text 2: no entities are marked in this text"),
        (["x", 3], {"kb": "people"}, "text 2 is a int; extract reads strings and Documents"),
        (b"bytes", {}, "text 1 is a int; extract reads strings and Documents"),
        ([Document("d", "abc", (Annotation("T1", 0, 9),))], {}, "d: T1: position 0..9 lies outside the 3 characters"),
        ([Document("d", "a c", (Annotation("T1", 1, 2),))], {}, "d: T1: position 1..2 covers white space alone"),
        ([], {"min_confidence": 1.5}, "min_confidence is a number from 0 to 1, not 1.5"),
        ([], {"min_confidence": float("nan")}, "min_confidence is a number from 0 to 1, not nan"),
        ([], {"new_only": True}, "new_only needs a knowledge base (kb)"),
        ([], {"kb": "nowhere"}, "nowhere: no such file or folder"),
    ],
)
def test_a_mistake_is_a_sentence(extractor, people, texts, options, says):
    if options.get("kb") == "people":
        options = options | {"kb": people}
    with pytest.raises(UserError) as caught:
        list(extractor.extract(texts, **options))
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_settings_are_refused_before_anything_is_read(extractor):
    def never():
        raise AssertionError("read")
        yield

    with pytest.raises(UserError):
        extractor.extract(never(), min_confidence=-1)


# ------------------------------------------------------------------------------------------ the knowledge base


def counted(extractor, texts, **options) -> tuple[dict[tuple[str, str, str], Fact], Counter[str]]:
    counts: Counter[str] = Counter()

    def watch(spotter):
        nonlocal counts
        counts = spotter.counts

    return by_fact(extractor.extract(texts, min_confidence=0, tick=watch, **options)), counts


def test_known_is_what_the_knowledge_base_says(extractor, people):
    found, _ = counted(extractor, ["Ann Meler saw Bonn.", "Cem saw Bonn."], kb=people)
    assert {key for key, it in found.items() if it.known} == {("Q1", LIVES, "Q8"), ("Q3", BORN, "Q8")}
    assert {it.known for it in found.values()} == {True, False}
    new, _ = counted(extractor, ["Ann Meler saw Bonn.", "Cem saw Bonn."], kb=people, new_only=True)
    assert new == {key: it for key, it in found.items() if not it.known}
    without, _ = counted(extractor, marked("d", [("Q1", "Ann"), ("Q8", "Bonn")]))
    assert {it.known for it in without.values()} == {None}


def test_what_holds_both_ways_is_known_both_ways(extractor, tmp_path):
    married = "person/spouse_of"
    assert married in extractor.relations
    kb = base(
        tmp_path / "kb",
        "Q1 person Ann; Q2 person Bea; Q3 person Cem; Q4 person Dan",
        f"Q1 {married} Q2; Q2 {married} Q1; Q3 {married} Q4; Q1 {BORN} Q3",
    )
    found, _ = counted(extractor, ["Cem met Dan.", "Ann met Cem."], kb=kb)
    assert {key for key, it in found.items() if it.known} == {
        *(("Q3", married, "Q4"), ("Q4", married, "Q3"), ("Q1", BORN, "Q3")),
    }


def test_the_types_of_the_knowledge_base_are_kept_to(extractor, people):
    found, counts = counted(extractor, ["Cem saw Bonn.", "Cem saw the Elbe.", "Cem met Ann Meler."], kb=people)
    # The triples know a person who lives, or was born, in a city; of the model's other relations they say nothing.
    assert {(head, tail) for head, _, tail in found} == {("Q3", "Q8")}
    assert {relation for _, relation, _ in found} == set(extractor.relations[1:])
    assert counts["pairs"] == 1


def test_a_relation_is_kept_to_the_types_that_relations_tsv_gives(extractor, tmp_path):
    kb = base(
        tmp_path / "kb",
        "Q1 person Ann; Q2 city Bonn; Q3 river Elbe",
        f"Q1 {LIVES} Q2; Q1 {BORN} Q2",
        f"{LIVES} person city; {BORN} person river",
    )
    found, _ = counted(extractor, ["Ann saw Bonn.", "Ann saw the Elbe."], kb=kb)
    assert ("Q1", LIVES, "Q2") in found
    assert ("Q1", BORN, "Q2") not in found
    assert ("Q1", LIVES, "Q3") not in found
    assert ("Q1", BORN, "Q3") in found


def test_a_name_that_several_share_is_left_out_and_counted_unless_asked_for(extractor, people):
    texts = ["Meler saw Bonn.", "Cem saw Lyon."]
    found, counts = counted(extractor, texts, kb=people)
    assert {head for head, _, _ in found} == {"Q3"}
    assert counts["ambiguous facts"] == len(extractor.relations) - 1
    kept, counts = counted(extractor, texts, kb=people, ambiguous=True)
    assert {head for head, _, _ in kept} == {"Q3", "Q1|Q2"}
    assert counts["ambiguous facts"] == 0
    # Known is what the knowledge base has of either.
    assert {key for key, it in kept.items() if it.known} == {("Q1|Q2", LIVES, "Q8")}
    assert kept["Q1|Q2", LIVES, "Q8"].head_name == "Meler"


def test_a_pair_that_could_be_several_is_the_one_that_is_named_elsewhere(extractor, people):
    found, counts = counted(extractor, ["Meler saw Bonn.", "In May Ann Meler left Bonn."], kb=people)
    assert counts["ambiguous facts"] == 0
    assert {(head, tail, it.sentences) for (head, _, tail), it in found.items()} == {("Q1", "Q8", 2)}
    assert {it.text for it in found["Q1", LIVES, "Q8"].support} == {"Meler saw Bonn.", "In May Ann Meler left Bonn."}


@pytest.mark.parametrize(
    "others", [["Ann Meler left Bonn.", "Bea Meler left Bonn."], ["Ann Meler left Lyon."], ["Cem left Bonn."]]
)
def test_a_pair_stays_open_where_both_or_none_are_named_elsewhere(extractor, people, others):
    found, counts = counted(extractor, ["Meler saw Bonn.", *others], kb=people)
    assert counts["ambiguous facts"] == len(extractor.relations) - 1
    assert all(it.sentences == 1 for it in found.values())


def test_ids_with_a_bar_are_no_ambiguous_names(extractor):
    documents = [marked("d", [("a|b", "A"), "met", ("c", "C")])]
    found, counts = counted(extractor, documents)
    assert {head for head, _, _ in found} == {"a|b", "c"}
    assert counts["ambiguous facts"] == 0


# --------------------------------------------------------------------------------------------- what goes wrong


def test_a_sentence_too_long_is_counted_and_costs_little(extractor, people):
    endless = " ".join(f"Cem Bonn word{n}" for n in range(40))
    long = " ".join(["Cem", *["word"] * 400, "Bonn"])
    begin = time.perf_counter()
    found, counts = counted(extractor, [long, "Cem saw Bonn.", endless * 500], kb=people)
    assert time.perf_counter() - begin < 10
    assert counts["sentences too long"] >= 1
    assert {it.sentences for it in found.values()} == {1}


def test_who_stops_early_leaves_nothing_behind(extractor, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(candidates, "_BUFFERED", 0)
    facts = extractor.extract(some_documents(5), min_confidence=0)
    next(facts)
    assert len(list(tmp_path.iterdir())) == 1
    del facts
    gc.collect()
    assert list(tmp_path.iterdir()) == []

    def broken():
        yield from some_documents(5)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        list(extractor.extract(broken()))
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_while_reading_and_while_scoring(extractor, monkeypatch):
    monkeypatch.setattr(extract, "_AT_ONCE", 8)
    seen = []
    list(
        extractor.extract(
            some_documents(10), tick=lambda it: seen.append((it.counts["sentences"], it.counts["scored"]))
        )
    )
    assert seen[:10] == [(n, 0) for n in range(1, 11)]
    scored = [n for _, n in seen[10:]]
    assert len(scored) > 1
    assert scored == sorted(scored)
    assert scored[-1] == 20
