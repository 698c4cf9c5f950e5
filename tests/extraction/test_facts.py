"""Facts as JSON lines, CSV and N-Triples: other programs read back what was found, whatever the names hold."""

import csv
import io
import json
import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.evaluation.calibration import readable
from fedrel.extraction.facts import (
    COLUMNS,
    Fact,
    Support,
    confidence_lines,
    csv_lines,
    from_json,
    ntriples_lines,
    read_facts,
    to_json,
)
from fedrel.extraction.forms import WRITERS

# https://www.w3.org/TR/n-triples/#n-triples-grammar, IRIREF; an IRI there must be absolute
IRI = r'<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*>'
TRIPLE = re.compile(rf"{IRI} {IRI} {IRI} \.\n")

ODD = st.sampled_from(
    [
        *(
            "http://www.wikidata.org/entity/Q1",
            "https://x/a b",
            "urn:isbn:1",
            "MESH:D001241",
            "1://x",
            "://",
            "a://b\n",
        ),
        *(
            "Q1|Q2",
            'say "x"',
            "a\\b",
            "<b>",
            "{}",
            "é",
            "e\u0301",
            "👩‍🚀",
            "\u2028",
            "\x85",
            "",
            " ",
            "%41",
            "a\tb",
            "\0",
        ),
        *("=1+1", "+49", "-x", "@a", "\tx", "\rx", "'=x", "a,b", "a\r\nb"),
    ]
)
texts = st.text(max_size=12) | ODD
spans = st.tuples(st.integers(0, 9), st.integers(0, 9))
shares = st.floats(0, 1).map(lambda share: round(share, 4))
pages = st.none() | st.integers(1, 10**6)
supports = st.builds(Support, texts, st.integers(0, 10**12), texts, spans, spans, shares, pages)
facts = st.builds(
    Fact,
    *(texts, texts, texts, texts, texts),
    st.floats(-40, 40).map(lambda z: round(z, 9)),
    st.none() | st.booleans(),
    st.integers(1, 10**6),
    st.lists(supports, min_size=1, max_size=3).map(tuple),
    st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
)

FACT = Fact(
    head="Q1",
    head_name="Ann Katharina Weber",
    relation="born_in",
    tail="http://example.org/Bonn",
    tail_name="Bonn",
    log_odds=2.6591111111,
    known=False,
    sentences=2,
    support=(
        Support("letters/1.txt", 120, "Ann Weber was born in Bonn.", (0, 9), (22, 26), 0.98765),
        Support("letters/2.txt", 0, "In Bonn, Ann Weber …", (9, 18), (3, 7), 0.5),
    ),
    instead=(("Q7", "Köln"),),
)

# ------------------------------------------------------------------------------------------------ for people


def test_facts_print_well():
    assert str(FACT) == "Ann Katharina Weber —born_in→ Bonn  0.93  contradicting"
    assert repr(FACT) == "Fact(Ann Katharina Weber —born_in→ Bonn  0.93  contradicting  2 sentences)"
    assert (
        repr([replace(FACT, known=True, sentences=1)]) == "[Fact(Ann Katharina Weber —born_in→ Bonn  0.93  1 sentence)]"
    )
    assert str(replace(FACT, known=None)) == "Ann Katharina Weber —born_in→ Bonn  0.93"
    assert str(FACT.support[0]) == "0.99  Ann Weber was born in Bonn.  (letters/1.txt, 120)"
    assert repr(FACT.support[0]).startswith("Support(document='letters/1.txt', start=120, ")


# ------------------------------------------------------------------------------------------------ JSON lines


def test_a_line_of_json_is_a_contract():
    assert json.loads(to_json(FACT)) == {
        "head": {"id": "Q1", "name": "Ann Katharina Weber", "text": "Ann Weber"},
        "relation": "born_in",
        "tail": {"id": "http://example.org/Bonn", "name": "Bonn", "text": "Bonn"},
        "confidence": 0.9345703332,
        "log_odds": 2.659111111,
        "known": False,
        "instead": [{"id": "Q7", "name": "Köln"}],
        "sentences": 2,
        "support": [
            {
                "document": "letters/1.txt",
                "start": 120,
                "text": "Ann Weber was born in Bonn.",
                "head": [0, 9],
                "tail": [22, 26],
                "score": 0.98765,
            },
            {
                "document": "letters/2.txt",
                "start": 0,
                "text": "In Bonn, Ann Weber …",
                "head": [9, 18],
                "tail": [3, 7],
                "score": 0.5,
            },
        ],
    }


@given(facts)
def test_json_gives_back_the_fact(fact):
    line = to_json(fact)
    assert line.endswith("\n")
    assert "\n" not in line[:-1]
    assert from_json(line) == fact
    assert json.loads(line)["known"] is fact.known
    assert list(WRITERS[".jsonl"]([fact])) == [line]


def test_a_file_of_facts_is_read_in_its_order(tmp_path):
    found = [replace(FACT, log_odds=2.5), replace(FACT, log_odds=-1.0, known=None, instead=(), head_name="ان")]
    (tmp_path / "facts.jsonl").write_text("".join(map(to_json, found)), encoding="utf-8")
    ticks = []
    assert list(read_facts(tmp_path / "facts.jsonl", lambda *told: ticks.append(told))) == found
    assert ticks == [(len(to_json(found[0])), 1), (sum(map(len, map(to_json, found))), 2)]


