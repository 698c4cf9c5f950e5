"""What a FLARE startup kit must say, so that the relay's job runs at that site: where the node is, which class may run.

FLARE runs only classes that a site's `class_allow_list` names. Ours is added, and nothing else is changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.federation.nvflare.job import CONTROLLER, EXECUTOR
from fedrel.federation.nvflare.line import SETTINGS
from fedrel.util.files import write_whole

_RESOURCES = "resources.json"
_ALLOWED = "class_allow_list"


def furnish(kit: Path, socket: Path) -> list[Path]:
    """The files that were written in the startup kit of a server or a client."""
    local = kit / "local"
    server, client = (kit / "startup" / f"fed_{kind}.json" for kind in ("server", "client"))
    if not local.is_dir() or not (server.is_file() or client.is_file()):
        raise UserError(f"{kit}: no startup kit of a FLARE server or client (no local/ and startup/fed_*.json in it)")
    if not socket.is_absolute():
        raise UserError(f"--relay {socket}: FLARE needs the whole path of the socket, from / on")
    wanted = CONTROLLER if server.is_file() else EXECUTOR
    resources = local / _RESOURCES
    found = _read(resources if resources.exists() else local / f"{_RESOURCES}.default")
    written = [local / SETTINGS]
    write_whole(written[0], json.dumps({"relay": str(socket)}) + "\n")
    if _ALLOWED in found and wanted not in found[_ALLOWED]:
        found[_ALLOWED].append(wanted)
        write_whole(resources, json.dumps(found, indent=2) + "\n")
        written.append(resources)
    return written


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get(_ALLOWED, []), list):
            return found
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    raise UserError(f"{path}: not what FLARE writes there")
