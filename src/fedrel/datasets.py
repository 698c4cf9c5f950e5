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

from fedrel.bags import FORMAT, Dataset, build
from fedrel.config import Data
from fedrel.corpus import NA, Instance, world
from fedrel.corpus.formats import LABELLED, Reading
from fedrel.corpus.splits import files_of, find_splits
from fedrel.errors import UserError, suggest
from fedrel.files import sha256

SOURCES = ("world", *LABELLED)
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
    if data.dev:
        raise UserError("data.dev takes a share of train, and the built-in world has a dev split; leave it out")
    if data.na == "drop":
        raise UserError('data.na = "drop": the built-in world is distant supervision, which needs NA pairs')
    made = world_of(data)
    key = _key("world", repr(made))
    streams: dict[str, Stream] = {split: partial(made.instances, split) for split in ("train", "dev", "test")}
    make = partial(build, splits=streams, relations=made.relations()[1:])
    return _cached(key, make, f"making the built-in world ({data.size})", say)


def _files(data: Data, say: Callable[[str], None]) -> Dataset:
    if not data.path:
        raise UserError(f'data.source = "{data.source}" needs data.path, a folder with train and test files')
    found = find_splits(Path(data.path), data.source)
    hashes = {split: _hash(path, data.source) for split, path in found.items()}
    special = [*(["without NA"] if data.na == "drop" else []), *([f"dev {data.dev}"] if data.dev else [])]
    key = _key(data.source, json.dumps(hashes, sort_keys=True), *special)
    if kept := _kept(key):
        return kept
    readings = {split: Reading(data.source, path) for split, path in found.items()}
    streams: dict[str, Stream] = {split: reading.instances for split, reading in readings.items()}
    texts = LABELLED[data.source].texts is not None
    if data.na == "drop" and not texts:
        streams = {split: partial(_with_relation, stream) for split, stream in streams.items()}
    for split in ("train", "test"):
        if split in found and _is_empty(streams[split]):
            raise UserError(f"{found[split]}: no sentences; {split} needs at least one{_because(readings[split])}")
    notes, from_train = [], ["train"]
    if data.dev:
        streams.pop("dev", None)
    for split in ("test", "dev"):
        if split not in streams or (split == "dev" and _is_empty(streams["dev"])):
            if split == "test" and len(found) > 1:
                name = found["train"].name.replace("training", "test").replace("train", "test")
                raise UserError(f"{data.path}: no test file; name it {name}")
            share = data.dev if split == "dev" and data.dev else 1 / _HELD_OUT
            streams = _carve(streams, split, share)
            if _is_empty(streams[split]) or _is_empty(streams["train"]):
                few = "texts" if texts else "entity pairs"
                raise UserError(f"{data.path}: too few {few} to carve {split} from train; add a {split} file")
            what, one = ("texts", "text") if texts else ("sentences", "pair")
            notes.append(
                f"{data.dev:.0%} of the {one}s of train were taken for dev"
                if split == "dev" and data.dev
                else f"no {split} {what} given: one {one} in {_HELD_OUT} was carved from train for {split}"
            )
            from_train += ["dev"] if split == "dev" else []
    make = partial(
        build,
        splits=streams,
        notes=_notes(notes, readings),
        from_train=from_train,
        na=data.na == "keep" and not texts,
        has_pairs=not texts,
    )
    return _cached(key, make, f"reading {data.path}", say)


def _with_relation(stream: Stream) -> Iterator[Instance]:
    return (instance for instance in stream() if instance.relation != NA)


def _notes(notes: list[str], readings: dict[str, Reading]) -> Iterator[str]:
    """A generator, since what was left out is known only when `build`, which writes the notes last, has read all."""
    yield from notes
    for split, reading in readings.items():
        yield from (f"{split}: {line}" for line in reading.left_out())


def _because(reading: Reading) -> str:
    """Where everything was left out, why."""
    return f" ({'; '.join(reading.left_out())})" if reading.skipped.total else ""


@cache
def fingerprint(data: Data) -> str:
    """Changes with the content of the data, and with the code that makes or reads it."""
    files = find_splits(Path(data.path), data.source).values() if data.source in LABELLED and data.path else []
    return "-".join([_readers_version()[:16], *(_hash(path, data.source)[:16] for path in files)])


def _carve(streams: dict[str, Stream], split: str, share: float) -> dict[str, Stream]:
    """Moves a share of the pairs from train to `split`; a pair is never in both."""
    train = streams["train"]

    def is_held_out(instance: Instance) -> bool:
        drawn = zlib.crc32(f"{split}\t{instance.head.id}\t{instance.tail.id}".encode())
        if share == 1 / _HELD_OUT:
            return drawn % _HELD_OUT == 0
        return drawn % 10_000 < share * 10_000

    def keep() -> Iterator[Instance]:
        return itertools.filterfalse(is_held_out, train())

    def carved() -> Iterator[Instance]:
        return filter(is_held_out, train())

    return {**streams, "train": keep, split: carved}


def _is_empty(stream: Stream) -> bool:
    return next(iter(stream()), None) is None


def _cached(key: str, make: Callable[[Path], Dataset], what: str, say: Callable[[str], None]) -> Dataset:
    if kept := _kept(key):
        return kept
    say(f"{what} …")
    return make(_folder(key))


def _kept(key: str) -> Dataset | None:
    folder = _folder(key)
    return Dataset(folder) if (folder / "meta.json").exists() else None


def _folder(key: str) -> Path:
    return cache_folder() / "data" / key


def _key(*parts: str) -> str:
    """Names what a data set was made from: its inputs, and the code that read them."""
    return hashlib.sha256("\n".join((str(FORMAT), _readers_version(), *parts)).encode()).hexdigest()[:24]


@cache
def _readers_version() -> str:
    files = sorted(file for file in Path(__file__).with_name("corpus").iterdir() if file.suffix in (".py", ".toml"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _hash(path: Path, source: str) -> str:
    """Of everything that a split is read from; the name of a single file does not matter, names in a folder do."""
    files = files_of(path, source)
    digests = [sha256(file) for file in files]
    if len(files) == 1 and path.is_file():
        return digests[0]
    base = path if path.is_dir() else path.parent
    named = "\n".join(f"{file.relative_to(base)} {it}" for file, it in zip(files, digests, strict=True))
    return hashlib.sha256(os.fsencode(named)).hexdigest()
