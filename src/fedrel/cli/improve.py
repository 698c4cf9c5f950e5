"""`fedrel improve`: a model fine-tuned by verdicts, kept if it is better than the one that was judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedrel import config
from fedrel.api.improving import beside, improvement
from fedrel.cli.console import print_json, say, tell
from fedrel.cli.run import AsJson, Settings, execute
from fedrel.experiment.divergence import require_free
from fedrel.experiment.improvement import Improvement

KEPT = 4  # exit code: the old model is the one to use


def improve(
    model: Annotated[Path, typer.Argument(help="The model that was reviewed: the folder of its run.")],
    verdicts: Annotated[Path, typer.Option("--verdicts", help="The store of fedrel review, or a folder of stores.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The data set or facts.jsonl that was reviewed; else the model's own data."),
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", help="Folder for the new model; else beside the old one, MODEL-improved.")
    ] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    json_: AsJson = False,
) -> None:
    """Fine-tune a model by what people said of its predictions, and say which of the two to use."""
    folder = out_ or beside(model)
    require_free(folder)
    done = improvement(
        model, verdicts, data, folder, config.read_settings(set_), say=say, train=lambda it: execute(it, folder)
    )
    if json_:
        print_json(json.dumps(done.as_json(), indent=1))
    else:
        _show(done)
    if not done.accepted:
        raise typer.Exit(KEPT)


def _show(done: Improvement) -> None:
    for name in done.without:
        tell(f"left out: {name} {done.people[name].doubt}")
    if done.dev:
        tell(f"dev {done.metric}  {done.dev.old:.3f} → {done.dev.new:.3f}")
    if done.held_out:
        tell("held-out verdicts expected with  {} → {}".format(*done.held_out.shares))
    if done.accepted:
        tell(f"the new model is better; use {done.use} ({done.old} is kept)", "bold")
        return
    kept = f"; the new one is in {done.new}, to look at" if done.new else "; no new one was trained"
    for why in done.why:
        if why not in [f"{name} {done.people[name].doubt}" for name in done.without]:
            tell(f"not better: {why}")
    tell(f"the old model is kept; use {done.use}{kept}", "bold")
