"""`fedrel ledger show`: what a platform has sent, for its owners."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import out, print_json, tell
from fedrel.errors import UserError, suggest
from fedrel.privacy import account, ledger
from fedrel.privacy.accounting import PLATFORM, SENTENCE
from fedrel.privacy.ledger import Entry, Line
from fedrel.privacy.meaning import meaning
from fedrel.util.escaping import shown
from fedrel.util.units import format_bytes

_SHOWN_PROBLEMS = 10
_DELTA = 1e-5  # at which ε is told
_REFUSAL = ("run", "task", "why", "count", "rounds", "times")  # fields of a refusal in JSON


class By(StrEnum):
    round = "round"
    task = "task"
    field = "field"


@dataclass
class Row:
    """The sum of several entries of a ledger."""

    run: str
    task: str = ""
    round: int | None = None
    name: str = ""  # of the field
    why: str = ""  # of a refusal
    count: int = 0
    bytes: int = 0
    rounds: list[int] = field(default_factory=list)  # the first and the last
    times: list[str] = field(default_factory=list)
    shapes: list[list[int]] = field(default_factory=list)  # the smallest and the largest number of each dimension

    def add(self, entry: Entry, size: int, shape: tuple[int, ...] = ()) -> None:
        self.count += 1
        self.bytes += size
        self.rounds = _span([*self.rounds, entry.round])
        self.times = _span([*self.times, *([entry.time] if entry.time else [])])
        if not self.shapes or len(shape) == len(self.shapes[0]):
            each = [_span(list(numbers)) for numbers in zip(*self.shapes, shape, strict=True)]
            self.shapes = [[low for low, _ in each], [high for _, high in each]]


def _span(values: list[Any]) -> list[Any]:
    return [min(values), max(values)] if values else []


@dataclass
class Summary:
    """The sums over a ledger, built in one pass."""

    by: By
    rows: dict[tuple[object, ...], Row] = field(default_factory=dict)
    refusals: dict[tuple[object, ...], Row] = field(default_factory=dict)
    total: Row = field(default_factory=lambda: Row(""))
    runs: set[str] = field(default_factory=set)
    platforms: set[str] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        if entry.refused:
            key = (entry.run, entry.task, entry.refused)
            self.refusals.setdefault(key, Row(entry.run, entry.task, why=entry.refused)).add(entry, 0)
            return
        self.total.add(entry, entry.bytes)
        self.platforms.add(entry.platform)
        if self.by == By.round:
            self._row(Row(entry.run, round=entry.round)).add(entry, entry.bytes)
        elif self.by == By.task:
            self._row(Row(entry.run, entry.task)).add(entry, entry.bytes)
        else:
            for it in entry.fields:
                self._row(Row(entry.run, entry.task, name=it.name)).add(entry, it.bytes, it.shape)

    def _row(self, new: Row) -> Row:
        return self.rows.setdefault((new.run, new.task, new.round, new.name), new)


def show(
    place: Annotated[
        Path, typer.Argument(metavar="PATH_OR_KIT", help="A platform's kit, the folder of a run, or a ledger.jsonl.")
    ],
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    by: Annotated[By, typer.Option(help="What to sum by.")] = By.field,
    verify: Annotated[bool, typer.Option("--verify", help="Fail if the file was changed.")] = False,
    holds: Annotated[
        str | None, typer.Option(metavar="HASH", help="Fail if the entry with this hash, noted earlier, is missing.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what a platform has sent, field by field, what that reveals, and what it refused."""
    path = find(place)
    if ledger.simulated(path):
        if verify or holds is not None:
            raise UserError(f"{path}: the ledger of a simulated run has no hash chain to verify")
        _print(path, _added_up(ledger.read_simulated(path), by, run, path), None, json_)
        return
    chain = Chain(holds)
    summary = _added_up(chain.entries(ledger.scan(path)), by, run, path)
    if chain.lines and not summary.runs:
        raise UserError(f"{path}: not a ledger; none of its lines is an entry")
    if holds is not None and not chain.found:
        raise UserError(f"{path}: no entry has the hash {holds}; the ledger was truncated or replaced")
    if verify and chain.problems:
        raise UserError(f"{path}:{chain.first}; in all, {len(chain.problems)} of {chain.lines} lines were changed")
    _print(path, summary, chain, json_)


