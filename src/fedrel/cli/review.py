"""`fedrel review`: a page on this machine where people say which predictions are right."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedrel.alignment.kb import KB
from fedrel.cli.console import say, tell
from fedrel.cli.extracting import Watch, prepared
from fedrel.cli.label import load_kb
from fedrel.cli.reading import reading_progress
from fedrel.config import Data
from fedrel.corpus import Document
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.corpus.formats import FORMATS, labelled_formats
from fedrel.data import loading
from fedrel.errors import UserError, suggest
from fedrel.experiment.saved import load_model
from fedrel.extraction.facts import Fact, json_lines, read_facts
from fedrel.extraction.general import FOLDER
from fedrel.feedback.store import LONGEST_USER, Store
from fedrel.pages.serving import address_of, check_token, listen
from fedrel.review import questions
from fedrel.review.ending import improving, trusting
from fedrel.review.queue import DISPUTED, Queue
from fedrel.util.files import open_atomic

_TOKEN = "FEDREL_REVIEW_TOKEN"
_LEAST = 0.2  # confidence of a fact that is asked about


class Order(StrEnum):
    uncertain = "uncertain"
    confident = "confident"
    random = "random"
    new = "new"
    changed = "changed"
    disputed = DISPUTED


class Purpose(StrEnum):
    train = "train"
    dev = "dev"


def review(
    facts: Annotated[Path | None, typer.Argument(help="facts.jsonl, as fedrel extract writes it.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Or a platform's data set, whose sentences are shown.")
    ] = None,
    text: Annotated[
        Path | None, typer.Option("--text", help="Or text to extract from; with FACTS, what they are from.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The folder of a run, or its model folder; for text, else the general model."),
    ] = None,
    source: Annotated[str, typer.Option("--source", "--format", help="Format of data or text; else detected.")] = "",
    store: Annotated[
        Path | None, typer.Option(help="Where the verdicts go; else beside the data, DATA.verdicts.sqlite.")
    ] = None,
    guidelines: Annotated[
        Path | None, typer.Option("--guidelines", help="Markdown that is shown beside the questions.")
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
        Order | None,
        typer.Option(help="What to show first: uncertain, for dev random; new needs --kb; disputed: you decide."),
    ] = None,
    kb: Annotated[
        Path | None,
        typer.Option("--kb", help="A knowledge base: what is new, and which relations its types allow."),
    ] = None,
    language: Annotated[str, typer.Option(help="Of the text to extract from: en, de, fr, …")] = "en",
) -> None:
    """Judge predictions or labels, sentence by sentence, in a browser. Nothing leaves this machine."""
    dev = purpose == Purpose.dev
    order = order or (Order.random if dev else Order.uncertain)
    asked = _one_of(facts, data, text, model, dev)
    check_token(host, token)
    if order == Order.new and kb is None and facts is None:
        raise UserError("--order new needs --kb, to know what is known")
    if dev and order != Order.random:
        raise UserError(
            f"--order {order}: what is to stand for all held-out sentences is judged at random; leave it out"
        )
    try:
        from fedrel.pages.markdown import read_markdown
        from fedrel.pages.site import serve
        from fedrel.review.server import create_app
    except ModuleNotFoundError as error:
        raise UserError(f'fedrel review needs {error.name}; install it with: pip install "fedrel[review]"') from None
    reviewer = _reviewer(user)
    shown = read_markdown(guidelines) if guidelines is not None else None
    file = store or asked.absolute().parent / f"{asked.absolute().name}.verdicts.sqlite"
    with listen(host, port) as listening:
        if data is not None and model is not None:
            found = _of_data(data, model, source, kb, dev=dev)
        elif facts is not None:
            if model is None:
                say(f"{facts}: name the model that has found these facts with --model to see how answers improve it")
            found = _of_facts(facts, text, model, source, kb)
        else:
            assert text is not None
            facts = _extracted(text, model, kb, source, language, file)
            found = _of_facts(facts, text, model or FOLDER, source, kb)
        if found.impossible:
            say(f"{found.impossible:,} predictions are no questions: their types cannot have the relation")
        queue = Queue(found)
        ending = trusting(file, asked) if dev else improving(model, file, facts or asked)
        here = listening.getsockname()[1]
        with Store.open(file) as verdicts:
            app = create_app(
                queue,
                verdicts,
                user=reviewer,
                order=order,
                token=token,
                name=f"fedrel_review_{here}",
                guidelines=shown,
                ending=ending,
            )
            tell(f"open   {address_of(host, listening)}{'' if token is None else '?token=…'}", "bold")
            what = "labels" if dev else "predictions"
            say(f"{len(queue.items):,} {what} to judge; as {reviewer}; Ctrl-C ends")
            serve(app, listening)
            total = sum(count for kind, count in verdicts.counts().items() if kind != "shown")
    tell(f"{total:,} verdicts in {file}; next: {', then '.join(ending.splitlines())}")


def _one_of(facts: Path | None, data: Path | None, text: Path | None, model: Path | None, dev: bool) -> Path:
    """What is reviewed; UserError unless the options say it."""
    asked = data or facts or text
    if asked is None:
        raise UserError("name what to review: a file of facts, a data set (--data) or text (--text)")
    if data is not None and (facts is not None or text is not None):
        raise UserError(f"--data {data}: review either a data set or {facts or text}")
    if data is not None and model is None:
        raise UserError(f"--data {data}: name the model whose predictions are judged with --model")
    if dev and data is None:
        raise UserError("--purpose dev is about the held-out sentences of a data set; name it with --data")
    return asked


def _of_data(data: Path, model: Path, source: str, kb: Path | None, *, dev: bool) -> questions.Questions:
    saved = load_model(model)
    if saved.note:
        say(f"{model}: {saved.note}, which reads it")
    dataset = loading.load(Data(source=labelled_source(data, source), path=str(data)), say=say)
    base = load_kb(kb) if kb is not None else None
    if base is not None and not any(it in base.numbers for it in dataset.entities):
        say(f"{kb}: it has none of the entities of {data} by its id, so it cannot tell what is new or impossible")
    torch.set_num_threads(saved.threads)
    with reading_progress("scoring", len(dataset.dev if dev else dataset.train)) as tick:
        return questions.of_dataset(
            dataset,
            saved,
            questions.digest_of(model),
            kb=base,
            labels_of_dev=dev,
            tick=lambda done: tick(done, done),
        )


def _of_facts(facts: Path, text: Path | None, model: Path | None, source: str, kb: Path | None) -> questions.Questions:
    base: KB | None = load_kb(kb) if kb is not None else None
    relations = load_model(model).relations if model is not None else ()
    documents: Iterable[Document] = Documents(text, source) if text is not None else ()
    digest = questions.digest_of(model if model is not None else facts)
    return questions.of_facts(_read(facts), digest, relations=relations, kb=base, documents=documents)


def _read(path: Path) -> Iterator[Fact]:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    with reading_progress("reading", size, "facts") as tick:
        yield from read_facts(path, tick)


def _extracted(text: Path, model: Path | None, kb: Path | None, source: str, language: str, store: Path) -> Path:
    """The file of the facts in a text, beside the store; one that is there from an earlier start is kept, since answers
    were given to it.
    """
    digest = questions.digest_of(model if model is not None else FOLDER)
    file = store.with_suffix(f".{digest[:8]}.facts.jsonl")
    if file.exists():
        say(f"{file}: what this model has found before; remove it to read {text} anew")
        return file
    read, extractor, base = prepared(text, model, kb, source, strict=False)
    with Watch(read.bytes) as watch, open_atomic(file, private=True) as out:
        for line in json_lines(
            extractor.extract(read, kb=base, min_confidence=_LEAST, tick=watch, language=language, ambiguous=False)
        ):
            out.write(line.encode())
    return file


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
