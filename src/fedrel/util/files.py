"""Files that are there whole or not at all, files that grow while somebody reads them, and who may read them.

What a person asked for (a result, a model) is created as the umask says. What holds text or secrets is private: the
user's alone whatever the umask, and never taken from a place that somebody else could have filled.
"""

import hashlib
import os
import re
import secrets
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fedrel.errors import UserError
from fedrel.util.escaping import shown

_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def write_whole(path: Path, content: bytes | bytearray | str, *, private: bool = False) -> None:
    """Writes under a temporary name, then renames: a crash or a full disk leaves the old file, or none. A link in the
    place of the file is replaced, not followed. `private`: only the user can read it.
    """
    with stream_whole(path, private=private) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


@contextmanager
def stream_whole(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write piece by piece; it takes its name only once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | _NEW, 0o600 if private else 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the name that a person knows
        raise


@contextmanager
def folder_whole(path: Path, *, others_do: bool = False, private: bool = False) -> Iterator[Path]:
    """A new folder to fill; it takes its name only once it is complete, and never in the place of a link. With
    `others_do`, one of that name that somebody else finished first is as good. `private`: only the user can read it
    and what is in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        temporary.mkdir(mode=0o700 if private else 0o777)
        yield temporary
        if private:
            for inner in temporary.rglob("*"):
                if not inner.is_symlink():
                    inner.chmod(0o700 if inner.is_dir() else 0o600)
        try:
            temporary.replace(path)
        except OSError:
            if not (others_do and path.is_dir()):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _beside(path: Path) -> Path:
    """A name that nobody can foresee. It is not made by tempfile, whose files do not follow the umask."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")


@contextmanager
def append_private(path: Path) -> Iterator[IO[bytes]]:
    """A log that only the user can read, to add to; one that others could read is closed to them. A link in its place
    is not followed.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}; a log must be a file of your own") from None
    with os.fdopen(descriptor, "ab") as file:
        if os.fstat(descriptor).st_mode & _FOR_OTHERS:
            os.fchmod(descriptor, 0o600)
        yield file


# ------------------------------------------------------------------------------------------ private folders


def cache_folder() -> Path:
    """$FEDREL_CACHE, or the user's own cache folder."""
    if chosen := os.environ.get("FEDREL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrel"


def private_cache(part: str, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """A folder in the cache, for this user alone: what is read from it can only be what this user put there."""
    whole = cache_folder()
    if whole.exists():
        _require_safe(whole)
    else:
        private_folder(whole)
    return private_folder(whole / part, say=say)


def private_folder(path: Path, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """The folder, made if it is not there, which only this user can enter. One that others could enter is closed to
    them, and `say` is told; one that is another user's, or that all could write in, is refused.
    """
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise
    mode = require_own(path)
    if mode & _FOR_OTHERS:
        path.chmod(0o700)
        say(f"{path}: others could enter this folder; now only you can")
    return path


def _require_safe(path: Path) -> None:
    """Refuses a folder in which others could put theirs in the place of ours. Like /tmp it may be an administrator's
    and open to all, if nobody can rename what is another's there.
    """
    found = path.stat()
    if found.st_uid != 0 or not found.st_mode & stat.S_ISVTX:
        require_own(path)


def require_own(path: Path, *, group: bool = False) -> int:
    """Refuses a folder or file that is another user's or that everybody can write; with `group`, also one that its
    group can write. Its permissions.
    """
    link, found = path.lstat(), path.stat()
    me = os.getuid()
    if found.st_uid != me or link.st_uid not in (me, 0):  # an administrator may have put a link there
        raise UserError(
            f"{path}: belongs to another user, who could have put anything there; remove it, or choose another folder "
            "(of the cache: with FEDREL_CACHE)"
        )
    if found.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if group else 0)):
        raise UserError(
            f"{path}: others can write there, and could have put anything there; remove it, or if you know all that is "
            f"in it: chmod go-w {shlex.quote(str(path))}"
        )
    return stat.S_IMODE(found.st_mode)


# ------------------------------------------------------------------------------------------ names that become paths


def run_name(text: str) -> str:
    """The name of a run, or a refusal if it could mean another place than a folder of its own, or an option."""
    if not _RUN_NAME.fullmatch(text) or text.endswith(".status.json"):  # such files lie beside runs
        raise UserError(
            f'"{shown(text, 100)}" cannot be the name of a run; use up to 80 letters, digits, ".", "_" and "-", a '
            "letter or digit first"
        )
    return text


def run_folder(folder: Path, name: str) -> Path:
    """Where the run of this name lies in a folder of runs. A link in its place is refused: it may lead elsewhere."""
    path = folder / run_name(name)
    if path.is_symlink():
        raise UserError(f"{path}: a link, which may lead anywhere; a run needs a folder of its own: remove the link")
    return path


class Tail:
    """What is added to a file from now on; it need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = path.stat().st_size if path.exists() else 0

    def lines(self) -> Iterator[bytes]:
        """Whole lines that are new since the last call; one that is being written comes with the next."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._place += len(line)
                yield line