def find(place: Path) -> Path:
    """The ledger in a kit or in the folder of a run, or the file itself. Raises UserError if there is none."""
    if not place.is_dir():
        if not place.exists():
            raise UserError(f"{place}: no such file or folder")
        return place
    for path in (place / ledger.FILE, place / "ledger" / ledger.FILE):
        if path.is_file():
            return path
    raise UserError(
        f"{place}: no {ledger.FILE} here or in {place / 'ledger'}; it is created with a platform's first reply"
    )


@dataclass
class Chain:
    """The state of the hash chain while a ledger is read: problems, and whether the sought hash was found."""

    sought: str | None
    lines: int = 0
    last: str = ""
    found: bool = False
    problems: list[Line] = field(default_factory=list)

    def entries(self, lines: Iterable[Line]) -> Iterator[Entry]:
        for line in lines:
            self.lines, self.last = line.number, line.hash
            self.found = self.found or (bool(self.sought) and line.hash == self.sought)
            if line.problem:
                self.problems.append(line)
            if line.entry is not None:
                yield line.entry

    @property
    def first(self) -> str:
        return f"{self.problems[0].number}: this line {self.problems[0].problem}"


def _added_up(entries: Iterable[Entry], by: By, run: str | None, path: Path) -> Summary:
    summary = Summary(by)
    for entry in entries:
        summary.runs.add(entry.run)
        if run is None or entry.run == run:
            summary.add(entry)
    if run is not None and summary.runs and run not in summary.runs:
        raise UserError(f'{path}: no run "{_plain(run)}"{_plain(suggest(run, summary.runs))}')
    return summary


# ------------------------------------------------------------------------------------------ output


def _print(path: Path, summary: Summary, chain: Chain | None, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps(_as_json(path, summary, chain), indent=1))
        return
    for title, table in _tables(summary):
        tell(_plain(title), "bold")
        out.print(table)
    total = summary.total
    who = f"{len(summary.platforms)} simulated platforms" if chain is None else "this platform"
    if total.count:
        tell(f"{total.count:,} replies, {format_bytes(total.bytes)}, sent by {who}{_when(total)}")
    else:
        tell(f"nothing was sent by {who}")
    if chain is not None:
        for line in given_away(path.with_name(account.FILE)):
            tell(_plain(line))
        _tell_chain(chain)


def given_away(path: Path) -> Iterator[str]:
    """What a platform's account of noisy answers says, over all runs and run by run."""
    answers = account.Account.read(path).answers
    for run in dict.fromkeys(it.run for it in answers):
        mine = account.Account(path, [it for it in answers if it.run == run])
        yield f"run {run}: {len(mine.answers):,} noisy answers, {_epsilons(mine)}"
    if answers:
        yield f"noisy answers of all runs together: {_epsilons(account.Account(path, answers))}"


def _epsilons(found: account.Account) -> str:
    of_sentence, of_platform = (found.epsilon(unit, _DELTA) for unit in (SENTENCE, PLATFORM))
    whole = "" if math.isinf(of_platform) else f", ε = {of_platform:.3g} for all that the platform holds"
    return f"ε = {of_sentence:.3g} for any sentence{whole} (δ = {_DELTA:g})"


def _tables(summary: Summary) -> Iterator[tuple[str, Table]]:
    rows = list(summary.rows.values())
    if summary.by == By.field:
        for run, task in dict.fromkeys((row.run, row.task) for row in rows):
            [header, *_] = some = [row for row in rows if (row.run, row.task) == (run, task)]  # every reply has one
            yield f"Run {run}, {task}: {header.count:,} replies in {_rounds(header)}{_when(header)}", _fields(some)
        if rows:
            yield "What this is, and what it reveals to its receiver", _meanings(row.name for row in rows)
    else:
        for run in dict.fromkeys(row.run for row in rows):
            yield f"Run {run}", _replies([row for row in rows if row.run == run], summary.by)
    if summary.refusals:
        yield "Refused", _refusals(list(summary.refusals.values()))


