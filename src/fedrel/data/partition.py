"""Who holds which training sentence."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrel import config
from fedrel.corpus import NA, classification, opennre
from fedrel.data.store import Dataset, Ints, iterate
from fedrel.errors import UserError
from fedrel.util.seeds import derive

_DRAWS = 20  # of the Dirichlet proportions at most, in search of one that gives every platform its minimum
# Of a platform, since files and certificates are named after it; a dot has a meaning of its own in a federation
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
_LONGEST_STEM = 44  # of a name; what tells two of them apart comes after it
COORDINATOR = "coordinator"  # the folder of what the server holds, in a folder of platforms
TAKEN = {"server", COORDINATOR, "admin", "keeper", "ca"}  # no platform's name: others in a federation have them


@dataclass(frozen=True)
class Division:
    """Every row of train is in exactly one place; platforms are ordered by name."""

    platforms: dict[str, Ints]  # name -> rows of train, ascending
    server: Ints  # rows the server itself holds, ascending

    def label_counts(self, dataset: Dataset) -> Ints:
        """How many sentences of each label every platform holds, (K, R)."""
        return np.stack([count_labels(dataset, rows) for rows in self.platforms.values()])


def divide(dataset: Dataset, settings: config.Partition, seed: int) -> Division:
    """The server's share is drawn first; the platforms divide what is left. Of a folder of platforms, everyone holds
    what lies in their own.
    """
    if settings.kind == "folder":
        return _by_folder(dataset, settings)
    labels = np.asarray(dataset.train.labels)  # (S,)
    server = _server_rows(labels, settings.server, seed)
    rest = np.setdiff1d(np.arange(len(labels)), server, assume_unique=True)  # (N,) ascending
    if settings.kind == "source":
        shares = _by_source(dataset, rest)
    elif settings.kind == "relation":
        shares = _by_relation(dataset, rest, seed)
    else:
        _require_enough(len(rest), settings.platforms)
        parts = (
            iid(len(rest), settings.platforms, seed)
            if settings.kind == "iid"
            else _dirichlet(labels[rest], settings, seed)
        )
        shares = dict(zip(platform_names(settings.platforms), (rest[part] for part in parts), strict=True))
    return Division({name: np.sort(shares[name]) for name in sorted(shares)}, server)


def iid(sentences: int, platforms: int, seed: int) -> list[Ints]:
    """Sentences shuffled and dealt out evenly; each platform's rows in ascending order."""
    _require_enough(sentences, platforms)
    shuffled = np.random.default_rng(derive(seed, "partition")).permutation(sentences)
    return [np.sort(part) for part in np.array_split(shuffled, platforms)]


def platform_names(platforms: int) -> list[str]:
    """p00 … p19: sorted by name is sorted by number."""
    width = len(str(platforms - 1))
    return [f"p{number:0{width}d}" for number in range(platforms)]


def require_names(names: Iterable[str], where: str) -> None:
    """Refuses names that would not be safe everywhere, or not distinct where upper and lower case are the same."""
    seen: dict[str, str] = {}
    for name in names:
        if not NAME.fullmatch(name):
            raise UserError(
                f'{where}: "{name}" cannot be the name of a platform; use up to 48 letters, digits, "_" and "-", a '
                "letter or digit first"
            )
        if name.lower() in TAKEN:
            raise UserError(
                f'{where}: "{name}" cannot be the name of a platform, since another party has it; rename it'
            )
        if name.lower() in seen:
            other = seen[name.lower()]
            raise UserError(f'{where}: "{other}" and "{name}" differ in upper and lower case alone; rename one')
        seen[name.lower()] = name


def write_parts(dataset: Dataset, division: Division, folder: Path) -> str:
    """Writes everybody's sentences into a folder of their own, in their order, and into the coordinator's also dev and
    test where the platforms do not hold them out. Returns the name of the format.
    """
    source, suffix, lines = (
        ("opennre", "jsonl", opennre.lines) if dataset.has_pairs else ("classification", "tsv", classification.lines)
    )
    everybody = [(name, "train", dataset.train, rows) for name, rows in division.platforms.items()]
    coordinator = [(COORDINATOR, "train", dataset.train, division.server)] if len(division.server) else []
    held_out = [
        (party, name, split, rows)
        for name, split in (("dev", dataset.dev), ("test", dataset.test))
        for party, rows in _holders(dataset, division, name).items()
    ]
    (folder / COORDINATOR).mkdir(exist_ok=True)
    for party, name, split, rows in (*everybody, *coordinator, *held_out):
        (folder / party).mkdir(exist_ok=True)
        with (folder / party / f"{name}.{suffix}").open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines(iterate(dataset, split, rows)))
    return source


