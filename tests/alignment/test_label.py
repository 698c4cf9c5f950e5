"""Distant labels: exact cases by hand, and the rules that hold for every knowledge base and text."""

import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.alignment.label import CAP, RATE, TURNED, TYPES, UNLINKED, Batch, Labeller, Rules, split_of
from fedrel.alignment.mentions import MOST_SPOTS, NOT_IN_KB, TOO_MANY
from fedrel.corpus import NA, SHOWN, SPLITS, Annotation, Document, Skipped, opennre
from fedrel.errors import UserError
from tests.knowledge import knowledge

ENTITIES = {
    "Q1": "person: Ann Lee|Lee",
    "Q2": "person: Bo Lee|Lee",
    "Q3": "city: Bonn",
    "Q4": "city: Cologne",
    "Q5": "river: Rhine",
    "Q6": "person: Cy Fox",
}
TRIPLES = ["Q1 born_in Q3", "Q1 lives_in Q3", "Q3 birthplace_of Q1", "Q2 lives_in Q4"]


def batch_of(*texts: str | Document, triples=TRIPLES, entities=ENTITIES, **rules) -> Batch:
    documents = [it if isinstance(it, Document) else Document(f"d{n}.txt", it) for n, it in enumerate(texts)]
    return Labeller(knowledge(entities, triples), Rules(**rules)).label(documents)


def rows(batch: Batch) -> list[dict[str, Any]]:
    return [json.loads(line) for line in batch.lines]


def by_split(batch: Batch) -> dict[str, list[str]]:
    """The lines of each split; those in none are left out."""
    decided = batch.draft.decide()
    return {
        split: [line for line, found in zip(batch.lines, decided, strict=True) if found == number]
        for number, split in enumerate(SPLITS)
    }


def labels(*texts: str | Document, **more) -> list[str]:
    """`Q1 born_in Q3`, sorted."""
    return sorted(f"{it['h']['id']} {it['relation']} {it['t']['id']}" for it in rows(batch_of(*texts, **more)))


# --------------------------------------------------------------------------------------------- exact cases


def test_a_line_is_exactly_this():
    batch = batch_of('It rained.\n"Ann Lee" – born in\tBonn.', dev=0, test=0)
    assert by_split(batch)["train"][0] == (
        '{"text": "\\"Ann Lee\\" – born in\\tBonn.", '
        '"h": {"id": "Q1", "name": "Ann Lee", "pos": [1, 8]}, "t": {"id": "Q3", "name": "Bonn", "pos": [20, 24]}, '
        '"relation": "born_in", "source": "d0.txt", "start": 11}\n'
    )


def test_a_pair_gets_every_relation_it_has_in_both_directions():
    assert labels("Ann Lee left Bonn.") == ["Q1 born_in Q3", "Q1 lives_in Q3", "Q3 birthplace_of Q1"]


def test_a_pair_without_a_relation_is_na_where_some_relation_joins_such_types():
    batch = batch_of("Cy Fox saw Bonn and the Rhine.")
    assert labels("Cy Fox saw Bonn and the Rhine.") == ["Q3 NA Q6", "Q6 NA Q3"]
    assert batch.counts[TYPES] == 4
    assert labels("Bonn and Cologne on the Rhine") == []


def test_only_the_direction_that_types_allow_is_na():
    assert labels("Cy Fox saw Cologne.", triples=["Q1 born_in Q3"]) == ["Q6 NA Q4"]


def test_the_closest_mentions_of_a_pair_are_labelled_once():
    batch = batch_of("Ann Lee left Cologne, and Bonn saw Ann Lee again.", triples=["Q1 born_in Q3"], na_per_sentence=0)
    [row] = rows(batch)
    assert (row["h"]["pos"], row["t"]["pos"]) == ([35, 42], [26, 30])


def test_each_sentence_and_document_counts_by_itself():
    batch = batch_of("Ann Lee. Bonn.", "Ann Lee", "Bonn", "Bonn: Ann Lee. Ann Lee in Bonn.", triples=["Q1 born_in Q3"])
    assert [(it["source"], it["start"], it["relation"]) for it in rows(batch)] == [
        ("d3.txt", 0, "born_in"),
        ("d3.txt", 15, "born_in"),
    ]
    assert (batch.sentences_of, batch.facts) == ({"born_in": 2}, {("Q1", "born_in", "Q3")})
    assert (len(batch.pairs), batch.counts["sentences with a pair"], batch.counts["sentences"]) == (1, 2, 6)


