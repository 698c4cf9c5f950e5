"""Starts a process that holds data: gives up the network and most write access first, then loads everything else.

    python -m fedrel.federation.nodes.confined worker|conductor DESCRIPTOR

The order matters: threads inherit the kernel's limits only if they start later, and numpy and torch start some on
import.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fedrel.errors import UserError
from fedrel.federation.channel import started
from fedrel.sandbox import Limits, confine
from fedrel.sandbox.paths import accelerator_paths


def main() -> None:
    """Confines the process and runs the worker or the conductor. Started by a node."""
    kind = sys.argv[1]
    channel, told = started("`fedrel platform start` or `fedrel coordinator start`")
    os.environ["TMPDIR"] = told["spool"]
    writable = tuple(Path(path) for path in told["writable"])
    protection = confine(Limits(write=writable, network="none", accelerator=bool(accelerator_paths())))
    channel.send({"do": "confined", "problems": list(protection.problems)})
    try:
        if kind == "worker":
            from fedrel.federation.worker import work

            work(channel, told)
        else:
            from fedrel.federation.nodes.conductor import conduct

            conduct(channel, told)
    except UserError as error:
        print(f"{kind}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.code) from None


if __name__ == "__main__":
    main()
