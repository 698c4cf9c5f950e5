"""The invented world keeps its promises: counts, truth, disjoint splits, exact mentions."""

import hashlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import NA, SPLITS, Instance
from fedrel.corpus.world import DEMO, NYT10, World
from fedrel.corpus.world_phrases import Template, phrases
from fedrel.errors import UserError


@pytest.fixture(scope="module")
def demo() -> dict[str, list[Instance]]:
    world = World()
    return {split: list(world.instances(split)) for split in SPLITS}


def pairs(instances: Iterable[Instance]) -> set[tuple[str, str]]:
    return {(it.head.id, it.tail.id) for it in instances}


def facts(instances: Iterable[Instance]) -> set[tuple[str, str, str]]:
    return {(it.head.id, it.relation, it.tail.id) for it in instances if it.relation != NA}


def words_of(templates: Iterable[Template]) -> set[tuple[str, ...]]:
    """What of a template reappears in sentences: its longest run of plain words."""
    runs = set()
    for template in templates:
        for reading in template:
            pieces = " ".join(token if token[0] != "{" else "{" for token in reading).split("{")
            runs.add(max((tuple(piece.split()) for piece in pieces), key=len))
    return {run for run in runs if len(run) >= 3}


def contains(tokens: tuple[str, ...], run: tuple[str, ...]) -> bool:
    return f" {' '.join(run)} ".lower() in f" {' '.join(tokens)} ".lower()


# ---------------------------------------------------------------------------------------------- phrases


def test_every_relation_has_enough_templates_with_both_entities_once() -> None:
    relations = phrases().relations
    assert len(relations) == len({it.name for it in relations}) == 52
    first_mentions = Counter[str]()
    for relation in relations:
        assert len(relation.true) >= 8, relation.name
        assert len(relation.misleading) >= 6, relation.name
        for template in relation.true + relation.misleading:
            for reading in template:
                assert reading.count("{h}") == reading.count("{t}") == 1, reading
                first_mentions[min("{h}", "{t}", key=reading.index)] += 1
    assert 0.2 < first_mentions["{t}"] / first_mentions.total() < 0.45


def test_neutral_templates_have_both_entities_once() -> None:
    for templates in phrases().neutral.values():
        assert len(templates) >= 40
        assert all(r.count("{h}") == r.count("{t}") == 1 for template in templates for r in template)


def test_no_template_is_both_true_and_misleading() -> None:
    true: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for relation in phrases().relations:
        true[relation.head, relation.tail] |= {r for template in relation.true for r in template}
    for relation in phrases().relations:
        for template in relation.misleading:
            assert true[relation.head, relation.tail].isdisjoint(template), template


def test_types_alone_do_not_give_the_relation_away() -> None:
    shared = Counter((it.head, it.tail) for it in phrases().relations)
    assert sum(number > 1 for number in shared.values()) >= 8
    in_demo = Counter((it.head, it.tail) for it in phrases().relations if it.name in World().relations())
    assert sum(number > 1 for number in in_demo.values()) >= 4


def test_relations_that_hold_together_have_the_same_types() -> None:
    by_name = {it.name: it for it in phrases().relations}
    for relation in by_name.values():
        for other in relation.also:
            assert (relation.head, relation.tail) == (by_name[other].head, by_name[other].tail)


# ----------------------------------------------------------------------------------------------- counts


def test_demo_has_the_planned_counts(demo: dict[str, list[Instance]]) -> None:
    for split, plan in DEMO.items():
        assert len(pairs(demo[split])) == plan.pairs
        assert len(facts(demo[split])) == plan.facts
        assert len(demo[split]) == round(plan.facts * 7 + plan.na_pairs * 1.3)


def test_schema_depends_on_the_size() -> None:
    assert World().relations()[:2] == [NA, "person/born_in"]
    assert len(World(99_999).relations()) == 15
    assert len(World(100_000).relations()) == len(World("nyt10").relations()) == 53