def test_an_ambiguous_name_stands_for_each_candidate_of_which_something_is_known():
    assert labels("Lee knows Bonn.") == ["Q1 born_in Q3", "Q1 lives_in Q3", "Q3 birthplace_of Q1"]
    assert labels("Lee left Bonn for Cologne.", na_per_sentence=0) == [
        *("Q1 born_in Q3", "Q1 lives_in Q3", "Q2 lives_in Q4", "Q3 birthplace_of Q1")
    ]
    two = labels("Lee.", "Lee in Bonn", triples=["Q1 born_in Q3", "Q2 born_in Q3", "Q2 lives_in Q3"])
    assert two == ["Q1 born_in Q3", "Q2 born_in Q3", "Q2 lives_in Q3"]


def test_an_ambiguous_name_of_which_nothing_is_known_is_one_entity_by_itself():
    assert labels("Lee likes Cologne.", triples=["Q1 born_in Q3"]) == ["Q1|Q2 NA Q4"]


def test_a_settled_name_stands_for_one():
    assert labels("Bo Lee came. Lee knows Bonn.", triples=["Q1 born_in Q3"]) == ["Q2 NA Q3"]


def test_a_fact_is_in_a_sentence_once_though_an_ambiguous_name_could_say_it_too():
    batch = batch_of("Ann Lee and Bo Lee; Lee saw Bonn.", triples=["Q1 born_in Q3"], na_per_sentence=0)
    [row] = rows(batch)
    assert (row["h"]["name"], row["h"]["pos"]) == ("Ann Lee", [0, 7])


def test_mentions_that_overlap_are_no_pair():
    text = "University of Bonn"
    whole = Annotation("T1", 0, 18, id="Q6")
    assert labels(Document("d", text, (whole, Annotation("T2", 14, 18, id="Q3")))) == []
    assert labels(Document("d", "Cy Bonn", (Annotation("T1", 0, 2, id="Q6"), Annotation("T2", 3, 7, id="Q3")))) != []


def test_marks_are_used_and_pairs_with_those_outside_of_the_knowledge_base_counted():
    text = "Ann took zinc in Bonn."
    marks = (Annotation("T1", 0, 3, id="Q1"), Annotation("T2", 9, 13, id="Z"), Annotation("T3", 17, 21))
    batch = batch_of(Document("d", text, marks), triples=["Q1 born_in Q3"])
    assert labels(Document("d", text, marks), triples=["Q1 born_in Q3"]) == ["Q1 born_in Q3"]
    assert batch.skipped.reasons == {NOT_IN_KB: 1}
    assert batch.counts[UNLINKED] == 4
    assert batch.counts[TYPES] == 1


def test_a_list_is_left_out_and_counted():
    batch = batch_of("Ann Lee, Bonn, " * MOST_SPOTS, "Ann Lee in Bonn.")
    assert {it["source"] for it in rows(batch)} == {"d1.txt"}
    assert batch.skipped.reasons == {TOO_MANY: 1}


# --------------------------------------------------------------------------------- relations of both directions

MARRIED = ["Q1 married Q2", "Q2 married Q1", "Q1 married Q6", "Q6 knows Q2"]


def test_the_other_direction_of_a_symmetric_relation_is_not_na():
    assert knowledge(ENTITIES, MARRIED).symmetric == {0}
    batch = batch_of("Ann Lee and Cy Fox", triples=MARRIED)
    assert labels("Ann Lee and Cy Fox", triples=MARRIED) == ["Q1 married Q6"]
    assert batch.counts[TURNED] == 1
    assert labels("Ann Lee and Bo Lee", triples=MARRIED) == ["Q1 married Q2", "Q2 married Q1"]
    assert labels("Cy Fox and Bo Lee", triples=MARRIED) == ["Q2 NA Q6", "Q6 knows Q2"], "no symmetric one"


def test_an_ambiguous_name_may_stand_for_either_end_of_a_symmetric_relation():
    entities = {**ENTITIES, "Q7": "person: Fox", "Q8": "person: Fox"}
    assert labels("Ann Lee saw Fox.", entities=entities, triples=[*MARRIED, "Q1 married Q7", "Q7 married Q1"]) == [
        *("Q1 married Q7", "Q7 married Q1")
    ]
    assert labels("Bo Lee saw Fox.", entities=entities, triples=[*MARRIED, "Q8 married Q2", "Q6 married Q1"]) == [
        "Q8 married Q2"
    ]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("rst"), st.integers(0, 4)), min_size=1))
def test_symmetric_relations_are_those_of_a_plain_count(triples):
    kb = knowledge({f"Q{n}": f"t: n{n}" for n in range(5)}, [f"Q{h} {r} Q{t}" for h, r, t in triples])
    different = set(triples)
    expected = set()
    for relation in {r for _, r, _ in different}:
        mine = [it for it in different if it[1] == relation]
        if 2 * sum((t, r, h) in different for h, r, t in mine) >= len(mine):
            expected.add(relation)
    assert {kb.relations[number] for number in kb.symmetric} == expected


