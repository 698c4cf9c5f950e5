"""Questions and answers in the formats of annotation tools: Label Studio's tasks and Argilla's records, both JSON.

Unlike our own export, these quote the sentences, since people are to judge them there. What was undone and what an
adjudicator decided stay here. Label Studio's tasks are as in its guide (labelstud.io/guide/task_format): an annotation
is a choice "verdict" (right, wrong, unknown) and, if another relation is stated, a choice "instead". Argilla's records
are those of `Record.to_dict` of its version 2 (records.json of `to_disk`), with label questions of the same names.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.feedback.exchange import content_of, parsed
from fedrel.feedback.store import TIME, VERDICTS, Given, Store, Verdict
from fedrel.pages.wording import Part

_USERS = uuid.UUID(
    "6c3e2f62-6a0b-5f0e-9d0a-0f4f6e7c9b11"
)  # the namespace of the ids that our reviewers have in Argilla
_KEPT = ("key", "relation", "model", "confidence")  # what comes back unchanged from a tool


@dataclass(frozen=True)
class Asked:
    """A question, its sentence, and the standing verdicts on it."""

    key: str
    relation: str
    model: str
    confidence: float
    parts: Sequence[Part]
    verdicts: Sequence[Verdict]

    @property
    def text(self) -> str:
        """The sentence."""
        return "".join(text for _, text in self.parts)

    @property
    def names(self) -> dict[str, tuple[int, int]]:
        """The places of head and tail in the sentence, if it has them."""
        found: dict[str, tuple[int, int]] = {}
        at = 0
        for roles, text in self.parts:
            for role in roles.split():
                found[role] = found.get(role, (at, at))[0], at + len(text)
            at += len(text)
        return found

    @property
    def kept(self) -> dict[str, Any]:
        """What comes back unchanged."""
        return {name: getattr(self, name) for name in _KEPT}


def standing_by_question(store: Store) -> dict[tuple[str, str], list[Verdict]]:
    """Reviewers' standing verdicts by (key, relation), one of each reviewer."""
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for it in store.standing():
        if not it.decides:
            found.setdefault((it.key, it.relation), {})[it.user] = it
    return {asked: list(verdicts.values()) for asked, verdicts in found.items()}


def asked_of(store: Store, sentences: Iterable[tuple[str, Sequence[Part]]]) -> Iterator[Asked]:
    """The predictions of a store that are about these sentences, given by key, each sentence once."""
    verdicts, shown = standing_by_question(store), store.predictions()
    for key, parts in sentences:
        for it in shown.pop(key, ()):
            yield Asked(key, it.relation, it.model, it.confidence, parts, verdicts.get((key, it.relation), ()))


# ---------------------------------------------------------------------------------------- Label Studio


def to_label_studio(asked: Iterable[Asked]) -> str:
    """An array of tasks."""
    tasks = [_task(number, it) for number, it in enumerate(asked, 1)]
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def label_studio_interface(relations: Iterable[str]) -> str:
    """The labelling interface that the tasks are for, XML."""
    names = "\n".join(f'    <Choice value="{escape(it)}"/>' for it in relations)
    verdicts = "\n".join(f'    <Choice value="{it}"/>' for it in VERDICTS)
    return f"""<View>
  <Header value="$claim"/>
  <Labels name="entity" toName="text"><Label value="head"/><Label value="tail"/></Labels>
  <Text name="text" value="$text"/>
  <Choices name="verdict" toName="text" choice="single" required="true">
{verdicts}
  </Choices>
  <Header value="Wrong, but another relation is stated:"/>
  <Choices name="instead" toName="text" choice="single">
{names}
  </Choices>
</View>
"""


def _task(number: int, it: Asked) -> dict[str, Any]:
    spans = [
        {
            "id": role,
            "from_name": "entity",
            "to_name": "text",
            "type": "labels",
            "value": {"start": start, "end": end, "text": it.text[start:end], "labels": [role]},
        }
        for role, (start, end) in it.names.items()
    ]
    return {
        "id": number,
        "data": {"text": it.text, "claim": _claim(it), **it.kept},
        "predictions": [{"model_version": it.model, "score": it.confidence, "result": spans}],
        "annotations": [_annotation(verdict, spans) for verdict in it.verdicts],
    }


