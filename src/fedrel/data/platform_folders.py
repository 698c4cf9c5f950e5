"""A folder of platforms: in it a folder for each platform, and the coordinator's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fedrel.config import Data
from fedrel.corpus import FORMATS, SPLITS, Instance
from fedrel.corpus.beside import is_no_data
from fedrel.corpus.packed import as_given
from fedrel.corpus.splits import expected, is_document, labelled_splits, split_of, walk
from fedrel.data.building import build
from fedrel.data.cache import Say, cached, files_key, kept
from fedrel.data.carving import HELD_OUT, hold_out, require_held_out, unit, without_held_out
from fedrel.data.partition import COORDINATOR, require_names
from fedrel.data.sources import kind_of
from fedrel.data.store import Dataset
from fedrel.data.streams import SplitFile, Stream, all_notes, require_sentences, unlabelled_notes
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
    owners = dict.fromkeys(name.partition("/")[0] for name in found)
    unlabelled = [note for name in owners for note in unlabelled_notes(path / name, data.source, f"{name}/")]
    key = files_key("platforms", data, found, unlabelled)
    if dataset := kept(key, say):
        return dataset
    files = {
        name: SplitFile(data, file, platform=name.partition("/")[0], split=name.partition("/")[2])
        for name, file in found.items()
    }
    require_sentences(files)
    at_home = [split for split in ("dev", "test") if f"{COORDINATOR}/{split}" not in files]
    homes, carved = _homes(files, at_home, path, data)
    held: dict[str, dict[str, int]] = {split: {} for split in ("train", *at_home)}
    splits: dict[str, Stream] = {
        split: partial(_one_after_another, {name: home[split] for name, home in homes.items() if split in home}, counts)
        for split, counts in held.items()
    }
    splits |= {split: homes[COORDINATOR][split] for split in ("dev", "test") if split not in at_home}
    for split in (it for it in at_home if carved[it]):
        trains = [file for name, file in files.items() if name.endswith("/train")]
        require_held_out(split, splits[split], trains, data.path, COORDINATOR, data)
    make = partial(
        build,
        splits={split: splits[split] for split in SPLITS},
        notes=all_notes(
            [*unlabelled, *(_home_note(split, names, homes, data) for split, names in carved.items())],
            files,
            whole=data,
        ),
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
    homes = {it.name: splits for it in inner if "train" in (splits := _home(it, source))}
    if not homes:
        raise UserError(f"{as_given(path)}: no platform: no folder in it but {COORDINATOR} holds a training file")
    require_names(homes, str(as_given(path)))
    own = {f"{name}/{split}": home[split] for name, home in homes.items() for split in wanted if split in home}
    return own | {f"{COORDINATOR}/{split}": file for split, file in public.items()}


def _home(path: Path, source: str) -> dict[str, Path]:
    """A platform's splits. UserError for a folder with data in which there is no training file in this format: nobody
    should train without a platform and not know it. Folders of anything else (notes, results of a run) have none.
    """
    found = splits_there(path, source)
    if "train" in found:
        return found
    below = [file for file in path.rglob("*") if file.is_file() and not is_no_data(file.name)]
    named = [file for file in below if split_of(file, *FORMATS.values()) == "train"]
    of_data = {extension for form in FORMATS.values() for extension in form.extensions}
    beside = [file for file in below if file.parent == path and file.suffix.lower() in of_data]
    if named or (beside and not (path / "experiment.toml").exists()):
        file = (named or beside)[0].relative_to(path)
        raise UserError(
            f'{as_given(path)}: no training file in the format "{source}" in the folder of this platform, which holds '
            f"{file}; {expected(path, source)}, or move the folder away"
        )
    return {}


def splits_there(path: Path, source: str) -> dict[str, Path]:
    """The splits in a folder, which may be none at all."""
    found = labelled_splits(path, source)
    if path.is_dir() and found.get("train") == path and not any(is_document(it, FORMATS[source]) for it in walk(path)):
        return {}  # it could be a folder of documents, and there are none
    return found


def _homes(
    files: Mapping[str, Stream], at_home: Sequence[str], path: Path, data: Data
) -> tuple[dict[str, dict[str, Stream]], dict[str, list[str]]]:
    """Everybody's splits, with what they hold out; and of each split at home, who carved it from train."""
    homes: dict[str, dict[str, Stream]] = {}
    for place, file in files.items():
        name, _, split = place.partition("/")
        homes.setdefault(name, {})[split] = file
    carved: dict[str, list[str]] = {split: [] for split in at_home}
    for name, home in homes.items():
        if name == COORDINATOR:
            homes[name] = without_held_out(home, at_home, path / name, data)
            continue
        homes[name], taken = hold_out(home, at_home, path / name, data)
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
