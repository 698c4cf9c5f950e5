"""From a [data] section to a data set on disk: read once, kept under the hash of what it was made from."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedrel.config import Data
from fedrel.corpus import NA, SPLITS, Instance, world
from fedrel.corpus.formats import FORMATS, LABELLED, Reading
from fedrel.corpus.splits import files_of, find_splits, split_of, splits_in
from fedrel.data.partition import COORDINATOR, require_names
from fedrel.data.store import FORMAT, Dataset, build
from fedrel.errors import UserError, suggest
from fedrel.util.files import private_cache, require_own, sha256

SOURCES = ("world", *LABELLED)
_HELD_OUT = 10  # one pair in ten, where a split has to be carved from train

Stream = Callable[[], Iterable[Instance]]


def load(data: Data, *, say: Callable[[str], None] = lambda line: None) -> Dataset:
    """The built-in world, a data set of files, or a folder of platforms."""
    if data.source not in SOURCES:
        raise UserError(f'data.source = "{data.source}" is unknown{suggest(data.source, SOURCES)}')
    if data.source == "world":
        return _world(data, say)
    if not data.path:
        raise UserError(f'data.source = "{data.source}" needs data.path, a folder with train and test files')
    return _platforms(data, say) if _is_of_platforms(Path(data.path)) else _files(data, say)


def load_part(
    data: Data,
    path: Path,
    *,
    relations: Sequence[str],
    held_out: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> Dataset:
    """What one platform of a federation holds, read as `load` reads the folder of all: its train, and of dev and test
    what it is to hold out, files of its own or else a tenth of the pairs of its train.
    """
    data = _part_of(data, relations)
    found = find_splits(path, data.source)
    found = {split: file for split, file in found.items() if split in ("train", *held_out)}
    key = _files_key(" ".join(["part", *held_out]), data, found)
    if kept := _kept(key, say):
        return kept
    files = {split: _File(data, file) for split, file in found.items()}
    _require_sentences(files)
    streams, carved = _hold_out(dict(files), held_out, path)
    notes = _notes([_carved_note(split, data) for split in carved], files)
    from_train = ["train", *(split for split in carved if split == "dev")]
    make = partial(build, splits=streams, notes=notes, from_train=from_train, part=True, may_lack=held_out)
    return _cached(key, partial(make, **_kind(data)), f"reading {path}", say)


def load_public(
    data: Data, path: Path, *, relations: Sequence[str], say: Callable[[str], None] = lambda line: None
) -> Dataset:
    """What the coordinator of a federation has, read as `load` reads the folder of all: any of train, dev and test."""
    data = _part_of(data, relations)
    found = _splits_of(path, data.source)
    key = _files_key("public", data, found)
    if kept := _kept(key, say):
        return kept
    files = {split: _File(data, file) for split, file in found.items()}
    _require_sentences(files)
    streams = _leave_out(dict(files), [split for split in ("dev", "test") if split not in files], path)
    make = partial(build, splits=streams, notes=_notes([], files), part=True, **_kind(data))
    return _cached(key, make, f"reading {path}", say)


def load_common(sentences: Stream, content: str, *, like: Dataset) -> Dataset:
    """Sentences that the coordinator of a federation sent, `content` being all that they are made of."""
    key = _key("common", json.dumps([like.relations, like.has_na, like.has_pairs]), content)
    relations = [name for name in like.relations if name != NA]
    make = partial(build, splits={"train": sentences}, relations=relations, na=like.has_na, has_pairs=like.has_pairs)
    return _cached(key, partial(make, part=True), "reading the coordinator's sentences", lambda line: None)


def _part_of(data: Data, relations: Sequence[str]) -> Data:
    if data.source not in LABELLED:
        raise UserError(f'data.source = "{data.source}" is no format of files{suggest(data.source, LABELLED)}')
    if not relations:
        raise UserError("data.relations is empty; a federation agrees on its relations before anybody reads their data")
    return replace(data, dev=0.0, relations=tuple(relations))


def world_of(data: Data) -> world.World:
    return world.World(size=data.size, seed=data.seed, noise=data.noise, evidence=data.evidence)


def _world(data: Data, say: Callable[[str], None]) -> Dataset:
    if data.dev:
        raise UserError("data.dev takes a share of train, and the built-in world has a dev split; leave it out")
    if data.na == "drop":
        raise UserError('data.na = "drop": the built-in world is distant supervision, which needs NA pairs')
    made = world_of(data)
    key = _key("world", repr(made), *_agreed(data))
    splits = {split: _Wanted(partial(made.instances, split), data) for split in SPLITS}
    kind = {**_kind(data), "relations": _relations(data) or made.relations()[1:]}
    make = partial(build, splits=splits, notes=_notes([], splits), **kind)
    return _cached(key, make, f"making the built-in world ({data.size})", say)


def _files(data: Data, say: Callable[[str], None]) -> Dataset:
    found = find_splits(Path(data.path), data.source)
    key = _files_key("", data, found)
    if kept := _kept(key, say):
        return kept
    files = {split: _File(data, path) for split, path in found.items()}
    _require_sentences({split: file for split, file in files.items() if split != "dev"})
    streams: dict[str, Stream] = dict(files)
    texts = _are_texts(data)
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
            one = "text" if texts else "pair"
            notes.append(
                f"{data.dev:.0%} of the {one}s of train were taken for dev"
                if split == "dev" and data.dev
                else _carved_note(split, data)
            )
            from_train += ["dev"] if split == "dev" else []
    make = partial(build, splits=streams, notes=_notes(notes, files), from_train=from_train, **_kind(data))
    return _cached(key, make, f"reading {data.path}", say)


def _is_of_platforms(path: Path) -> bool:
    """A folder with one named coordinator in it, and no file that is a split."""
    return (path / COORDINATOR).is_dir() and not any(it.is_file() and split_of(it) for it in path.iterdir())


def _platforms(data: Data, say: Callable[[str], None]) -> Dataset:
    """Everybody's train, one platform after another by name and the coordinator's last. Dev and test are the
    coordinator's; what it does not have of them is what the platforms hold out, each by itself.
    """
    if data.dev:
        raise UserError(f"data.dev takes a share of train, and of platforms nobody may; put dev into {COORDINATOR}")
    found = _found_in_platforms(Path(data.path), data.source)
    key = _files_key("platforms", data, found)
    if kept := _kept(key, say):
        return kept
    files = {name: _File(data, file) for name, file in found.items()}
    _require_sentences(files)
    at_home = [split for split in ("dev", "test") if f"{COORDINATOR}/{split}" not in files]
    homes, carved = _homes(files, at_home, Path(data.path))
    held: dict[str, dict[str, int]] = {split: {} for split in ("train", *at_home)}
    splits: dict[str, Stream] = {
        split: partial(_one_after_another, {name: home[split] for name, home in homes.items() if split in home}, counts)
        for split, counts in held.items()
    }
    splits |= {split: homes[COORDINATOR][split] for split in ("dev", "test") if split not in at_home}
    for split in at_home:
        if _is_empty(splits[split]):
            raise UserError(
                f"{data.path}: too few sentences to hold out {split}; put a {split} file into {COORDINATOR}"
            )
    make = partial(
        build,
        splits={split: splits[split] for split in SPLITS},
        notes=_notes([_home_note(split, names, homes, data) for split, names in carved.items()], files),
        from_train=["train", *(["dev"] if carved.get("dev") else [])],
        held=held.pop("train"),
        held_out=held,
        **_kind(data),
    )
    return _cached(key, make, f"reading {data.path}", say)


def _homes(
    files: Mapping[str, Stream], at_home: Sequence[str], path: Path
) -> tuple[dict[str, dict[str, Stream]], dict[str, list[str]]]:
    """Everybody's splits, what they hold out among them; and of each split at home, who carved it from train."""
    homes: dict[str, dict[str, Stream]] = {}
    for place, file in files.items():
        name, _, split = place.partition("/")
        homes.setdefault(name, {})[split] = file
    carved: dict[str, list[str]] = {split: [] for split in at_home}
    for name, home in homes.items():
        if name == COORDINATOR:
            homes[name] = _leave_out(home, at_home, path / name)
            continue
        homes[name], taken = _hold_out(home, at_home, path / name)
        for split in taken:
            carved[split].append(name)
    return homes, carved


