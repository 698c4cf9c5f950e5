"""Which file or folder is which split, and which files are not read."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.beside import is_about_data, is_hidden, is_no_data
from fedrel.corpus.file_counts import ADVICE, NO_READER, FileCounts, extension_of
from fedrel.corpus.format import Format
from fedrel.corpus.formats import FORMATS
from fedrel.errors import UserError

_LISTED = 200_000  # files of a folder that are looked at to say which are not read
_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "val", "valid", "validation"),
    "test": ("test", "test_gs"),
}
_MORE = (
    "set",
    "data",
    "annotated",
    "revised",
    "triples",
    "distant",
    "file",
    "full",
    r"rev\d*",
)  # what may follow these in names
_PATTERNS = {
    split: re.compile(rf"(?:.*[_-])?(?:{'|'.join(names)})(?:[_-]?(?:{'|'.join(_MORE)}))*")
    for split, names in _NAMES.items()
}
_SEVERAL = re.compile(  # train and dev in one file, beside which each has its own
    rf"(?:.*[_-])?(?:{'|'.join(_NAMES['train'])})[_-](?:{'|'.join((*_NAMES['dev'], *_NAMES['test']))})(?:[_-].*)?"
)
_LOOKED_AT = 1_000  # folders below one, in search of splits
_SECOND = re.compile(r".*[_-]distant")  # of labels that nobody checked: a split only where no other file is


def find_splits(path: Path, source: str = "opennre") -> dict[str, Path]:
    """The file or folder of each split that is there; UserError if train is not."""
    found = splits_in(path, source)
    if "train" not in found:
        raise UserError(f"{path}: no training file; {_expected(path, source)}")
    return found


def splits_in(path: Path, source: str) -> dict[str, Path]:
    """The file or folder of each split that is there, perhaps within the only folder in this one. A single file, or a
    folder of documents without splits, is train.
    """
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    form = FORMATS[source]
    found: dict[str, Path] = {}
    for candidate in sorted(_candidates(path, form), key=_is_second):
        split = split_of(candidate, form)
        if split and split in found and _is_second(candidate) > _is_second(found[split]):
            continue
        if split and split in found:
            one, other = (it.relative_to(path) for it in (found[split], candidate))
            raise UserError(f"{path}: both {one} and {other} could be {split}; remove one")
        if split:
            found[split] = candidate
    if not found and (inner := _only_folder(path)):
        deeper = splits_in(inner, source)
        found = {} if deeper == {"train": inner} else deeper
    if form.documents and not form.candidates and not found:
        if inner := _with_splits(path, source):
            raise UserError(f"{path}: the splits are in {inner}; name that folder")
        return {"train": path}
    return found


def _with_splits(path: Path, source: str) -> Path | None:
    """A folder somewhere below with files or folders for two splits or more, if there is one. Without a look for it,
    what is to be tested on would be trained on.
    """
    form = FORMATS[source]
    for folder in itertools.islice(_folders(path), _LOOKED_AT):
        entries = [it for it in folder.iterdir() if it.is_dir() or it.suffix.lower() in form.extensions]
        if len({split_of(it, form) for it in entries} - {None}) > 1:
            return folder
    return None


def _folders(path: Path) -> Iterator[Path]:
    """The folders below one, in order, without hidden ones."""
    for parent, names, _ in os.walk(path):
        names[:] = sorted(name for name in names if not is_hidden(name))
        yield from (Path(parent, name) for name in names)


def _only_folder(path: Path) -> Path | None:
    """Where a folder holds nothing but a folder, that one: archives are often unpacked so."""
    entries = [it for it in path.iterdir() if not is_no_data(it.name)]
    return entries[0] if len(entries) == 1 and entries[0].is_dir() and not entries[0].is_symlink() else None


def split_of(path: Path, *formats: Format) -> str | None:
    """`nyt10_val.json` is dev, and so is the folder `dev`; `train_dev.json` is neither. Infixes that these formats have
    in names are ignored.
    """
    name = _name(path)
    for infix in (infix for form in formats for infix in form.infixes):
        name = name.replace(infix, "")
    if _SEVERAL.fullmatch(name):
        return None
    return next((split for split, pattern in _PATTERNS.items() if pattern.fullmatch(name)), None)


def folds(path: Path, source: str) -> list[Path]:
    """Folders in a folder that have splits each, such as 1 … 10 for cross-validation, in the order of their numbers."""
    form = FORMATS[source]
    inner = sorted((it for it in path.iterdir() if _is_visible_folder(it)), key=_by_number)
    return [it for it in inner if any(split_of(file, form) for file in _candidates(it, form))]


def files_of(path: Path, source: str) -> list[Path]:
    """Every file that a split, which is a file or a folder, is read from."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
    files = FORMATS[source].files
    return list(files(path)) if files else [path]


