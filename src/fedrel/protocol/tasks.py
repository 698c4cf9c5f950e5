"""Tasks: the methods of an algorithm that platforms run, and what they declare about their replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, overload

from fedrel.errors import DivergedError
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.protocol.codec import Record
from fedrel.protocol.form import Form
from fedrel.protocol.noised import NoisyLayout, noise_key, question
from fedrel.protocol.round import Ask
from fedrel.protocol.site import Notes, Scratch, Site
from fedrel.protocol.summed import Layout, masked

Task = TypeVar("Task", bound=Callable[..., Record])


@overload
def task(method: Task, /) -> Task: ...


@overload
def task(
    *, or_nothing: bool = False, trains: bool = False, plain: bool = False, **reply: str | dict[str, str]
) -> Callable[[Task], Task]: ...


def task(
    method: Callable[..., Record] | None = None,
    /,
    *,
    or_nothing: bool = False,
    trains: bool = False,
    plain: bool = False,
    **reply: str | dict[str, str],
) -> Callable[..., Any]:
    """Marks a method that a platform runs when asked; nothing else can be asked for.

    `reply` declares its reply, field by field (`protocol/replies.py` has the kinds); with `or_nothing` the reply may
    also be empty. `trains`: local training happens in it, so its time counts as training time. `plain`: the server
    takes plain means of its models, `hub.mean(…, by=None)`. A task that declares no reply works within one process
    only: a server could not tell a valid reply from rubbish.
    """

    def mark(method: Task, form: Form | None) -> Task:
        method.is_task, method.form, method.trains = True, form, trains  # type: ignore[attr-defined]
        return method

    return partial(mark, form=Form(reply, or_nothing, plain)) if method is None else mark(method, None)


def tasks(algorithm: object) -> dict[str, Callable[[Site, Record], Record]]:
    """The tasks of an algorithm by name."""
    found = ((name, getattr(algorithm, name)) for name in dir(type(algorithm)))
    return {name: method for name, method in found if getattr(method, "is_task", False)}


def form_of(algorithm: object, task: str) -> Form | None:
    """What a task declares that it replies; None where it declares nothing, or where there is no such task."""
    return getattr(getattr(type(algorithm), task, None), "form", None)


def training_tasks(algorithm: object) -> set[str]:
    """The tasks in which platforms train."""
    return {name for name, method in tasks(algorithm).items() if getattr(method, "trains", False)}


def answer(algorithm: object, site: Site, ask: Ask, message: Record, model: Model | None = None) -> Record:
    """Runs one task on one platform, with this model instead of its own where several share one.
    Its memory changes only if the task succeeds. Of a request with a layout, the reply is a summand.
    """
    notes = site.notes
    if notes.round != ask.round:
        notes.round, notes.scratch, notes.selected = ask.round, {}, None
    draft = Notes(dict(notes.memory), Scratch(notes.scratch), ask.round, notes.selected)
    trial = replace(site, round=ask.round, model=model or site.model, notes=draft)
    try:
        reply = tasks(algorithm)[ask.task](trial, message)
    except DivergedError:
        if ask.layout is None or not ask.layout.noisy:
            raise
        reply = {}  # that this text makes training diverge is nobody's business
    if ask.layout is not None:
        reply = added(algorithm, trial, ask, message, site.memory, reply)
    notes.memory, notes.scratch, notes.selected = draft.memory, draft.scratch, draft.selected
    return reply


def added(algorithm: object, site: Site, ask: Ask, message: Record, memory: Record, reply: Record) -> Record:
    """A reply as what it adds to a sum; `memory` is what the platform knew when it was asked."""
    assert ask.layout is not None
    layout, key = filled(algorithm, site, ask.layout, message), b""
    if isinstance(layout, NoisyLayout):
        layout = replace(layout, held=len(site.shard))
        asked = question(message, layout.units, memory)
        key = noise_key(site.noise(), site.name, ask.round, ask.task, asked)
    return masked(layout.summand(reply, key))


def filled(algorithm: object, site: Site, layout: Layout, message: Record) -> Layout:
    """A layout with what a platform knows of it: the weights that it was sent, and the sizes of tensors."""
    models = layout.form.of_kind("model", "whole model")
    sent: Named = algorithm.sent(site, message) if models else Named()  # type: ignore[attr-defined]
    said = algorithm.sizes_in(message)  # type: ignore[attr-defined]
    return replace(layout, model=sent, sizes={**site.sizes, **said})