def _annotation(it: Verdict, spans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    said = [("verdict", it.verdict)] + ([("instead", it.corrected)] if it.corrected is not None else [])
    answers: list[Any] = [
        {
            "id": name,
            "from_name": name,
            "to_name": "text",
            "type": "choices",
            "value": {"choices": [value]},
            "meta": {"text": [it.user]},  # "completed_by" must be somebody whom Label Studio knows
        }
        for name, value in said
    ]
    lead_time = None if it.latency_ms is None else it.latency_ms / 1000
    return {"result": [*spans, *answers], "was_cancelled": False, "created_at": it.at, "lead_time": lead_time}


def _from_task(row: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    data, annotations = row.get("data"), row.get("annotations", [])
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise UserError(f'{where}: a task has "data" and "annotations"; export the project from Label Studio as JSON')
    for place, run in enumerate(annotations, 1):
        results = run.get("result") if isinstance(run, dict) else None
        if not isinstance(results, list):
            raise UserError(f'{where}: "result" of annotation {place} is no list')
        if run.get("was_cancelled"):
            continue
        choices = {it.get("from_name"): it for it in results if isinstance(it, dict) and isinstance(_choice(it), str)}
        if "verdict" not in choices:
            continue
        lead = run.get("lead_time")
        yield {
            **{name: data.get(name) for name in _KEPT},
            "verdict": _choice(choices["verdict"]),
            "corrected": _choice(choices["instead"]) if "instead" in choices else None,
            "user": _user(run, choices["verdict"]),
            "at": _time(run.get("updated_at") or run.get("created_at")),
            "latency_ms": round(lead * 1000) if isinstance(lead, int | float) and lead >= 0 else None,
            "of": str(run.get("id", "")),
        }


def _choice(it: Mapping[str, Any]) -> Any:
    value = it.get("value")
    choices = value.get("choices") if isinstance(value, dict) else None
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else None


def _user(run: Mapping[str, Any], choice: Mapping[str, Any]) -> str:
    """Whom we have exported, or who has annotated there, by e-mail address or number."""
    meta, by = choice.get("meta"), run.get("completed_by")
    ours = meta.get("text") if isinstance(meta, dict) else None
    if isinstance(ours, list) and len(ours) == 1 and isinstance(ours[0], str):
        return ours[0]
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    return f"Label Studio {by}" if isinstance(by, int) else str(by or "Label Studio")


def _time(text: object) -> str | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).strftime(TIME)


# ---------------------------------------------------------------------------------------- Argilla


def to_argilla(asked: Iterable[Asked]) -> str:
    """An array of records, as records.json has them."""
    return json.dumps([_record(it) for it in asked], ensure_ascii=False, indent=1) + "\n"


def _record(it: Asked) -> dict[str, Any]:
    users = {str(uuid.uuid5(_USERS, verdict.user)): verdict for verdict in it.verdicts}
    given = [("verdict", "verdict"), ("instead", "corrected")]
    return {
        "id": hashlib.blake2b(f"{it.key}\n{it.relation}".encode(), digest_size=16).hexdigest(),
        "fields": {"text": it.text, "claim": _claim(it)},
        "metadata": {**it.kept, "reviewers": [f"{number} {verdict.user}" for number, verdict in users.items()]},
        "suggestions": {"verdict": {"value": "right", "score": it.confidence, "agent": it.model}},
        "responses": {
            question: answers
            for question, name in given
            if (
                answers := [
                    {"value": value, "user_id": number}
                    for number, verdict in users.items()
                    if (value := getattr(verdict, name)) is not None
                ]
            )
        },
        "vectors": {},
        "_server_id": None,
    }


def _from_record(row: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    metadata, responses = row.get("metadata"), row.get("responses")
    if not isinstance(metadata, dict) or not isinstance(responses, dict):
        raise UserError(f'{where}: a record has "metadata" and "responses"; export the dataset with to_disk()')
    known = metadata.get("reviewers")
    pairs = (str(it).partition(" ") for it in (known if isinstance(known, list) else []))
    users = {number: name for number, _, name in pairs}
    said = {question: _by_user(responses.get(question, []), where) for question in ("verdict", "instead")}
    for number, verdict in said["verdict"].items():
        yield {
            **{name: metadata.get(name) for name in _KEPT},
            "verdict": verdict,
            "corrected": said["instead"].get(number),
            "user": users.get(number, f"Argilla {number}"),
            "at": None,
            "latency_ms": None,
            "of": number,
        }


def _by_user(answers: object, where: str) -> dict[str, Any]:
    if not isinstance(answers, list) or not all(isinstance(it, dict) and "value" in it for it in answers):
        raise UserError(f'{where}: "responses" of a question are a list of objects with "value" and "user_id"')
    return {str(it.get("user_id")): it["value"] for it in answers}


# ---------------------------------------------------------------------------------------- both


def load(store: Store, path: Path, tool: str) -> int:
    """Adds the answers of a tool's file that the store does not have already; returns how many. Raises UserError for
    anything that is no answer to a question of ours, and then adds none.
    """
    return take(store, content_of(path), str(path), tool)


def take(store: Store, content: bytes, name: str, tool: str) -> int:
    """The same with what is in a file of this name."""
    standing = {(it.key, it.relation, it.user): (it.verdict, it.corrected) for it in store.standing() if not it.decides}
    known = {it.id for it in store.history()}
    now = datetime.now(UTC).strftime(TIME)
    found = [
        (where, given)
        for where, given in _answers(content, name, FROM[tool], now)
        if given.id not in known
        and standing.get((given.key, given.relation, given.user)) != (given.verdict, given.corrected)
    ]
    return store.merge(found)


def _answers(
    content: bytes, name: str, read: Callable[[Mapping[str, Any], str], Iterator[dict[str, Any]]], now: str
) -> Iterator[tuple[str, Given]]:
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError):
        raise UserError(f"{name}: not JSON in UTF-8; export it again") from None
    if not isinstance(rows, list) or not all(isinstance(it, dict) for it in rows):
        raise UserError(f"{name}: not an array of JSON objects; export it again")
    for number, row in enumerate(rows, 1):
        where = f"{name}: {number}"
        for line in read(row, where):
            of = line.pop("of")
            if line["key"] is None or line["model"] is None:
                raise UserError(f'{where}: "key" is missing, by which we know the sentence; was it exported by fedrel?')
            said = "\n".join(str(it) for it in (*line.values(), of))
            line["at"] = line["at"] or now
            id_ = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            more = {"id": id_, "shown": line["at"], "decides": False, "taken_back": None}
            yield where, parsed({**line, **more}, where)


def _claim(it: Asked) -> str:
    """The question in words."""
    head, tail = (it.text[slice(*it.names[role])] if role in it.names else "" for role in ("head", "tail"))
    return f"{head} —{it.relation}→ {tail}" if head or tail else it.relation


FROM = {"label-studio": _from_task, "argilla": _from_record}
TO: dict[str, Callable[[Iterable[Asked]], str]] = {"label-studio": to_label_studio, "argilla": to_argilla}
