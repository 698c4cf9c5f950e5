"""Items of JSON files, read a piece at a time."""

import json
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import json_stream
from fedrel.corpus.json_stream import array_items, members
from fedrel.errors import UserError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module", params=[2**20, 7])
def file(request, tmp_path_factory):
    """With large and with tiny pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_CHUNK", request.param)
        yield tmp_path_factory.mktemp("json") / "a.json"


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=4), st.sampled_from([None, 1]))
def test_an_array_has_its_items(file, values, indent):
    file.write_text(json.dumps(values, indent=indent), encoding="utf-8")
    assert [item for _, item in array_items(file)] == values


@settings(max_examples=60)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), VALUES, max_size=4), st.booleans())
def test_an_object_has_its_members_and_the_items_of_its_lists(file, value, plain):
    file.write_text(json.dumps(value, ensure_ascii=plain, indent=None if plain else 1), encoding="utf-8")
    found = {
        key: [it.item for it in items] if items[0].number else items[0].item
        for key, items in ((key, list(items)) for key, items in groupby(members(file), lambda it: it.key))
    }
    assert found == {key: inner for key, inner in value.items() if inner != []}


@pytest.mark.parametrize(
    ("text", "line"),
    [("[]", ""), ("", ""), ('{"a": [1,\n2', ":2"), ('{"a" 1}', ":1"), ("{1: 2}", ":1"), ('{"a": 1}\n}', ":2")],
)
def test_what_is_no_object_is_refused(file, text, line):
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refusal:
        list(members(file))
    assert str(refusal.value).startswith(f"{file}{line}: not JSON from" if line else f"{file}: not a JSON object")


def test_an_item_that_is_too_long_is_refused_before_it_is_in_memory(file, monkeypatch):
    monkeypatch.setattr(json_stream, "LONGEST", 2_000)
    file.write_text(json.dumps({"a": ["x" * 100] * 100, "b": ["y" * 10_000_000]}))
    found = members(file)
    assert [next(found).item for _ in range(100)] == ["x" * 100] * 100
    with pytest.raises(UserError, match=r"a.json:1: damaged JSON, or one item of more than 0 MB"):
        next(found)
