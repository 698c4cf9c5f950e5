"""From a [data] section to a data set on disk: read once, kept under the hash of what it was made from."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType

from fedrel.bags import FORMAT, Dataset, build
from fedrel.config import Data
from fedrel.corpus import Instance, nyt10, opennre, world
from fedrel.errors import UserError, suggest

READERS: dict[str, ModuleType] = {"opennre": opennre, "nyt10": nyt10}
SOURCES = ("world", *READERS)
_EXTENSIONS = (".jsonl", ".json", ".txt", ".tsv")
_NAMES = {"train": ("train",), "dev": ("dev", "val", "valid", "validation"), "test": ("test",)}
_HELD_OUT = 10  # one pair in ten, where a split has to be carved from train

Stream = Callable[[], Iterable[Instance]]


def load(data: Data, *, say: Callable[[str], None] = lambda line: None) -> Dataset:
    if data.source not in SOURCES:
        raise UserError(f'data.source = "{data.source}" is unknown{suggest(data.source, SOURCES)}')
    return _world(data, say) if data.source == "world" else _files(data, say)


def cache_folder() -> Path:
    """$FEDREL_CACHE, or the user's own cache folder."""
    if chosen := os.environ.get("FEDREL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrel"


def world_of(data: Data) -> world.World:
    return world.World(size=data.size, seed=data.seed, noise=data.noise, evidence=data.evidence)


def _world(data: Data, say: Callable[[str], None]) -> Dataset:
    made = world_of(data)
    key = _key("world", repr(made))
    streams: dict[str, Stream] = {split: partial(made.instances, split) for split in ("train", "dev", "test")}
    make = partial(build, splits=streams, relations=made.relations()[1:])
    return _cached(key, make, f"making the built-in world ({data.size})", say)


def _files(data: Data, say: Callable[[str], None]) -> Dataset:
    read = READERS[data.source].read
    if not data.path:
        raise UserError(f'data.source = "{data.source}" needs data.path, a folder with train and test files')
    found = find_splits(Path(data.path))
    hashes = {split: _hash(path) for split, path in found.items()}
    key = _key(data.source, json.dumps(hashes, sort_keys=True))
    streams: dict[str, Stream] = {split: partial(read, path) for split, path in found.items()}
    for split in ("train", "test"):
        if split in found and _is_empty(streams[split]):
            raise UserError(f"{found[split]}: no sentences; {split} needs at least one")
    notes, from_train = [], ["train"]
    for split in ("test", "dev"):
        if split not in streams or (split == "dev" and _is_empty(streams["dev"])):
            if split == "test" and len(found) > 1:
                raise UserError(f"{data.path}: no test file; name it test{found['train'].suffix}")
            streams = _carve(streams, split)
            if _is_empty(streams[split]) or _is_empty(streams["train"]):
                raise UserError(f"{data.path}: too few entity pairs to carve {split} from train; add a {split} file")
            notes.append(f"no {split} sentences given: one pair in {_HELD_OUT} was carved from train for {split}")
            from_train += ["dev"] if split == "dev" else []
    make = partial(build, splits=streams, notes=notes, from_train=from_train)
    return _cached(key, make, f"reading {data.path}", say)


def find_splits(path: Path) -> dict[str, Path]:
    """A folder's files by split, or a single file as train."""
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        if file.suffix not in _EXTENSIONS:
            continue
        for split, names in _NAMES.items():
            if any(file.stem == name or file.stem.endswith((f"_{name}", f"-{name}")) for name in names):
                if split in found:
                    raise UserError(f"{path}: both {found[split].name} and {file.name} could be {split}; remove one")
                found[split] = file
    if "train" not in found:
        raise UserError(f"{path}: no training file; expected train.jsonl, train.txt or the like")
    return found


@cache
def fingerprint(data: Data) -> str:
    """Changes with the content of the data, and with the code that makes or reads it."""
    files = find_splits(Path(data.path)).values() if data.source in READERS and data.path else []
    return "-".join([_readers_version()[:16], *(_hash(path)[:16] for path in files)])


def _carve(streams: dict[str, Stream], split: str) -> dict[str, Stream]:
    """Moves one pair in ten from train to `split`; a pair is never in both."""
    train = streams["train"]

    def is_held_out(instance: Instance) -> bool:
        return zlib.crc32(f"{split}\t{instance.head.id}\t{instance.tail.id}".encode()) % _HELD_OUT == 0

    def keep() -> Iterator[Instance]:
        return itertools.filterfalse(is_held_out, train())

    def carved() -> Iterator[Instance]:
        return filter(is_held_out, train())

    return {**streams, "train": keep, split: carved}


def _is_empty(stream: Stream) -> bool:
    return next(iter(stream()), None) is None


def _cached(key: str, make: Callable[[Path], Dataset], what: str, say: Callable[[str], None]) -> Dataset:
    folder = cache_folder() / "data" / key
    if not (folder / "meta.json").exists():
        say(f"{what} …")
        make(folder)
    return Dataset(folder)


def _key(*parts: str) -> str:
    """Names what a data set was made from: its inputs, and the code that read them."""
    return hashlib.sha256("\n".join((str(FORMAT), _readers_version(), *parts)).encode()).hexdigest()[:24]


@cache
def _readers_version() -> str:
    files = sorted(file for file in Path(__file__).with_name("corpus").iterdir() if file.suffix in (".py", ".toml"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
