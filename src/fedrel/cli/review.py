"""`fedrel review`: a page on this machine where people say which predictions are right."""

from __future__ import annotations

import getpass
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedrel.cli.console import say, tell
from fedrel.cli.label import load_kb
from fedrel.cli.reading import reading_progress
from fedrel.config import Data
from fedrel.corpus.detection import detect
from fedrel.corpus.formats import FORMATS, labelled_formats
from fedrel.data import loading
from fedrel.errors import UserError, suggest
from fedrel.experiment.saved import load_model
from fedrel.feedback.store import LONGEST_USER, Store
from fedrel.pages.serving import address_of, check_token, listen
from fedrel.review import queue as queues
from fedrel.review.next_step import next_step

_TOKEN = "FEDREL_REVIEW_TOKEN"


class Order(StrEnum):
    uncertain = "uncertain"
    confident = "confident"
    random = "random"
    new = "new"
    changed = "changed"


class Purpose(StrEnum):
    train = "train"
    dev = "dev"


def review(
    data: Annotated[Path, typer.Option("--data", help="The platform's data set, whose sentences are shown.")],
    model: Annotated[Path, typer.Option("--model", help="The folder of a run, or its model folder.")],
    source: Annotated[str, typer.Option("--source", "--format", help="Format of the data; else detected.")] = "",
    store: Annotated[
        Path | None, typer.Option(help="Where the verdicts go; else beside the data, DATA.verdicts.sqlite.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8765,
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs --token.")] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(envvar=_TOKEN, help="What others must know to use the page.", show_envvar=True)
    ] = None,
    user: Annotated[str, typer.Option(help="Whose verdicts these are; else your login name.")] = "",
    purpose: Annotated[
        Purpose,
        typer.Option(
            help="train: judge what the model predicts for sentences of train. dev: judge the labels of sentences that "
            "are held out, at random, as a trusted set to choose rounds by (data.trusted)."
        ),
    ] = Purpose.train,
    order: Annotated[
        Order | None, typer.Option(help="What to show first: uncertain, for dev random; new needs --kb.")
    ] = None,
    kb: Annotated[Path | None, typer.Option("--kb", help="A knowledge base, to tell which facts are new.")] = None,
) -> None:
    """Judge predictions or labels of a platform's own sentences, in a browser. Nothing leaves this machine."""
    dev = purpose == Purpose.dev
    order = order or (Order.random if dev else Order.uncertain)
    _check(host, token, order, kb)
    if dev and order != Order.random:
        raise UserError(
            f"--order {order}: what is to stand for all held-out sentences is judged at random; leave it out"
        )
    try:
        from fedrel.pages.site import serve
        from fedrel.review.server import create_app
    except ModuleNotFoundError as error:
        raise UserError(f'fedrel review needs {error.name}; install it with: pip install "fedrel[review]"') from None
    reviewer = _reviewer(user)
    file = store or data.absolute().parent / f"{data.absolute().name}.verdicts.sqlite"
    with listen(host, port) as listening:
        saved = load_model(model)
        if saved.note:
            say(f"{model}: {saved.note}, which reads it")
        dataset = loading.load(Data(source=labelled_source(data, source), path=str(data)), say=say)
        base = load_kb(kb) if kb is not None else None
        torch.set_num_threads(saved.threads)
        with reading_progress("scoring", len(dataset.dev if dev else dataset.train)) as tick:
            queue = queues.build(
                dataset,
                saved,
                queues.digest_of(model),
                kb=base,
                labels_of_dev=dev,
                tick=lambda done: tick(done, done),
            )
        here = listening.getsockname()[1]
        with Store.open(file) as verdicts:
            app = create_app(queue, verdicts, user=reviewer, order=order, token=token, name=f"fedrel_review_{here}")
            tell(f"open   {address_of(host, listening)}{'' if token is None else '?token=…'}", "bold")
            what = "labels" if dev else "predictions"
            say(f"{len(queue.items):,} {what} to judge; as {reviewer}; Ctrl-C ends")
            serve(app, listening)
            total = sum(count for kind, count in verdicts.counts().items() if kind != "shown")
    if dev:
        written = f"fedrel feedback judged {shlex.quote(str(file))} {shlex.quote(str(data))} trusted.jsonl"
        tell(f"{total:,} verdicts in {file}; next: {written}, then fedrel run … --set data.trusted=trusted.jsonl")
        return
    tell(f"{total:,} verdicts in {file}; next: {next_step(model, file, data)}")


def _check(host: str, token: str | None, order: str, kb: Path | None) -> None:
    check_token(host, token)
    if order == Order.new and kb is None:
        raise UserError("--order new needs --kb, to know what is known")


def _reviewer(name: str) -> str:
    if not name:
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            raise UserError("nobody is logged in here; say who judges with --user NAME") from None
    cleaned = " ".join(name.split())
    if not cleaned or not cleaned.isprintable() or len(cleaned) > LONGEST_USER:
        raise UserError(f"--user {name!r}: a name has printable characters, at most {LONGEST_USER}")
    return cleaned


def labelled_source(path: Path, source: str) -> str:
    """The format of data with labels: the one that is named, or the one that is detected."""
    found = source or detect(path).source
    if found not in FORMATS or not FORMATS[found].labelled:
        if source:
            raise UserError(f"--source {source}: no format of labelled data{suggest(source, labelled_formats())}")
        raise UserError(f"{path}: {found} has no pairs to judge; make them with fedrel label, or name a --source")
    return found
