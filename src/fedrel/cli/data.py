"""`fedrel data`: write the built-in world to files, or check a data set."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedrel import config
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.files import examples_beside_files, show_files
from fedrel.corpus import FORMATS, NA, SPLITS, opennre, world_text
from fedrel.corpus.world import World
from fedrel.data import loading
from fedrel.data.counting import BAG_SIZES
from fedrel.data.inspection import inspect
from fedrel.data.reports import Report
from fedrel.errors import UserError
from fedrel.util.escaping import shown
from fedrel.util.files import atomic_folder
from fedrel.util.shipped import shipped

_PASSED_OVER = 20  # files that are named
_SIDE_BY_SIDE = 8  # platforms that have a column each
_NOISE_OF_TEXT = 0.3  # of ten sentences that name a fact's two entities, seven say so


def example(
    out_: Annotated[Path, typer.Option("--out", help="A new folder.")],
    json_: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write the example that comes with fedrel (text, a knowledge base, new text) and the experiments of the papers."""
    if out_.exists():
        raise UserError(f"{out_} exists; choose a new folder")
    with atomic_folder(out_) as folder:
        for part, place in (("example", folder), ("experiments", folder / "experiments")):
            for path, source in shipped(part).items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(source.read_bytes())
    if json_:
        written = sorted(str(path.relative_to(out_)) for path in out_.rglob("*") if path.is_file())
        print_json(json.dumps({"out": str(out_), "files": written}, indent=1))
        return
    kb, text = quote(str(out_ / "kb")), quote(str(out_ / "text"))
    tell(f"written to {out_}: text, new, kb, truth.tsv, experiments")
    tell(f"next: fedrel label --kb {kb} --text {text} --out labelled", "bold")


