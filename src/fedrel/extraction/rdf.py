"""Facts as RDF with their confidences: Turtle (https://www.w3.org/TR/turtle/) and JSON-LD.

Every fact is a triple, and a statement about that triple (reification) with its confidence, how it stands to the
knowledge base, and the best sentence with its place. Names are labels of the entities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain

from fedrel.evaluation.calibration import readable
from fedrel.extraction.facts import Fact, iri

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TERMS = "urn:fedrel:term:"  # confidence, standing, sentences, sentence, document, start, page

_PREFIXES = {"rdf": RDF, "rdfs": RDFS, "xsd": XSD, "fedrel": TERMS}
_ESCAPED = re.compile(r'[\x00-\x1f\x7f-\x9f"\\\u2028\u2029\ud800-\udfff]')  # a lone surrogate has no escape either
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def turtle_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """Facts as Turtle."""
    for prefix, whole in _PREFIXES.items():
        yield f"@prefix {prefix}: <{whole}> .\n"
    named: set[str] = set()
    for fact in facts:
        yield "\n"
        for entity, name in ((fact.head, fact.head_name), (fact.tail, fact.tail_name)):
            if entity not in named:
                named.add(entity)
                yield f"<{iri(entity, 'entity')}> rdfs:label {_quoted(name)} .\n"
        head, relation, tail = (f"<{it}>" for it in _triple(fact))
        yield f"{head} {relation} {tail} .\n"
        about = [f"rdf:subject {head}", f"rdf:predicate {relation}", f"rdf:object {tail}"]
        for name, value in _about(fact):
            about.append(f"fedrel:{name} {_literal(value)}")
        yield f"[] a rdf:Statement ; {' ; '.join(about)} .\n"


def json_ld_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """Facts as JSON-LD: one object, with an entity or a statement a line."""
    context = {
        "label": RDFS + "label",
        "Statement": RDF + "Statement",
        **{name: {"@id": RDF + name, "@type": "@id"} for name in ("subject", "predicate", "object")},
        "confidence": {"@id": TERMS + "confidence", "@type": XSD + "decimal"},
        **{name: TERMS + name for name in ("standing", "sentences", "sentence", "document", "start", "page")},
    }
    yield f'{{"@context": {json.dumps(context)},\n"@graph": [\n'
    separators = chain(("",), iter(lambda: ",\n", None))
    named: set[str] = set()
    for fact in facts:
        head, relation, tail = _triple(fact)
        for entity, name in ((fact.head, fact.head_name), (fact.tail, fact.tail_name)):
            if entity not in named:
                named.add(entity)
                yield next(separators) + _json({"@id": iri(entity, "entity"), "label": name})
        yield next(separators) + _json({"@id": head, relation: {"@id": tail}})
        about = {name: _plain(value) if isinstance(value, float) else value for name, value in _about(fact)}
        triple = {"subject": head, "predicate": relation, "object": tail}
        yield next(separators) + _json({"@type": "Statement", **triple, **about})
    yield "\n]}\n"


def _triple(fact: Fact) -> tuple[str, str, str]:
    return iri(fact.head, "entity"), iri(fact.relation, "relation"), iri(fact.tail, "entity")


def _about(fact: Fact) -> Iterator[tuple[str, str | int | float]]:
    best = fact.support[0]
    yield "confidence", readable(fact.log_odds)
    if fact.standing:
        yield "standing", fact.standing
    yield "sentences", fact.sentences
    yield "sentence", best.text
    yield "document", best.document
    yield "start", best.start
    if best.page is not None:
        yield "page", best.page


def _literal(value: str | int | float) -> str:
    if isinstance(value, float):
        return f'"{_plain(value)}"^^xsd:decimal'
    return str(value) if isinstance(value, int) else _quoted(value)


def _plain(number: float) -> str:
    """A number without an exponent, which a decimal must not have."""
    return f"{Decimal(repr(number)):f}"


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if "\ud800" <= character <= "\udfff":
        return "\ufffd"
    return _SHORT.get(character) or f"\\u{ord(character):04X}"


def _json(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace").decode()
