"""Help as it is written: brackets in it are no markup, and a flag takes no value."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from typer import Typer
from typer.core import TyperCommand, TyperGroup


def _as_written(params: list[Any]) -> list[Any]:
    for param in params:
        if not getattr(param, "as_written", False):
            param.as_written = True  # help may be asked for twice
            param.help = escape(param.help) if getattr(param, "help", None) else None
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _as_written(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _as_written(super().get_params(ctx))


def shown_as_written(app: Typer) -> Typer:
    """The app, with such help for every command in it."""
    app.info.cls = _Group
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            shown_as_written(group.typer_instance)
    return app
