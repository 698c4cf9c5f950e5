"""From a [data] section to a data set on disk: read once, kept under the hash of what it was made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from fedrel.config import WORLD, Data
from fedrel.corpus import FORMATS, NA, SPLITS, world
from fedrel.corpus.archives import unpacked
from fedrel.corpus.detection import detect
from fedrel.corpus.formats import labelled_format
from fedrel.corpus.splits import find_splits
from fedrel.data.building import build
from fedrel.data.cache import Say, agreed, cached, content_hash, files_key, kept, key_of, readers_version
from fedrel.data.carving import carve_missing, carved_note, hold_out, without_held_out
from fedrel.data.joining import joined
from fedrel.data.partition import COORDINATOR
from fedrel.data.platform_folders import files_of_platforms, is_of_platforms, load_platforms, splits_there
from fedrel.data.sources import agreed_relations, kind_of, require_source
from fedrel.data.store import Dataset
from fedrel.data.streams import (
    SplitFile,
    Stream,
    Wanted,
    all_notes,
    is_empty,
    require_sentences,
    shares_a_relation,
    unlabelled_notes,
)
from fedrel.errors import UserError


def load(data: Data, *, say: Say = lambda line: None) -> Dataset:
    """The built-in world, a data set of files, or a folder of platforms, with the sentences of data.more. UserError for
    what cannot be read.
    """
    found = _load(data, say)
    for folder in data.more:
        relations = [name for name in found.relations if name != NA]
        more = load_part(_like(data, folder), Path(folder), relations=relations, say=say)  # all of its train
        found = joined(found, more, folder, say)
    return found


def _like(data: Data, folder: str) -> Data:
    """How the data in another folder are read: as they would be alone."""
    source = detect(Path(folder)).source if Path(folder).exists() else data.source
    source = source if source in FORMATS and FORMATS[source].labelled else data.source
    return replace(data, source=source, path=folder, more=(), dev=0.0, relations=(), human="", trusted="")


def _load(data: Data, say: Say) -> Dataset:
    require_source(data.source)
    if data.source == WORLD:
        return _world(data, say)
    if not data.path:
        raise UserError(f'data.source = "{data.source}" needs data.path, a folder with train and test files')
    path = unpacked(Path(data.path))
    if is_of_platforms(path, data.source):
        return load_platforms(data, path, say)
    return _files(data, path, say)


def load_part(
    data: Data,
    path: Path,
    *,
    relations: Sequence[str],
    platform: str = "",
    held_out: Sequence[str] = (),
    say: Say = lambda line: None,
) -> Dataset:
    """What the platform of that name holds in a federation, read as `load` reads the folder of all: its train, and of
    dev and test what it is to hold out, files of its own or else a tenth of its train.
    """
    data = _part_of(data, relations)
    found = find_splits(unpacked(path), data.source)
    found = {split: file for split, file in found.items() if split in ("train", *held_out)}
    unlabelled = unlabelled_notes(unpacked(path), data.source)
    key = files_key(" ".join(["part", platform, *held_out]), data, found, unlabelled)
    if dataset := kept(key, say):
        return dataset
    files = {split: SplitFile(data, file, platform=platform, split=split) for split, file in found.items()}
    require_sentences(files)
    streams, carved = hold_out(files, held_out, path, data)
    notes = all_notes([*unlabelled, *(carved_note(split, data) for split in carved)], files)
    from_train = ["train", *(split for split in carved if split == "dev")]
    make = partial(build, splits=streams, notes=notes, from_train=from_train, part=True, may_lack=held_out)
    return cached(key, partial(make, **kind_of(data)), f"reading {path}", say)


def load_public(data: Data, path: Path, *, relations: Sequence[str], say: Say = lambda line: None) -> Dataset:
    """What the coordinator of a federation has, read as `load` reads the folder of all: any of train, dev and test."""
    data = _part_of(data, relations)
    found = splits_there(unpacked(path), data.source)
    unlabelled = unlabelled_notes(unpacked(path), data.source)
    key = files_key("public", data, found, unlabelled)
    if dataset := kept(key, say):
        return dataset
    files = {split: SplitFile(data, file, platform=COORDINATOR, split=split) for split, file in found.items()}
    require_sentences(files)
    at_home = [split for split in ("dev", "test") if split not in files]
    streams = without_held_out(files, at_home, path, data)
    make = partial(build, splits=streams, notes=all_notes(unlabelled, files), part=True, **kind_of(data))
    return cached(key, make, f"reading {path}", say)


def load_common(sentences: Stream, content: str, *, like: Dataset) -> Dataset:
    """Sentences that the coordinator of a federation sent, `content` being all that they are made of."""
    key = key_of("common", json.dumps([like.relations, like.has_na, like.has_pairs]), content)
    relations = [name for name in like.relations if name != NA]
    make = partial(build, splits={"train": sentences}, relations=relations, na=like.has_na, has_pairs=like.has_pairs)
    return cached(key, partial(make, part=True), "reading the coordinator's sentences", lambda line: None)


def load_judged(data: Data, relations: Sequence[str], file: str, *, setting: str = "data.human") -> Dataset:
    """The sentences of a file, which people labelled with some of these relations, as the test split of a data set of
    their own. Sentences with other relations are left out, and its notes say how many. `setting` is where the file is
    named.
    """
    path = Path(file)
    if not path.exists():
        other = ', or "test"' if setting == "data.human" else ""
        raise UserError(f'{setting} = "{path}": no such file; name one of labelled sentences{other}')
    found = detect(path).source
    source = found if found in FORMATS and FORMATS[found].labelled else data.source
    data = replace(data, source=source, relations=tuple(name for name in relations if name != NA))
    key = files_key("judged", data, {"test": path})
    sentences = SplitFile(data, path, split="judged", known="train")
    if not any(it.relation != NA for it in sentences()):
        raise UserError(f"{path}: none of its sentences has a relation that train has, so nobody can be scored by it")
    told = all_notes([], {path.name: sentences})
    make = partial(build, splits={"test": sentences}, notes=told, part=True, **kind_of(data))
    return cached(key, make, f"reading {path}", lambda line: None)


@cache
def fingerprint(data: Data) -> str:
    """Changes with the content of the data, and with the code that makes or reads it."""
    version = readers_version(data.source)[:16]
    if data.source not in FORMATS or not data.path:
        return version
    path = unpacked(Path(data.path))
    find = files_of_platforms if is_of_platforms(path, data.source) else find_splits
    judged = [Path(file) for file in (data.human, data.trusted) if Path(file).is_file()]
    files = [*find(path, data.source).values(), *judged]
    more = [fingerprint(_like(data, folder)) for folder in data.more]
    return "-".join([version, *(content_hash(file, data.source)[:16] for file in files), *more])


def world_of(data: Data) -> world.World:
    """The built-in world that a [data] section describes."""
    return world.World(size=data.size, seed=data.seed, noise=data.noise, evidence=data.evidence)


def _part_of(data: Data, relations: Sequence[str]) -> Data:
    labelled_format(data.source)
    if not relations:
        raise UserError("data.relations is empty; a federation agrees on its relations before anybody reads their data")
    return replace(data, dev=0.0, relations=tuple(relations))


def _world(data: Data, say: Say) -> Dataset:
    if data.dev:
        raise UserError("data.dev takes a share of train, and the built-in world has a dev split; leave it out")
    if data.na == "drop":
        raise UserError('data.na = "drop": the built-in world is distant supervision, which needs NA pairs')
    made = world_of(data)
    key = key_of(WORLD, repr(made), *agreed(data))
    splits = {split: Wanted(partial(made.instances, split), data) for split in SPLITS}
    kind = {**kind_of(data), "relations": agreed_relations(data) or made.relations()[1:]}
    make = partial(build, splits=splits, notes=all_notes([], splits, whole=data), **kind)
    return cached(key, make, f"making the built-in world ({data.size})", say)


def _files(data: Data, path: Path, say: Say) -> Dataset:
    found = find_splits(path, data.source)
    unlabelled = unlabelled_notes(path, data.source)
    key = files_key("", data, found, unlabelled)
    if dataset := kept(key, say):
        return dataset
    files = {split: SplitFile(data, file, split=split) for split, file in found.items()}
    require_sentences({split: file for split, file in files.items() if split != "dev"})
    if data.dev:
        files.pop("dev", None)
    missing = [split for split in ("test", "dev") if split not in files or (split == "dev" and is_empty(files["dev"]))]
    strange = [it for it in ("dev", "test") if it not in missing and not shares_a_relation(files["train"], files[it])]
    notes = [
        *unlabelled,
        *(f"none of the relations of {split} is in train: no model can find them" for split in strange),
    ]
    passed_over = ["dev"] if "dev" in strange else []  # as in FewRel: no round can be chosen by it
    try:
        streams, carved = carve_missing(files, [*missing, *passed_over], data)
    except UserError:
        if not passed_over:
            raise
        passed_over = []  # train is too small to carve dev from it
        streams, carved = carve_missing(files, missing, data)
    if passed_over:
        notes.append("dev was passed over for that")
        del files["dev"]
    from_train = ["train", *(["dev"] if "dev" in (*missing, *passed_over) else [])]
    told = all_notes([*notes, *carved], files, whole=data)
    make = partial(build, splits=streams, notes=told, from_train=from_train, passed_over=passed_over, **kind_of(data))
    return cached(key, make, f"reading {data.path}", say)