def _holders(dataset: Dataset, division: Division, split: str) -> Mapping[str, Ints | None]:
    """Who has which rows of dev or test; None: all of them."""
    held = one_after_another(dataset.held_out.get(split, {}))
    if held.keys() != division.platforms.keys():  # nobody's in particular
        return {COORDINATOR: None}
    return {party: rows for party, rows in held.items() if len(rows)}


def count_labels(dataset: Dataset, rows: Ints) -> Ints:
    """How many of these training sentences have each label, (R,)."""
    return np.bincount(dataset.train.labels[rows], minlength=len(dataset.relations))


def unevenness(counts: Ints) -> float:
    """From the label counts of platforms, (K, R): how far a platform's labels are from those of all together, as
    total variation distance, mean over platforms. 0: all alike; towards 1: each has labels of its own.
    """
    shares = counts / counts.sum(axis=1, keepdims=True)  # (K, R)
    overall = counts.sum(axis=0) / counts.sum()  # (R,)
    return float(np.abs(shares - overall).sum(axis=1).mean() / 2)


def _require_enough(sentences: int, platforms: int) -> None:
    if platforms > sentences:
        raise UserError(
            f"{platforms} platforms for {sentences} training sentences; "
            "set partition.platforms to at most the number of sentences"
        )


def _server_rows(labels: npt.NDArray[np.int32], share: float, seed: int) -> Ints:
    """The server's share: of every label in proportion, and at least one sentence where there is room for that."""
    if not share:
        return np.zeros(0, dtype=np.int64)
    wanted = round(share * len(labels))
    if not wanted:
        raise UserError(
            f"partition.server = {share:g} of {len(labels)} training sentences is none; set it higher, or 0"
        )
    if wanted == len(labels):
        raise UserError(
            f"partition.server = {share:g} of {len(labels)} training sentences leaves the platforms none; set it lower"
        )
    draw = np.random.default_rng(derive(seed, "partition", "server"))
    present, sizes = np.unique(labels, return_counts=True)
    taken = [
        draw.permutation(np.flatnonzero(labels == label))[:count]
        for label, count in zip(present, _stratify(sizes, wanted), strict=True)
    ]
    return np.sort(np.concatenate(taken))


def _stratify(sizes: Ints, wanted: int) -> Ints:
    """How many to take of classes of these sizes to have `wanted` in all: near proportion, each at least one."""
    if wanted < len(sizes):  # no room for all: the frequent ones
        counts = np.zeros_like(sizes)
        counts[np.argsort(-sizes, kind="stable")[:wanted]] = 1
        return counts
    quota = sizes * (wanted / int(sizes.sum()))
    counts = np.maximum(1, quota.astype(np.int64))
    while counts.sum() > wanted:
        counts[np.argmax(np.where(counts > 1, counts - quota, -np.inf))] -= 1
    while counts.sum() < wanted:
        counts[np.argmax(np.where(counts < sizes, quota - counts, -np.inf))] += 1
    return np.asarray(counts)


def _dirichlet(labels: npt.NDArray[np.int32], settings: config.Partition, seed: int) -> list[Ints]:
    """Each class is dealt out by proportions of its own, drawn from a symmetric Dirichlet distribution."""
    platforms, minimum = settings.platforms, settings.minimum
    if minimum * platforms > len(labels):
        raise UserError(
            f"{platforms} platforms with at least {minimum} sentences each need {minimum * platforms} training "
            f"sentences, and there are {len(labels)}; set partition.minimum or partition.platforms lower"
        )
    draw = np.random.default_rng(derive(seed, "partition", "dirichlet"))
    present, sizes = np.unique(labels, return_counts=True)  # (C,)
    for _ in range(_DRAWS):
        counts = _deal(sizes, draw.dirichlet(np.full(platforms, settings.alpha), len(sizes)))  # (C, K)
        if counts.sum(axis=0).min() >= minimum:
            break
    parts: list[list[Ints]] = [[] for _ in range(platforms)]
    for label, of_platform in zip(present, counts, strict=True):
        shuffled = draw.permutation(np.flatnonzero(labels == label))
        for part, rows in zip(parts, np.split(shuffled, np.cumsum(of_platform)[:-1]), strict=True):
            part.append(rows)
    return _fill_up([np.concatenate(part) for part in parts], minimum, draw)


