"""`fedrel nvflare`: what a FLARE federation needs to carry our messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrel.cli.console import tell


def job(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="A folder that is not there yet.")],
) -> None:
    """Write the job that FLARE runs to carry messages: names of classes, and no code."""
    from fedrel.federation.nvflare.job import write

    write(out)
    tell(f"{out}: submit it with FLARE's own tools, like `nvflare job submit -j {out}`; it runs until it is aborted.")
    tell("Each site must have been told of it before: fedrel nvflare site STARTUP_KIT --relay SOCKET")


def site(
    kit: Annotated[Path, typer.Argument(metavar="STARTUP_KIT", help="FLARE's own kit, of its server or a client.")],
    relay: Annotated[Path, typer.Option("--relay", metavar="SOCKET", help="Where this site's fedrel node listens.")],
) -> None:
    """Tell a FLARE site where its node listens, and that our class may run there."""
    from fedrel.federation.nvflare.site import furnish

    for path in furnish(kit, relay):
        tell(f"wrote {path}")
    tell("FLARE reads them when it starts.")
