"""Questions and answers as files that the page offers to take away, and answers from files that it takes in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from fedrel.feedback import exchange, tools
from fedrel.feedback.store import Store
from fedrel.review.questions import Item
from fedrel.review.queue import Queue


@dataclass(frozen=True)
class Form:
    """A form of export: what a person calls it, its file, and what writes it."""

    words: str
    file: str
    type: str
    write: Callable[[Queue, Store, Sequence[Item]], bytes]


def asked(queue: Queue, store: Store, items: Iterable[Item]) -> list[tools.Asked]:
    """Questions with their sentences and the verdicts on them."""
    verdicts = tools.standing_by_question(store)
    return [
        tools.Asked(
            key=item.key,
            relation=item.relation,
            model=queue.digest,
            confidence=item.confidence,
            parts=queue.texts.parts(item.row),
            verdicts=verdicts.get(item.asked, ()),
        )
        for item in items
    ]


def _lines(queue: Queue, store: Store, items: Sequence[Item]) -> bytes:
    return b"".join(exchange.lines(store))


def _label_studio(queue: Queue, store: Store, items: Sequence[Item]) -> bytes:
    return tools.to_label_studio(asked(queue, store, items)).encode("utf-8", "replace")


def _interface(queue: Queue, store: Store, items: Sequence[Item]) -> bytes:
    return tools.label_studio_interface(queue.all_relations).encode("utf-8", "replace")


def _argilla(queue: Queue, store: Store, items: Sequence[Item]) -> bytes:
    return tools.to_argilla(asked(queue, store, items)).encode("utf-8", "replace")


SOURCES: dict[str, tuple[str, Callable[[Store, bytes, str], int]]] = {  # what is imported: in words, and how
    "jsonl": ("fedrel review", exchange.take),
    "label-studio": ("Label Studio", partial(tools.take, tool="label-studio")),
    "argilla": ("Argilla", partial(tools.take, tool="argilla")),
}
FORMS = {
    "jsonl": Form("all answers, without sentences (JSON lines)", "verdicts.jsonl", "application/x-ndjson", _lines),
    "label-studio": Form("Label Studio: tasks", "label-studio.json", "application/json", _label_studio),
    "interface": Form("Label Studio: its labelling interface", "label-studio.xml", "application/xml", _interface),
    "argilla": Form("Argilla: records", "argilla.json", "application/json", _argilla),
}