def _deal(sizes: Ints, proportions: npt.NDArray[np.float64]) -> Ints:
    """Classes of these sizes, (C,), cut at the nearest sentence to their proportions, (C, K)."""
    ends = np.floor(np.cumsum(proportions, axis=1) * sizes[:, None] + 0.5).astype(np.int64)
    ends = np.minimum(ends, sizes[:, None])
    ends[:, -1] = sizes  # the sum of proportions is 1 only nearly
    return np.diff(ends, axis=1, prepend=0)


def _fill_up(parts: list[Ints], minimum: int, draw: np.random.Generator) -> list[Ints]:
    """Single sentences, drawn at random, move from whoever holds the most to whoever lacks some."""
    piles = [draw.permutation(part).tolist() for part in parts]
    sizes = np.array([len(pile) for pile in piles])
    for needy in np.flatnonzero(sizes < minimum):
        while sizes[needy] < minimum:
            giver = int(np.argmax(sizes))
            piles[needy].append(piles[giver].pop())
            sizes[giver] -= 1
            sizes[needy] += 1
    return [np.array(pile, dtype=np.int64) for pile in piles]


def _by_folder(dataset: Dataset, settings: config.Partition) -> Division:
    if not dataset.held:
        raise UserError(
            'partition.kind = "folder" needs a folder of platforms as data.path: a folder for each platform with a '
            f"training file in it, and one named {COORDINATOR} with dev and test"
        )
    rows = one_after_another(dataset.held)
    server = rows.pop(COORDINATOR, np.zeros(0, np.int64))
    if settings.server and not len(server):
        raise UserError(
            f"partition.server = {settings.server:g}, but the folder {COORDINATOR} holds no training file; add one, "
            "or set partition.server = 0"
        )
    return Division(rows, server)


def one_after_another(held: Mapping[str, int]) -> dict[str, Ints]:
    """The row numbers of each holder, from how many rows each holds in this order."""
    ends = np.cumsum([0, *held.values()])
    return {name: np.arange(begin, end) for name, begin, end in zip(held, ends, ends[1:], strict=False)}


def _by_source(dataset: Dataset, rows: Ints) -> dict[str, Ints]:
    sources = np.asarray(dataset.train.sources)[rows]
    present, starts = np.unique(np.sort(sources), return_index=True)
    names = _names_for({int(number): dataset.sources[number] for number in present})
    if len(names) < 2:
        raise UserError(
            'partition.kind = "source", but all training sentences have the same source; tell sources apart in the '
            'data ("source" in JSON lines of OpenNRE), or set partition.kind to iid or dirichlet'
        )
    parts = np.split(rows[np.argsort(sources, kind="stable")], starts[1:])  # there may be thousands
    return {names[int(number)]: part for number, part in zip(present, parts, strict=True)}


def _by_relation(dataset: Dataset, rows: Ints, seed: int) -> dict[str, Ints]:
    """Sentences without a relation are dealt out evenly, so that nobody lacks them."""
    labels = np.asarray(dataset.train.labels)[rows]
    present = {int(label): dataset.relations[label] for label in np.unique(labels)}
    names = _names_for({label: relation for label, relation in present.items() if relation != NA})
    if len(names) < 2:
        raise UserError(
            f'partition.kind = "relation", but the platforms\' training sentences have {len(names) or "no"} relation'
            f"{' only' if names else ''}; set partition.kind to iid or dirichlet"
        )
    without = rows[~np.isin(labels, list(names))]
    shuffled = np.random.default_rng(derive(seed, "partition", "relation")).permutation(without)
    return {
        name: np.concatenate([rows[labels == label], part])
        for (label, name), part in zip(names.items(), np.array_split(shuffled, len(names)), strict=True)
    }


def _names_for(originals: dict[int, str]) -> dict[int, str]:
    """Names for platforms that are safe everywhere, and distinct even where upper and lower case are the same.
    `Zürich, ward 3` becomes Zurich-ward-3; another like it, Zurich-ward-3-2.
    """
    names: dict[int, str] = {}
    used, tried = set(TAKEN), Counter[str]()
    for number, original in sorted(originals.items(), key=lambda item: item[1]):
        plain = "".join(c for c in unicodedata.normalize("NFKD", original) if not unicodedata.combining(c))
        stem = re.sub("[^A-Za-z0-9_-]+", "-", plain).strip("_-")[:_LONGEST_STEM].strip("_-") or "unnamed"
        name = stem
        while name.lower() in used:
            tried[stem.lower()] += 1
            name = f"{stem}-{tried[stem.lower()] + 1}"
        names[number] = name
        used.add(name.lower())
    return names
