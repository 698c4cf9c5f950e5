"""The index finds what a look at every fact finds, in the right order and whole."""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import Document
from fedrel.explore.index import Filter, Index
from fedrel.extraction.facts import Fact, from_json, to_json
from tests.explore.small_facts import RELATIONS, fact, indexed, nasty

FACTS = [fact(number) for number in range(60)] + nasty()


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return indexed(tmp_path_factory.mktemp("index") / "facts.sqlite", FACTS)


def passes(fact: Fact, wanted: Filter) -> bool:
    """Whether a filter lets a fact through, by looking at it."""
    names = (fact.head_name, fact.tail_name, fact.relation, fact.head, fact.tail, *(it.text for it in fact.support))
    words = re.findall(r"\w+", " ".join(names).replace("_", " ").lower()) + re.findall(r"\w+", fact.relation.lower())
    return (
        all(any(word.startswith(it) for word in words) for it in wanted.words.lower().split())
        and (not wanted.relations or fact.relation in wanted.relations)
        and (not wanted.standings or fact.standing in wanted.standings)
        and wanted.least <= fact.confidence
        and (wanted.most == 1 or fact.confidence < wanted.most)
        and (not wanted.document or wanted.document in {it.document for it in fact.support})
        and (not wanted.entity or wanted.entity in (fact.head, fact.tail))
    )


filters = st.builds(
    Filter,
    words=st.sampled_from(["", "", "ann", "lee 1", "bonn 3 night", "KATHARINA", "born", "nobody", "רות", "script"]),
    relations=st.lists(st.sampled_from(RELATIONS), max_size=2).map(tuple),
    standings=st.lists(st.sampled_from(["known", "new", "contradicting"]), max_size=2).map(tuple),
    least=st.sampled_from([0.0, 0.3, 0.7, 0.95]),
    most=st.sampled_from([1.0, 1.0, 0.9, 0.5]),
    document=st.sampled_from(["", "", "doc 1.txt", "doc 3.txt", "none"]),
    entity=st.sampled_from(["", "", "P3", "T2", "nobody"]),
)


@settings(deadline=None, max_examples=150)
@given(wanted=filters)
def test_a_filter_finds_what_a_look_at_every_fact_finds(index, wanted):
    expected = sorted((it for it in FACTS if passes(it, wanted)), key=lambda it: -it.log_odds)
    assert [it.head_name for it in index.facts(wanted)] == [it.head_name for it in expected]
    found = index.find(wanted, limit=7)
    assert found.total == len(expected)
    assert [(it.head, it.relation, it.tail) for it in found.rows] == [
        (it.head, it.relation, it.tail) for it in expected[:7]
    ]
    for kinds, counts in (("relations", found.relations), ("standings", found.standings)):
        free = [it for it in FACTS if passes(it, Filter(**{**vars(wanted), kinds: ()}))]
        of = [it.relation if kinds == "relations" else it.standing for it in free]
        assert {kind: count for kind, count in counts.items() if count} == {kind: of.count(kind) for kind in set(of)}
    assert sum(it.facts for it in index.bins(wanted)) == len(expected)


@pytest.mark.parametrize(
    "words", ['"', "'", "*", "^a", "a AND", "NEAR(", "a:b", "-", "(", "ann*", '""', "\0", "%", "_", "names:ann"]
)
def test_nothing_that_is_searched_for_is_an_error(index, words):
    found = index.find(Filter(words=words))
    assert found.total <= len(FACTS)


def test_accents_and_case_do_not_matter(tmp_path):
    index = indexed(tmp_path / "facts.sqlite", [fact(0, head_name="José Müller"), fact(1)])
    assert [index.find(Filter(words=it)).total for it in ("jose", "MULLER", "müll", "xose")] == [1, 1, 1, 0]


def test_pages_have_every_fact_once(index):
    for order in ("sure", "unsure", "often", "name"):
        seen = [
            it.number
            for offset in range(0, 70, 9)
            for it in index.find(Filter(), order=order, offset=offset, limit=9).rows
        ]
        assert sorted(seen) == list(range(1, len(FACTS) + 1))
    assert [it.sentences for it in index.find(Filter(), order="often").rows] == sorted(
        (it.sentences for it in FACTS), reverse=True
    )[:50]


def test_a_fact_comes_back_whole(index):
    for number, it in enumerate(FACTS, 1):
        assert index.fact(number) == from_json(to_json(it))
    assert index.fact(0) is None and index.fact(len(FACTS) + 1) is None


def test_calibration_counts_what_is_known_or_right(tmp_path):
    facts = [fact(number, log_odds=log_odds) for number, log_odds in enumerate([-3.0, -3.0, 3.0, 3.0, 3.0, 60.0])]
    [low, high] = indexed(tmp_path / "known.sqlite", facts).bins(Filter())
    assert (low.facts, low.judged, low.positive, high.facts, high.judged, high.positive) == (2, 2, 1, 4, 4, 1)
    assert (low.low, low.high, high.low, high.high) == (0.0, 0.1, 0.9, 1.0)
    assert low.confidence == pytest.approx(facts[0].confidence)
    right = indexed(tmp_path / "right.sqlite", facts, correct=lambda it: it.log_odds > 0).bins(Filter())
    assert [(it.judged, it.positive) for it in right] == [(2, 0), (4, 4)]
    without = indexed(tmp_path / "without.sqlite", [fact(number, known=None) for number in range(3)]).bins(Filter())
    assert [(it.facts, it.judged, it.positive) for it in without] == [(3, 0, 0)]


def test_documents_that_no_fact_is_from_are_not_kept(tmp_path):
    documents = [Document("doc 1.txt", "text of one"), Document("elsewhere.txt", "x")]
    index = indexed(tmp_path / "facts.sqlite", FACTS[:8], documents=documents)
    assert index.documents(10) == [f"doc {number}.txt" for number in range(4)]
    assert [index.text(name) for name in ("doc 1.txt", "doc 2.txt", "elsewhere.txt")] == ["text of one", None, None]


@pytest.mark.slow
def test_a_hundred_thousand_facts(tmp_path):
    count = 100_000
    index = indexed(tmp_path / "facts.sqlite", [fact(number, log_odds=5 - number / 10_000) for number in range(count)])
    every = index.find(Filter())
    assert every.total == len(index) == sum(every.relations.values()) == count
    assert [it.number for it in every.rows] == list(range(1, 51))
    assert [it.number for it in index.find(Filter(), offset=count - 3).rows] == [count - 2, count - 1, count]
    one = index.find(Filter(words="night 77777"))
    assert [it.number for it in one.rows] == [77_778]
    town = Filter(entity="T3", relations=(RELATIONS[1],), least=0.5)
    expected = [n + 1 for n in range(50_001) if n % 7 == 3 and n % 3 == 1]
    assert index.find(town).total == len(expected)
    numbers = [int(re.findall(r"\d+", it.support[0].text)[-1]) + 1 for it in index.facts(town)]
    assert numbers == expected
    assert sum(1 for _ in index.facts(Filter())) == count


def test_an_index_is_its_owners_alone():
    with tempfile.TemporaryDirectory() as folder:
        assert Path(folder).stat().st_mode & 0o077 == 0  # where the command puts it
