"""The commands that run for days, by themselves: they need no torch, and so a quarter of the memory."""

from __future__ import annotations

import typer

from fedrel.cli import nodes
from fedrel.cli.frame import guarded

coordinator_app = typer.Typer(no_args_is_help=True, help="The coordinator of a federation.")
platform_app = typer.Typer(no_args_is_help=True, help="A platform of a federation.")
coordinator_app.command("start")(guarded(nodes.coordinator))
platform_app.command("start")(guarded(nodes.platform))
platform_app.command("check")(guarded(nodes.platform_check))


@coordinator_app.callback()
@platform_app.callback()
def _start_is_a_word_of_its_own() -> None:
    """A group with one command would take its name for an argument otherwise."""


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(coordinator_app, name="coordinator")
app.add_typer(platform_app, name="platform")


def main() -> None:
    app()