def test_facts_from_before_names_were_canonical_are_read(tmp_path):
    row = json.loads(to_json(FACT))
    del row["instead"], row["head"]["text"], row["tail"]["text"]
    assert from_json(json.dumps(row)) == replace(FACT, log_odds=round(FACT.log_odds, 9), instead=())


def _changed(**changes):
    row = json.loads(to_json(FACT)) | changes
    return json.dumps({name: value for name, value in row.items() if value != "out"})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not a JSON object"),
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"a": "\\ud800"}', "half a character|surrogate|UTF-8"),
        ("[" * 100_000, "not a JSON object"),
        (_changed(head="out"), '"head" is missing'),
        (_changed(head="Ann"), '"head" is str, not dict'),
        (_changed(head={"id": "Q1"}), '"name" is missing'),
        (_changed(relation=7), '"relation" is int, not str'),
        (_changed(log_odds="1"), '"log_odds" is no number'),
        (_changed(log_odds=float("nan")), '"log_odds" is no number'),
        (_changed(log_odds=True), '"log_odds" is no number'),
        (_changed(log_odds=10**400), '"log_odds" is no number'),
        (_changed(known=1), '"known" is int, not bool'),
        (_changed(sentences=-1), '"sentences" is no whole number'),
        (_changed(sentences=1.5), '"sentences" is no whole number'),
        (_changed(support=[]), '"support" is empty'),
        (_changed(support=[1]), '"text" is missing'),
        (
            _changed(support=[{"text": "", "document": "", "start": 0, "head": [0], "tail": [0, 1]}]),
            '"head" is no pair',
        ),
        (_changed(instead=[{"id": "Q1"}]), '"name" is missing'),
    ],
)
def test_a_line_that_is_no_fact_is_named(tmp_path, line, why):
    (tmp_path / "facts.jsonl").write_text(f"{to_json(FACT)}{line or '0'}\n")
    with pytest.raises(UserError, match=rf"facts.jsonl:2: .*({why})"):
        list(read_facts(tmp_path / "facts.jsonl"))


# ------------------------------------------------------------------------------------------------------- CSV


def as_shown(cell):
    """What a spreadsheet gets: a cell that begins like a formula is made text by an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else str(cell)


@given(st.lists(facts, max_size=3))
def test_csv_gives_back_every_cell(found):
    head, *rows = csv.reader(io.StringIO("".join(csv_lines(found)), newline=""))
    assert tuple(head) == COLUMNS
    for row, fact in zip(rows, found, strict=True):
        best = fact.support[0]
        known = {None: "", True: "true", False: "false"}[fact.known]
        cells = (fact.head, fact.head_name, fact.relation, fact.tail, fact.tail_name)
        numbers = str(readable(fact.log_odds)), known, str(fact.sentences)
        place = (best.text, best.document, best.page or "", best.start)
        beside = (fact.head_text, fact.tail_text, "|".join(id_ for id_, _ in fact.instead))
        assert row == [*map(as_shown, cells), *numbers, *map(as_shown, (*place, *beside))]


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_name_is_run_as_a_formula(name):
    [_, row] = csv.reader(io.StringIO("".join(csv_lines([replace(FACT, head_name=name)])), newline=""))
    assert row[1] == f"'{name}"


# ------------------------------------------------------------------------------------------------- N-Triples


@given(st.lists(facts, max_size=3))
def test_n_triples_are_valid_and_lie_beside_their_confidences(found):
    triples = list(ntriples_lines(found))
    headline, *rows = confidence_lines(found)
    assert headline == "head\trelation\ttail\tconfidence\tknown\n"
    for line, row, fact in zip(triples, rows, found, strict=True):
        assert TRIPLE.fullmatch(line), line
        *terms, confidence, known = row.rstrip("\n").split("\t")
        assert " ".join(terms) + " .\n" == line
        assert float(confidence) == pytest.approx(fact.confidence, rel=1e-5)
        assert known == {None: "", True: "true", False: "false"}[fact.known]


@given(texts)
def test_an_id_can_be_read_from_its_iri(name):
    [line] = ntriples_lines([replace(FACT, head=name)])
    iri = line.split(" ")[0][1:-1]
    if iri != name:
        assert unquote(iri.removeprefix("urn:fedrel:entity:")) == name


def test_iris_stay_what_they_are():
    assert list(ntriples_lines([FACT, replace(FACT, tail="urn:isbn:1", relation="http://x/böse#r")])) == [
        "<urn:fedrel:entity:Q1> <urn:fedrel:relation:born_in> <http://example.org/Bonn> .\n",
        "<urn:fedrel:entity:Q1> <http://x/böse#r> <urn:isbn:1> .\n",
    ]


def test_half_a_character_is_no_reason_to_fail():
    fact = replace(FACT, head="caf\udce9")
    assert from_json(to_json(fact)).head == fact.head
    [line] = ntriples_lines([fact])
    assert TRIPLE.fullmatch(line)
    line.encode()
