"""Which format a file or a folder is in: every format is asked, first by names, then by first lines."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedrel.corpus.archives import unpacked
from fedrel.corpus.beside import is_hidden, is_no_data
from fedrel.corpus.format import Sample
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.nearest import unknown
from fedrel.corpus.packed import as_given, is_packed, still_packed
from fedrel.corpus.prose import KINDS
from fedrel.corpus.samples import sample_of
from fedrel.corpus.splits import folders_with_splits, passed_over, split_of
from fedrel.corpus.text_folder import is_text
from fedrel.errors import UserError

_FILES = 2_000  # of a folder that are looked at; a corpus of a million texts is recognised by its first ones
_ASKED = 5  # documents of a folder whose content is looked at: one of them may be odd
_NAMED = 5  # files that a message lists


@dataclass(frozen=True)
class Detected:
    """A format, what it was recognised by, in a few words, and the files of a folder that are not read: their names
    relative to it, a folder with a slash.
    """

    source: str
    why: str
    passed_over: tuple[str, ...] = ()


def detect(path: Path, *, text: bool = False) -> Detected:
    """The format of a file or folder, which may be packed. UserError if no format recognises it, or if several do and
    fedrel's own order does not decide between them. With `text`, nothing but text is wanted: a folder with some
    is one of text, whatever else is in it that no format recognises.
    """
    path = unpacked(path)
    if path.is_file():
        return _detect_file(path)
    if not path.is_dir():
        raise UserError(f"{as_given(path)}: no such file or folder")
    _refuse_several(path)
    found = _detect_folder(path, text)
    return replace(found, passed_over=passed_over(path, found.source))


def _the_one(path: Path, found: Mapping[str, str]) -> Detected | None:
    """The format of a path, given those that recognise it and what each goes by. Of fedrel's own, which are in order of
    preference, the first; a plug-in has no place in that order, so UserError if it is not the only one.
    """
    own = [name for name in found if name in FORMATS.own]
    names = own[:1] + [name for name in found if name not in FORMATS.own]
    if len(names) > 1:
        both = " or ".join(f"{name} ({found[name]})" for name in names)
        raise UserError(f"{path}: could be {both}; choose one with --source")
    return Detected(names[0], found[names[0]]) if names else None


# ---------------------------------------------------------------------------------------------- folders


def _refuse_several(path: Path) -> None:
    """A folder of data sets is none itself. (Texts may lie apart from their annotations, each kind in its folder.)"""
    entries = _entries(path)
    if any(split_of(file, *FORMATS.values()) for file in entries if file.is_file()):
        return
    found: dict[str, str] = {}
    for folder in entries:
        if _is_folder(folder):
            try:
                found[as_given(folder).name] = _detect_folder(folder).source
            except UserError:  # no data, such as a folder of scripts
                continue
    if len(set(found.values()) - {"text"}) > 1:
        inside = ", ".join(f"{name} ({source})" for name, source in found.items())
        raise UserError(f"{as_given(path)}: several data sets are in this folder; name one of them: {inside}")


def _detect_folder(path: Path, text: bool = False) -> Detected:
    present = list(itertools.islice(_files(path), _FILES))
    given = as_given(path)
    if not present:
        raise UserError(f"{given}: no file in this folder")
    files = [file for file in present if not is_no_data(file.name)]
    prose = [file for file in present if is_text(file.name, KINDS)]
    if not files and prose:
        return _text(prose)
    if not files:
        names = ", ".join(str(file.relative_to(path)) for file in present[:_NAMED])
        raise UserError(f"{given}: no data in this folder, only {names}{' …' if len(present) > _NAMED else ''}")
    if found := _the_one(path, _by_companions(files)):
        return found
    forms = list(FORMATS.values())
    of_data = {extension for form in forms for extension in form.extensions}
    files = [file for file in files if file.suffix.lower() in of_data] or files
    if all(is_packed(file.name) for file in files):
        return _with_prose(still_packed(files[0]), files, prose, text)
    here = [file for file in files if file.parent == path]
    below = [] if any(split_of(file, *forms) for file in here) else folders_with_splits(path, *forms)
    if len(below) == 1 and not here:
        return _detect_folder(below[0], text)
    for group in (here, [] if here else files):  # the splits, or those of the folds
        named = {file: split for file in group if (split := split_of(file, *forms))}
        ordered = sorted(named, key=lambda file: named[file] != "train")
        filled = next((file for file in ordered if file.stat().st_size), None)
        if filled:
            return _detect_file(filled)
        if ordered:
            raise UserError(f"{given}: {', '.join(file.name for file in ordered[:3])}: every file is empty")
    told = _detected_or_refused(_documents, path, files)
    if isinstance(told, UserError) and len(below) == 1:
        told = _detected_or_refused(_with_prose, told, files, prose, text) if text else told
        return told if isinstance(told, Detected) else _detect_folder(below[0], text)
    if prose or isinstance(told, UserError):
        return _with_prose(told, files, prose, text)
    return told


def _with_prose(found: Detected | UserError, files: Sequence[Path], prose: Sequence[Path], text: bool) -> Detected:
    """The format of a folder with files that may be data, of which this is known, and with prose beside them."""
    plain = [file for file in files if file.suffix.lower() == ".txt"]
    source = _source(found)
    if source == "text" or (source == "jsonl" and (text or not _has_relations(files[0]))):
        return _text([*files, *prose])
    if isinstance(found, UserError) and len({file.suffix.lower() for file in files}) > 1:  # of different kinds
        lines = [file for file in files if _may_be_lines(file)]
        kinds = {_kind(file) for file in (*_first_with_text(plain), *_first_with_text(lines))}
        texts = [*plain, *lines, *prose]
        is_some = "text" in kinds or (prose and kinds <= {"jsonl"})
        if is_some and (text or len(texts) > len(files) - len(plain) - len(lines)):
            return _text(texts)
    elif text and len(prose) > len(files):
        return _text(prose)
    if isinstance(found, UserError):
        raise found
    return found


def _text(files: Sequence[Path]) -> Detected:
    suffixes = Counter(file.suffix.lower() for file in files)
    return Detected("text", ", ".join(f"{count:,} {suffix}" for suffix, count in suffixes.most_common()) + " files")


def _may_be_lines(file: Path) -> bool:
    """Whether a file is named JSON lines, or is one of the many kinds of .json files and holds documents."""
    return file.suffix.lower() == ".jsonl" or (file.suffix.lower() == ".json" and _kind(file) == "jsonl")


def _kind(file: Path) -> str:
    return _source(_detected_or_refused(_detect_file, file))


def _has_relations(file: Path) -> bool:
    sample = sample_of(file)
    return sample is not None and "relations" in sample.keys


def _by_companions(files: list[Path]) -> dict[str, str]:
    """Formats that keep a text and its annotations in several files are recognised by any of these."""
    asked = ((name, form.by_name) for name, form in FORMATS.items() if form.files and form.by_name)
    told = ((name, next((file for file in files if by_name(file)), None)) for name, by_name in asked)
    return {name: f"it holds {file.name}" for name, file in told if file}


def _documents(path: Path, files: Sequence[Path]) -> Detected:
    """Files that are no splits: they are documents if all of them are of one kind, to which most of the first few
    belong by their content.
    """
    with_text = _first_with_text(files) or files[:1]
    told = {file: _detected_or_refused(_detect_file, file) for file in with_text}
    source, _ = Counter(_source(it) for it in told.values()).most_common(1)[0]
    found = next(it for it in told.values() if _source(it) == source)
    if isinstance(found, UserError):
        raise found
    if len(files) == 1:
        return found
    form, suffixes = FORMATS[found.source], sorted({file.suffix.lower() for file in files})
    for suffix in suffixes:  # one of each kind of file is looked at, if it is not empty
        other = next((file for file in files if file.suffix.lower() == suffix and _has_text(file)), None)
        if other and suffix not in {file.suffix.lower() for file in told}:
            told[other] = _detected_or_refused(_detect_file, other)
    by_suffix = {file.suffix.lower(): it for file, it in told.items() if _source(it) == source}
    alike = len(suffixes) == 1 or (set(suffixes) == set(by_suffix) and set(suffixes) <= set(form.extensions))
    if form.documents and alike:
        return Detected(found.source, f"{len(files):,} {' and '.join(suffixes)} files; {found.why}")
    names = ", ".join(str(file.relative_to(path)) for file in files[:3]) + (" …" if len(files) > 3 else "")
    if alike and {_source(it) for it in told.values()} == {source}:
        raise UserError(
            f"{as_given(path)}: {len(files):,} files in the format {found.source} ({names}), none of them named after "
            "a split; name one of them, or call them train, dev and test"
        )
    raise UserError(
        f"{as_given(path)}: files of different kinds ({names}); name one of them, or a folder with train and test"
    )


def _source(told: Detected | UserError) -> str:
    return told.source if isinstance(told, Detected) else ""


def _detected_or_refused(detect: Callable[..., Detected], *arguments: object) -> Detected | UserError:
    try:
        return detect(*arguments)
    except UserError as error:
        return error


def _first_with_text(files: Sequence[Path]) -> list[Path]:
    return list(itertools.islice(filter(_has_text, files), _ASKED))


def _has_text(file: Path) -> bool:
    """Whether there is text at its beginning; one that cannot be read says nothing of the others."""
    try:
        return sample_of(file) is not None
    except UserError:
        return False


def _files(path: Path) -> Iterator[Path]:
    """The folder's own files before those of the folders in it."""
    entries = _entries(path)
    yield from (it for it in entries if it.is_file())
    for folder in entries:
        if _is_folder(folder):
            yield from _files(folder)


def _entries(path: Path) -> list[Path]:
    """Sorted, without hidden ones, which are no data."""
    try:
        return sorted(it for it in path.iterdir() if not is_hidden(it.name))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()  # a link may lead in a circle


# ------------------------------------------------------------------------------------------------ files


def _detect_file(path: Path) -> Detected:
    named = {name: f"the name {path.name}" for name, form in FORMATS.items() if form.by_name and form.by_name(path)}
    if found := _the_one(path, named):
        return found
    sample = sample_of(path)
    if sample is None:
        raise UserError(f"{path}: the file is empty")
    for general in (False, True):
        if general and sample.ends_in_the_first_object:
            raise UserError(
                f"{path}: the first record is too long to tell the format by, more than {len(sample.text) >> 20} MB; "
                "put a shorter one first, or name the format with --source"
            )
        if found := _the_one(path, _by_content(sample, general=general)):
            return Detected(found.source, f"{path.name}: {found.why}")
    raise unknown(sample)


def _by_content(sample: Sample, *, general: bool) -> dict[str, str]:
    asked = ((name, form.by_content) for name, form in FORMATS.items() if form.by_content and form.general == general)
    told = ((name, by_content(sample)) for name, by_content in asked)
    return {name: why for name, why in told if why}
