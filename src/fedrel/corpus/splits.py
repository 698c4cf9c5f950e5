"""Which file or folder is which split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.format import Format
from fedrel.corpus.formats import FORMATS
from fedrel.errors import UserError

_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "development", "val", "valid", "validation"),
    "test": ("test", "test_gs"),
}
_MORE = ("set", "data", "annotated", "revised", "triples", "distant", "file", "full")  # what may follow these in names
_PATTERNS = {
    split: re.compile(rf"(?:.*[_-])?(?:{'|'.join(names)})(?:[_-]?(?:{'|'.join(_MORE)}))*")
    for split, names in _NAMES.items()
}
_SEVERAL = re.compile(  # train and dev in one file, beside which each has its own
    rf"(?:.*[_-])?(?:{'|'.join(_NAMES['train'])})[_-](?:{'|'.join((*_NAMES['dev'], *_NAMES['test']))})(?:[_-].*)?"
)
_SECOND = re.compile(r".*[_-]distant")  # of labels that nobody checked: a split only where no other file is


def find_splits(path: Path, source: str = "opennre") -> dict[str, Path]:
    """The file or folder of each split that is there; UserError if train is not."""
    found = splits_in(path, source)
    if "train" not in found:
        raise UserError(f"{path}: no training file; {_expected(path, source)}")
    return found


def splits_in(path: Path, source: str) -> dict[str, Path]:
    """The file or folder of each split that is there. A single file, or a folder of documents without splits, is
    train.
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
    if form.documents and not form.candidates and not found:
        return {"train": path}
    return found


def passed_over(path: Path, source: str) -> list[Path]:
    """Files of a folder that are named after splits and are none: train and dev in one, or a second choice."""
    if not path.is_dir():
        return []
    form, taken = FORMATS[source], set(splits_in(path, source).values())
    others = (it for it in _candidates(path, form) if it not in taken)
    return [it for it in others if split_of(it, form) or _SEVERAL.fullmatch(_name(it))]


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


def _candidates(path: Path, form: Format) -> Iterator[Path]:
    if form.candidates:
        yield from form.candidates(path)
        return
    entries = sorted(path.iterdir())
    files = [it for it in entries if it.suffix.lower() in form.extensions and it.is_file()]
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
    names = form.training_file or ", ".join(f"train{extension}" for extension in form.extensions)
    return f"expected {names} or the like"


def _name(path: Path) -> str:
    return (path.name if path.is_dir() else path.stem).lower()


def _is_second(path: Path) -> bool:
    return _SECOND.fullmatch(_name(path)) is not None


def _is_visible_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _by_number(path: Path) -> tuple[int, str]:
    return (int(path.name), "") if path.name.isdecimal() and path.name.isascii() else (0, path.name)
