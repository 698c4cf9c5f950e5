"""What is in a folder of platforms: of each its rows, facts and labels, and what is held out at home."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np

from fedrel.config import Data
from fedrel.corpus import FORMATS, SPLITS
from fedrel.corpus.detection import Detected
from fedrel.corpus.reading import Reading
from fedrel.corpus.splits import passed_over
from fedrel.data.counting import add_counts, counts_of_file, held_by_several, shared
from fedrel.data.loading import load
from fedrel.data.partition import COORDINATOR, one_after_another
from fedrel.data.platform_folders import files_of_platforms
from fedrel.data.reports import OF_TEXTS, Part, Report, as_set, command, next_run, ready
from fedrel.data.sources import rules_of
from fedrel.data.store import Dataset, Ints
from fedrel.data.sufficiency import too_little


def inspect_platforms(path: Path, place: Path, found: Detected, data: Data, say: Callable[[str], None]) -> Report:
    """A part for each platform, and the coordinator's last. `place` is the folder, unpacked."""
    dataset = load(data, say=say)
    files = files_of_platforms(place, found.source)
    report = Report(str(path), found.source, found.why, "platforms", notes=list(dataset.notes))
    report.passed_over = list(passed_over(place, found.source, read=files.values()))
    rows = {split: one_after_another(held) for split, held in (("train", dataset.held), *dataset.held_out.items())}
    for name in sorted({file.partition("/")[0] for file in files}, key=lambda name: (name == COORDINATOR, name)):
        part = report.parts[name] = Part(str(path / name))
        if name in rows["train"]:
            reading = Reading(found.source, files[f"{name}/train"], rules_of(data), platform=name, split="train")
            part.counts = counts_of_file("train", reading, report, look=False)
            add_counts(part, dataset, dataset.train, rows["train"][name])
            part.counts["relations"] = sum(relation != _na(dataset) for relation in part.labels)
            part.bag_sizes = {}  # bags are a platform's own, and a table has no room for them
            del part.counts["facts_in_several_sentences"]
        part.counts |= _held_out(name, dataset, rows)
    several, facts = held_by_several(dataset.train, rows["train"].values())
    if facts and dataset.has_pairs:
        report.notes.append(f"{several:,} of the {facts:,} facts of train are in more than one folder")
    report.shared_pairs = {f"{one}-{other}": shared(dataset, one, other) for one, other in combinations(SPLITS, 2)}
    report.shared_sentences = dataset.shared_sentences
    report.overlap = dataset.overlap
    report.too_little = too_little(dataset)
    settings = [*as_set(data), "partition.kind=folder"]
    if dataset.has_pairs:
        blinded = FORMATS[found.source].blinded
        report.advice = list(next_run(report, dataset, blinded=blinded, settings=settings))
    else:
        words = [word for setting in (*settings, *OF_TEXTS) for word in ("--set", setting)]
        report.advice = [f"texts with one label each: {ready(report)}.", command("fedrel", "run", *words)]
    return report


def _na(dataset: Dataset) -> str | None:
    return dataset.relations[0] if dataset.has_na else None


def _held_out(name: str, dataset: Dataset, rows: dict[str, dict[str, Ints]]) -> dict[str, int]:
    """The sentences of dev and test that somebody has."""
    counts: dict[str, int] = {}
    for split in ("dev", "test"):
        if split in rows:
            counts[split] = len(rows[split].get(name, np.zeros(0)))
        elif name == COORDINATOR:
            counts[split] = len(getattr(dataset, split))
        else:
            counts[split] = 0
    return counts
