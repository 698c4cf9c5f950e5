"""Which format a file or a folder is in: by names, extensions and first lines."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedrel.corpus import biobert, classification, tables
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.splits import split_of
from fedrel.errors import UserError

_LOOKED_AT = 5  # lines of a file
_FILES = 2_000  # of a folder; a corpus of a million texts is known by its first ones
_PUBTATOR = re.compile(r"[^|\t]+\|[ta]\|")
_LONGEST_LABEL = 60


@dataclass(frozen=True)
class Detected:
    source: str
    why: str


def detect(path: Path) -> Detected:
    if path.is_file():
        return _detect_file(path)
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    return _detect_folder(path)


# ---------------------------------------------------------------------------------------------- folders


def _detect_folder(path: Path) -> Detected:
    _refuse_several(path)
    return _by_content(path)


def _refuse_several(path: Path) -> None:
    """A folder of data sets is none itself. (Texts may lie apart from their annotations, each kind in its folder.)"""
    entries = _entries(path)
    if any(split_of(file) for file in entries if file.is_file()):
        return
    found: dict[str, str] = {}
    for folder in entries:
        if _is_folder(folder):
            try:
                found[folder.name] = _by_content(folder).source
            except UserError:  # no data, such as a folder of scripts
                continue
    if len(set(found.values()) - {"text"}) > 1:
        inside = ", ".join(f"{name} ({source})" for name, source in found.items())
        raise UserError(f"{path}: several data sets are in this folder; name one of them: {inside}")


def _by_content(path: Path) -> Detected:
    files = list(itertools.islice(_files(path), _FILES))
    if not files:
        raise UserError(f"{path}: no file in this folder")
    if any("_abstracts" in file.name and _beside(file, "entities") for file in files):
        return Detected("chemprot", "it holds …_abstracts.tsv and …_entities.tsv")
    suffixes = {file.suffix.lower() for file in files}
    if ".ann" in suffixes:
        return Detected("brat", "it holds .ann files")
    if suffixes & {".con", ".rel"}:
        return Detected("i2b2", "it holds .con or .rel files")
    files = [file for file in files if file.suffix.lower() in _OF_DATA] or files  # and no readme.md
    here = [file for file in files if file.parent == path]
    for group in (here, [] if here else files):  # the splits, or those of the folds
        named = sorted((file for file in group if split_of(file)), key=lambda file: split_of(file) != "train")
        filled = next((file for file in named if file.stat().st_size), None)
        if filled:
            return _detect_file(filled)
        if named:
            raise UserError(f"{path}: {', '.join(file.name for file in named[:3])}: every file is empty")
    return _documents(path, files)


def _documents(path: Path, files: list[Path]) -> Detected:
    """Files that are no splits: they are documents if all of them are of one kind."""
    found = _detect_file(next((file for file in files if _has_text(file)), files[0]))
    if len(files) == 1:
        return found
    suffixes = {file.suffix.lower() for file in files}
    if FORMATS[found.source].documents and len(suffixes) == 1:
        return Detected(found.source, f"{len(files):,} {suffixes.pop()} files; {found.why}")
    names = ", ".join(str(file.relative_to(path)) for file in files[:3])
    raise UserError(f"{path}: files of different kinds ({names} …); name one of them, or a folder with train and test")


def _has_text(file: Path) -> bool:
    return next(numbered_lines(file), None) is not None


def _files(path: Path) -> Iterator[Path]:
    """The folder's own files before those of the folders in it."""
    entries = _entries(path)
    yield from (it for it in entries if it.is_file())
    for folder in entries:
        if _is_folder(folder):
            yield from _files(folder)


def _entries(path: Path) -> list[Path]:
    """Sorted; hidden ones are no data."""
    try:
        return sorted(it for it in path.iterdir() if not it.name.startswith("."))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()  # a link may lead round in a circle


def _beside(file: Path, kind: str) -> bool:
    return file.with_name(file.name.replace("abstracts", kind)).is_file()


