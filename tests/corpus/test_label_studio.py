"""Label Studio's exports."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, label_studio
from fedrel.corpus.detection import detect
from fedrel.corpus.reading import Reading
from fedrel.errors import UserError
from tests.documents import covered, everything, place, refusal, with_another_value

TEXT = "Ann Lee runs Acme in Bonn. Bo left."


def span(key, start, end, *labels, text=None):
    words = TEXT[start:end] if text is None else text
    value = {"start": start, "end": end, "text": words, "labels": list(labels)}
    return {"id": key, "type": "labels", "from_name": "label", "to_name": "text", "value": value}


def joined(head, tail, *labels, **changes):
    return {"type": "relation", "from_id": head, "to_id": tail, "direction": "right", "labels": list(labels), **changes}


RESULT = [
    span("a", 0, 7, "PER"),
    span("b", 13, 17, "ORG"),
    span("c", 21, 25, "LOC"),
    joined("a", "b", "runs"),
    joined("c", "b", "in", direction="left"),
]


def task(*results, data=None, **changes):
    runs = [{"id": 1, "result": list(result), "was_cancelled": False} for result in results]
    return {"id": 5, "data": {"text": TEXT} if data is None else data, "annotations": runs, **changes}


SPANS = [{"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]}, {"start": 13, "end": 17, "labels": ["ORG"]}]
MINIMAL = {"id": 5, "text": TEXT, "ner": SPANS, "annotator": 1, "annotation_id": 3, "lead_time": 1.5}


def written(path, *tasks, **how):
    content = json.dumps(tasks, ensure_ascii=False, **how)
    return place(path.parent, {path.name: content}) / path.name


def read(tmp_path, *tasks):
    return everything(label_studio.read, written(tmp_path / "export.json", *tasks))


@pytest.mark.parametrize("indent", [None, 2])
def test_spans_and_relations(tmp_path, indent):
    file = written(tmp_path / "project-1-at-2024-01-02.json", task(RESULT), indent=indent)
    assert detect(file).source == "label-studio"
    [found], skipped = everything(label_studio.read, file)
    assert found == Document(
        "5",
        TEXT,
        (Annotation("a", 0, 7, "PER"), Annotation("b", 13, 17, "ORG"), Annotation("c", 21, 25, "LOC")),
        (("a", "runs", "b"), ("b", "in", "c")),
        f"{file}:{1 if indent is None else 2}, row 1",
    )
    assert covered(found) == {"a": "Ann Lee", "b": "Acme", "c": "Bonn"}
    assert skipped.total == 0
    assert [it.relation for it in Reading("label-studio", file).instances()] == ["runs", "in"]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (joined("a", "b"), [("a", "related", "b")]),
        ({"type": "relation", "from_id": "a", "to_id": "b"}, [("a", "related", "b")]),
        (joined("a", "b", "x", "y"), [("a", "x", "b"), ("a", "y", "b")]),
        (joined("a", "b", "x", direction="left"), [("b", "x", "a")]),
        (joined("a", "b", "x", direction="bi"), [("a", "x", "b")]),
        (joined("a", "b", "x", labels=None), [("a", "related", "b")]),
    ],
)
def test_directions_and_labels_of_relations(tmp_path, relation, expected):
    [found], skipped = read(tmp_path, task([*RESULT[:3], relation]))
    assert list(found.relations) == expected
    assert skipped.total == 0


AGAIN = "another annotation of its task is read: the ground truth, or else the latest"


@pytest.mark.parametrize(
    ("about", "chosen"),
    [
        ([{}, {}, {}], 3),
        ([{"id": 9}, {"id": 7}, {"id": 8}], 1),
        ([{"id": 1}, {"id": 2}, {"id": 3, "was_cancelled": True}], 2),
        ([{"id": 1}, {"id": 2, "skipped": True}, {"id": 3, "was_cancelled": True}], 1),
        ([{"id": 1, "ground_truth": True}, {"id": 2}, {"id": 3}], 1),
        ([{"id": 1, "ground_truth": True, "was_cancelled": True}, {"id": 2}, {"id": 3}], 3),
        ([{"id": 1, "ground_truth": True}, {"id": 2, "ground_truth": True}, {"id": 3}], 2),
        ([{"created_at": "2024-05-02T10:00:00Z"}, {"created_at": "2024-05-02T10:00:00.5Z"}, {}], 2),
        ([{"created_at": "2024-05-02T10:00:00+02:00"}, {"created_at": "2024-05-02T09:00:00Z"}, {}], 2),
        ([{"created_at": "2024-05-01", "updated_at": "2024-06-01"}, {"created_at": "2024-05-02"}, {"id": 9}], 1),
        ([{"created_at": 1_600_000_000}, {"created_at": 1_500_000_000}, {"created_at": "soon"}], 1),
    ],
)
def test_of_several_annotations_the_ground_truth_or_else_the_latest_is_read(tmp_path, about, chosen):
    given = task(RESULT[:1], RESULT[:2], RESULT[:3])
    for annotation, more in zip(given["annotations"], about, strict=True):
        annotation |= more
    [found], skipped = read(tmp_path, given)
    assert len(found.annotations) == chosen
    cancelled = sum("was_cancelled" in it or "skipped" in it for it in about)
    expected = {AGAIN: 2 - cancelled, "cancelled by its annotator: another annotation of its task is read": cancelled}
    assert skipped.reasons == {why: count for why, count in expected.items() if count}


def test_a_task_that_was_cancelled_is_left_out_and_counted_once(tmp_path):
    cancelled = task(RESULT, RESULT)
    for annotation in cancelled["annotations"]:
        annotation["was_cancelled"] = True
    found, skipped = read(tmp_path, task(), cancelled, task([]))
    assert [(it.annotations, it.relations) for it in found] == [(None, None), ((), ())]
    assert skipped.reasons == {"its annotation was cancelled": 1}
    reading = Reading("label-studio", written(tmp_path / "a.json", task(RESULT, RESULT), cancelled))
    assert [it.relation for it in reading.instances()] == ["runs", "in"]
    assert reading.left_out() == [
        f"1 annotation left out: {AGAIN}",
        "1 document left out: its annotation was cancelled",
    ]


def test_the_text_is_the_one_that_the_spans_are_in(tmp_path):
    note = span("a", 0, 2, "PER", text="Bo")
    found, skipped = read(
        tmp_path,
        task([note], data={"title": "On Bo", "note": "Bo left.", "number": 3}),
        task([note], data={"text": "Bo left.", "title": "Bo left, it says"}),
        task([note], data={"title": "Bo left, it says", "text": "Bo left."}),
        task([], data={"body": "Bo left."}),
    )
    assert [it.text for it in found] == ["Bo left."] * 4
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("🎉🎉 Ann left.", 5, 8),  # UTF-16 units
        ("🎉🎉 Ann left.", 3, 6),
        ("oh, Ann left.", 4, 6),  # inclusive
        ("oh, Ann left.", 4, 7),
    ],
)
def test_places_are_read_whichever_way_they_were_counted(tmp_path, text, start, end):
    [found], skipped = read(tmp_path, task([span("a", start, end, "PER", text="Ann")], data={"text": text}))
    assert covered(found) == {"a": "Ann"}
    assert skipped.total == 0


def test_line_ends_are_written_as_two_characters(tmp_path):
    [found], _ = read(tmp_path, task([span("a", 0, 7, "PER", text="Ann\\nLee")], data={"text": "Ann\nLee left."}))
    assert covered(found) == {"a": "Ann\nLee"}


def test_other_answers_are_ignored_and_a_second_label_is_counted(tmp_path):
    result = [
        *RESULT,
        {"type": "choices", "value": {"choices": ["good"]}},
        {"id": "a", "type": "textarea", "value": {"start": 0, "end": 7, "text": ["hm"]}},
        {"id": "a", "type": "labels", "value": {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["BOSS"]}},
        {"id": "z", "type": "labels", "value": {"start": 27, "end": 29, "text": "Bo", "labels": []}},
    ]
    [found], skipped = read(tmp_path, task(result))
    assert [it.type for it in found.annotations] == ["PER", "ORG", "LOC", ""]
    assert skipped.reasons == {"the entity is labelled a second time: the first label is read": 1}


def test_broken_ones_are_counted_and_the_rest_is_read(tmp_path):
    result = [
        *RESULT,
        span("d", 0, 7, "PER", text="Anne"),
        span("e", 0, 99, "PER"),
        {"id": "f", "type": "labels", "value": {"start": "/p[1]", "end": "/p[1]", "labels": ["PER"]}},
        joined("a", "d", "runs"),
        joined("a", "nobody", "runs"),
        None,
    ]
    rows = [task(result), 3, {"id": 1, "data": {"n": 3}, "annotations": []}, {**task(RESULT), "annotations": 3}]
    found, skipped = read(
        tmp_path, *rows, {**task(RESULT), "annotations": [{"result": 3}]}, task([], data={"text": " "})
    )
    [only] = found
    assert len(only.annotations) == 3
    assert only.relations == (("a", "runs", "b"), ("b", "in", "c"))
    assert skipped.broken.total() == 8
    assert skipped.reasons["the relation needs an entity that was left out"] == 1
    assert skipped.reasons["there is no text in it"] == 1
    assert skipped.total == 10
    file = tmp_path / "export.json"
    assert skipped.broken_examples[0] == (
        f'{file}:1, row 1: span 4: the text at 0..7 is "Ann Lee", not "Anne"; '
        "was the text changed after it was annotated?"
    )


def test_json_min_has_entities_alone(tmp_path):
    early = {**MINIMAL, "annotator": 2, "annotation_id": 2, "ner": []}
    rows = early, MINIMAL, {**MINIMAL, "id": 6, "ner": []}, early
    file = written(tmp_path / "min.json", *rows, indent=1)
    assert detect(file).source == "label-studio"
    found, skipped = everything(label_studio.read, file)
    assert [(it.id, it.relations) for it in found] == [("5", None), ("6", None)]
    assert found[0].annotations == (Annotation("T1", 0, 7, "PER"), Annotation("T2", 13, 17, "ORG"))
    assert skipped.reasons == {AGAIN: 2}


def test_a_folder_with_splits_is_recognised_and_tasks_may_be_lines(tmp_path):
    for name in ("train", "dev", "test"):
        written(tmp_path / f"{name}.json", task(RESULT))
    assert detect(tmp_path).source == "label-studio"
    file = place(tmp_path / "lines", {"a.jsonl": (json.dumps(task(RESULT)) + "\n") * 2}) / "a.jsonl"
    assert detect(file).source == "label-studio"
    assert len(everything(label_studio.read, file)[0]) == 2


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    file = place(tmp_path, {"a.json": json.dumps([task(RESULT)])[:-9]}) / "a.json"
    assert refusal(label_studio.read, file) == f"{file}:1: not JSON from here on; is the file damaged or cut off?"


@settings(max_examples=300)
@given(data=st.data())
def test_whatever_the_values_are_the_rest_is_read(tmp_path_factory, data):
    good = [task(RESULT, RESULT[:1]), MINIMAL]
    file = tmp_path_factory.getbasetemp() / "label_studio.json"
    odd = with_another_value(data.draw, data.draw(st.sampled_from(good)))
    file.write_text(json.dumps([*good, odd, *good]))
    found, _ = everything(label_studio.read, file)
    assert len(found) >= 3
    for document in found:
        assert all(words.strip() for words in covered(document).values())
        keys = {it.key for it in document.annotations or ()}
        assert all(end in keys for head, _, tail in document.relations or () for end in (head, tail))
    try:
        detect(file)
    except UserError as error:
        assert "\n" not in str(error)
