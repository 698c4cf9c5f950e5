"""Atomic writes, file permissions, private folders, and files that are read while they grow.

Output (a result, a model) is created with the permissions of the umask. Anything that holds text or secrets is private:
readable by its user alone whatever the umask, and never read from a folder that another user could have written to.
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

_NEW = os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def write_atomic(path: Path, content: bytes | bytearray | str, *, private: bool = False) -> None:
    """Writes a file atomically: it is written under a temporary name and then renamed, so that a crash or a full disk
    leaves the old file or none. A symbolic link at `path` is replaced, not followed. `private`: mode 0600 instead of
    the umask's.
    """
    with open_atomic(path, private=private) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, hexadecimal. Raises UserError if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


@contextmanager
def open_atomic(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file for writing that appears under its name only once the block has ended without an exception.

    `private`: mode 0600 instead of the umask's.
    """
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
            error.filename = str(path)  # the user does not know the temporary name
        raise


@contextmanager
def atomic_folder(path: Path, *, keep_existing: bool = False, private: bool = False) -> Iterator[Path]:
    """Yields an empty temporary folder, which is renamed to `path` once the block has ended without an exception.

    Raises OSError if `path` is a symbolic link or a folder with files in it; with `keep_existing`, an existing folder
    is taken to be the same one, finished first by another process, and kept. `private`: modes 0700 and 0600 for the
    folder and everything in it.
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
            if not (keep_existing and path.is_dir()):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _beside(path: Path) -> Path:
    """A temporary name in the same folder that cannot be guessed. Files of tempfile would ignore the umask."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")


# ------------------------------------------------------------------------------------------ private folders


def cache_folder() -> Path:
    """$FEDREL_CACHE, else `fedrel` in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("FEDREL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrel"


def private_cache(part: str, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """The subfolder `part` of the cache, created if need be, which no other user can read or could have written to.

    `say` receives one line if its permissions had to be tightened. Raises UserError if another user could have written
    to it or to the cache.
    """
    whole = cache_folder()
    if whole.exists():
        _require_safe(whole)
    else:
        private_folder(whole)
    return private_folder(whole / part, say=say)


def private_folder(path: Path, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """The folder, created if need be, with mode 0700. If others could enter it, its mode is changed and `say` receives
    one line. Raises UserError if it belongs to another user or is world-writable.
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
    """Raises UserError for a folder in which other users could replace our subfolders. A sticky folder of root's, like
    /tmp, is fine: users cannot rename each other's files there.
    """
    found = path.stat()
    if found.st_uid != 0 or not found.st_mode & stat.S_ISVTX:
        require_own(path)


def require_own(path: Path, *, group: bool = False) -> int:
    """The permission bits of a folder or file. Raises UserError if it belongs to another user or is world-writable, and
    with `group` also if it is group-writable.
    """
    link, found = path.lstat(), path.stat()
    me = os.getuid()
    if found.st_uid != me or link.st_uid not in (me, 0):  # a link may be root's
        raise UserError(
            f"{path}: belongs to another user, who could have put anything there; remove it, or choose another folder "
            "(for the cache: with FEDREL_CACHE)"
        )
    if found.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if group else 0)):
        raise UserError(
            f"{path}: others can write there and could have put anything there; remove it, or if you trust what is "
            f"in it: chmod go-w {shlex.quote(str(path))}"
        )
    return stat.S_IMODE(found.st_mode)


# ------------------------------------------------------------------------------------------ names that become paths


def run_name(text: str) -> str:
    """The text itself if it can be the name of a run, that is of a folder. Raises UserError otherwise: a name must not
    lead out of its parent folder, nor look like a command-line option.
    """
    if not _RUN_NAME.fullmatch(text) or text.endswith(".status.json"):  # such files lie beside runs
        raise UserError(
            f'"{shown(text, 100)}" cannot be the name of a run; use up to 80 letters, digits, ".", "_" and "-", a '
            "letter or digit first"
        )
    return text


def run_folder(folder: Path, name: str) -> Path:
    """The path of the run `name` in a folder of runs. Raises UserError for an invalid name and for a symbolic link,
    which may lead elsewhere.
    """
    path = folder / run_name(name)
    if path.is_symlink():
        raise UserError(f"{path}: a symbolic link, which may lead anywhere; remove it, a run needs a folder of its own")
    return path


class Tail:
    """Follows the lines that are appended to a file, from now on or, if `whole`, from its beginning; the file need not
    exist yet.
    """

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self.path = path
        self._place = path.stat().st_size if path.exists() and not whole else 0
        self._is = self._identity()

    def is_other(self) -> bool:
        """Whether the file was replaced or cut since the last line; then the next call begins at its beginning."""
        now = self._identity()
        if now is not None and (self._is is None or now[0] == self._is[0]) and now[1] >= self._place:
            self._is = now
            return False
        replaced = self._is is not None
        self._is, self._place = now, 0
        return replaced

    def lines(self) -> Iterator[bytes]:
        """The complete lines appended since the last call; an unfinished one waits for the next call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._place += len(line)
                yield line

    def _identity(self) -> tuple[int, int] | None:
        """Its inode and its size."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size
