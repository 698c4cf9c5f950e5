"""Label Studio's tasks and Argilla's records: out, and back as the same answers."""

import json

import pytest

from fedrel.errors import UserError
from fedrel.feedback import tools
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Store

PARTS = [("", "Yes: "), ("head", "Ann Lee"), ("", " was born in "), ("tail", "Köln 𝔸"), ("", ".")]


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "from.sqlite") as opened:
        for n, (user, verdict, corrected) in enumerate(
            [("änna", RIGHT, None), ("änna", WRONG, "lives <in>"), ("änna", UNKNOWN, None), ("bert", WRONG, None)]
        ):
            number = opened.show(f"{n % 3:032x}", "born_in", 0.25, "m1")
            opened.give(number, user, verdict, 1_500, corrected=corrected)
        opened.give(opened.show(f"{0:032x}", "born_in", 0.25, "m1"), "dora", WRONG, decides=True)
        yield opened


def asked(store: Store) -> list[tools.Asked]:
    return list(tools.asked_of(store, [(f"{n:032x}", PARTS) for n in range(5)]))


def told(store: Store) -> set[tuple[object, ...]]:
    return {
        (it.key, it.relation, it.model, it.user, it.verdict, it.corrected) for it in store.standing() if not it.decides
    }


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_there_and_back(store, tmp_path, tool):
    file = tmp_path / "out.json"
    file.write_text(tools.TO[tool](asked(store)), encoding="utf-8")
    assert tools.load(store, file, tool) == 0, "the store has them all"
    with Store.open(tmp_path / "to.sqlite") as other:
        assert tools.load(other, file, tool) == 4
        assert tools.load(other, file, tool) == 0
        assert told(other) == told(store)


def test_a_task_is_one_that_label_studio_knows(store):
    [first, second, _] = json.loads(tools.to_label_studio(asked(store)))
    assert first["data"]["text"] == "Yes: Ann Lee was born in Köln 𝔸."
    assert first["data"]["claim"] == "Ann Lee —born_in→ Köln 𝔸"
    spans = first["predictions"][0]["result"]
    assert [(it["value"]["text"], it["value"]["start"], it["value"]["end"]) for it in spans] == [
        ("Ann Lee", 5, 12),
        ("Köln 𝔸", 25, 31),
    ]
    assert [len(first["annotations"]), len(second["annotations"])] == [2, 1]
    choices = {it["from_name"]: it["value"]["choices"] for it in second["annotations"][0]["result"][2:]}
    assert choices == {"verdict": ["wrong"], "instead": ["lives <in>"]}
    assert second["annotations"][0]["lead_time"] == 1.5
    interface = tools.label_studio_interface(["born_in", 'lives <"in">'])
    assert '<Choice value="lives &lt;&quot;in&quot;&gt;"/>' in interface and '<Choice value="unknown"/>' in interface


def test_answers_given_there(store, tmp_path):
    """As Label Studio exports them: its own person, one answer cancelled, one without a verdict, one changed later."""
    tasks = json.loads(tools.to_label_studio(asked(store)))
    verdict = {"from_name": "verdict", "to_name": "text", "type": "choices", "value": {"choices": ["right"]}}
    run = {"id": 7, "completed_by": {"email": "cara@example.org"}, "result": [verdict], "lead_time": 2.25}
    run |= {"created_at": "2026-03-09T22:16:08.728353+01:00", "was_cancelled": False}
    tasks[0]["annotations"] = [run, run | {"id": 8, "was_cancelled": True}, run | {"id": 9, "result": []}]
    tasks[1]["annotations"], tasks[2]["annotations"] = [], [run | {"id": 10, "completed_by": 3}]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(tasks))
    assert tools.load(store, file, "label-studio") == 2
    [cara, three] = [it for it in store.standing() if it.user in ("cara@example.org", "Label Studio 3")]
    assert (cara.verdict, cara.at, cara.latency_ms) == (RIGHT, "2026-03-09T21:16:08.728353Z", 2250)
    assert three.verdict == RIGHT
    run["result"] = [verdict | {"value": {"choices": ["wrong"]}}]
    run["updated_at"] = "2026-03-10T08:00:00Z"
    file.write_text(json.dumps(tasks))
    assert tools.load(store, file, "label-studio") == 1
    assert [it.verdict for it in store.standing() if it.user == "cara@example.org"] == [WRONG]


def test_a_person_of_argilla_whom_we_do_not_know(store, tmp_path):
    records = json.loads(tools.to_argilla(asked(store)))
    records[0]["responses"] = {"verdict": [{"value": "right", "user_id": "0b6c"}], "instead": []}
    (tmp_path / "records.json").write_text(json.dumps(records[:1]))
    assert tools.load(store, tmp_path / "records.json", "argilla") == 1
    assert [it.user for it in store.standing()][-1] == "Argilla 0b6c"


@pytest.mark.parametrize(
    ("tool", "rows", "sentence"),
    [
        ("label-studio", {}, "not an array"),
        ("label-studio", [7], "not an array"),
        ("label-studio", [{"text": "x"}], 'a task has "data" and "annotations"'),
        ("label-studio", [{"data": {}, "annotations": [7]}], '"result" of annotation 1 is no list'),
        ("argilla", [{"fields": {}}], 'a record has "metadata" and "responses"'),
        ("argilla", [{"metadata": {}, "responses": {"verdict": [7]}}], "are a list of objects"),
        ("argilla", [{"metadata": {}, "responses": {"verdict": [{"value": "right"}]}}], '"key" is missing'),
        (
            "argilla",
            [
                {
                    "metadata": {"key": "k", "relation": "r", "model": "m", "confidence": 2},
                    "responses": {"verdict": [{"value": "right", "user_id": "u"}]},
                }
            ],
            "confidence is a number from 0 to 1",
        ),
        (
            "argilla",
            [
                {
                    "metadata": {"key": "k", "relation": "r", "model": "m", "confidence": 1},
                    "responses": {"verdict": [{"value": ["right"], "user_id": "u"}]},
                }
            ],
            '"verdict" is',
        ),
    ],
)
def test_what_is_no_answer_of_ours_is_refused(store, tmp_path, tool, rows, sentence):
    before = told(store)
    (tmp_path / "x.json").write_text(json.dumps(rows))
    with pytest.raises(UserError, match=sentence) as refusal:
        tools.load(store, tmp_path / "x.json", tool)
    assert str(refusal.value).startswith(str(tmp_path / "x.json"))
    assert told(store) == before
