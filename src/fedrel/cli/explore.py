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
from fedrel.cli.extracting import Watch, prepared
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
    facts: Annotated[
        Path | None, typer.Argument(help="facts.jsonl, as fedrel extract writes it; else extracted from --text.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="To extract with: the folder of a run; else the general model.")
    ] = None,
    text: Annotated[
        Path | None, typer.Option("--text", help="The text that the facts are from, to show sentences in it.")
    ] = None,
    kb: Annotated[Path | None, typer.Option("--kb", help="Names, and what is known; else as the facts say.")] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="All that is true (head, relation, tail, between tabs), to plot by.")
    ] = None,
    source: Annotated[str, typer.Option("--format", "--source", help="Format of the text; else detected.")] = "",
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Leave out what is less certain: of a file nothing, of text what is below .5."),
    ] = None,
    language: Annotated[str, typer.Option(help="Of the text to extract from: en, de, fr, …")] = "en",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8766,
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs --token.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar=_TOKEN, help="What one must know to use the page; else drawn anew.", show_envvar=True),
    ] = None,
) -> None:
    """Search, filter, look at and export facts, in a browser. Nothing leaves this machine."""
    check_token(host, token)
    if facts is None and text is None:
        raise UserError("name a file of facts, or --text to extract them from")
    if facts is not None and model is not None:
        raise UserError(f"--model {model}: the facts of {facts} are extracted already; give --text instead of them")
    try:
        from fedrel.explore.server import create_app
        from fedrel.pages.site import serve
    except ModuleNotFoundError as error:
        raise UserError(f'fedrel explore needs {error.name}; install it with: pip install "fedrel[review]"') from None
    with ExitStack() as stack:
        listening = stack.enter_context(listen(host, port))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedrel-")))
        file = folder / "facts.sqlite"
        correct = _correct(truth) if truth is not None else None
        if facts is not None:
            documents = Documents(text, source) if text is not None else ()
            index = Index.build(file, _told(facts, kb, min_confidence or 0.0), documents=documents, correct=correct)
        else:
            assert text is not None
            read, extractor, base = prepared(text, model, kb, source, strict=False)
            with Watch(read.bytes) as watch:
                least = 0.5 if min_confidence is None else min_confidence
                found = extractor.extract(read, kb=base, min_confidence=least, tick=watch, language=language)
                index = Index.build(file, found, documents=read, correct=correct)
        if not len(index):
            raise UserError(f"{facts or text}: no fact of this confidence; try a lower --min-confidence")
        here = address_of(host, listening)
        drawn = token is None
        token = token or secrets.token_urlsafe(16)
        app = create_app(
            index,
            source=str(facts or text),
            judged=truth is not None,
            token=token,
            name=f"fedrel_explore_{listening.getsockname()[1]}",
        )
        tell(f"open   {here}?token={token if drawn else '…'}", "bold")
        say(f"{len(index):,} facts; Ctrl-C ends")
        serve(app, listening)


def _told(path: Path, kb: Path | None, least: float) -> Iterator[Fact]:
    """The facts of a file that are at least so certain, as a knowledge base knows them if one is given."""
    told = Knowledge(load_kb(kb)).told if kb is not None else None
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    with reading_progress("indexing", size, "facts") as tick:
        for fact in read_facts(path, tick):
            if fact.confidence >= least:
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
