"""Many sentences at once, and bags of them: the scores of one by one, and those of training's bags."""

import pytest

from fedrel.errors import UserError
from fedrel.extraction import Sentence
from tests.extraction.test_extraction import SENTENCE, extractor_of, some_documents

ANN, BONN = (0, 3), (16, 20)


def sentences_of(documents) -> list[Sentence]:
    pairs = [(it.text, *((mark.start, mark.end) for mark in it.annotations)) for it in documents]
    return [Sentence(text, head, tail) for text, head, tail in pairs]


@pytest.mark.parametrize("method", ["none", "att", "ave"])
def test_many_at_once_are_scored_as_one_by_one(method):
    extractor, sentences = extractor_of(method), sentences_of(some_documents(count=30))
    together = extractor.predict(sentences)
    for sentence, found in zip(sentences, together, strict=True):
        alone = extractor.predict(sentence.text, head=sentence.head, tail=sentence.tail)
        assert found.confidences == pytest.approx(alone.confidences, abs=1e-6)
        assert (found.head, found.relation, found.tail) == (alone.head, alone.relation, alone.tail)


def test_more_than_are_scored_together_keep_their_order():
    extractor, sentences = extractor_of(), sentences_of(some_documents(count=20))
    many = extractor.predict(sentences * 120)  # 2,400, in chunks of 1,024
    first = [it.confidences for it in many[:20]]
    assert [it.confidences for it in many[20:]] == [pytest.approx(first[n % 20], abs=1e-6) for n in range(20, 2_400)]


@pytest.mark.parametrize("method", ["none", "att", "ave"])
def test_a_bag_is_scored_as_extraction_scores_a_pair(method):
    extractor, documents = extractor_of(method), some_documents(count=60, entities=3)
    for relation in extractor.relations[1:]:
        bags: dict[tuple[str, str], list[Sentence]] = {}
        for document, sentence in zip(documents, sentences_of(documents), strict=True):
            head, tail = document.annotations
            bags.setdefault((head.id, tail.id), []).append(sentence)
            bags.setdefault((tail.id, head.id), []).append(Sentence(sentence.text, sentence.tail, sentence.head))
        facts = {
            (it.head, it.tail): it for it in extractor.extract(documents, min_confidence=0) if it.relation == relation
        }
        predicted = dict(zip(bags, extractor.predict(bags.values()), strict=True))
        assert facts.keys() == predicted.keys()
        assert max(len(bag) for bag in bags.values()) > 10
        for pair, fact in facts.items():
            assert predicted[pair].confidences[relation] == pytest.approx(fact.confidence, abs=1e-6)


def test_sentences_and_bags_may_be_mixed():
    extractor = extractor_of()
    one, other = Sentence(SENTENCE, ANN, BONN), Sentence("Ann saw Bonn .", ANN, (8, 12))
    found = extractor.predict([one, [other, one], [other]])
    assert [it.confidences for it in found] == [
        pytest.approx(extractor.predict([it])[0].confidences, abs=1e-6) for it in (one, [other, one], other)
    ]
    assert extractor.predict([]) == [] and extractor.predict(iter([one]))[0].head == "Ann"


@pytest.mark.parametrize(
    ("sentences", "says"),
    [
        (
            [Sentence(SENTENCE, ANN, BONN), Sentence(SENTENCE, ANN, (2, 8))],
            "sentence 2: head 0..3 and tail 2..8 overlap",
        ),
        ([Sentence(SENTENCE, ANN, (16, 99))], "sentence 1: tail"),
        ([[]], "sentence 1 is an empty list"),
        ([SENTENCE], "sentence 1 is a str; predict reads Sentences"),
        ([Sentence(SENTENCE, ANN, BONN), 3], "sentence 2 is a int"),
        ([[Sentence(SENTENCE, ANN, BONN), 3]], "sentence 1 is a list"),
        ([Sentence("x " * 401 + "y", (0, 1), (2, 3))], "sentence 1: the text has 402 tokens"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_a_mistake_names_its_sentence(sentences, says):
    with pytest.raises(UserError) as caught:
        extractor_of().predict(sentences)
    assert str(caught.value).startswith(says)


def test_a_text_needs_its_spans_and_sentences_have_their_own():
    with pytest.raises(UserError, match="predict needs head and tail"):
        extractor_of().predict(SENTENCE)
    with pytest.raises(UserError, match="give each Sentence its own"):
        extractor_of().predict([Sentence(SENTENCE, ANN, BONN)], head=ANN)