def _hold_out(streams: dict[str, Stream], splits: Sequence[str], path: Path) -> tuple[dict[str, Stream], list[str]]:
    """One platform's train and what it holds out: files of its own, or else a tenth of its pairs. The same pairs
    everywhere, so that of platforms without such files none trains on what another holds out.
    """
    carved = [split for split in ("test", "dev") if split in splits and split not in streams]
    for split in carved:
        streams = _carve(streams, split, 1 / _HELD_OUT)
        if _is_empty(streams["train"]):
            raise UserError(f"{path}: too little to hold out {split} and train on the rest; add a {split} file")
    return streams, carved


def _leave_out(streams: dict[str, Stream], splits: Sequence[str], path: Path) -> dict[str, Stream]:
    """The coordinator's splits, its train without the pairs that platforms may hold out: it does not know who does."""
    if "train" not in streams:
        return streams
    kept, _ = _hold_out({"train": streams["train"]}, splits, path)
    return {**streams, "train": kept["train"]}


def _home_note(split: str, carved: Sequence[str], homes: Iterable[str], data: Data) -> str:
    one = "text" if _are_texts(data) else "pair"
    by_file = [name for name in homes if name != COORDINATOR and name not in carved]
    if not carved or not by_file:
        what = f"one {one} in {_HELD_OUT} of its train" if carved else "a file of its own"
        return f"{split} is what the platforms hold out, each {what}"
    return (
        f"{split} is what the platforms hold out: {', '.join(by_file)} a file of their own, {', '.join(carved)} one "
        f"{one} in {_HELD_OUT} of train; what one holds out another may train on"
    )


