"""Sentence, head and tail without offsets: entities are found where they stand, and rows that lack one are counted."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Instance, Mention, Skipped, bere
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits
from fedrel.errors import UserError
from tests.instances import anything, items

ROW: dict[str, object] = {
    "pmid": "17",
    "tail": {"word": "xase 2", "id": "P2"},
    "sentence": "So zinc (5 mg) stops xase 2 .",
    "head": {"word": "zinc", "id": "DB1"},
    "relation": "inhibitor",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("bere") / "train.json"


def row(sentence: object = None, head: object = None, tail: object = None, **changes: object) -> dict[str, object]:
    """A good row with some fields replaced; texts for head and tail are their words, None removes another field."""
    given = {
        "sentence": sentence,
        **{side: {"word": it} if isinstance(it, str) else it for side, it in (("head", head), ("tail", tail))},
    }
    fields = ROW | {key: value for key, value in given.items() if value is not None} | changes
    return {key: value for key, value in fields.items() if value is not None}


def read(path: Path, *rows: object) -> tuple[list[Instance], Skipped]:
    path.write_text(json.dumps(rows))
    skip = Skipped()
    return list(items(bere.read, path, skip)), skip


def test_a_row_is_read_with_all_that_it_says(path):
    [found], skip = read(path, ROW)
    words = ["So", "zinc", "(", "5", "mg", ")", "stops", "xase", "2", "."]
    assert found == Instance(words, Mention("DB1", 1, 2), Mention("P2", 7, 9), "inhibitor", "17", None, "17")
    assert skip.total == 0


def test_the_old_nre_has_types_and_no_document_and_names_may_be_called_so(path):
    old = {"id": "m.1", "type": "DRUG", "word": "zinc"}
    [found], _ = read(path, row(head=old, tail={"name": "xase", "id": 7}, pmid=None, relation="NA"))
    assert (found.head, found.tail) == (Mention("m.1", 1, 2, "DRUG"), Mention("7", 7, 8))
    assert (found.relation, found.source, found.document) == ("NA", "", "")


def test_without_an_id_an_entity_has_none(path):
    [found], _ = read(path, row(head="zinc", tail={"word": "xase", "id": None}))
    assert (found.head.id, found.tail.id, found.head.local) == ("", "", "")


def test_an_object_a_line_is_the_same(path):
    expected, _ = read(path, ROW, row(relation="NA"))
    path.write_text("".join(json.dumps(it) + "\n" for it in (ROW, row(relation="NA"))))
    assert list(items(bere.read, path)) == expected


@pytest.mark.parametrize(
    ("sentence", "head", "tail", "found"),
    [
        ("ddrug10 , ddrug1 and ddrug2", "ddrug1", "ddrug2", ("ddrug1", 2, "ddrug2", 4)),
        ("IFN-γ and xIFN", "IFN", "xIFN", ("IFN", 0, "xIFN", 4)),
        ("Zinc stops XASE", "zinc", "xase", ("Zinc", 0, "XASE", 2)),
        ("ZINC or zinc stops xase", "zinc", "xase", ("zinc", 2, "xase", 4)),
        ("two zincs , an xase", "zinc", "xase", ("zincs", 1, "xase", 4)),  # inside a word, at last
        ("two zincs , one zinc , an xase", "zinc", "xase", ("zinc", 4, "xase", 7)),
        ("in New_York , Ann", "New York", "Ann", ("New_York", 1, "Ann", 3)),
        ("in New York , Ann", "New_York", "Ann", ("New York", 1, "Ann", 4)),
        ("TNF receptor binds TNF", "TNF", "TNF receptor", ("TNF", 3, "TNF receptor", 0)),
        ("TNF binds TNF receptor", "TNF receptor", "TNF", ("TNF receptor", 2, "TNF", 0)),
        ("TNF binds TNF", "TNF", "TNF", ("TNF", 0, "TNF", 2)),
        ("a TNF receptor", "TNF", "TNF receptor", ("TNF", 1, "TNF receptor", 1)),  # nowhere apart
        ("(+)-zinc stops xase", "(+)-zinc", "xase", ("( + ) - zinc", 0, "xase", 6)),
        ("İ zinc stops xase", "ZINC", "xase", None),  # whose small letter is longer
    ],
)
def test_entities_are_found_as_whole_words_and_apart(path, sentence, head, tail, found):
    instances, skip = read(path, row(sentence, head, tail))
    if found is None:
        assert (instances, skip.broken.total()) == ([], 1)
        return
    [it] = instances
    words = (" ".join(it.tokens[mention.start : mention.end]) for mention in (it.head, it.tail))
    head_words, tail_words = words
    assert (head_words, it.head.start, tail_words, it.tail.start) == found


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (row(head="gold"), 'the entity "gold" is not in the sentence; write it as the sentence does'),
        (row(head=" "), '"head" needs "word", what the entity is called in the sentence'),
        (row(tail={"id": "P2"}), '"tail" needs "word"'),
        (row(tail={"word": 3}), '"tail" needs "word"'),
        (row(tail=["xase"]), '"tail" needs "word"'),
        (row(relation=None), '"relation" is missing or no text; write NA where there is none'),
        (row(relation=7), '"relation" is missing or no text'),
        (row(sentence=" "), '"sentence" is missing or no text'),
        (row(sentence=["zinc", "xase 2"]), '"sentence" is missing or no text'),
        ("zinc", "not a JSON object"),
    ],
)
def test_a_broken_row_is_counted_with_its_place_and_the_rest_is_read(path, bad, says):
    found, skip = read(path, ROW, bad, ROW)
    assert (len(found), skip.total, skip.broken.total()) == (2, 1, 1)
    [said] = skip.broken_examples
    assert said.startswith(f"{path}:1, row 2: ") and says in said


def test_a_file_that_is_cut_off_is_refused(path):
    path.write_text(json.dumps([ROW, ROW])[:-9])
    with pytest.raises(UserError, match="is the file damaged or cut off"):
        list(bere.read(path, Skipped()))


_word = st.text("abİ _-", max_size=4)
_entity = st.fixed_dictionaries({"word": _word | anything}, optional={"id": anything, "type": anything}) | anything


@given(
    st.fixed_dictionaries(
        {"sentence": st.text("abİ _-", max_size=12) | anything, "head": _entity, "tail": _entity},
        optional={"relation": st.just("r") | anything, "pmid": anything},
    )
    | anything
)
def test_whatever_the_json_each_row_is_whole_or_counted(path, value):
    found, skip = read(path, value)
    assert len(found) + skip.total == 1
    for it in found:
        assert all(0 <= mention.start < mention.end <= len(it.tokens) for mention in (it.head, it.tail))


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([ROW, ROW]),
        json.dumps([ROW])[:100],
        json.dumps([ROW, ROW], indent=1),
        json.dumps(row(head={"id": "m.1", "type": "x", "word": "zinc"})) + "\n",
    ],
)
def test_it_is_known_by_its_content(path, content):
    path.write_text(content)
    assert detect(path).source == "bere"


def test_a_folder_of_it_as_published(tmp_path):
    for name in ("train.json", "valid.json", "test.json"):
        (tmp_path / name).write_text(json.dumps([ROW]))
    (tmp_path / "label2id.json").write_text('{"NA": 0, "inhibitor": 1}')
    (tmp_path / "vocab.pt").write_bytes(b"\x80\x02")
    (tmp_path / "config.py").write_text("BAG_MODE = True\n")
    assert detect(tmp_path).source == "bere"
    found = find_splits(tmp_path, "bere")
    assert [found[split].name for split in ("train", "dev", "test")] == ["train.json", "valid.json", "test.json"]