def _tell_chain(chain: Chain) -> None:
    for line in chain.problems[:_SHOWN_PROBLEMS]:
        tell(f"line {line.number} {line.problem}", "bold red")
    if len(chain.problems) > _SHOWN_PROBLEMS:
        tell(f"and {len(chain.problems) - _SHOWN_PROBLEMS:,} more lines", "bold red")
    if chain.lines and not chain.problems:
        tell(f"the file is unchanged: {chain.lines:,} entries, the last with the hash {chain.last}")


def _fields(rows: list[Row]) -> Table:
    table = _table("field", "shape", "replies", "bytes", numbers_from=1)
    for row in rows:
        table.add_row(*_texts(row.name, _shape(row), f"{row.count:,}", format_bytes(row.bytes)))
    return table


def _meanings(fields: Iterable[str]) -> Table:
    table = _table("field", "is", "reveals")
    for said in dict.fromkeys(meaning(name) for name in fields):
        table.add_row(*_texts(said.fields, said.what, said.reveals))
    return table


def _replies(rows: list[Row], by: By) -> Table:
    timed = any(row.times for row in rows)
    table = _table(by.value, "replies", "bytes", *(("first", "last") if timed else ()), numbers_from=1)
    for row in rows:
        key = row.task if by == By.task else str(row.round)
        table.add_row(*_texts(key, f"{row.count:,}", format_bytes(row.bytes), *map(_moment, row.times)))
    return table


def _refusals(rows: list[Row]) -> Table:
    table = _table("run", "task", "requests", "last", "why")
    for row in rows:
        requests, last = f"{row.count:,} in {_rounds(row)}", "".join(row.times[1:])
        table.add_row(*_texts(row.run, row.task, requests, _moment(last), row.why))
    return table


def _table(*columns: str, numbers_from: int | None = None) -> Table:
    table = Table()
    for place, column in enumerate(columns):
        right = numbers_from is not None and place >= numbers_from
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def _rounds(row: Row) -> str:
    first, last = row.rounds
    return f"round {first}" if first == last else f"rounds {first}–{last}"


def _texts(*cells: str) -> list[Text]:
    return [Text(_plain(cell)) for cell in cells]


def _plain(text: str) -> str:
    """Escapes names of runs and tasks, which are untrusted: they must not control the terminal."""
    return shown(text, 500)


def _shape(row: Row) -> str:
    return "×".join(f"{low:,}" if low == high else f"{low:,}–{high:,}" for low, high in zip(*row.shapes, strict=True))


def _moment(time: str) -> str:
    return time[:16].replace("T", " ")


def _when(row: Row) -> str:
    return ", {} to {} UTC".format(*map(_moment, row.times)) if row.times else ""


def _as_json(path: Path, summary: Summary, chain: Chain | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ledger": str(path),
        "runs": sorted(summary.runs),
        "replies": summary.total.count,
        "bytes": summary.total.bytes,
        "times": summary.total.times,
        "by": summary.by.value,
        "rows": [_row_as_json(row, summary.by) for row in summary.rows.values()],
        "refusals": [_some(row, *_REFUSAL) for row in summary.refusals.values()],
    }
    if chain is None:
        return {**found, "platforms": sorted(summary.platforms)}
    problems = [{"line": line.number, "problem": line.problem} for line in chain.problems]
    return {**found, "entries": chain.lines, "last_hash": chain.last, "problems": problems}


def _row_as_json(row: Row, by: By) -> dict[str, Any]:
    if by != By.field:
        return _some(row, "run", by.value, "count", "bytes", "rounds", "times")
    said = meaning(row.name)
    found = {"field": row.name, **_some(row, "run", "task", "count", "bytes", "rounds", "times", "shapes")}
    return {**found, "is": said.what, "reveals": said.reveals}


def _some(row: Row, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}
