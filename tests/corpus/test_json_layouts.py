"""JSON as an array, an object a line, or objects over several lines, in files of either extension."""

import json

import pytest

from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.data.inspection import inspect
from fedrel.errors import UserError
from tests.instances import row

DOCUMENTS = [
    {"id": f"n{n}", "text": f"Zinc stops ABC{n}.", "entities": [{"start": 0, "end": 4}, {"start": 11, "end": 15}]}
    for n in range(3)
]
LAYOUTS = {
    "lines": lambda rows: "".join(json.dumps(it) + "\n" for it in rows),
    "an array": json.dumps,
    "an array over lines": lambda rows: json.dumps(rows, indent=2),
    "objects over lines": lambda rows: "\n".join(json.dumps(it, indent=1) for it in rows),
    "objects over lines and no end": lambda rows: "\ufeff" + json.dumps(rows[0], indent=1).strip() + "\n\n",
}


@pytest.mark.parametrize("extension", ["json", "jsonl"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_in_json_are_read_whatever_the_layout_and_the_extension(tmp_path, layout, extension):
    rows = DOCUMENTS[:1] if "no end" in layout else DOCUMENTS
    file = tmp_path / f"a.{extension}"
    for path in (file, tmp_path):  # alone, and in its folder
        for content in (rows, [{"text": it["text"]} for it in rows]):
            file.write_text(LAYOUTS[layout](content))
            assert detect(path).source == "jsonl"
            found = list(Documents(path))
            assert [it.text for it in found] == [it["text"] for it in rows]
            assert [len(it.annotations or ()) for it in found] == [len(it.get("entities", ())) for it in content]


@pytest.mark.parametrize("layout", list(LAYOUTS)[:4])
def test_labelled_sentences_in_json_are_read_whatever_the_layout(tmp_path, layout):
    rows = [json.loads(row(text=f"Ann was born in Bonn {n}.")) for n in range(3)]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.json").write_text(LAYOUTS[layout](rows))
    report = inspect(tmp_path)
    assert (report.format, report.parts["train"].counts["rows"]) == ("opennre", 3)
    assert (report.parts["train"].counts["sentences"], report.skipped.total) == (3, 0)


def test_documents_with_relations_in_json_arrays_are_trained_on(tmp_path):
    marked = [{**it, "relations": [{"head": "T1", "relation": "stops", "tail": "T2"}]} for it in DOCUMENTS]
    for split in ("train", "dev", "test"):
        (tmp_path / split).mkdir()
        for number, document in enumerate(marked):
            (tmp_path / split / f"{number}.json").write_text(json.dumps(document, indent=1))
    report = inspect(tmp_path)
    assert (report.format, report.kind) == ("jsonl", "labelled sentences")
    assert {name: it.counts["documents"] for name, it in report.parts.items()} == {"train": 3, "dev": 3, "test": 3}


def test_a_folder_of_both_extensions_is_one_data_set(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(DOCUMENTS))
    (tmp_path / "b.jsonl").write_text(json.dumps(DOCUMENTS[0]) + "\n")
    found = detect(tmp_path)
    assert (found.source, found.why) == ("jsonl", '2 .json and .jsonl files; a.json: JSON array with "text"')
    assert len(list(Documents(tmp_path))) == 4
    (tmp_path / "b.jsonl").write_text('{"words": []}\n')
    with pytest.raises(UserError, match="files of different kinds"):
        detect(tmp_path)


def test_a_damaged_object_over_several_lines_is_refused_with_its_line(tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(DOCUMENTS[0], indent=1) + "\n" + json.dumps(DOCUMENTS[1], indent=1)[:-9])
    with pytest.raises(UserError) as caught:
        list(Documents(file))
    assert str(caught.value) == f"{file}:15: not JSON from here on; is the file damaged or cut off?"
    file.write_text('{"text": "We met.", \n{"text": "It was late."}\n')
    with pytest.raises(UserError, match=r"a\.json:1: not a JSON object \(is the file cut off\?\) \(1 of 2 rows"):
        list(Documents(file))