@settings(max_examples=8, deadline=None)
@given(
    size=st.integers(500, 2_000),
    seed=st.integers(0, 10**6),
    noise=st.floats(0, 1),
    evidence=st.floats(1, 30),
)
def test_any_world_is_exact_and_consistent(size: int, seed: int, noise: float, evidence: float) -> None:
    world = World(size, seed, noise, evidence)
    train = list(world.instances("train"))
    assert len(train) == size
    assert len(pairs(train)) == world.plan("train").pairs
    assert facts(train) <= set(world.triples())
    assert all(10 <= len(it.tokens) <= 35 for it in train)
    assert {it.relation for it in train} <= set(world.relations())


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_nyt10_has_the_counts_of_its_model(split: str) -> None:
    seen_pairs, seen_facts, sentences = set(), set(), 0
    for it in World("nyt10").instances(split):
        sentences += 1
        assert 10 <= len(it.tokens) <= 35
        seen_pairs.add((it.head.id, it.tail.id))
        if it.relation != NA:
            seen_facts.add((it.head.id, it.relation, it.tail.id))
    plan = NYT10[split]
    assert (sentences, len(seen_pairs), len(seen_facts)) == (plan.sentences, plan.pairs, plan.facts)


@pytest.mark.slow
def test_nyt10_has_many_entities_with_names_of_their_own() -> None:
    names = [(entity.type, entity.names[0]) for entity in World("nyt10").entities()]
    assert len(names) >= 70_000
    assert len(set(names)) >= 0.99 * len(names)


@pytest.mark.parametrize("size", ["nyt", 499, 10**9])
def test_unknown_sizes_are_refused(size: str | int) -> None:
    with pytest.raises(UserError):
        World(size)


@pytest.mark.parametrize("parameters", [{"noise": 1.1}, {"evidence": 0.5}, {"size": "nyt10", "evidence": 13}])
def test_impossible_parameters_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(UserError):
        World(**parameters)  # type: ignore[arg-type]


def test_unknown_split_is_refused() -> None:
    with pytest.raises(UserError, match='did you mean "dev"'):
        list(World().instances("deb"))


# ------------------------------------------------------------------------------------ sentences and truth


def test_same_parameters_same_sentences(demo: dict[str, list[Instance]]) -> None:
    assert list(World().instances("dev")) == demo["dev"]
    assert list(World(seed=2).instances("dev")) != demo["dev"]


def test_sentences_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "import hashlib; from fedrel.corpus.world import World;"
        "print(hashlib.sha256(repr(list(World(600).instances('train'))).encode()).hexdigest())"
    )
    here = hashlib.sha256(repr(list(World(600).instances("train"))).encode()).hexdigest()
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_mentions_are_names_of_their_entities(demo: dict[str, list[Instance]]) -> None:
    names = {entity.id: entity.names for entity in World().entities()}
    used = defaultdict(set)
    for it in (it for split in SPLITS for it in demo[split]):
        for mention in (it.head, it.tail):
            name = " ".join(it.tokens[mention.start : mention.end])
            assert name in names[mention.id]
            used[mention.id].add(name)
        assert it.head.end <= it.tail.start or it.tail.end <= it.head.start
    assert sum(len(it) > 1 for it in used.values()) > 500  # aliases are used


def test_canonical_names_are_distinct() -> None:
    names = [(entity.type, entity.names[0]) for entity in World().entities()]
    assert len(set(names)) >= 0.99 * len(names)
    assert len({entity.id for entity in World().entities()}) == len(names)


def test_types_fit_the_relation(demo: dict[str, list[Instance]]) -> None:
    types = {entity.id: entity.type for entity in World().entities()}
    relations = {it.name: (it.head, it.tail) for it in phrases().relations}
    for head, relation, tail in World().triples():
        assert (types[head], types[tail]) == relations[relation]


def test_sentences_have_a_natural_shape(demo: dict[str, list[Instance]]) -> None:
    lengths = [len(it.tokens) for it in demo["train"]]
    assert min(lengths) >= 10
    assert max(lengths) <= 35
    assert 18 < sum(lengths) / len(lengths) < 23
    for it in demo["train"]:
        assert it.tokens[-1] == "."
        assert not it.tokens[0][0].islower()
        assert not any(token[0] in "{[" or " " in token for token in it.tokens)
    assert len({it.source for it in demo["train"]}) == 40