def _carved_note(split: str, data: Data) -> str:
    what, one = ("texts", "text") if _are_texts(data) else ("sentences", "pair")
    return f"no {split} {what} given: one {one} in {_HELD_OUT} was carved from train for {split}"


def _found_in_platforms(path: Path, source: str) -> dict[str, Path]:
    """`a/train` is the training file of the platform a. Its dev and test are there where the coordinator has none."""
    public = _splits_of(path / COORDINATOR, source)
    wanted = ("train", *(split for split in ("dev", "test") if split not in public))
    inner = (it for it in sorted(path.iterdir()) if it.is_dir() and it.name != COORDINATOR and it.name[0] != ".")
    homes = {it.name: splits for it in inner if "train" in (splits := _splits_of(it, source))}
    if not homes:
        raise UserError(f"{path}: no platform: no folder in it but {COORDINATOR} holds a training file")
    require_names(homes, str(path))
    own = {f"{name}/{split}": home[split] for name, home in homes.items() for split in wanted if split in home}
    return own | {f"{COORDINATOR}/{split}": file for split, file in public.items()}


def _splits_of(path: Path, source: str) -> dict[str, Path]:
    """What is there, which may be nothing."""
    found = splits_in(path, source)
    if (
        path.is_dir()
        and found.get("train") == path
        and not any(it.suffix.lower() in FORMATS[source].extensions for it in path.iterdir())
    ):
        return {}  # it could be a folder of documents, and there are none
    return found


def _one_after_another(trains: Mapping[str, Stream], held: dict[str, int]) -> Iterator[Instance]:
    """Everybody's sentences; how many each holds is counted into `held`."""
    for name, stream in trains.items():
        held[name] = 0
        for instance in stream():
            held[name] += 1
            yield instance


def _are_texts(data: Data) -> bool:
    return data.source != "world" and LABELLED[data.source].texts is not None


def _has_na(data: Data) -> bool:
    return data.na == "keep" and not _are_texts(data)


def _relations(data: Data) -> list[str]:
    """Those agreed beforehand, without NA, which is the first by itself."""
    names = [name for name in data.relations if not (name == NA and _has_na(data))]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f'data.relations names "{twice[0]}" twice; name it once')
    return names


