"""The commands that run for days, in an app of their own: without torch, they need a quarter of the memory."""

from __future__ import annotations

import typer

from fedrel.cli import nodes
from fedrel.cli.frame import guarded
from fedrel.cli.help import shown_as_written

coordinator_app = typer.Typer(no_args_is_help=True, help="The coordinator of a federation.")
platform_app = typer.Typer(no_args_is_help=True, help="A platform of a federation.")
coordinator_app.command("start")(guarded(nodes.coordinator))
platform_app.command("start")(guarded(nodes.platform))
platform_app.command("check")(guarded(nodes.platform_check))


@coordinator_app.callback()
@platform_app.callback()
def _keep_the_group() -> None:
    """Without a callback, typer would turn a group with a single command into that command."""


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(coordinator_app, name="coordinator")
app.add_typer(platform_app, name="platform")


shown_as_written(app)


def main() -> None:
    app()
