"""One packed file, unpacked into a folder.

Archives may come from strangers. A member that lies outside of its folder, a link, a device or an encrypted member is
refused; number, total size and growth are bounded; files are written piece by piece.
"""

from __future__ import annotations

import gzip
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from fedrel.corpus.beside import is_left_behind
from fedrel.corpus.bounded_file import BoundedFile
from fedrel.corpus.packed import TAR, suffix_of
from fedrel.errors import UserError
from fedrel.util.escaping import shown

MEMBERS = 200_000  # files and folders of an archive
LARGEST = 16 * 2**30  # bytes of all of them
GROWTH, SMALL = 1_000, 100 * 2**20  # times the size of the archive, from so many bytes on
_CHUNK = 2**20  # bytes that are unpacked at a time
_DEEPEST = 32  # folders within folders
_LIST = 40 * 2**20  # bytes of the list of members in a .zip file, which has to be in memory
_HEADERS = 4 * 2**20  # bytes between two members of a .tar file, which have to be in memory
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def unpack(path: Path, folder: Path) -> None:
    """Unpacks a .gz, .zip, .tar.gz or .tgz file into a folder. UserError if it is damaged or not safe to unpack."""
    suffix = suffix_of(path.name)
    unpack_into: Callable[[Path, _Target], None] = _unzip if suffix == ".zip" else _untar if suffix in TAR else _gunzip
    target = _Target(path, folder)
    try:
        if not path.stat().st_size:
            raise EOFError
        unpack_into(path, target)
    except (UserError, MemoryError):
        raise
    except OSError as error:
        if error.errno is None:  # of a parser, not of the system
            raise _damaged(path) from None
        raise UserError(f"{path}: cannot be unpacked ({error.strerror})") from None
    except Exception:  # whatever parsers raise for damaged and hostile archives
        raise _damaged(path) from None
    if not target.files:
        raise UserError(f"{path}: there is no file in this archive")


def _damaged(path: Path) -> UserError:
    return UserError(f"{path}: not a whole {suffix_of(path.name)} file; it is damaged or cut off: get it again")


class _Target:
    """The folder that an archive is unpacked into, which refuses what is not safe there."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.archive, self.files = archive, 0
        self._folder, self._folders = folder, {folder}
        self._packed = archive.stat().st_size
        self._members = self._size = 0

    def refusal(self, name: str, why: str) -> UserError:
        return UserError(f"{self.archive}: {shown(name, 200)} in it {why}")

    def count(self) -> None:
        """Counts a file or a folder."""
        self._members += 1
        if self._members > MEMBERS:
            raise UserError(f"{self.archive}: more than {MEMBERS:,} files and folders are in it; unpack it yourself")

    def grow(self, size: int) -> None:
        """Counts bytes that were unpacked."""
        self._size += size
        if self._size > LARGEST:
            raise UserError(f"{self.archive}: more than {LARGEST >> 30} GB when unpacked; unpack it yourself")
        if self._size > SMALL and self._size > GROWTH * self._packed:
            raise UserError(
                f"{self.archive}: more than {GROWTH:,} times as large when unpacked, as no data are; it is refused"
            )

    def add(self, name: str, content: _Readable) -> None:
        """Writes a file, unless its name says that macOS or Windows left it behind. A later one of the same name
        replaces it, as in every program that unpacks.
        """
        parts = self._parts(name)
        if any(is_left_behind(part) for part in parts):
            while piece := content.read(_CHUNK):
                self.grow(len(piece))
            return
        place = self._folder.joinpath(*parts)
        for parent in reversed(place.relative_to(self._folder).parents):
            self._make(self._folder / parent, name)
        if place in self._folders:
            raise self.refusal(name, "is both a file and a folder; it is damaged")
        with place.open("wb") as file:
            while piece := content.read(_CHUNK):
                self.grow(len(piece))
                file.write(piece)
        self.files += 1

    def _make(self, folder: Path, name: str) -> None:
        if folder in self._folders:
            return
        if folder.exists():
            raise self.refusal(name, "lies within a file; it is damaged")
        self.count()
        folder.mkdir()
        self._folders.add(folder)

    def _parts(self, name: str) -> tuple[str, ...]:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts:
            raise self.refusal(name, "leads out of its folder; it is refused")
        if not parts or len(parts) > _DEEPEST or _CONTROL.search(name):
            raise self.refusal(name, "has a name that no file should have; it is refused")
        return parts


def _gunzip(path: Path, target: _Target) -> None:
    with gzip.open(path) as file:
        target.add(path.name[: -len(".gz")], file)


def _unzip(path: Path, target: _Target) -> None:
    with BoundedFile(path, _LIST) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            target.count()
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir() or kind == stat.S_IFDIR:
                continue
            if kind not in (0, stat.S_IFREG):
                raise target.refusal(member.filename, "is a link or a device; pack it again without such")
            if member.flag_bits & 0x41:
                raise target.refusal(member.filename, "is encrypted; unpack it yourself, with its password")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
                raise target.refusal(member.filename, "is packed by a rare method; unpack it yourself")
            with archive.open(member) as content:
                target.add(member.filename.replace("\\", "/"), content)


def _untar(path: Path, target: _Target) -> None:
    with gzip.open(path) as file:
        stream = _Stream(file, target)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as archive:
            while member := archive.next():
                vars(archive)["members"].clear()  # it would keep all of them
                stream.headers = 0
                target.count()
                name = member.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                if member.isdir():
                    continue
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise target.refusal(name, "is a link or a device; pack it again without such")
                target.add(name, _Member(content, stream))
        while file.read(_CHUNK):  # the sum that says whether it is whole comes last
            target.grow(_CHUNK)


class _Stream:
    """The bytes of a .tar file; of those between the contents of two members, which have to be in memory, only so many
    are read.
    """

    def __init__(self, file: _Readable, target: _Target) -> None:
        self._file, self._target = file, target
        self.headers, self.in_member = 0, False

    def read(self, size: int, /) -> bytes:
        piece = self._file.read(size)
        if not self.in_member:
            self._target.grow(len(piece))
            self.headers += len(piece)
            if self.headers > _HEADERS:
                raise UserError(f"{self._target.archive}: the name of a file in it has no end; it is refused")
        return piece


class _Member:
    """The content of a member of a .tar file, which is counted as it is written."""

    def __init__(self, content: _Readable, stream: _Stream) -> None:
        self._content, self._stream = content, stream

    def read(self, size: int, /) -> bytes:
        self._stream.in_member = True
        try:
            return self._content.read(size)
        finally:
            self._stream.in_member = False
