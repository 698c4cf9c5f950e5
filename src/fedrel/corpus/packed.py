"""Packed files, by their names; and what the user called what was unpacked from them.

What is packed is unpacked into the cache, where nobody should have to look: messages name files and folders as the
user did, `corpus.zip/sub/train.jsonl`, which is also how a folder within an archive is named.
"""

from __future__ import annotations

import re
from pathlib import Path

from fedrel.errors import UserError

TAR = (".tar.gz", ".tgz")
_READ = (*TAR, ".zip", ".gz")
_OTHERS = (".tar", ".bz2", ".tbz2", ".xz", ".txz", ".zst", ".7z", ".rar", ".z", ".lz4")
_given: dict[Path, Path] = {}  # by the place in the cache, in this process


def suffix_of(name: str) -> str:
    """What the name of a packed file ends in, if it can be unpacked here; else empty."""
    return next((it for it in _READ if name.lower().endswith(it) and len(name) > len(it)), "")


def is_packed(name: str) -> bool:
    """Whether the name of a file says that it is packed, in whatever way."""
    return bool(suffix_of(name)) or name.lower().endswith(_OTHERS)


def bare(name: str) -> str:
    """The name without what says that it is packed: train.jsonl for train.jsonl.bz2, train for train.tar.bz2."""
    low, suffixes = name.lower(), (*(f".tar{it}" for it in _OTHERS), *_READ, *_OTHERS)
    return name[: len(name) - len(next((it for it in suffixes if low.endswith(it)), ""))]


def remember(place: Path, given: Path) -> None:
    """Notes what the user calls a file or folder in the cache."""
    _given[place] = given


def as_given(path: Path) -> Path:
    """A file or folder in the cache as the user would name it; any other path as it is."""
    for place in (path, *path.parents):
        if place in _given:
            return _given[place] / path.relative_to(place)
    return path


def named_as_given(message: str) -> str:
    """A message in which files and folders in the cache go by the names that the user would give them."""
    for place in sorted(_given, key=lambda it: len(str(it)), reverse=True):
        whole = re.compile(rf"{re.escape(str(place))}(?![^\s/:;,)])")  # not the beginning of a longer name
        message = str(_given[place]).join(whole.split(message)) if str(place) in message else message
    return message


def still_packed(path: Path) -> UserError:
    """For data that are packed and stayed so."""
    given = as_given(path)
    if not suffix_of(path.name):
        return UserError(
            f"{given}: packed in a way that is not read here; unpack it, or pack it as .gz, .zip or .tar.gz"
        )
    archive = next((it for it in given.parents if it.is_file()), None)
    if archive:
        return UserError(
            f"{given}: packed within an archive, where nothing is unpacked again; unpack {archive} yourself, and name "
            "the folder"
        )
    return UserError(f"{given}: packed, and too far down to be unpacked; unpack it, or name its folder")
