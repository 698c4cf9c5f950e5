"""FewRel: sentences by relation, entities with ids of Wikidata, and the files that lie beside the splits."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Instance, Mention, Skipped, fewrel
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits
from fedrel.errors import UserError
from tests.instances import anything, items

ROW: dict[str, object] = {
    "tokens": ["In", "Bonn", "Ann", "Lee", "said", "Ann", "Lee", "left", "."],
    "h": ["ann lee", "Q1", [[2, 3], [5, 6]]],
    "t": ["bonn", "Q2", [[1]]],
}
DATA = {"P19": [ROW, ROW | {"t": ["bonn", "bonn", [[1]]]}], "P26": [ROW]}
UNLABELLED = "sentences without a relation, as in pubmed_unsupervised.json, cannot be trained on"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fewrel") / "train_wiki.json"


def read(path: Path, value: object) -> tuple[list[Instance], Skipped]:
    path.write_text(json.dumps(value))
    skip = Skipped()
    return list(items(fewrel.read, path, skip)), skip


def test_a_sentence_is_read_with_all_that_it_says(path):
    found, skip = read(path, DATA)
    assert found[0] == Instance(ROW["tokens"], Mention("Q1", 2, 4), Mention("Q2", 1, 2), "P19")
    assert [it.relation for it in found] == ["P19", "P19", "P26"]
    assert found[1].tail == Mention("", 1, 2), "its id is its name"
    assert skip.total == 0
    places = [where for where, _ in fewrel.read(path, Skipped())]
    assert places == [f"{path}: P19, sentence 1", f"{path}: P19, sentence 2", f"{path}: P26, sentence 1"]


def entity(*parts: object) -> dict[str, object]:
    return ROW | {"t": list(parts)}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("place of birth", 'not a JSON object with "tokens", "h" and "t"'),
        (ROW | {"tokens": "In Bonn"}, '"tokens" must hold tokens, each of them text'),
        (ROW | {"tokens": ["In", 3]}, '"tokens" must hold tokens, each of them text'),
        (ROW | {"tokens": []}, 'the tokens of "h" lie outside of the 0 of the sentence; they count from 0'),
        (ROW | {"h": None}, '"h" must be a name, an id and the tokens: ["ann", "Q1", [[0, 1]]]'),
        (entity("bonn", "Q2"), '"t" must be a name, an id and the tokens'),
        (entity("bonn", "Q2", []), '"t" must be a name'),
        (entity("bonn", "Q2", [[]]), '"t" must be a name'),
        (entity("bonn", "Q2", [1]), '"t" must be a name'),
        (entity("bonn", "Q2", [[True]]), '"t" must be a name'),
        (entity("bonn", "Q2", [[1.0]]), '"t" must be a name'),
        (entity("bonn", 2, [[1]]), '"t" must be a name'),
        (entity("bonn", "Q2", [[9]]), 'the tokens of "t" lie outside of the 9'),
        (entity("bonn", "Q2", [[-1, 1]]), 'the tokens of "t" lie outside of the 9'),
        (entity("bonn", "Q2", [[1, 10**400]]), 'the tokens of "t" lie outside of the 9'),
    ],
)
def test_a_broken_sentence_is_counted_with_its_place_and_the_rest_is_read(path, bad, says):
    found, skip = read(path, {"P19": [ROW, bad, ROW]})
    assert (len(found), skip.total, skip.broken.total()) == (2, 1, 1)
    [said] = skip.broken_examples
    assert said.startswith(f"{path}: P19, sentence 2: ") and says in said


def test_broken_relations_are_counted_and_all_of_a_kind_together(path):
    found, skip = read(path, {"P19": [ROW], "P26": "x", " ": [ROW], "P1\nP2": [3, 3]})
    assert len(found) == 1
    assert skip.broken == {'not a JSON object with "…", "…" and "…"': 3, "the relation has no name": 1}
    assert f"{path}: P1 P2, sentence 1: " in skip.broken_examples[2]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps([ROW]), UNLABELLED),
        ("3", "not a JSON object such as"),
        (json.dumps(DATA)[:-9], "is the file damaged or cut off"),
        ('{"P19": ' + "[" * 100_000, "too deep to read"),
        ("", "not a JSON object"),
    ],
)
def test_a_file_that_is_something_else_is_refused(path, content, says):
    path.write_text(content)
    with pytest.raises(UserError, match=says) as caught:
        list(fewrel.read(path, Skipped()))
    assert str(caught.value).startswith(f"{path}:")
    assert "\n" not in str(caught.value)


_places = st.lists(st.lists(st.integers(-1, 5) | anything, max_size=2), max_size=2) | anything
_entity = st.tuples(st.just("a") | anything, st.just("Q1") | anything, _places) | anything
_sentence = st.fixed_dictionaries(
    {"tokens": st.lists(st.text(max_size=3), max_size=5) | anything, "h": _entity, "t": _entity}
)


@given(st.dictionaries(st.text(max_size=3), st.lists(_sentence | anything, max_size=2) | anything, max_size=3))
def test_whatever_the_json_each_sentence_is_whole_or_counted(path, value):
    found, skip = read(path, value)
    assert len(found) + skip.total == sum(len(it) if isinstance(it, list) else 1 for it in value.values())
    for it in found:
        assert all(0 <= mention.start < mention.end <= len(it.tokens) for mention in (it.head, it.tail))


@pytest.mark.parametrize("content", [json.dumps(DATA), json.dumps(DATA)[:300], json.dumps(DATA, indent=1)])
def test_it_is_known_by_its_content(path, content):
    path.write_text(content)
    assert detect(path).source == "fewrel"


def test_names_of_relations_are_not_taken_for_it(tmp_path):
    (tmp_path / "pid2name.json").write_text('{"P19": ["place of birth", "where somebody was born"]}')
    with pytest.raises(UserError, match="in no format that is known here"):
        detect(tmp_path / "pid2name.json")


def test_a_folder_of_it_as_published(tmp_path):
    for name in ("train_wiki", "val_wiki", "val_nyt", "val_pubmed", "val_semeval"):
        (tmp_path / f"{name}.json").write_text(json.dumps(DATA))
    (tmp_path / "pid2name.json").write_text('{"P19": ["place of birth", "where somebody was born"]}')
    (tmp_path / "pubmed_unsupervised.json").write_text(json.dumps([ROW]))
    assert detect(tmp_path).source == "fewrel"
    found = find_splits(tmp_path, "fewrel")
    assert {split: file.name for split, file in found.items()} == {"train": "train_wiki.json", "dev": "val_wiki.json"}
