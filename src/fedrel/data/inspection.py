"""What is in a data set of any format: counts, labels, bags, pairs in two splits, suspicious rows, what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from fedrel import config
from fedrel.corpus import FORMATS, SPLITS, Skipped
from fedrel.corpus.archives import unpacked
from fedrel.corpus.detection import Detected, detect
from fedrel.corpus.documents import Documents
from fedrel.corpus.file_counts import FileCounts
from fedrel.corpus.lines import begins_with, numbered_lines
from fedrel.corpus.pairs import APART
from fedrel.corpus.reading import Reading, require_few_broken
from fedrel.corpus.rules import LOCAL, Rules
from fedrel.corpus.sentences import sentence_spans
from fedrel.corpus.splits import find_splits, folds, passed_over
from fedrel.corpus.suspicious import Suspicions
from fedrel.data.loading import load
from fedrel.data.platform_folders import is_of_platforms
from fedrel.data.sources import rules_of
from fedrel.data.store import Dataset, Split
from fedrel.errors import UserError, suggest

BAG_SIZES = {"1": (1, 1), "2": (2, 2), "3-5": (3, 5), "6-10": (6, 10), "11+": (11, None)}  # sentences of a pair


@dataclass
class Part:
    """A split, a fold, or all documents."""

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
    kind: Literal["labelled sentences", "documents", "classification", "folds"]
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
            "next": self.advice,
        }


def _part_as_json(part: Part, kind: str) -> dict[str, object]:
    found: dict[str, object] = {"path": part.path, **part.counts}
    if part.labels:
        found["texts_per_label" if kind == "classification" else "sentences_per_relation"] = part.labels
    if part.bag_sizes:
        found["bag_sizes"] = part.bag_sizes
    return found


def inspect(
    path: Path,
    source: str | None = None,
    *,
    settings: config.Data | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """What is in a file or folder, in this format or in the one that is detected, read with these settings. UserError
    for what `fedrel run` would refuse, except pairs in two splits, which are counted.
    """
    if source is not None and source not in FORMATS:
        raise UserError(f'"{source}" is no format of files{suggest(source, FORMATS)}')
    place = unpacked(path)
    found = detect(place) if source is None else Detected(source, "as told with --source")
    if not place.exists():
        raise UserError(f"{path}: no such file or folder")
    form = FORMATS[found.source]
    if is_of_platforms(place, found.source):
        raise UserError(
            f"{path}: a folder of platforms; check the folder of each, and train with --set data.path={path} --set "
            f"data.source={found.source} --set partition.kind=folder"
        )
    data = replace(settings or config.Data(), source=found.source, path=str(path))
    documents = form.documents is not None and not (form.gold and _has_relations(place, found.source))
    if place.is_dir() and not form.documents and not _has_splits(place, found.source) and folds(place, found.source):
        report = _folds(path, place, found)
    elif form.texts:
        report = _classification(path, place, found, data)
    elif documents:
        report = _documents(path, place, found, data)
    else:
        report = _labelled(path, place, found, data, say)
    report.passed_over = list(passed_over(place, found.source, splits=not documents))
    return report


# -------------------------------------------------------------------------------------- labelled sentences


def _labelled(path: Path, place: Path, found: Detected, data: config.Data, say: Callable[[str], None]) -> Report:
    dataset = load(data, say=say)
    form = FORMATS[found.source]
    report = Report(str(path), found.source, found.why, "labelled sentences", notes=dataset.notes)
    report.suspicious = Suspicions(blinded=form.blinded)
    files = find_splits(place, found.source)
    for name in SPLITS:
        part = Part(str(files[name]) if name in files else None)
        if name in files:
            reading = Reading(found.source, files[name], rules_of(data), split=name)
            part.counts = _counts_of_file(name, reading, report)
        _add_counts(part, dataset, getattr(dataset, name))
        report.parts[name] = part
    report.shared_pairs = {f"{one}-{other}": _shared(dataset, one, other) for one, other in combinations(SPLITS, 2)}
    report.shared_rows = report.suspicious.in_two_splits()
    report.shared_sentences = dataset.shared_sentences
    report.overlap = dataset.overlap
    report.advice = list(_next_run(report, dataset, blinded=form.blinded, settings=_as_set(data)))
    return report


def _as_set(data: config.Data) -> list[str]:
    """The settings that are not the defaults, as `fedrel run --set` takes them."""
    table = config.to_table(config.Experiment(data=data))["data"]
    usual = config.to_table(config.Experiment())["data"]
    assert isinstance(table, dict)
    assert isinstance(usual, dict)
    return [config.as_setting(f"data.{key}", value) for key, value in table.items() if value != usual[key]]


def _counts_of_file(split: str, reading: Reading, report: Report) -> dict[str, int]:
    """What the file holds, and what was left out of it; its rows are looked at on the way."""
    for where, instance in reading.rows():
        report.suspicious.look_at(instance, where, split)
    skipped = reading.skipped
    report.skipped.add(skipped)
    if reading.form.sentences:
        return {"rows": _rows_in(reading.path, report.format), "left_out": skipped.total}
    return {
        "documents": reading.documents,
        "gold_relations": reading.gold_relations,
        "relations_without_a_row": skipped.reasons[APART],
        "left_out": skipped.total,
    }


def _rows_in(path: Path, source: str) -> int:
    """The rows of a file. Where a line is a row they are counted apart from the reader, so that a row which it loses
    would show.
    """
    header_rows = FORMATS[source].header_rows
    if header_rows is None or begins_with(path, b"["):  # a JSON array is not a row a line
        reading = Reading(source, path, Rules(bad_rows=1))
        return sum(1 for _ in reading.rows()) + reading.skipped.total
    broken = Skipped()
    lines = numbered_lines(path, broken)
    first = next(lines, None)
    count = 1 + sum(1 for _ in lines) - header_rows(path, first[1]) if first else 0
    return count + broken.total


def _add_counts(part: Part, dataset: Dataset, split: Split) -> None:
    facts, sentences = np.unique(split.pairs.astype(np.int64) * 2**20 + split.labels, return_counts=True)
    is_fact = facts % 2**20 > 0  # 0 is NA
    sizes = np.bincount(split.pairs, minlength=len(split.pair_entities))
    part.counts |= {
        "sentences": len(split),
        "pairs": len(split.pair_entities),
        "facts": int(is_fact.sum()),
        "facts_in_several_sentences": int((sentences[is_fact] > 1).sum()),
    }
    labels = Counter(split.labels.tolist())
    part.labels = {dataset.relations[number]: count for number, count in sorted(labels.items())}
    part.bag_sizes = {
        name: int(((sizes >= low) & (sizes <= (high or sizes.max(initial=0)))).sum())
        for name, (low, high) in BAG_SIZES.items()
    }


def _shared(dataset: Dataset, one: str, other: str) -> int:
    pairs, others = (set(map(tuple, getattr(dataset, name).pair_entities.tolist())) for name in (one, other))
    return len(pairs & others)


def _next_run(report: Report, dataset: Dataset, *, blinded: bool, settings: list[str]) -> Iterator[str]:
    if report.overlap and dataset.gold:
        yield f"{report.overlap:,} pairs are in both train and test, in sentences that people labelled: ready to run."
    elif report.overlap:
        yield (
            f"{report.overlap:,} pairs are in both train and test: `fedrel run` wants data.allow_overlap=true for "
            "this, or the pairs removed from one of the two."
        )
        settings = [*settings, "data.allow_overlap=true"]
    elif blinded or all(it.startswith(LOCAL) for it in dataset.entities):
        why = "are blinded" if blinded else "have no ids"
        yield f"the entities {why}, so nobody can tell whether a pair is in both train and test: ready to run."
    else:
        yield "no pair is in both train and test: ready to run."
    shared, sentences = report.shared_sentences["train-test"], dataset.distinct_sentences["test"]
    if shared and dataset.has_pairs:
        yield f"{shared:,} of the {sentences:,} sentences of test ({shared / sentences:.0%}) are in train too."
    yield _command("fedrel", "run", *(part for setting in settings for part in ("--set", setting)))


def _command(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)


# ---------------------------------------------------------------------------------------------- documents


def _has_relations(path: Path, source: str) -> bool:
    read = FORMATS[source].documents
    assert read
    return any(document.relations for document in read(find_splits(path, source)["train"], Skipped()))


def _documents(path: Path, place: Path, found: Detected, data: config.Data) -> Report:
    report = Report(str(path), found.source, found.why, "documents")
    documents = Documents(place, found.source, report.skipped, bad_rows=data.bad_rows)
    counts = Counter(documents=0, left_out=0, sentences=0, characters=0)
    for document in documents:
        spans = sentence_spans(document.text) if document.sentences is None else document.sentences
        counts.update(documents=1, sentences=len(spans), characters=len(document.text))
        if document.annotations:
            counts.update(entities=len(document.annotations))
        where = document.where or document.id
        report.suspicious.look_at(document, where)
    counts["left_out"] = report.skipped.total
    report.notes = [f"{count:,} left out: {why}" for why, count in report.skipped.reasons.most_common()]
    report.files = documents.files
    if not counts["documents"]:
        raise UserError(f"{path}: no document with text in it")
    report.parts["all"] = Part(str(path), dict(counts))
    report.advice = [
        "documents without relations: a knowledge base can label them.",
        _command("fedrel", "label", "--kb", "KB", "--text", str(path), "--out", "FOLDER"),
    ]
    return report


# ----------------------------------------------------------------------------------------- classification


def _classification(path: Path, place: Path, found: Detected, data: config.Data) -> Report:
    read = FORMATS[found.source].texts
    assert read
    report = Report(str(path), found.source, found.why, "classification", skipped=Skipped(strict=data.bad_rows == 0))
    files = find_splits(place, found.source)
    for name, file in ((name, files[name]) for name in SPLITS if name in files):
        labels: Counter[str] = Counter()
        before = report.skipped.total
        for where, text in read(file, report.skipped):
            labels[text.label] += 1
            report.suspicious.look_at(text, where, name)
        require_few_broken(file, report.skipped, labels.total(), data.bad_rows)
        left_out = report.skipped.total - before
        counts = {"rows": _rows_in(file, found.source), "left_out": left_out, "texts": labels.total()}
        report.parts[name] = Part(str(file), counts, dict(sorted(labels.items())))
    if not report.parts["train"].counts["texts"]:
        raise UserError(f"{report.parts['train'].path}: no texts; train needs at least one")
    report.notes = [f"{count:,} left out: {why}" for why, count in report.skipped.reasons.most_common()]
    report.shared_rows = report.suspicious.in_two_splits()
    settings = (*_as_set(data), "extractor.kind=text", "method.name=fedavg")
    try:
        report.notes += [note for note in load(data).notes if "left out" not in note]
        report.advice = [
            "texts with one label each: ready to run, with an extractor for plain text (text, bag or bert)."
        ]
    except UserError as error:
        report.advice = [f"texts with one label each, which `fedrel run` refuses as they are: {error}"]
    report.advice.append(_command("fedrel", "run", *(part for setting in settings for part in ("--set", setting))))
    return report


# -------------------------------------------------------------------------------------------------- folds


def _has_splits(path: Path, source: str) -> bool:
    try:
        return bool(find_splits(path, source))
    except UserError:
        return False


def _folds(path: Path, place: Path, found: Detected) -> Report:
    report = Report(str(path), found.source, found.why, "folds")
    inner = folds(place, found.source)
    for folder in inner:
        files = find_splits(folder, found.source)
        counts = {f"{name}_rows": _rows_in(files[name], found.source) for name in SPLITS if name in files}
        report.parts[folder.name] = Part(str(folder), counts)
    report.advice = [
        f"a folder of {len(inner)} folds; each is a data set of its own. Name one:",
        _command("fedrel", "data", "check", str(inner[0])),
    ]
    return report