def world(
    out_: Annotated[Path, typer.Option("--out", help="A new folder.")],
    size: Annotated[str, typer.Option(help='"demo", "nyt10" or a number of training sentences.')] = "demo",
    seed: int = 1,
    noise: Annotated[
        float | None,
        typer.Option(help="Share of a fact's sentences that do not express it: 0.6 if not given, 0.3 for text."),
    ] = None,
    evidence: Annotated[float, typer.Option(help="Mean sentences per fact.")] = 7.0,
    text: Annotated[bool, typer.Option("--text", help="Plain documents and a knowledge base instead.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write the built-in world: labelled sentences (OpenNRE JSON lines) and its knowledge base (entities.tsv,
    triples.tsv). With --text, what a newcomer has: text/ and new/ (documents), kb/ (which lacks half of the facts of
    new/), and truth.tsv to measure by.
    """
    if out_.exists():
        raise UserError(f"{out_} exists; choose a new folder")
    if noise is None:
        noise = _NOISE_OF_TEXT if text else config.Data().noise
    table = {"size": int(size) if size.isdecimal() else size, "seed": seed, "noise": noise, "evidence": evidence}
    made = loading.world_of(config.parse({"data": table}, "fedrel data world").data)
    if text:
        _write_text(made, out_, json_)
        return
    with atomic_folder(out_) as folder:
        for split in SPLITS:
            say(f"writing {split}.jsonl …")
            with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(opennre.lines(made.instances(split)))
        world_text.write_entities(made, folder)
        with (folder / "triples.tsv").open("w", encoding="utf-8") as file:
            file.writelines("\t".join(triple) + "\n" for triple in made.triples())
    if json_:
        print_json(json.dumps({"folder": str(out_), "relations": made.relations()}))
        return
    tell(str(out_))
    tell(f"train on it with: fedrel run --set data.source=opennre --set data.path={out_}")


def _write_text(made: World, folder: Path, as_json: bool) -> None:
    say("writing documents and knowledge base …")
    with atomic_folder(folder) as new:
        world_text.write(made, new)
    if as_json:
        print_json(json.dumps({"folder": str(folder), "relations": made.relations()}))
        return
    tell(str(folder))
    tell(f"label it with: fedrel label --kb {folder / 'kb'} --text {folder / 'text'} --out labelled")


def check(
    path: Annotated[Path, typer.Argument(help="A folder with train, dev and test files, or one file, or documents.")],
    source: Annotated[
        str | None,
        typer.Option(help=f"Format: {', '.join(FORMATS.own)}, or a plug-in's. Without it, the format is detected."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the section data: data.na_label=Other.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a single broken row (data.bad_rows=0).")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say what is in a data set, what is odd about it, and what to do next."""
    settings = config.read(None, [*(set_ or ()), *(["data.bad_rows=0"] if strict else [])]).data
    report = inspect(path, source, settings=settings, say=say)
    if json_:
        print_json(json.dumps(report.as_json(), indent=1))
        return
    tell(f"{report.path}: {report.format} ({report.why})")
    narrow = report.kind == "platforms" and len(report.parts) <= _SIDE_BY_SIDE
    out.print(_table_by_row(report) if report.kind in ("folds", "platforms") and not narrow else _table(report))
    show_files(report.files)
    told = {f"{count:,} left out: {why}" for why, count in report.skipped.files.reasons.items()}
    for note in report.notes:
        if note not in told:
            tell(note)
    for warning in report.too_little:
        tell(f"warning: {warning}", "bold")
    if not report.files and (count := len(report.passed_over)):
        names = ", ".join(report.passed_over[:_PASSED_OVER]) + (", …" if count > _PASSED_OVER else "")
        tell(f"{count:,} {'file was' if count == 1 else 'files were'} passed over: {names}")
    first = examples_beside_files(report.skipped.first, report.skipped)
    _tell_first(first, report.skipped.total - report.skipped.files.reasons.total())
    for what, shared in (
        ("pairs", report.shared_pairs),
        ("rows", report.shared_rows),
        ("sentences", report.shared_sentences),
    ):
        if any(shared.values()):
            counts = ", ".join(f"{splits} {count:,}" for splits, count in shared.items())
            tell(f"{what} in both of two splits: {counts}")
        if what == "rows":
            for splits, places in report.suspicious.first_in_two_splits().items():
                _tell_first(places, shared[splits])
    for kind, count in report.suspicious.totals.items():
        tell(f"{kind}: {count:,}")
        _tell_first(report.suspicious.first[kind], count)
    for line in report.advice:
        tell(line)


def _table(report: Report) -> Table:
    """A column for each split; what a split does not have is left blank, as a carved one has no rows in a file."""
    parts = report.parts.values()
    table = Table()
    table.add_column("", overflow="fold")
    for name in report.parts:
        table.add_column(Text(name), justify="right")
    for row in dict.fromkeys(name for part in parts for name in part.counts):
        table.add_row(row.replace("_", " "), *(_cell(part.counts.get(row)) for part in parts), style="bold")
    labels = sorted({label for part in parts for label in part.labels}, key=lambda label: (label != NA, label))
    for title, rows, values in (
        ("label", labels, [part.labels for part in parts]),
        ("pairs in so many sentences", BAG_SIZES, [part.bag_sizes for part in parts]),
    ):
        if any(values):
            table.add_section()
            table.add_row(title, style="dim")
            for row in rows:
                table.add_row(Text(shown(row, 200)), *(_cell(value.get(row, 0)) for value in values))
    return table


def _table_by_row(report: Report) -> Table:
    """A row for each fold or platform, of which there may be hundreds."""
    table = Table()
    columns = dict.fromkeys(name for part in report.parts.values() for name in part.counts)
    table.add_column(report.kind.removesuffix("s"), overflow="fold")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", overflow="fold")
    for name, part in report.parts.items():
        table.add_row(Text(shown(name, 200)), *(_cell(part.counts.get(column)) for column in columns))
    return table


def _cell(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _tell_first(lines: list[str], count: int) -> None:
    for line in lines:
        tell(f"  {line}")
    if lines and count > len(lines):  # more of what stands above
        tell(f"  and {count - len(lines):,} more")
