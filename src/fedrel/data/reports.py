"""What `fedrel data check` says of a data set, and what it advises to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fedrel import config
from fedrel.corpus import Skipped
from fedrel.corpus.file_counts import FileCounts
from fedrel.corpus.rules import LOCAL
from fedrel.corpus.suspicious import Suspicions
from fedrel.data.store import Dataset

OF_TEXTS = ("extractor.kind=text", "method.name=fedavg")  # settings with which labelled texts train


@dataclass
class Part:
    """A split, a fold, what a platform has, or all documents."""

    path: str | None  # None: carved from train
    counts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)  # sentences, or texts, of each
    bag_sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class Report:
    """What `fedrel data check` says of a data set."""

    path: str
    format: str
    why: str
    kind: Literal["labelled sentences", "documents", "classification", "folds", "platforms"]
    parts: dict[str, Part] = field(default_factory=dict)
    shared_pairs: dict[str, int] = field(default_factory=dict)  # "train-test": how many are in both
    shared_rows: dict[str, int] = field(default_factory=dict)  # the same sentence with the same pair, or the same text
    shared_sentences: dict[str, int] = field(default_factory=dict)  # whatever the pair
    overlap: int = 0  # pairs in test that `fedrel run` would have trained or chosen on
    suspicious: Suspicions = field(default_factory=Suspicions)
    skipped: Skipped = field(default_factory=Skipped)
    passed_over: list[str] = field(default_factory=list)  # files of the folder that were not read
    files: FileCounts | None = None  # of a folder of documents: what became of each file
    notes: list[str] = field(default_factory=list)
    too_little: list[str] = field(default_factory=list)  # what the data set is too small for
    advice: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """The report as `fedrel data check --json` prints it."""
        return {
            "path": self.path,
            "format": self.format,
            "why": self.why,
            "kind": self.kind,
            "splits": {name: _part_as_json(part, self.kind) for name, part in self.parts.items()},
            "shared_pairs": self.shared_pairs,
            "shared_rows": self.shared_rows,
            "shared_rows_first": self.suspicious.first_in_two_splits(),
            "shared_sentences": self.shared_sentences,
            "overlap": self.overlap,
            "suspicious": {
                kind: {"rows": count, "first": self.suspicious.first[kind]}
                for kind, count in self.suspicious.totals.items()
            },
            "skipped": {"reasons": dict(self.skipped.reasons), "first": self.skipped.first},
            "passed_over": self.passed_over,
            "files": self.files.as_json() if self.files else None,
            "notes": self.notes,
            "too_little": self.too_little,
            "next": self.advice,
        }


def _part_as_json(part: Part, kind: str) -> dict[str, object]:
    found: dict[str, object] = {"path": part.path, **part.counts}
    if part.labels:
        found["texts_per_label" if kind == "classification" else "sentences_per_relation"] = part.labels
    if part.bag_sizes:
        found["bag_sizes"] = part.bag_sizes
    return found


def as_set(data: config.Data) -> list[str]:
    """The settings that are not the defaults, as `fedrel run --set` takes them."""
    table = config.to_table(config.Experiment(data=data))["data"]
    usual = config.to_table(config.Experiment())["data"]
    assert isinstance(table, dict)
    assert isinstance(usual, dict)
    return [config.as_setting(f"data.{key}", value) for key, value in table.items() if value != usual[key]]


def next_run(report: Report, dataset: Dataset, *, blinded: bool, settings: list[str]) -> Iterator[str]:
    """What should be known before labelled sentences are trained on, and the command to do so."""
    if report.overlap and dataset.gold:
        both = f"{report.overlap:,} pairs are in both train and test"
        yield f"{both}, in sentences that people labelled: {ready(report)}."
    elif report.overlap:
        yield (
            f"{report.overlap:,} pairs are in both train and test: `fedrel run` wants data.allow_overlap=true for "
            "this, or the pairs removed from one of the two."
        )
        settings = [*settings, "data.allow_overlap=true"]
    elif blinded or all(it.startswith(LOCAL) for it in dataset.entities):
        why = "are blinded" if blinded else "have no ids"
        yield f"the entities {why}, so nobody can tell whether a pair is in both train and test: {ready(report)}."
    else:
        yield f"no pair is in both train and test: {ready(report)}."
    shared, sentences = report.shared_sentences["train-test"], dataset.distinct_sentences["test"]
    if shared and dataset.has_pairs:
        yield f"{shared:,} of the {sentences:,} sentences of test ({shared / sentences:.0%}) are in train too."
    yield command("fedrel", "run", *(part for setting in settings for part in ("--set", setting)))


def ready(report: Report) -> str:
    """What to expect of a run, in half a sentence."""
    return "it runs, and the warnings say what not to trust" if report.too_little else "ready to run"


def command(*words: str) -> str:
    """A line for a shell."""
    return " ".join(shlex.quote(word) for word in words)