# ------------------------------------------------------------------------------------------------ files


def _detect_file(path: Path) -> Detected:
    suffix = path.suffix.lower()
    if suffix in _BY_EXTENSION:
        return Detected(_BY_EXTENSION[suffix], f"the extension {suffix}")
    if "_abstracts" in path.name and _beside(path, "entities"):
        return Detected("chemprot", f"{path.with_name(path.name.replace('abstracts', 'entities')).name} lies beside it")
    lines = [line for _, line in itertools.islice(numbered_lines(path), _LOOKED_AT)]
    if not lines:
        raise UserError(f"{path}: the file is empty")
    first = lines[0].lstrip()
    for rule in (_json, _xml, _between_tabs, _comma_separated):
        if found := rule(first, lines, suffix):
            source, why = found
            return Detected(source, f"{path.name}: {why}")
    if _PUBTATOR.match(first):
        return Detected("pubtator", f"{path.name}: its first line begins like 123|t|Title")
    if suffix == ".txt":
        return Detected("text", f"{path.name}: plain text")
    known = "; ".join(f"{name} ({form.what})" for name, form in FORMATS.items())
    raise UserError(f"{path}: in no format that is known here; choose one with --source: {known}")


_BY_EXTENSION = {".ann": "brat", ".con": "i2b2", ".rel": "i2b2", ".pubtator": "pubtator", ".tab": "classification"}
_OF_DATA = {extension for form in FORMATS.values() for extension in form.extensions} | {".csv"}
Found = tuple[str, str] | None


def _json(first: str, lines: list[str], suffix: str) -> Found:
    if not first.startswith("{"):
        return None
    try:
        keys = set(json.loads(first))
    except (ValueError, RecursionError):
        keys = {key for key in ("h", "t", "relation") if f'"{key}"' in first}  # cut off: its reader says where
    if keys & {"h", "t", "relation"}:
        return "opennre", 'JSON lines with "h", "t" or "relation"'
    if "text" in keys or suffix == ".jsonl":
        return "jsonl", 'JSON lines with "text"'
    return None


def _xml(first: str, lines: list[str], suffix: str) -> Found:
    return ("bioc", "XML with a <collection>") if first.startswith("<") and "<collection" in "".join(lines) else None


def _between_tabs(first: str, lines: list[str], suffix: str) -> Found:
    rows = [line.split("\t") for line in lines]
    names = [name.strip() for name in rows[0]]
    if len(names) < 2:
        return None
    if {"SENTENCE", "GENE", "PHENOTYPE"} & set(names):
        return "pgr", "its first line names the columns SENTENCE, GENE, PHENOTYPE"
    if len(names) >= 6 and ("###END###" in lines[0] or suffix == ".txt"):
        return "nyt10", f"{len(names)} columns between tabs{', ###END###' if '###END###' in lines[0] else ''}"
    if biobert.is_headline(lines[0]) or any(biobert.MARK.search(line) for line in lines if len(line.split("\t")) < 4):
        return "biobert", "sentences with blinded entities such as @GENE$, and a label"
    if classification.is_headline(lines[0]) or _is_text_and_label(rows):
        return "classification", "two columns, a text and a label"
    if _text_column(names):
        return "table", f'a table between tabs with the column "{_text_column(names)}"'
    return None


def _is_text_and_label(rows: list[list[str]]) -> bool:
    return all(len(row) == 2 and len(row[1]) <= _LONGEST_LABEL and " " not in row[1].strip() for row in rows)


def _comma_separated(first: str, lines: list[str], suffix: str) -> Found:
    names = [name.strip(' "') for name in re.split("[,;]", lines[0])] if suffix == ".csv" else []
    if column := _text_column(names):
        return "table", f'a table between commas with the column "{column}"'
    return None


def _text_column(names: list[str]) -> str | None:
    exact = (name for name in names if name.strip().casefold() in tables.TEXT)
    near = (name for name in names if any(word in name.casefold() for word in tables.TEXT))
    return next(exact, None) or next(near, None)
