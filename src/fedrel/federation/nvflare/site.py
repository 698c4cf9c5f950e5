"""Prepares a FLARE startup kit for the relay's job: where the node listens, and that our class may run.

FLARE runs only classes in a site's `class_allow_list`. Ours is added to it, and nothing else is changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.federation.nvflare.job import CONTROLLER, EXECUTOR
from fedrel.federation.nvflare.node_link import SETTINGS
from fedrel.util.files import write_atomic

_RESOURCES = "resources.json"
_ALLOWED = "class_allow_list"


def furnish(kit: Path, socket: Path) -> list[Path]:
    """Prepares the startup kit of a FLARE server or client, and returns the files that were written. Raises UserError
    if it is not such a kit.
    """
    local = kit / "local"
    server, client = (kit / "startup" / f"fed_{kind}.json" for kind in ("server", "client"))
    if not local.is_dir() or not (server.is_file() or client.is_file()):
        raise UserError(f"{kit}: not a startup kit of a FLARE server or client (no local/ and startup/fed_*.json)")
    if not socket.is_absolute():
        raise UserError(f"--relay {socket}: FLARE needs the absolute path of the socket")
    wanted = CONTROLLER if server.is_file() else EXECUTOR
    resources = local / _RESOURCES
    found = _read(resources if resources.exists() else local / f"{_RESOURCES}.default")
    written = [local / SETTINGS]
    write_atomic(written[0], json.dumps({"relay": str(socket)}) + "\n")
    if _ALLOWED in found and wanted not in found[_ALLOWED]:
        found[_ALLOWED].append(wanted)
        write_atomic(resources, json.dumps(found, indent=2) + "\n")
        written.append(resources)
    return written


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get(_ALLOWED, []), list):
            return found
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    raise UserError(f"{path}: not a resources file of FLARE")