# ------------------------------------------------------------------------------------------- thinning out

MANY = {f"P{n}": f"person: Person{n}" for n in range(30)} | {f"C{n}": f"city: City{n}" for n in range(30)}
CROWD = " ".join([*(f"Person{n}" for n in range(5)), *(f"City{n}" for n in range(5))])


def crowd(*texts: str, **rules) -> Batch:
    return batch_of(*texts, entities=MANY, triples=["P0 lives_in C0"], **rules)


@pytest.mark.parametrize("cap", [0, 1, 3, 24, 99])
def test_so_many_pairs_without_a_relation_are_kept_a_sentence(cap):
    batch = crowd(f"{CROWD}. {CROWD}!", na_per_sentence=cap)
    assert batch.sentences_of == {"lives_in": 2} | ({NA: 2 * min(cap, 24)} if cap else {})
    assert batch.counts[CAP] == 2 * max(24 - cap, 0)
    assert batch.counts[RATE] == 0


def test_which_pairs_the_cap_leaves_depends_on_seed_and_sentence_alone():
    def chosen(text, **rules):
        return {(it["h"]["id"], it["t"]["id"]) for it in rows(crowd(text, **rules)) if it["relation"] == NA}

    assert chosen(CROWD, na_per_sentence=6) == chosen(CROWD, na_per_sentence=6)
    assert chosen(CROWD, na_per_sentence=6) < chosen(CROWD, na_per_sentence=7)
    assert chosen(CROWD, na_per_sentence=6) != chosen(CROWD, na_per_sentence=6, seed=2)
    assert chosen(CROWD, na_per_sentence=6) != chosen(f"{CROWD} again", na_per_sentence=6)


@pytest.mark.parametrize("rate", [0, 0.3, 1])
def test_the_rate_keeps_a_share_of_the_pairs_with_all_their_sentences(rate):
    every = [f"Person{p} City{c}" for p in range(30) for c in range(30) if p or c]
    batch = crowd(*every, *(f"{text} again" for text in every), na_rate=rate)
    sentences = Counter((it["h"]["id"], it["t"]["id"]) for it in rows(batch))
    assert set(sentences.values()) <= {2}
    assert len(sentences) == pytest.approx(rate * 899, abs=60 if 0 < rate < 1 else 0)
    assert batch.counts[RATE] == 2 * (899 - len(sentences))
    fewer = {(it["h"]["id"], it["t"]["id"]) for it in rows(crowd(*every, na_rate=rate * 0.5))}
    assert fewer <= set(sentences)


def test_no_rate_and_no_cap_touch_a_fact():
    for rules in ({"na_rate": 0.0}, {"na_per_sentence": 0}):
        assert crowd(CROWD, **rules).sentences_of == {"lives_in": 1}


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"dev": 0.5, "test": 0.5}, "--dev 0.5 and --test 0.5 leave nothing to train on"),
        ({"dev": -0.1}, "--dev -0.1 is not a share from 0 to 1"),
        ({"test": float("nan")}, "--test nan is not a share"),
        ({"na_rate": 1.1}, "--na-rate 1.1 is not a share"),
        ({"na_per_sentence": -1}, "--na-per-sentence -1 is negative; give 0 or more"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules, says):
    with pytest.raises(UserError, match=says):
        Rules(**rules)


# ----------------------------------------------------------------------------------------------- splits

PAIRS = [f"Q{a}\tQ{b}" for a in range(100) for b in range(a)]  # ids that differ by a digit: a checksum is not enough


def test_splits_get_their_share_of_the_pairs():
    rules = Rules(dev=0.2, test=0.1)
    found = Counter(split_of(pair, rules) for pair in PAIRS)
    for split, share in (("train", 0.7), ("dev", 0.2), ("test", 0.1)):
        assert found[split] / len(PAIRS) == pytest.approx(share, abs=0.02)
    assert {split_of(pair, Rules(dev=0, test=0)) for pair in PAIRS} == {"train"}
    assert Rules(dev=0).splits == ["train", "test"]
    assert Rules(dev=0, test=0).splits == ["train"]


@pytest.mark.parametrize("seed", [2, 3, 11])
def test_another_seed_is_another_split_that_has_nothing_to_do_with_it(seed):
    one, other = ({pair for pair in PAIRS if split_of(pair, Rules(seed=it)) == "test"} for it in (1, seed))
    assert len(one & other) / len(PAIRS) == pytest.approx(0.01, abs=0.005)


