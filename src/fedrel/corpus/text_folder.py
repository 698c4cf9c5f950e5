"""Which files of a folder are text; all others are counted, so that none is passed over in silence."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from fedrel.corpus.beside import is_about_data, is_hidden
from fedrel.corpus.prose import INSTALL, KINDS
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError


def is_text(name: str, extensions: Collection[str]) -> bool:
    """Whether a file of this name in a folder of text is text itself: neither hidden nor a readme."""
    return Path(name).suffix.lower() in extensions and not is_hidden(name) and not is_about_data(name)


def texts_in(path: Path, extensions: Collection[str], skip: Skipped) -> dict[str, Path]:
    """The files with these extensions in a folder and in those below it, in order, by their paths relative to it. All
    others are counted in `skip.files`; what cannot be opened at all is reported to `skip` as broken. Links to files are
    followed, links to folders are not: they may lead in a circle.
    """
    found: dict[str, Path] = {}
    for name, place in sorted(_entries(path, skip).items()):
        here = Path(name).name
        if is_hidden(here) or is_about_data(here):
            skip.files.aside.add(name)
        elif name.endswith("/"):
            skip.files.skip(name, "links to folders are not followed; name the folder itself", "(link)")
        elif not is_text(here, extensions):
            skip.files.skip(name)
        elif (kind := KINDS.get(place.suffix.lower())) and kind.missing:
            skip.files.skip(name, INSTALL)
        elif why := _unreadable(name, place):
            skip.bad_file(_printable(name), UserError(f"{_printable(str(place))}: {why}"), _printable(str(place)))
        else:
            found[name] = place
    return found


def _entries(path: Path, skip: Skipped) -> dict[str, Path]:
    """Every file, and every folder that is not looked into, with a slash at its end."""
    found: dict[str, Path] = {}

    def report(error: OSError) -> None:
        place = Path(error.filename)
        if place == path:
            raise UserError(f"{path}: {error.strerror or error}") from None
        why = f"{error.strerror or error}; nothing in this folder is read"
        name = f"{_printable(place.relative_to(path).as_posix())}/"
        skip.bad_file(name, UserError(f"{_printable(str(place))}: {why}"), _printable(str(place)))

    for parent, folders, names in os.walk(path, onerror=report):
        closed = [name for name in folders if is_hidden(name) or Path(parent, name).is_symlink()]
        for name in (*names, *closed):
            place = Path(parent, name)
            found[place.relative_to(path).as_posix() + "/" * (name in closed)] = place
        folders[:] = [name for name in folders if name not in closed]
    return found


def _unreadable(name: str, place: Path) -> str:
    """Why a file cannot be a document, if it cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:  # documents are called after it
        return "the name of the file is not UTF-8; rename it"
    if not place.exists():
        return "a link that leads nowhere"
    return "" if place.is_file() else "neither a file nor a folder"  # a pipe would be waited for, for ever


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
