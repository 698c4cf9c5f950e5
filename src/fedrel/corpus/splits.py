"""Which file or folder is which split, and which files are not read."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedrel.corpus.beside import is_about_data, is_hidden, is_no_data
from fedrel.corpus.file_counts import ADVICE, NO_READER, FileCounts, extension_of
from fedrel.corpus.format import Format
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.packed import as_given, bare, is_packed, still_packed
from fedrel.corpus.samples import sample_of
from fedrel.corpus.unlabelled import is_unlabelled
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
_NAMED = 5  # folders that a message names
_SECOND = re.compile(r".*[_-]distant")  # of labels that nobody checked: a split only where no other file is


def find_splits(path: Path, source: str = "opennre") -> dict[str, Path]:
    """The file or folder of each split that is there with labels; UserError if train is not there."""
    found = labelled_splits(path, source)
    if "train" not in found:
        packed = min((it for it in walk(path) if is_packed(it.name) and not is_no_data(it.name)), default=None)
        if packed:
            raise still_packed(packed)
        raise UserError(f"{as_given(path)}: no training file; {expected(path, source)}")
    return found


def labelled_splits(path: Path, source: str) -> dict[str, Path]:
    """The splits that are there, without dev and test that have no labels."""
    left_out = unlabelled_splits(path, source)
    return {split: file for split, file in splits_in(path, source).items() if split not in left_out}


def unlabelled_splits(path: Path, source: str) -> dict[str, Path]:
    """Dev and test, as far as they have no labels. Where train has none either, nothing can be said: these are
    documents that nobody labelled yet.
    """
    form, found = FORMATS[source], splits_in(path, source)
    left_out = {split: file for split, file in found.items() if split != "train" and is_unlabelled(file, form)}
    return {} if left_out and "train" in found and is_unlabelled(found["train"], form) else left_out


def splits_in(path: Path, source: str) -> dict[str, Path]:
    """The file or folder of each split that is there, by their names: in this folder, or in the only one below it that
    holds splits. A single file, or a folder of documents without splits, is train.
    """
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        raise UserError(f"{as_given(path)}: no such file or folder")
    form = FORMATS[source]
    if found := _splits_here(path, form):
        return found
    if inner := _only_folder(path):
        deeper = splits_in(inner, source)
        if deeper and deeper != {"train": inner}:
            return deeper
    below = _recognised(folders_with_splits(path, form), form)
    if len(below) == 1:
        return _splits_here(below[0], form)
    if _takes_folders(form):
        if below:
            raise UserError(f"{as_given(path)}: {_one_of(below)}")
        return {"train": path}
    return {}


def _splits_here(path: Path, form: Format) -> dict[str, Path]:
    found: dict[str, Path] = {}
    candidates = list(_candidates(path, form))
    texts = {form.texts_beside(it) for it in candidates} if form.texts_beside else set()
    for candidate in sorted((it for it in candidates if it not in texts), key=_is_second):
        if split := split_of(candidate, form):
            found[split] = _preferred(found[split], candidate, form, path, split) if split in found else candidate
    if "train" in found and not _takes_folders(form):
        found |= {split: file for split, file in _in_folders(path, form) if split not in found}
    for file in path.iterdir() if found else ():
        split = split_of(Path(bare(file.name)), form) if is_packed(file.name) and file.is_file() else None
        if split and split not in found:  # to carve it from train would leave it out unseen
            raise still_packed(file)
    return found


def _takes_folders(form: Format) -> bool:
    """Whether a split may be a folder of documents."""
    return form.documents is not None and form.candidates is None


def _in_folders(path: Path, form: Format) -> Iterator[tuple[str, Path]]:
    """Dev and test that lie in folders of their names beside train: TPLinker's test_data/test_triples.json. Parts of
    them by the side (test_triples_1.json) are not named after a split.
    """
    for folder in sorted(it for it in path.iterdir() if _is_visible_folder(it)):
        if (split := split_of(folder, form)) in ("dev", "test"):
            files = [it for it in _candidates(folder, form) if split_of(it, form) == split]
            if len(files) == 1:
                yield split, files[0]


def _preferred(one: Path, other: Path, form: Format, path: Path, split: str) -> Path:
    """Of two that are named after a split, the one that it is; UserError if either could be."""
    if _is_second(other) > _is_second(one):
        return one
    labelled = [it for it in (one, other) if not is_unlabelled(it, form)]
    if len(labelled) != 1:
        names = " and ".join(str(it.relative_to(path)) for it in (one, other))
        raise UserError(f"{as_given(path)}: both {names} could be {split}; remove one")
    return labelled[0]


def folders_with_splits(path: Path, *formats: Format) -> list[Path]:
    """The folders somewhere below with a file or folder for train and for another split, in one of these formats; not
    those within such folders.
    """
    extensions = {extension for form in formats for extension in form.extensions}
    of_folders = any(map(_takes_folders, formats))
    found: list[Path] = []
    for folder in itertools.islice(_folders(path), _LOOKED_AT):
        if found and found[-1] in folder.parents:
            continue
        entries = [it for it in folder.iterdir() if it.suffix.lower() in extensions or (of_folders and it.is_dir())]
        splits = {split_of(it, *formats) for it in entries if not is_hidden(it.name)} - {None}
        if "train" in splits and len(splits) > 1:
            found.append(folder)
    return found


def _recognised(folders: list[Path], form: Format) -> list[Path]:
    """Of several folders, those whose training file looks like one of this format, if there are such: TACRED comes in
    three formats.
    """
    if len(folders) < 2:
        return folders
    return [folder for folder in folders if _looks_like(_splits_here(folder, form).get("train"), form)] or folders


def _looks_like(file: Path | None, form: Format) -> bool:
    if file is None or not file.is_file():
        return file is not None
    try:
        sample = sample_of(file)
    except UserError:
        return False
    named = form.by_name is not None and form.by_name(file)
    return named or (sample is not None and form.by_content is not None and bool(form.by_content(sample)))


def _one_of(folders: list[Path]) -> str:
    names = ", ".join(str(as_given(it)) for it in folders[:_NAMED]) + (" …" if len(folders) > _NAMED else "")
    return f"{len(folders)} folders in it hold splits; name one of them: {names}"


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
    form = FORMATS[source]
    if path.is_dir():
        return [file for folder in _folders_of(path, form) for file in _files_in(folder)]
    return list(form.files(path)) if form.files else [path]


def _files_in(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))


def _folders_of(path: Path, form: Format) -> list[Path]:
    """The folder of a split, with the one that holds its texts if they lie apart."""
    beside = form.texts_beside(path) if form.texts_beside else None
    return [path, *([beside] if beside else [])]


def passed_over(path: Path, source: str, *, read: Iterable[Path] | None = None) -> tuple[str, ...]:
    """The files in a folder that are not read in this format, by their paths relative to it, in order. Of folders that
    are no data as a whole (.git) only the name is given, with a slash. `read` are the files and folders that are read;
    without them, those that are named after splits.
    """
    if not path.is_dir():
        return ()
    form = FORMATS[source]
    roots = _read_splits(path, source) if read is None else list(read)
    known = {file for root in roots if root.is_file() for file in files_of(root, source)}
    for folder in (it for root in roots if root.is_dir() for it in _folders_of(root, form)):
        files = list(walk(folder))
        known.update(file for file in files if is_document(file, form))
        if form.files:  # what lies beside a text and goes by its name
            texts = {file.with_suffix("") for file in known}
            known.update(file for file in files if file.with_suffix("") in texts)
    unread = (file for file in walk(path) if file not in known)
    return tuple(sorted(f"{file.relative_to(path)}{'/' if file.is_dir() else ''}" for file in unread))


def counted(path: Path, source: str) -> FileCounts:
    """The files of a folder of documents in this format, by whether they are read; of the text of a folder, `Skipped`
    knows more.
    """
    counts = FileCounts()
    if not path.is_dir():
        return counts
    unread = set(passed_over(path, source, read=[path]))
    for name in sorted(f"{file.relative_to(path)}{'/' if file.is_dir() else ''}" for file in walk(path)):
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


def walk(path: Path) -> Iterator[Path]:
    """The first _LISTED files in a folder and in those below it, with the folders that are not looked into: hidden ones
    and links.
    """
    return itertools.islice(_files_below(path), _LISTED)


def _files_below(path: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(path):
        kept = [name for name in folders if not is_hidden(name) and not Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in (*names, *sorted(set(folders) - set(kept))))
        folders[:] = kept


def is_document(file: Path, form: Format) -> bool:
    """Whether the name of a file says that it is read in a folder of documents."""
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
                f"{as_given(path)}: {named[0].name} is named after a split and {other.name} is not; "
                "put the documents of each split into a folder train, dev or test"
            )
        yield from (it for it in entries if _is_visible_folder(it))


def expected(path: Path, source: str) -> str:
    """Where a training file of this format would be found, and what it would be called."""
    form = FORMATS[source]
    inner = folds(path, source) if not form.documents else []
    if len(inner) == 1:
        return f"a folder in it has one: name {as_given(inner[0])}"
    if inner:
        return f"{len(inner)} folders in it have one: name one of them, such as {as_given(inner[0])}"
    if below := folders_with_splits(path, form):
        return _one_of(below)
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
