"""`fedrel watch`: a page on this machine that shows a run while it goes on, or a federation's runs."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedrel.cli.console import say, tell
from fedrel.cli.federation import federation_extra
from fedrel.errors import UserError
from fedrel.federation.nodes.status import read_status, status_file
from fedrel.pages.serving import address_of, check_token, listen
from fedrel.watch.folder import RunFolder
from fedrel.watch.view import View, view

if TYPE_CHECKING:
    from fedrel.federation.https.session import Session
    from fedrel.watch.server import Source

_TOKEN = "FEDREL_WATCH_TOKEN"


def watch(
    target: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run; or the kit of a federation's admin or viewer.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8767,
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs --token.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar=_TOKEN, help="What one must know to use the page; else drawn anew.", show_envvar=True),
    ] = None,
) -> None:
    """Watch a run in a browser while it goes on: rounds, scores, selection, bytes, platforms, faults."""
    check_token(host, token)
    try:
        from fedrel.pages.site import serve
        from fedrel.watch.server import create_app
    except ModuleNotFoundError as error:
        raise UserError(f'fedrel watch needs {error.name}; install it with: pip install "fedrel[review]"') from None
    with ExitStack() as stack:
        source = _federation(target, stack) if (target / "kit.json").is_file() else _folder(target)
        source.look(time.time())  # refused here, rather than on the page
        listening = stack.enter_context(listen(host, port))
        drawn = token is None
        token = token or secrets.token_urlsafe(16)
        app = create_app(source, token=token, name=f"fedrel_watch_{listening.getsockname()[1]}")
        tell(f"open   {address_of(host, listening)}?token={token if drawn else '…'}", "bold")
        say("Ctrl-C ends; the run goes on without this page")
        serve(app, listening)


def _folder(path: Path) -> Source:
    from fedrel.watch.server import Source

    run = RunFolder(path, lambda folder: read_status(status_file(folder.parent, folder.name)))
    return Source(str(path), lambda now: view([run.look(now)], None, now), lambda: run.report)


def _federation(path: Path, stack: ExitStack) -> Source:
    """The coordinator, asked as `fedrel status` does, with the rights of the kit."""
    from fedrel.watch.server import Source

    with federation_extra():
        from fedrel.federation.https.session import connect
        from fedrel.federation.kits.kit import open_kit
    kit = open_kit(path)
    session, lock = stack.enter_context(connect(kit)), threading.Lock()

    def look(now: float) -> View:
        with lock:
            return view_of(session, now)

    return Source(str(path), look, where=kit.host)


def view_of(session: Session, now: float) -> View:
    """What a coordinator says of its runs and platforms."""
    found: dict[str, Any] = session.look()
    return view(found["runs"], found["connected"], now)