def passed_over(path: Path, source: str, *, splits: bool = True) -> tuple[str, ...]:
    """The files in a folder that are not read in this format, by their paths relative to it, in order. Of folders that
    are no data as a whole (.git) only the name is given, with a slash. Without `splits`, all documents in the folder
    are read.
    """
    if not path.is_dir():
        return ()
    form = FORMATS[source]
    roots = _read_splits(path, source) if splits else [path]
    read = {file for root in roots if root.is_file() for file in files_of(root, source)}
    for folder in (root for root in roots if root.is_dir()):
        files = list(_walk(folder))
        read.update(file for file in files if _is_document(file, form))
        if form.files:  # what lies beside a text and goes by its name
            texts = {file.with_suffix("") for file in read}
            read.update(file for file in files if file.with_suffix("") in texts)
    unread = (file for file in _walk(path) if file not in read)
    return tuple(sorted(f"{file.relative_to(path)}{'/' if file.is_dir() else ''}" for file in unread))


def counted(path: Path, source: str) -> FileCounts:
    """The files of a folder of documents in this format, by whether they are read; of the text of a folder, `Skipped`
    knows more.
    """
    counts = FileCounts()
    if not path.is_dir():
        return counts
    unread = set(passed_over(path, source, splits=False))
    for name in sorted(f"{file.relative_to(path)}{'/' if file.is_dir() else ''}" for file in _walk(path)):
        here = Path(name).name
        if name not in unread:
            counts.read[extension_of(name)] += 1
        elif is_hidden(here) or is_about_data(here):
            counts.aside.add(name)
        else:
            counts.skip(name, "" if Path(name).suffix.lower() in ADVICE else f"no {source} files; {NO_READER}")
    return counts


def _read_splits(path: Path, source: str) -> list[Path]:
    """The splits in a folder, or of its folds or platforms; those of a folder that would be refused are unknown."""
    try:
        if found := splits_in(path, source):
            return list(found.values())
        return [split for inner in folds(path, source) for split in splits_in(inner, source).values()]
    except UserError:
        return []


def _walk(path: Path) -> Iterator[Path]:
    """The first _LISTED files in a folder and in those below it, with the folders that are not looked into: hidden ones
    and links.
    """
    return itertools.islice(_files_below(path), _LISTED)


def _files_below(path: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(path):
        kept = [name for name in folders if not is_hidden(name) and not Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in (*names, *sorted(set(folders) - set(kept))))
        folders[:] = kept


def _is_document(file: Path, form: Format) -> bool:
    if form.by_name and form.by_name(file):
        return not is_hidden(file.name) and not is_about_data(file.name)
    return file.suffix.lower() in form.extensions and not is_no_data(file.name)


def _candidates(path: Path, form: Format) -> Iterator[Path]:
    if form.candidates:
        yield from (it for it in form.candidates(path) if not is_hidden(it.name))
        return
    entries = sorted(it for it in path.iterdir() if not is_hidden(it.name))
    files = [it for it in entries if it.suffix.lower() in form.extensions and not is_no_data(it.name) and it.is_file()]
    yield from files
    if form.documents:
        named = [file for file in files if split_of(file, form)]
        if named and len(named) < len(files):  # to take the one for a split would leave the other out unseen
            other = next(file for file in files if file not in named)
            raise UserError(
                f"{path}: {named[0].name} is named after a split and {other.name} is not; "
                "put the documents of each split into a folder train, dev or test"
            )
        yield from (it for it in entries if _is_visible_folder(it))


def _expected(path: Path, source: str) -> str:
    form = FORMATS[source]
    inner = folds(path, source) if not form.documents else []
    if inner:
        return f"{len(inner)} folders in it have one: name one of them, such as {inner[0]}"
    if below := _with_splits(path, source):
        return f"the splits are in {below}; name that folder"
    names = form.training_file or ", ".join(f"train{extension}" for extension in form.extensions)
    return f"expected {names} or the like"


def _name(path: Path) -> str:
    return (path.name if path.is_dir() else path.stem).lower()


def _is_second(path: Path) -> bool:
    return _SECOND.fullmatch(_name(path)) is not None


def _is_visible_folder(path: Path) -> bool:
    return path.is_dir() and not is_hidden(path.name)


def _is_hidden(path: Path) -> bool:
    return any(map(is_hidden, path.parts))


def _by_number(path: Path) -> tuple[int, str]:
    return (int(path.name), "") if path.name.isdecimal() and path.name.isascii() else (0, path.name)
