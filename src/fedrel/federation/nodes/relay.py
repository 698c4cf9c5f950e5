"""How a node can be reached by another carrier than our own: the Unix socket for a relay, and who may connect to it."""

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
_LONGEST = 107  # bytes of the path of a Unix socket


@dataclass(frozen=True)
class Relay:
    """Where FLARE's processes connect to this node, and as which user they run."""

    folder: Path  # of the socket
    user: int  # the user ID whose processes may connect

    @property
    def own(self) -> bool:
        """Whether the relay runs as the node's own user, and so can read everything that the node can."""
        return self.user == os.getuid()

    @property
    def socket(self) -> Path:
        return self.folder / SOCKET

    def told(self, side: str, name: str, spool: Path) -> dict[str, Any]:
        """The first message to the bridge, the process that listens on the socket."""
        return {
            "side": side,
            "name": name,
            "relay": str(self.folder),
            "users": [self.user],
            "own": self.own,
            "spool": str(spool),
        }

    def warnings(self, private: Iterable[Path]) -> list[str]:
        """One sentence for each of these paths that FLARE's processes could read, or one for all of them."""
        if self.own:
            return [
                "FLARE runs as the same user as this node, so anyone with a certificate of your FLARE federation can "
                "read this text and these keys; run FLARE as another user, and name it with --relay-user"
            ]
        return [
            f"{path}: other users of this machine can read it, including FLARE's, so anyone with a certificate of your "
            f"FLARE federation can; chmod go= {path}"
            for path in private
            if not _closed(path.absolute())
        ]


def relay(kit: Path, folder: Path | None, user: str | None) -> Relay:
    """A relay from the options --relay and --relay-user. Raises UserError if they do not make sense."""
    number = user_id(user)
    chosen = (kit / _FOLDER if folder is None else folder).absolute()
    if len(os.fsencode(chosen / SOCKET)) > _LONGEST:
        raise UserError(f"{chosen}: the path is too long for a socket; choose a shorter one with --relay")
    if folder is None and number != os.getuid():
        raise UserError(
            f"{kit}: other users cannot reach a socket in a kit, and should not; "
            "name a folder outside it with --relay, like /run/fedrel/NAME"
        )
    if folder is not None and chosen.is_relative_to(kit.absolute()):
        raise UserError(f"--relay {folder}: in the kit, which other users must not enter; choose a folder outside it")
    if chosen.exists():
        require_own(chosen)
    return Relay(chosen, number)


def _closed(path: Path) -> bool:
    """Whether other users cannot read a path: it is a private file, or below a folder that they cannot enter."""
    if path.is_file() and not path.stat().st_mode & 0o044:
        return True
    return any(folder.is_dir() and not folder.stat().st_mode & 0o011 for folder in (path, *path.parents))


def user_id(user: str | None) -> int:
    """The number of a user given by name or number; None: our own. Raises UserError if there is no such user."""
    try:
        return os.getuid() if user is None else int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise UserError(f"--relay-user {user}: there is no such user on this machine") from None