def test_the_rate_does_not_favour_a_split():
    every = [f"Person{p} City{c}" for p in range(30) for c in range(30)]
    batch = crowd(*every, na_rate=0.5, dev=0.25, test=0.25)
    for split, share in (("train", 0.5), ("dev", 0.25), ("test", 0.25)):
        assert len(by_split(batch)[split]) / 450 == pytest.approx(share, abs=0.06)


def test_batches_are_counted_together():
    total = Batch()
    marks = (Annotation("T1", 0, 1),)
    parts = [
        ["Ann Lee in Bonn.", Document("x", "x", marks)],
        ["Ann Lee, Bonn", *(Document(f"y{n}", "y", marks) for n in range(SHOWN))],
    ]
    for part in parts:
        total.count(batch_of(*part))
    whole = batch_of(*(text for part in parts for text in part))
    assert total.counts == +whole.counts
    assert (total.sentences_of, total.facts, total.pairs) == (whole.sentences_of, whole.facts, whole.pairs)
    assert total.skipped == whole.skipped
    assert len(total.skipped.examples) == SHOWN < total.skipped.total
    assert not total.lines
    assert total.draft == whole.draft


# ---------------------------------------------------------------------------- any knowledge base, any text

names = st.sampled_from(["Ann", "Bo Fox", "Fox", "Cy", "Ann Bo", "Don|Ed", "É", "東京"])
entities = st.lists(st.tuples(st.sampled_from(["person", "city"]), names), min_size=2, max_size=6)
words = names.map(lambda name: name.split("|")[0]) | st.sampled_from(["saw", ".", "\n", '"', "\\", "\u2028", "\u3000"])
texts = st.lists(st.lists(words, max_size=12).map(" ".join), min_size=1, max_size=4)


@st.composite
def worlds(draw):
    described = {f"Q{n}": f"{type_}: {name}" for n, (type_, name) in enumerate(draw(entities))}
    ids = st.sampled_from(list(described))
    some = st.lists(st.builds(" ".join, st.tuples(ids, st.sampled_from(["r", "s"]), ids)), min_size=1, max_size=6)
    documents = [Document(f"d{n}", text) for n, text in enumerate(draw(texts))]
    return described, draw(some), documents


@settings(max_examples=200)
@given(worlds(), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5))
def test_what_holds_for_every_text_and_knowledge_base(tmp_path_factory, world, cap, rate, seed):
    described, triples, documents = world
    kb = knowledge(described, triples)
    rules = Rules(na_per_sentence=cap, na_rate=rate, dev=0.3, test=0.3, seed=seed)
    batch = Labeller(kb, rules).label(documents)
    text_of = {document.id: document.text for document in documents}
    facts = {tuple(triple.split()) for triple in triples}
    splits_of = defaultdict(set)
    sentences = defaultdict(list)
    split_of_text = defaultdict(set)
    for split, lines in by_split(batch).items():
        for row in map(json.loads, lines):
            head, tail, text = row["h"], row["t"], row["text"]
            assert text_of[row["source"]][row["start"] : row["start"] + len(text)] == text
            for end in (head, tail):
                assert text[slice(*end["pos"])] == end["name"]
            assert head["pos"][1] <= tail["pos"][0] or tail["pos"][1] <= head["pos"][0]
            splits_of[frozenset((head["id"], tail["id"]))].add(split)
            split_of_text[text].add(split)
    assert all(len(splits) == 1 for found in (splits_of, split_of_text) for splits in found.values())
    for row in rows(batch):
        sentences[row["source"], row["start"]].append((row["h"]["id"], row["relation"], row["t"]["id"]))
    for found in sentences.values():
        assert len(set(found)) == len(found), "the same twice"
        unrelated = [(head, tail) for head, relation, tail in found if relation == NA]
        assert len(unrelated) <= cap
        for head, tail in unrelated:
            candidates = [(h, t) for h in head.split("|") for t in tail.split("|")]
            assert not any((h, r, t) in facts for h, t in candidates for r in ("r", "s"))
            assert any(kb.compatible(kb.numbers[h], kb.numbers[t]) for h, t in candidates)
        named = {fact for fact in found if fact[1] != NA}
        assert named <= facts
        for head, _, tail in named:
            assert named >= {fact for fact in facts if (fact[0], fact[2]) == (head, tail)}, "every relation of a pair"
    apart = Batch()
    for document in documents:
        apart.count(Labeller(kb, rules).label([document]))
    assert apart.counts == +batch.counts
    folder = tmp_path_factory.getbasetemp() / "labelled.jsonl"
    folder.write_text("".join(batch.lines), encoding="utf-8", newline="")
    assert len(list(opennre.read(folder, Skipped()))) == len(batch.lines)
