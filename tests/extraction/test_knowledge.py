"""What a knowledge base says of facts: known, new, contradicting; and the names that it has for entities."""

from dataclasses import replace

import pytest

from fedrel.extraction.facts import Fact, Support
from fedrel.extraction.knowledge import Knowledge
from tests.knowledge import knowledge

PEOPLE = {f"P{n}": f"person: Person {n}|P. {n}" for n in range(30)}
PLACES = {f"C{n}": f"city: City {n}" for n in range(4)}
BORN = [f"P{n} born_in C{n % 3}" for n in range(25)]
MARRIED = [f"P{a} spouse_of P{b}" for n in range(0, 24, 2) for a, b in ((n, n + 1), (n + 1, n))]
LIVES = [f"P{n} lives_in C{m}" for n in range(25) for m in (0, 1)]


@pytest.fixture(scope="module")
def known() -> Knowledge:
    return Knowledge(knowledge(PEOPLE | PLACES, BORN + MARRIED + LIVES))


def fact(head: str, relation: str, tail: str) -> Fact:
    return Fact(head, "P.", relation, tail, "C.", 1.0, None, 1, (Support("d", 0, "P. saw C.", (0, 2), (7, 9), 0.5),))


@pytest.mark.parametrize(
    ("head", "relation", "tail", "standing", "instead"),
    [
        ("P0", "born_in", "C0", "known", []),
        ("P0", "born_in", "C1", "contradicting", [("C0", "City 0")]),
        ("P26", "born_in", "C1", "new", []),  # nothing is known of its birth
        ("P0", "lives_in", "C2", "new", []),  # people live in two places, so why not in a third
        ("P0", "spouse_of", "P5", "contradicting", [("P1", "Person 1")]),
        ("P1", "spouse_of", "P0", "known", []),
        ("P0", "works_for", "C0", "new", []),  # a relation that the knowledge base does not have
        ("P0|P1", "born_in", "C1", "known", []),
        ("P0|P1", "born_in", "C2", "new", []),  # it is not clear who is meant
        ("somebody", "born_in", "C1", "new", []),
        ("P0", "born_in", "somewhere", "contradicting", [("C0", "City 0")]),
    ],
)
def test_how_a_fact_stands_to_the_knowledge_base(known, head, relation, tail, standing, instead):
    told = known.told(fact(head, relation, tail))
    assert (told.standing, list(told.instead)) == (standing, instead)
    assert fact(head, relation, tail).standing == ""


def test_names_are_those_of_the_knowledge_base_and_the_text_stays(known):
    told = known.told(fact("P3", "born_in", "C0"))
    assert (told.head_name, told.tail_name) == ("Person 3", "City 0")
    assert (told.head_text, told.tail_text) == ("P.", "C.")
    assert known.told(fact("P3|P4", "born_in", "nowhere")).head_name == "P."


def test_what_was_known_before_does_not_matter(known):
    before = replace(fact("P0", "born_in", "C0"), known=False, instead=(("C9", "City 9"),))
    assert known.told(before) == replace(before, head_name="Person 0", tail_name="City 0", known=True, instead=())
