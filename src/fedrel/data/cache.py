"""Data sets that were read before, kept under the hash of what they were made from: the files and the code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from fedrel import corpus
from fedrel.config import Data
from fedrel.corpus import FORMATS
from fedrel.corpus.rules import Rules
from fedrel.corpus.splits import files_of
from fedrel.data.sources import rules_of
from fedrel.data.store import VERSION, Dataset
from fedrel.util.files import private_cache, require_own, sha256

Say = Callable[[str], None]


def cached(key: str, make: Callable[[Path], Dataset], what: str, say: Say) -> Dataset:
    """The data set of a key, made if it is not there; `what` is said before."""
    if found := kept(key, say):
        return found
    say(f"{what} …")
    return make(_folder(key, say))


def kept(key: str, say: Say) -> Dataset | None:
    """The data set of a key, if it is there. UserError if it belongs to another user."""
    folder = _folder(key, say)
    if not (folder / "meta.json").exists():
        return None
    require_own(folder)
    return Dataset(folder)


def _folder(key: str, say: Say) -> Path:
    return private_cache("data", say=say) / key


def files_key(layout: str, data: Data, found: Mapping[str, Path], notes: Sequence[str] = ()) -> str:
    """The key of a data set of files: of their content, of what the [data] section asks for, and of notes on what was
    not read.
    """
    hashes = {name: content_hash(path, data.source) for name, path in found.items()}
    special = [*(["without NA"] if data.na == "drop" else []), *([f"dev {data.dev}"] if data.dev else [])]
    rules = {name: value for name, value in vars(rules_of(data)).items() if value != getattr(Rules(), name)}
    special += [f"rules {json.dumps(rules, sort_keys=True)}"] if rules else []
    layouts = [layout] if layout else []
    return key_of(data.source, json.dumps(hashes, sort_keys=True), *special, *layouts, *agreed(data), *notes)


def agreed(data: Data) -> list[str]:
    """What relations agreed beforehand add to a key."""
    return [f"relations {json.dumps(data.relations)}"] if data.relations else []


def key_of(source: str, *parts: str) -> str:
    """The key of a data set: of its source, of these parts, and of the code that reads or makes it."""
    whole = "\n".join((str(VERSION), readers_version(source), source, *parts))
    return hashlib.sha256(whole.encode()).hexdigest()[:24]


@cache
def readers_version(source: str) -> str:
    """sha256 of the code that reads or makes data of this source, a plug-in's package among it."""
    folder = Path(corpus.__file__).parent
    files = sorted(file for file in folder.iterdir() if file.suffix in (".py", ".toml"))
    found = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    if source in FORMATS and (origin := FORMATS.origin(source)):
        found.update(origin.digest.encode())
    return found.hexdigest()


def content_hash(path: Path, source: str) -> str:
    """sha256 of all that a split is read from; the name of a single file does not matter, names in a folder do."""
    files = files_of(path, source)
    digests = [sha256(file) for file in files]
    if len(files) == 1 and path.is_file():
        return digests[0]
    base = path if path.is_dir() else path.parent
    named = "\n".join(f"{os.path.relpath(file, base)} {it}" for file, it in zip(files, digests, strict=True))
    return hashlib.sha256(os.fsencode(named)).hexdigest()
