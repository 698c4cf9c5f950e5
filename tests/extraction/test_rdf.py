"""Facts as Turtle, JSON-LD and N-Triples: another program reads back every triple, name and sentence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.evaluation.calibration import readable
from fedrel.extraction.facts import Fact, Support, iri, ntriples_lines
from fedrel.extraction.rdf import RDF, RDFS, TERMS, json_ld_lines, turtle_lines

rdflib = pytest.importorskip("rdflib", reason="rdflib reads back what was written: pip install rdflib")

pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # in rdflib's own reader of JSON-LD

ODD = st.sampled_from(
    [
        *('say "x"', "a\\b", "\\u0041", "two\nlines\r", "\u202eright to left", "\u2066x\u2069", "é", "e\u0301", "👩‍🚀"),
        *("'", '"""', "\t", "\u2028", "\x85", "\x7f", "", " ", "<b>", "@en", "^^", "Q1|Q2", "%41"),
        *("http://x.org/a b", "https://x.org/é#1"),
    ]
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | ODD
spans = st.tuples(st.integers(0, 9), st.integers(0, 9))
supports = st.builds(
    Support, texts, st.integers(0, 10**9), texts, spans, spans, st.just(0.5), st.none() | st.integers(1, 10**6)
)
facts = st.builds(
    Fact,
    *(texts, texts, texts, texts, texts),
    st.floats(-40, 40),
    st.none() | st.booleans(),
    st.integers(1, 10**6),
    st.lists(supports, min_size=1, max_size=2).map(tuple),
    st.lists(st.tuples(texts, texts), max_size=1).map(tuple),
)


def parsed(text: str, form: str):
    return rdflib.Graph().parse(data=text, format=form)


def expected(found: list[Fact]) -> set[tuple[str, str, str]]:
    return {(iri(it.head, "entity"), iri(it.relation, "relation"), iri(it.tail, "entity")) for it in found}


def check(graph, found: list[Fact]) -> None:
    """That a graph holds these facts, the first name of every entity, and a statement for each fact; and no more."""
    names: dict[str, str] = {}
    for fact in found:
        for entity, name in ((fact.head, fact.head_name), (fact.tail, fact.tail_name)):
            names.setdefault(iri(entity, "entity"), name)
    label, statement = rdflib.URIRef(RDFS + "label"), rdflib.URIRef(RDF + "Statement")
    assert {str(s): str(o) for s, o in graph.subject_objects(label)} == names
    told = []
    nodes = set(graph.subjects(rdflib.RDF.type, statement))
    for node in nodes:
        about = {str(p): o for p, o in graph.predicate_objects(node)}
        triple = tuple(str(about[RDF + it]) for it in ("subject", "predicate", "object"))
        page, standing = about.get(TERMS + "page"), about.get(TERMS + "standing", "")
        words = (str(about[TERMS + "sentence"]), str(about[TERMS + "document"]), str(standing))
        numbers = (float(about[TERMS + "confidence"]), *(int(about[TERMS + it]) for it in ("sentences", "start")))
        told.append((triple, words, numbers, None if page is None else int(page)))
    wanted = []
    for it in found:
        triple = (iri(it.head, "entity"), iri(it.relation, "relation"), iri(it.tail, "entity"))
        words = (it.support[0].text, it.support[0].document, it.standing)
        numbers = (readable(it.log_odds), it.sentences, it.support[0].start)
        wanted.append((triple, words, numbers, it.support[0].page))
    assert sorted(told, key=repr) == sorted(wanted, key=repr)
    others = {(str(s), str(p), str(o)) for s, p, o in graph if s not in nodes and p != label}
    assert others == expected(found)


@settings(deadline=None)
@given(st.lists(facts, max_size=3))
def test_turtle_gives_back_every_fact(found):
    check(parsed("".join(turtle_lines(found)), "turtle"), found)


@settings(deadline=None)
@given(st.lists(facts, max_size=3))
def test_json_ld_gives_back_every_fact(found):
    text = "".join(json_ld_lines(found))
    json.loads(text)
    check(parsed(text, "json-ld"), found)


@settings(deadline=None)
@given(st.lists(facts, max_size=3))
def test_n_triples_give_back_every_triple(found):
    graph = parsed("".join(ntriples_lines(found)), "nt")
    assert {(str(s), str(p), str(o)) for s, p, o in graph} == expected(found)


def test_half_a_character_is_no_reason_to_fail():
    support = Support("d", 0, "caf\udce9 x", (0, 4), (5, 6), 0.5)
    fact = Fact("caf\udce9", "caf\udce9", "r", "t", "t", 1.0, None, 1, (support,))
    for lines, form in ((turtle_lines, "turtle"), (json_ld_lines, "json-ld")):
        text = "".join(lines([fact]))
        text.encode()
        assert len(parsed(text, form)) == 12


def test_no_fact_is_a_valid_file():
    assert len(parsed("".join(turtle_lines([])), "turtle")) == len(parsed("".join(json_ld_lines([])), "json-ld")) == 0
