"""TACRED's JSON: every field as it is in the file, and rows that are broken counted while the rest is read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Instance, Mention, Skipped, tacred
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits
from fedrel.errors import UserError
from tests.instances import anything, items

ROW: dict[str, object] = {
    "id": "e1",
    "docid": "NEWS_17",
    "relation": "per:employee_of",
    "token": ["Ann", "Lee", "-LRB-", "40", "-RRB-", "runs", "the", "Bonn", "Mill", "."],
    "subj_start": 7,
    "subj_end": 8,
    "obj_start": 0,
    "obj_end": 1,
    "subj_type": "ORGANIZATION",
    "obj_type": "PERSON",
    "stanford_pos": ["NNP"] * 10,
    "stanford_head": [2] * 10,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("tacred") / "train.json"


def row(**changes: object) -> dict[str, object]:
    """A good row with some fields replaced; None removes a field."""
    return {key: value for key, value in (ROW | changes).items() if value is not None}


def read(path: Path, *rows: object) -> tuple[list[Instance], Skipped]:
    path.write_text(json.dumps(rows))
    skip = Skipped()
    return list(items(tacred.read, path, skip)), skip


def test_a_row_is_read_with_all_that_it_says(path):
    [found], skip = read(path, ROW)
    head, tail = Mention("", 7, 9, "ORGANIZATION"), Mention("", 0, 2, "PERSON")
    assert found == Instance(ROW["token"], head, tail, "per:employee_of", "NEWS_17", None, "NEWS_17")
    assert found.tokens[head.start : head.end] == ["Bonn", "Mill"]
    assert skip.total == 0


def test_labels_stay_as_they_are_and_types_and_documents_may_be_missing(path):
    bare = row(relation="no_relation", docid=None, subj_type=None, obj_type=None)
    [found, semeval], skip = read(path, bare, bare | {"relation": "Cause-Effect(e1,e2)"})
    assert (found.relation, semeval.relation) == ("no_relation", "Cause-Effect(e1,e2)")
    assert (found.source, found.document, found.head.type, found.tail.type) == ("", "", "", "")
    assert skip.total == 0


def test_an_object_a_line_is_the_same(path):
    rows = [row(), row(relation="no_relation", docid="NEWS_18")]
    expected, _ = read(path, *rows)
    path.write_text("".join(json.dumps(it) + "\n\n" for it in rows))
    placed = list(tacred.read(path, Skipped()))
    assert [it for _, it in placed] == expected
    assert [where for where, _ in placed] == [f"{path}:1", f"{path}:3"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (row(relation=None), '"relation" is missing or no text; write no_relation where there is none'),
        (row(relation=" "), '"relation" is missing or no text'),
        (row(token=None), '"token" must hold tokens, each of them text'),
        (row(token=["Ann", 3]), '"token" must hold tokens, each of them text'),
        (row(token="Ann met Bo"), '"token" must hold tokens, each of them text'),
        (row(token=[]), '"subj_start" and "subj_end" lie outside of the 0 tokens'),
        (row(subj_end=10), '"subj_start" and "subj_end" lie outside of the 10 tokens'),
        (row(subj_end=6), "or are in the wrong order; they count from 0"),
        (row(obj_start=-1), '"obj_start" and "obj_end" lie outside'),
        (row(obj_end=10**400), '"obj_start" and "obj_end" lie outside'),
        (row(obj_end=None), '"obj_start" and "obj_end" must be whole numbers'),
        (row(obj_start="0"), '"obj_start" and "obj_end" must be whole numbers'),
        (row(obj_start=False), '"obj_start" and "obj_end" must be whole numbers'),
        (row(subj_end=8.0), '"subj_start" and "subj_end" must be whole numbers'),
        (3, "not a JSON object"),
        ([ROW], "not a JSON object"),
    ],
)
def test_a_broken_row_is_counted_with_its_place_and_the_rest_is_read(path, bad, says):
    found, skip = read(path, row(), bad, row())
    assert (len(found), skip.total, skip.broken.total()) == (2, 1, 1)
    [said] = skip.broken_examples
    assert said.startswith(f"{path}:1, row 2: ") and says in said


def test_a_file_that_is_cut_off_or_no_json_is_refused(path):
    path.write_text(json.dumps([ROW, ROW])[:-9])
    with pytest.raises(UserError, match="is the file damaged or cut off"):
        list(tacred.read(path, Skipped()))
    with pytest.raises(UserError, match="No such file"):
        list(tacred.read(path.with_name("none.json"), Skipped()))


_place = st.integers(-2, 12) | anything


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "relation": st.just("r") | anything,
                "token": st.lists(st.text(max_size=3), max_size=9) | anything,
                "docid": anything,
                **dict.fromkeys(("subj_start", "subj_end", "obj_start", "obj_end"), _place),
                "subj_type": anything,
            },
        )
        | st.builds(lambda places: ROW | places, st.dictionaries(st.sampled_from(sorted(ROW)), _place, max_size=2))
        | anything,
        max_size=3,
    )
)
def test_whatever_the_json_each_row_is_whole_or_counted(path, rows):
    found, skip = read(path, *rows)
    assert len(found) + skip.total == len(rows)
    for it in found:
        assert all(0 <= mention.start < mention.end <= len(it.tokens) for mention in (it.head, it.tail))


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([ROW, ROW]),
        "\n " + json.dumps([ROW])[:400],
        "[\n" + json.dumps(ROW) + ",\n" + json.dumps(ROW) + "]",
        json.dumps(ROW) + "\n" + json.dumps(ROW),
    ],
)
def test_it_is_known_by_its_content(path, content):
    path.write_text(content)
    assert detect(path).source == "tacred"


@pytest.mark.parametrize(
    "names", [("train.json", "dev.json", "test.json"), ("train.json", "dev_rev.json", "test_rev.json")]
)
def test_a_folder_of_it_as_published(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text(json.dumps([ROW]))
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}_id2label.json").write_text('{"e1": "no_relation"}')
    assert detect(tmp_path).source == "tacred"
    found = find_splits(tmp_path, "tacred")
    assert [found[split].name for split in ("train", "dev", "test")] == list(names)
