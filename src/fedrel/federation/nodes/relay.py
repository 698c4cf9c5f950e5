"""How a node lets another carrier than our own reach it: the Unix socket of a relay, and who may come there."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.util.files import require_own

BRIDGE = "fedrel.federation.nvflare.bridge"
SOCKET = "relay.sock"
_FOLDER = "relay"  # in the kit
_LONGEST = 107  # bytes of the path of a socket


@dataclass(frozen=True)
class Relay:
    folder: Path  # of the socket
    user: int  # whose processes may connect

    @property
    def own(self) -> bool:
        """Whether the relay runs as the node's own user, and so could read all that the node can."""
        return self.user == os.getuid()

    @property
    def socket(self) -> Path:
        return self.folder / SOCKET

    def told(self, side: str, name: str, spool: Path) -> dict[str, Any]:
        """What the process that listens there has to know."""
        return {
            "side": side,
            "name": name,
            "relay": str(self.folder),
            "users": [self.user],
            "own": self.own,
            "spool": str(spool),
        }

    def warnings(self, private: Iterable[Path]) -> list[str]:
        """Why FLARE's processes could read what lies there."""
        if self.own:
            return [
                "FLARE runs as the same user as this node: whoever holds a certificate of your FLARE federation can "
                "then read this text and these keys; run FLARE as another user, and name it with --relay-user"
            ]
        return [
            f"{path}: other users of this machine can read it, FLARE's too, and so whoever holds a certificate of your "
            f"FLARE federation; chmod go= {path}"
            for path in private
            if not _closed(path.absolute())
        ]


def relay(kit: Path, folder: Path | None, user: str | None) -> Relay:
    """From what somebody typed."""
    number = user_id(user)
    chosen = (kit / _FOLDER if folder is None else folder).absolute()
    if len(os.fsencode(chosen / SOCKET)) > _LONGEST:
        raise UserError(f"{chosen}: too long a path for a socket; choose a shorter one with --relay")
    if folder is None and number != os.getuid():
        raise UserError(
            f"{kit}: other users cannot reach a socket in a kit, and should not; "
            "name a folder outside with --relay, like /run/fedrel/NAME"
        )
    if folder is not None and chosen.is_relative_to(kit.absolute()):
        raise UserError(f"--relay {folder}: lies in the kit, which nobody else may enter; choose a folder outside")
    if chosen.exists():
        require_own(chosen)
    return Relay(chosen, number)


def _closed(path: Path) -> bool:
    """Whether others cannot come there: past a folder that they cannot enter, or to a file that they cannot read."""
    if path.is_file() and not path.stat().st_mode & 0o044:
        return True
    return any(folder.is_dir() and not folder.stat().st_mode & 0o011 for folder in (path, *path.parents))


def user_id(user: str | None) -> int:
    """None: our own."""
    try:
        return os.getuid() if user is None else int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise UserError(f"--relay-user {user}: there is no such user on this machine") from None