def test_no_pair_is_in_two_splits_in_any_direction(demo: dict[str, list[Instance]]) -> None:
    for one in SPLITS:
        for other in SPLITS:
            if one != other:
                assert pairs(demo[one]).isdisjoint(pairs(demo[other]))
                assert pairs(demo[one]).isdisjoint({(tail, head) for head, tail in pairs(demo[other])})


def test_pairs_without_a_fact_are_not_in_the_knowledge_base(demo: dict[str, list[Instance]]) -> None:
    known = {(head, tail) for head, _, tail in World().triples()}
    unrelated = pairs(it for split in SPLITS for it in demo[split] if it.relation == NA)
    assert unrelated.isdisjoint(known)
    assert not any(it.expressed for it in demo["train"] if it.relation == NA)


def test_knowledge_base_is_what_the_sentences_are_labelled_with(demo: dict[str, list[Instance]]) -> None:
    triples = list(World().triples())
    assert len(triples) == len(set(triples))
    assert set(triples) == facts(it for split in SPLITS for it in demo[split])


def test_some_facts_hold_at_most_once_of_an_entity() -> None:
    born = [head for head, relation, _ in World().triples() if relation == "person/born_in"]
    assert len(born) == len(set(born))
    wed = [id for head, relation, tail in World().triples() if relation == "person/spouse_of" for id in (head, tail)]
    assert len(wed) == len(set(wed))


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.6, 1.0])
def test_noise_is_the_share_of_sentences_that_do_not_express_their_fact(noise: float) -> None:
    train = list(World(6_000, noise=noise).instances("train"))
    relations = defaultdict(set)
    for it in train:
        relations[it.head.id, it.tail.id].add(it.relation)
    single = [it for it in train if it.relation != NA and len(relations[it.head.id, it.tail.id]) == 1]
    assert sum(not it.expressed for it in single) / len(single) == pytest.approx(noise, abs=0.03)


@pytest.mark.parametrize("evidence", [1.0, 3.5, 7.0, 12.0])
def test_evidence_is_the_mean_number_of_sentences_per_fact(evidence: float) -> None:
    train = World(evidence=evidence).instances("train")
    sizes = Counter((it.head.id, it.relation, it.tail.id) for it in train if it.relation != NA)
    assert sizes.total() / len(sizes) == pytest.approx(evidence, abs=0.01)
    assert max(sizes.values()) <= 40


def test_two_relations_of_a_pair_share_their_sentences(demo: dict[str, list[Instance]]) -> None:
    rows: dict[tuple[str, str], dict[str, list[Instance]]] = defaultdict(lambda: defaultdict(list))
    for it in demo["train"]:
        rows[it.head.id, it.tail.id][it.relation].append(it)
    doubles = [relations for relations in rows.values() if len(relations) == 2]
    assert len(doubles) == DEMO["train"].doubles
    for one, other in (relations.values() for relations in doubles):
        assert [it.tokens for it in one] == [it.tokens for it in other]
        assert not any(a.expressed and b.expressed for a, b in zip(one, other, strict=True))


def test_misleading_phrases_come_with_facts_and_without(demo: dict[str, list[Instance]]) -> None:
    for relation in phrases().relations[:14]:
        runs = words_of(relation.misleading)
        hits = [it for it in demo["train"] if any(contains(tuple(it.tokens), run) for run in runs)]
        assert any(it.relation == NA for it in hits), relation.name
        assert any(it.relation == relation.name and not it.expressed for it in hits), relation.name


def test_unexpressed_sentences_contain_true_phrases_about_others(demo: dict[str, list[Instance]]) -> None:
    runs = words_of(template for relation in phrases().relations[:14] for template in relation.true)
    false = [it for it in demo["dev"] if not it.expressed]
    assert sum(any(contains(tuple(it.tokens), run) for run in runs) for it in false) > 0.15 * len(false)
