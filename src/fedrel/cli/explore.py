"""`fedrel explore`: a page on this machine to search, look at and export facts."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from fedrel.cli.console import say, tell
from fedrel.cli.label import load_kb
from fedrel.cli.reading import reading_progress
from fedrel.corpus.documents import Documents
from fedrel.corpus.lines import numbered_lines
from fedrel.errors import UserError
from fedrel.explore.index import Index
from fedrel.extraction.facts import Fact, read_facts
from fedrel.extraction.knowledge import Knowledge
from fedrel.pages.serving import address_of, check_token, listen

_TOKEN = "FEDREL_EXPLORE_TOKEN"


def explore(
    facts: Annotated[Path, typer.Argument(help="facts.jsonl, as fedrel extract writes it.")],
    text: Annotated[
        Path | None, typer.Option("--text", help="The text that the facts are from, to show sentences in it.")
    ] = None,
    kb: Annotated[Path | None, typer.Option("--kb", help="Names, and what is known; else as the facts say.")] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="All that is true (head, relation, tail, between tabs), to plot by.")
    ] = None,
    source: Annotated[str, typer.Option("--format", "--source", help="Format of the text; else detected.")] = "",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8766,
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs --token.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar=_TOKEN, help="What one must know to use the page; else drawn anew.", show_envvar=True),
    ] = None,
) -> None:
    """Search, filter, look at and export facts, in a browser. Nothing leaves this machine."""
    check_token(host, token)
    try:
        from fedrel.explore.server import create_app
        from fedrel.pages.site import serve
    except ModuleNotFoundError as error:
        raise UserError(f'fedrel explore needs {error.name}; install it with: pip install "fedrel[review]"') from None
    with ExitStack() as stack:
        listening = stack.enter_context(listen(host, port))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedrel-")))
        index = Index.build(
            folder / "facts.sqlite",
            _told(facts, kb),
            documents=Documents(text, source) if text is not None else (),
            correct=_correct(truth) if truth is not None else None,
        )
        if not len(index):
            raise UserError(f"{facts}: no facts; extract with a lower --min-confidence")
        here = address_of(host, listening)
        drawn = token is None
        token = token or secrets.token_urlsafe(16)
        app = create_app(
            index,
            source=str(facts),
            judged=truth is not None,
            token=token,
            name=f"fedrel_explore_{listening.getsockname()[1]}",
        )
        tell(f"open   {here}?token={token if drawn else '…'}", "bold")
        say(f"{len(index):,} facts; Ctrl-C ends")
        serve(app, listening)


def _told(path: Path, kb: Path | None) -> Iterator[Fact]:
    """The facts of a file, as a knowledge base knows them if one is given."""
    told = Knowledge(load_kb(kb)).told if kb is not None else None
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    with reading_progress("indexing", size) as tick:
        for fact in read_facts(path, tick):
            yield told(fact) if told is not None else fact


def _correct(path: Path) -> Callable[[Fact], bool]:
    """Whether a fact is among those of a file: head, relation and tail between tabs."""
    true = set[tuple[str, ...]]()
    for number, line in numbered_lines(path):
        cells = tuple(line.split("\t")[:3])
        if len(cells) < 3:
            raise UserError(f"{path}:{number}: write head, relation and tail, between tabs")
        true.add(cells)
    return lambda fact: (fact.head, fact.relation, fact.tail) in true
