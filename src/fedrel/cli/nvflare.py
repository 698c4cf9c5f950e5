"""`fedrel nvflare`: prepares a FLARE federation to carry our messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedrel.cli.console import print_json, tell

_Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def job(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="A new folder.")],
    json_: _Json = False,
) -> None:
    """Write the job that FLARE runs to carry messages. It contains class names, and no code."""
    from fedrel.federation.nvflare.job import write

    write(out)
    if json_:
        print_json(json.dumps({"job": str(out)}))
        return
    tell(f"{out}: submit it with FLARE's own tools, like `nvflare job submit -j {out}`; it runs until it is aborted.")
    tell("Before that, prepare each site: fedrel nvflare site STARTUP_KIT --relay SOCKET")


def site(
    kit: Annotated[
        Path, typer.Argument(metavar="STARTUP_KIT", help="The startup kit of FLARE's server or of a client.")
    ],
    relay: Annotated[Path, typer.Option("--relay", metavar="SOCKET", help="Where this site's fedrel node listens.")],
    json_: _Json = False,
) -> None:
    """Tell a FLARE site where its node listens, and allow our class to run there."""
    from fedrel.federation.nvflare.site import furnish

    written = list(furnish(kit, relay))
    if json_:
        print_json(json.dumps({"written": [str(path) for path in written]}))
        return
    for path in written:
        tell(f"wrote {path}")
    tell("FLARE reads them when it starts.")
