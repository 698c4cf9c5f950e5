"""Files that are there whole or not at all, and files that grow while somebody reads them."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fedrel.errors import UserError


def write_whole(path: Path, content: bytes | bytearray | str) -> None:
    """Writes under a temporary name, then renames: a crash or a full disk leaves the old file, or none."""
    with stream_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


@contextmanager
def stream_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write piece by piece; it takes its name only once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the name that a person knows
        raise


@contextmanager
def folder_whole(path: Path, *, others_do: bool = False) -> Iterator[Path]:
    """A new folder to fill; it takes its name only once it is complete. With `others_do`, one of that name that
    somebody else finished first is as good.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        try:
            temporary.replace(path)
        except OSError:
            if not (others_do and path.is_dir()):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
