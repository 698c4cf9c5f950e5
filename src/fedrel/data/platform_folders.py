"""A folder of platforms: in it a folder for each platform, and the coordinator's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fedrel.config import Data
from fedrel.corpus import FORMATS, SPLITS, Instance
from fedrel.corpus.splits import split_of, splits_in
from fedrel.data.building import build
from fedrel.data.cache import Say, cached, files_key, kept
from fedrel.data.partition import COORDINATOR, require_names
from fedrel.data.sources import is_gold, kind_of
from fedrel.data.store import Dataset
from fedrel.data.streams import (
    HELD_OUT,
    SplitFile,
    Stream,
    all_notes,
    hold_out,
    is_empty,
    require_sentences,
    unit,
    without_held_out,
)
from fedrel.errors import UserError


def is_of_platforms(path: Path, source: str) -> bool:
    """Whether a folder has one named coordinator in it, and no file that is a split."""
    if not (path / COORDINATOR).is_dir():
        return False
    return not any(it.is_file() and split_of(it, FORMATS[source]) for it in path.iterdir())


def load_platforms(data: Data, path: Path, say: Say) -> Dataset:
    """The platforms in a folder, which is data.path, unpacked: everybody's train, one platform after another by name
    and the coordinator's last. Dev and test are the coordinator's; what it does not have of them is what the platforms
    hold out, each by itself.
    """
    if data.dev:
        raise UserError(f"data.dev takes a share of train, and of platforms nobody may; put dev into {COORDINATOR}")
    found = files_of_platforms(path, data.source)
    key = files_key("platforms", data, found)
    if dataset := kept(key, say):
        return dataset
    files = {
        name: SplitFile(data, file, platform=name.partition("/")[0], split=name.partition("/")[2])
        for name, file in found.items()
    }
    require_sentences(files)
    at_home = [split for split in ("dev", "test") if f"{COORDINATOR}/{split}" not in files]
    homes, carved = _homes(files, at_home, path, gold=is_gold(data))
    held: dict[str, dict[str, int]] = {split: {} for split in ("train", *at_home)}
    splits: dict[str, Stream] = {
        split: partial(_one_after_another, {name: home[split] for name, home in homes.items() if split in home}, counts)
        for split, counts in held.items()
    }
    splits |= {split: homes[COORDINATOR][split] for split in ("dev", "test") if split not in at_home}
    for split in at_home:
        if is_empty(splits[split]):
            raise UserError(
                f"{data.path}: too few sentences to hold out {split}; put a {split} file into {COORDINATOR}"
            )
    make = partial(
        build,
        splits={split: splits[split] for split in SPLITS},
        notes=all_notes([_home_note(split, names, homes, data) for split, names in carved.items()], files, whole=data),
        from_train=["train", *(["dev"] if carved.get("dev") else [])],
        overlap_of_facts=any(carved.values()),
        held=held.pop("train"),
        held_out=held,
        **kind_of(data),
    )
    return cached(key, make, f"reading {data.path}", say)


def files_of_platforms(path: Path, source: str) -> dict[str, Path]:
    """Files by platform and split: `a/train` is the training file of the platform a. Its dev and test are there where
    the coordinator has none.
    """
    public = splits_there(path / COORDINATOR, source)
    wanted = ("train", *(split for split in ("dev", "test") if split not in public))
    inner = (it for it in sorted(path.iterdir()) if it.is_dir() and it.name != COORDINATOR and it.name[0] != ".")
    homes = {it.name: splits for it in inner if "train" in (splits := splits_there(it, source))}
    if not homes:
        raise UserError(f"{path}: no platform: no folder in it but {COORDINATOR} holds a training file")
    require_names(homes, str(path))
    own = {f"{name}/{split}": home[split] for name, home in homes.items() for split in wanted if split in home}
    return own | {f"{COORDINATOR}/{split}": file for split, file in public.items()}


def splits_there(path: Path, source: str) -> dict[str, Path]:
    """The splits in a folder, which may be none at all."""
    found = splits_in(path, source)
    if (
        path.is_dir()
        and found.get("train") == path
        and not any(it.suffix.lower() in FORMATS[source].extensions for it in path.iterdir())
    ):
        return {}  # it could be a folder of documents, and there are none
    return found


def _homes(
    files: Mapping[str, Stream], at_home: Sequence[str], path: Path, *, gold: bool
) -> tuple[dict[str, dict[str, Stream]], dict[str, list[str]]]:
    """Everybody's splits, with what they hold out; and of each split at home, who carved it from train."""
    homes: dict[str, dict[str, Stream]] = {}
    for place, file in files.items():
        name, _, split = place.partition("/")
        homes.setdefault(name, {})[split] = file
    carved: dict[str, list[str]] = {split: [] for split in at_home}
    for name, home in homes.items():
        if name == COORDINATOR:
            homes[name] = without_held_out(home, at_home, path / name, gold=gold)
            continue
        homes[name], taken = hold_out(home, at_home, path / name, gold=gold)
        for split in taken:
            carved[split].append(name)
    return homes, carved


def _home_note(split: str, carved: Sequence[str], homes: Iterable[str], data: Data) -> str:
    one = unit(data)
    by_file = [name for name in homes if name != COORDINATOR and name not in carved]
    if not carved or not by_file:
        what = f"one {one} in {HELD_OUT} of its train" if carved else "a file of its own"
        return f"{split} is what the platforms hold out, each {what}"
    return (
        f"{split} is what the platforms hold out: {', '.join(by_file)} a file of their own, {', '.join(carved)} one "
        f"{one} in {HELD_OUT} of train; what one holds out another may train on"
    )


def _one_after_another(trains: Mapping[str, Stream], held: dict[str, int]) -> Iterator[Instance]:
    """Everybody's sentences; how many each holds is counted into `held`."""
    for name, stream in trains.items():
        held[name] = 0
        for instance in stream():
            held[name] += 1
            yield instance
