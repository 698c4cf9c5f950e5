"""Packed data: .gz, .zip, .tar.gz and .tgz files, given as the path or lying in a folder, are unpacked into the cache.

    corpus.zip             ->  …/unpacked/3f0c…/corpus.zip/…, or the one folder or the one file that is in it
    corpus.zip/sub         ->  …/unpacked/3f0c…/corpus.zip/sub
    train.jsonl.gz         ->  …/unpacked/9a12…/train.jsonl.gz/train.jsonl
    data/, with
      dev.jsonl            ->  …/unpacked/77b0…/data/dev.jsonl, a link
      train.jsonl.gz       ->  …/unpacked/77b0…/data/train.jsonl, a link to what was unpacked

A folder in the cache is named after the content, so that nothing is unpacked twice, and after the archive, so that
messages can be understood. In a folder and two levels of those below it, a .gz file is unpacked if data may come with
such an extension, and an archive if it is named after a split; at the top also if nothing but archives and readmes lies
beside it. What is there under the unpacked name already is left alone, and so are archives within archives.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from fedrel.corpus.beside import is_hidden, is_no_data
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.packed import is_packed, remember, still_packed, suffix_of
from fedrel.corpus.splits import split_of
from fedrel.corpus.unpacking import unpack
from fedrel.errors import UserError
from fedrel.util.escaping import shown
from fedrel.util.files import atomic_folder, cache_folder, private_cache, require_own, sha256

_PLACE = "unpacked"  # in the cache
_NAMED = 5  # members that a message names
_DEPTH = 2  # levels of folders below one in which packed files are looked for: train/txt/a.txt.gz


def unpacked(path: Path) -> Path:
    """A file or folder with what is packed in `path`, or in files of the folder `path`; the path itself where nothing
    is. UserError for an archive that is damaged or not safe to unpack.
    """
    try:
        if cache_folder().absolute() / _PLACE in path.absolute().parents:
            return path  # archives within archives are not unpacked
        if path.is_dir():
            return _folder_unpacked(path)
        if path.is_file() and suffix_of(path.name):
            return _content(_archive_unpacked(path))
        if path.is_file() and is_packed(path.name):
            raise still_packed(path)
        archive = next((it for it in path.parents if suffix_of(it.name) and it.is_file()), None)
        return _within(archive, path.relative_to(archive)) if archive else path
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


# ---------------------------------------------------------------------------------------------------- folders


def _folder_unpacked(path: Path) -> Path:
    """A folder of links to the files of this one, with unpacked files in place of packed ones."""
    wanted = [folder / name for folder, names in _walk(path, _DEPTH) for name in _wanted(folder, names, folder != path)]
    if not wanted:
        return path
    files = [folder / name for folder, names in _walk(path) for name in names]
    packed = {file: _content(_archive_unpacked(file)) for file in wanted}
    listed = [str(path.absolute()), *map(str, files), *map(str, packed.values())]
    target = private_cache(_PLACE) / _key(json.dumps(listed))
    name = path.absolute().name or "data"
    if not target.exists():
        with atomic_folder(target, keep_existing=True, private=True) as new:
            _link_all(path, new / name, files, packed)
    require_own(target)
    remember(target / name, path)
    for file, found in packed.items():
        remember(_bare(target / name / file.relative_to(path), found), file)
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
    packed = {name: suffix for name in names if (suffix := suffix_of(name)) and not is_no_data(name)}
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
    name = place.name[: -len(suffix_of(place.name))]
    return place.with_name(name + found.suffix if found.is_file() and Path(name).suffix != found.suffix else name)


def _link(place: Path, to: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(to)


# --------------------------------------------------------------------------------------------------- archives


def _within(archive: Path, inner: Path) -> Path:
    """A file or folder in an archive, corpus.zip/sub/folder, whether or not the one folder that all of it is in is
    named, too.
    """
    folder = _archive_unpacked(archive)
    if ".." not in inner.parts:
        for place in (folder / inner, _content(folder) / inner):
            if place.is_file() and is_packed(place.name):
                raise still_packed(place)
            if place.exists():
                return place
    inside = sorted(it.name + "/" * it.is_dir() for it in folder.iterdir())
    names = ", ".join(shown(name, 50) for name in inside[:_NAMED]) + (" …" if len(inside) > _NAMED else "")
    raise UserError(f"{archive}: there is no {inner} in this archive; it holds {names}")


def _archive_unpacked(path: Path) -> Path:
    """The folder of all that is in an archive."""
    found = path.stat()
    target = private_cache(_PLACE) / _key(
        _digest(path.absolute(), found.st_size, found.st_mtime_ns, found.st_ino), path.name
    )
    if not target.exists():
        with atomic_folder(target, keep_existing=True, private=True) as new:
            (new / path.name).mkdir()
            unpack(path, new / path.name)
    require_own(target)
    remember(target / path.name, path)
    return target / path.name


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