def _kind(data: Data) -> dict[str, Any]:
    """What `build` has to know of the data as a whole."""
    return {"relations": _relations(data), "na": _has_na(data), "has_pairs": not _are_texts(data)}


class _Wanted:
    """A stream without sentences of other relations than those agreed beforehand, if they were. How many it left out
    is of the latest pass, and complete when that pass is.
    """

    def __init__(self, stream: Stream, data: Data) -> None:
        self._stream = stream
        self._relations = {*_relations(data), *([NA] if _has_na(data) else [])} if data.relations else None
        self._noun = ("text", "texts") if _are_texts(data) else ("sentence", "sentences")
        self._others = 0

    def __call__(self) -> Iterator[Instance]:
        self._others = 0
        for instance in self._stream():
            if self._relations is None or instance.relation in self._relations:
                yield instance
            else:
                self._others += 1

    def left_out(self) -> list[str]:
        what = self._noun[self._others != 1]
        return [f"{self._others:,} {what} left out: relation not in data.relations"] if self._others else []


class _File(_Wanted):
    """One split as the [data] section wants it read."""

    def __init__(self, data: Data, path: Path) -> None:
        self.path = path
        self._reading = Reading(data.source, path)
        all_of_it = self._reading.instances
        super().__init__(
            partial(_with_relation, all_of_it) if data.na == "drop" and not _are_texts(data) else all_of_it, data
        )

    def left_out(self) -> list[str]:
        return [*self._reading.left_out(), *super().left_out()]


def _with_relation(stream: Stream) -> Iterator[Instance]:
    return (instance for instance in stream() if instance.relation != NA)


def _notes(notes: list[str], splits: Mapping[str, _Wanted]) -> Iterator[str]:
    """A generator, since what was left out is known only when `build`, which writes the notes last, has read all."""
    yield from notes
    for split, stream in splits.items():
        yield from (f"{split}: {line}" for line in stream.left_out())


def _require_sentences(files: Mapping[str, _File]) -> None:
    for name, file in files.items():
        if _is_empty(file):
            because = f" ({'; '.join(file.left_out())})" if file.left_out() else ""
            raise UserError(f"{file.path}: no sentences; {name.rpartition('/')[2]} needs at least one{because}")


@cache
def fingerprint(data: Data) -> str:
    """Changes with the content of the data, and with the code that makes or reads it."""
    if data.source not in LABELLED or not data.path:
        return _readers_version()[:16]
    path = Path(data.path)
    find = _found_in_platforms if _is_of_platforms(path) else find_splits
    return "-".join(
        [_readers_version()[:16], *(_hash(file, data.source)[:16] for file in find(path, data.source).values())]
    )


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
    if kept := _kept(key, say):
        return kept
    say(f"{what} …")
    return make(_folder(key, say))


def _kept(key: str, say: Callable[[str], None]) -> Dataset | None:
    folder = _folder(key, say)
    if not (folder / "meta.json").exists():
        return None
    require_own(folder)
    return Dataset(folder)


def _folder(key: str, say: Callable[[str], None]) -> Path:
    return private_cache("data", say=say) / key


def _files_key(layout: str, data: Data, found: Mapping[str, Path]) -> str:
    hashes = {name: _hash(path, data.source) for name, path in found.items()}
    special = [*(["without NA"] if data.na == "drop" else []), *([f"dev {data.dev}"] if data.dev else [])]
    layouts = [layout] if layout else []
    return _key(data.source, json.dumps(hashes, sort_keys=True), *special, *layouts, *_agreed(data))


def _agreed(data: Data) -> list[str]:
    return [f"relations {json.dumps(data.relations)}"] if data.relations else []


def _key(*parts: str) -> str:
    """Names what a data set was made from: its inputs, and the code that read them."""
    return hashlib.sha256("\n".join((str(FORMAT), _readers_version(), *parts)).encode()).hexdigest()[:24]


@cache
def _readers_version() -> str:
    files = sorted(file for file in Path(world.__file__).parent.iterdir() if file.suffix in (".py", ".toml"))
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
