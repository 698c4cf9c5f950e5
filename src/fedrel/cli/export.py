"""`fedrel export`: a model in the forms of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedrel.cli.console import print_json, say, tell
from fedrel.exports import export as write


def export(
    model: Annotated[Path, typer.Argument(help="The folder of a run, or its model folder.")],
    out_: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")],
    to: Annotated[str, typer.Option("--to", help="onnx, for pcnn, cnn and bert; or huggingface, for bert.")],
    json_: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a model as ONNX or in Hugging Face's form, with a model card, checked against fedrel's own scores."""
    done = write(model, out_, to, say=say)
    files = sorted(str(path.relative_to(out_)) for path in out_.rglob("*") if path.is_file())
    if json_:
        described = {"out": str(out_), "to": to, "files": files, "difference": done.difference}
        print_json(json.dumps(described | {"sentences": done.sentences}, indent=1))
        return
    tell(f"confidences of {done.sentences:,} sentences differ from fedrel's own by at most {done.difference:.0e}")
    tell(f"model   {out_}   (how to use it: {out_ / 'README.md'})", "bold")
