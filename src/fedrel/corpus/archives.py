"""Packed data: .gz, .zip, .tar.gz and .tgz files, given as the path or lying in a folder, are unpacked into the cache.

    corpus.zip             ->  …/unpacked/3f0c…/corpus.zip/…, or the one folder or the one file that is in it
    train.jsonl.gz         ->  …/unpacked/9a12…/train.jsonl.gz/train.jsonl
    data/, with
      dev.jsonl            ->  …/unpacked/77b0…/data/dev.jsonl, a link
      train.jsonl.gz       ->  …/unpacked/77b0…/data/train.jsonl, a link to what was unpacked

A folder in the cache is named after the content, so that nothing is unpacked twice, and after the archive, so that
messages can be understood. In a folder and two levels of those below it, a .gz file is unpacked if data may come with
such an extension, and an archive if it is named after a split; at the top also if nothing but archives and readmes lies
beside it. What is there under the unpacked name already is left alone, and so are archives within archives.

Archives may come from strangers. A member that lies outside of its folder, a link, a device or an encrypted member is
refused; number, total size and growth are bounded; files are written piece by piece, and appear once all are written.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from fedrel.corpus.beside import is_hidden, is_left_behind, is_no_data
from fedrel.corpus.bounded_file import BoundedFile
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.splits import split_of
from fedrel.errors import UserError
from fedrel.util.escaping import shown
from fedrel.util.files import atomic_folder, cache_folder, private_cache, require_own, sha256

MEMBERS = 200_000  # files and folders of an archive
LARGEST = 16 * 2**30  # bytes of all of them
GROWTH, SMALL = 1_000, 100 * 2**20  # times the size of the archive, from so many bytes on
_CHUNK = 2**20  # bytes that are unpacked at a time
_DEEPEST = 32  # folders within folders
_LIST = 40 * 2**20  # bytes of the list of members in a .zip file, which has to be in memory
_HEADERS = 4 * 2**20  # bytes between two members of a .tar file, which have to be in memory
_TAR = (".tar.gz", ".tgz")
_OTHERS = (".tar", ".bz2", ".tbz2", ".xz", ".txz", ".zst", ".7z", ".rar", ".z", ".lz4")
_PLACE = "unpacked"  # in the cache
_DEPTH = 2  # levels of folders below one in which packed files are looked for: train/txt/a.txt.gz
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def unpacked(path: Path) -> Path:
    """A file or folder with what is packed in `path`, or in files of the folder `path`; the path itself where nothing
    is. UserError for an archive that is damaged or not safe to unpack.
    """
    try:
        if cache_folder().absolute() / _PLACE in path.absolute().parents:
            return path  # archives within archives are not unpacked
        if path.is_dir():
            return _folder_unpacked(path)
        if path.is_file() and _suffix(path.name):
            return _archive_unpacked(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if path.name.lower().endswith(_OTHERS) and path.is_file():
        raise UserError(f"{path}: packed in a way that is not read here; unpack it, or pack it as .zip or .tar.gz")
    return path


def _suffix(name: str) -> str:
    return next((it for it in (*_TAR, ".zip", ".gz") if name.lower().endswith(it) and len(name) > len(it)), "")


# ---------------------------------------------------------------------------------------------------- folders


def _folder_unpacked(path: Path) -> Path:
    """A folder of links to the files of this one, with unpacked files in place of packed ones."""
    wanted = [folder / name for folder, names in _walk(path, _DEPTH) for name in _wanted(folder, names, folder != path)]
    if not wanted:
        return path
    files = [folder / name for folder, names in _walk(path) for name in names]
    packed = {file: _archive_unpacked(file) for file in wanted}
    listed = [str(path.absolute()), *map(str, files), *map(str, packed.values())]
    target = private_cache(_PLACE) / _key(json.dumps(listed))
    name = path.absolute().name or "data"
    if not target.exists():
        with atomic_folder(target, keep_existing=True, private=True) as new:
            _link_all(path, new / name, files, packed)
    require_own(target)
    return target / name


def _walk(path: Path, depth: int | None = None) -> Iterator[tuple[Path, list[str]]]:
    """Every folder with its files in order, this one and so many levels of those below it; a link to a folder is not
    followed and counts as a file.
    """
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        links = [name for name in folders if Path(parent, name).is_symlink()]
        yield Path(parent), sorted((*names, *links))
        if depth is not None and len(Path(parent).parts) - len(path.parts) >= depth:
            folders.clear()


def _wanted(folder: Path, names: list[str], below: bool) -> list[str]:
    """The names of packed data in a folder that are not there unpacked already."""
    packed = {name: suffix for name in names if (suffix := _suffix(name)) and not is_no_data(name)}
    if not packed:
        return []
    there = {it.name for it in folder.iterdir()}
    stems = {Path(name).stem for name in there - set(packed)}
    alone = not below and all(name in packed or is_no_data(name) for name in there)
    known = {extension for form in FORMATS.values() for extension in form.extensions}
    found = []
    for name, suffix in packed.items():
        inner = Path(name[: -len(suffix)])
        if suffix == ".gz":
            fits = inner.suffix.lower() in known and not is_no_data(inner.name)
        else:
            fits = inner.name not in stems and (alone or split_of(inner, *FORMATS.values()) is not None)
        if fits and inner.name not in there:
            found.append(name)
    return found


def _link_all(path: Path, new: Path, files: list[Path], packed: Mapping[Path, Path]) -> None:
    """Links to files, and in place of an archive to its content: under its own name, without its extension. Where that
    is taken, by another archive, a link to the archive itself.
    """
    for file in sorted(files, key=lambda it: it in packed):
        place, found = new / file.relative_to(path), packed.get(file)
        bare = _bare(place, found) if found else place
        if found is None or bare.exists():
            _link(place, file.absolute())
        elif found.is_file():
            _link(bare, found)
        else:
            for folder, names in _walk(found):
                for name in names:
                    _link(bare / folder.relative_to(found) / name, folder / name)


def _bare(place: Path, found: Path) -> Path:
    """train.zip with one .jsonl file in it is train.jsonl."""
    name = place.name[: -len(_suffix(place.name))]
    return place.with_name(name + found.suffix if found.is_file() and Path(name).suffix != found.suffix else name)


def _link(place: Path, to: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(to)


# --------------------------------------------------------------------------------------------------- archives


def _archive_unpacked(path: Path) -> Path:
    found = path.stat()
    target = private_cache(_PLACE) / _key(
        _digest(path.absolute(), found.st_size, found.st_mtime_ns, found.st_ino), path.name
    )
    if not target.exists():
        with atomic_folder(target, keep_existing=True, private=True) as new:
            (new / path.name).mkdir()
            _unpack(path, new / path.name)
    require_own(target)
    return _content(target / path.name)


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


@lru_cache(maxsize=1024)
def _digest(path: Path, size: int, changed: int, inode: int) -> str:
    """Of a file as it is now: to hash gigabytes once more takes seconds."""
    return sha256(path)


def _content(folder: Path) -> Path:
    """The one folder that is in it, or the one file, or else the folder itself."""
    inside = list(folder.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        folder, inside = inside[0], list(inside[0].iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_file() else folder


def _unpack(path: Path, folder: Path) -> None:
    suffix = _suffix(path.name)
    unpack: Callable[[Path, _Target], None] = _unzip if suffix == ".zip" else _untar if suffix in _TAR else _gunzip
    target = _Target(path, folder)
    try:
        if not path.stat().st_size:
            raise EOFError
        unpack(path, target)
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
    return UserError(f"{path}: not a whole {_suffix(path.name)} file; it is damaged or cut off: get it again")


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
