"""What is in a data set of any format: counts, labels, bags, pairs in two splits, suspicious rows, what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from fedrel import config
from fedrel.corpus import FORMATS, SPLITS, Skipped
from fedrel.corpus.archives import unpacked
from fedrel.corpus.detection import Detected, detect
from fedrel.corpus.documents import Documents
from fedrel.corpus.packed import as_given
from fedrel.corpus.reading import Reading, require_few_broken
from fedrel.corpus.rules import Labels
from fedrel.corpus.sentences import sentence_spans
from fedrel.corpus.splits import find_splits, folds, passed_over
from fedrel.corpus.suspicious import Suspicions
from fedrel.data.counting import add_counts, counts_of_file, rows_in, shared
from fedrel.data.label_settings import require_known_labels
from fedrel.data.loading import load
from fedrel.data.partition import COORDINATOR
from fedrel.data.platform_folders import is_of_platforms
from fedrel.data.platform_inspection import inspect_platforms
from fedrel.data.reports import OF_TEXTS, Part, Report, as_set, command, next_run, ready
from fedrel.data.sources import require_useful, rules_of
from fedrel.data.sufficiency import too_little
from fedrel.errors import UserError, suggest


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
    data = replace(settings or config.Data(), source=found.source, path=str(path))
    require_useful(data)
    if is_of_platforms(place, found.source):
        return inspect_platforms(path, place, found, data, say)
    documents = form.documents is not None and not (form.gold and _has_relations(place, found.source))
    if place.is_dir() and not form.documents and not _has_splits(place, found.source) and folds(place, found.source):
        report = _folds(path, place, found)
    elif form.texts:
        report = _classification(path, place, found, data)
    elif documents:
        report = _documents(path, place, found, data)
    else:
        report = _labelled(path, place, found, data, say)
    if documents:
        report.passed_over = list(passed_over(place, found.source, read=[place]))
    return report


# -------------------------------------------------------------------------------------- labelled sentences


def _labelled(path: Path, place: Path, found: Detected, data: config.Data, say: Callable[[str], None]) -> Report:
    dataset = load(data, say=say)
    form = FORMATS[found.source]
    report = Report(str(path), found.source, found.why, "labelled sentences", notes=dataset.notes)
    report.too_little = too_little(dataset)
    report.suspicious = Suspicions(blinded=form.blinded)
    files = {name: file for name, file in find_splits(place, found.source).items() if name not in dataset.passed_over}
    report.passed_over = list(passed_over(place, found.source, read=files.values()))
    for name in SPLITS:
        part = Part(str(as_given(files[name])) if name in files else None)
        if name in files:
            reading = Reading(found.source, files[name], rules_of(data), split=name)
            part.counts = counts_of_file(name, reading, report)
        add_counts(part, dataset, getattr(dataset, name))
        report.parts[name] = part
    report.shared_pairs = {f"{one}-{other}": shared(dataset, one, other) for one, other in combinations(SPLITS, 2)}
    report.shared_rows = report.suspicious.in_two_splits()
    report.shared_sentences = dataset.shared_sentences
    report.overlap = dataset.overlap
    report.advice = list(next_run(report, dataset, blinded=form.blinded, settings=as_set(data)))
    return report


# ---------------------------------------------------------------------------------------------- documents


def _has_relations(path: Path, source: str) -> bool:
    read = FORMATS[source].documents
    assert read
    splits = find_splits(path, source)  # an empty train beside labelled dev or test is a mistake, not plain text
    return any(document.relations for split in splits.values() for document in read(split, Skipped()))


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
    require_known_labels(data, {})
    report.parts["all"] = Part(str(path), dict(counts))
    report.advice = [
        "documents without relations: a knowledge base can label them.",
        command("fedrel", "label", "--kb", "KB", "--text", str(path), "--out", "FOLDER"),
    ]
    return report


# ----------------------------------------------------------------------------------------- classification


def _classification(path: Path, place: Path, found: Detected, data: config.Data) -> Report:
    read = FORMATS[found.source].texts
    assert read
    report = Report(str(path), found.source, found.why, "classification", skipped=Skipped(strict=data.bad_rows == 0))
    files = find_splits(place, found.source)
    report.passed_over = list(passed_over(place, found.source, read=files.values()))
    known = Labels(rules_of(data))
    for name, file in ((name, files[name]) for name in SPLITS if name in files):
        labels: Counter[str] = Counter()
        before = report.skipped.total
        for where, text in read(file, report.skipped):
            labels[known.of_text(text.label)] += 1
            report.suspicious.look_at(text, where, name)
        require_few_broken(file, report.skipped, labels.total(), data.bad_rows)
        left_out = report.skipped.total - before
        counts = {"rows": rows_in(file, found.source), "left_out": left_out, "texts": labels.total()}
        report.parts[name] = Part(str(as_given(file)), counts, dict(sorted(labels.items())))
    require_known_labels(data, known.became)
    if not report.parts["train"].counts["texts"]:
        raise UserError(f"{report.parts['train'].path}: no texts; train needs at least one")
    report.notes = [f"{count:,} left out: {why}" for why, count in report.skipped.reasons.most_common()]
    report.shared_rows = report.suspicious.in_two_splits()
    settings = (*as_set(data), *OF_TEXTS)
    try:
        dataset = load(data)
        report.notes += [note for note in dataset.notes if "left out" not in note]
        report.too_little = too_little(dataset)
        report.overlap = dataset.overlap
        report.advice = [
            f"texts with one label each, for an extractor of plain text (text, bag or bert): {ready(report)}."
        ]
        if dataset.overlap and not data.allow_overlap:
            report.advice.append(
                f"{dataset.overlap:,} texts are in both train and test: `fedrel run` wants data.allow_overlap=true for "
                "this, or the texts removed from one of the two."
            )
            settings = (*settings, "data.allow_overlap=true")
    except UserError as error:
        report.advice = [f"texts with one label each, which `fedrel run` refuses as they are: {error}"]
    report.advice.append(command("fedrel", "run", *(part for setting in settings for part in ("--set", setting))))
    return report


# -------------------------------------------------------------------------------------------------- folds


def _has_splits(path: Path, source: str) -> bool:
    try:
        return bool(find_splits(path, source))
    except UserError:
        return False


def _folds(path: Path, place: Path, found: Detected) -> Report:
    report = Report(str(path), found.source, found.why, "folds")
    report.passed_over = list(passed_over(place, found.source))
    inner = folds(place, found.source)
    for folder in inner:
        files = find_splits(folder, found.source)
        counts = {f"{name}_rows": rows_in(files[name], found.source) for name in SPLITS if name in files}
        report.parts[folder.name] = Part(str(as_given(folder)), counts)
    report.advice = [
        f"if each is a platform's: add a folder {COORDINATOR} beside them, with dev and test or with nothing. Or:",
        f"a folder of {len(inner)} folds; each is a data set of its own. Name one:",
        command("fedrel", "data", "check", str(as_given(inner[0]))),
    ]
    return report
