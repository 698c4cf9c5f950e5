"""A table of methods × settings × seeds: which runs it needs, and what they say together."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.assembly import METRICS, complete
from fedrel.datasets import fingerprint
from fedrel.errors import UserError, suggest


@dataclass(frozen=True)
class Row:
    label: str
    settings: tuple[str, ...]  # key=value, as for --set
    columns: tuple[str, ...] = ()  # where it is wanted; none means everywhere

    def stands_in(self, column: Column) -> bool:
        return not self.columns or column.label in self.columns


@dataclass(frozen=True)
class Column:
    label: str
    settings: tuple[str, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    row: str
    column: str
    seed: int
    experiment: config.Experiment

    @property
    def name(self) -> str:
        """A folder name: readable, and different whenever any setting differs."""
        table = config.to_table(self.experiment)
        table.pop("engine")  # how fast, not what
        table["data"] = {**vars(self.experiment.data), "content": fingerprint(self.experiment.data)}
        if Path(self.experiment.extractor.vectors).is_file():
            table["vectors"] = hashlib.sha256(Path(self.experiment.extractor.vectors).read_bytes()).hexdigest()
        digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:10]
        return f"{re.sub(r'[^a-z0-9]+', '-', self.row.lower()).strip('-')}-{self.seed}-{digest}"


@dataclass(frozen=True)
class Comparison:
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    metric: str
    reference: str  # the row that the others are compared with
    base: Mapping[str, object]  # the experiment without rows and columns

    def cells(self) -> list[Cell]:
        """Every run of the table. Every one is checked before the first starts."""
        return [
            Cell(row.label, column.label, seed, self._experiment(row, column, seed))
            for column in self.columns
            for row in self.rows
            if row.stands_in(column)
            for seed in column.seeds
        ]

    def _experiment(self, row: Row, column: Column, seed: int) -> config.Experiment:
        table = config.override(self.base, [*column.settings, *row.settings, f"seed={seed}"])
        experiment = config.parse(table, f"{row.label}, {column.label}")
        return complete(experiment)

    def summary(self, cells: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Mean and deviation of every row in every column, and how far the reference is ahead, seed by seed."""
        score = {(c["row"], c["column"], c["seed"]): c["test"][self.metric] for c in cells if c["test"]}
        summary = []
        for column in self.columns:
            for row in self.rows:
                mine = {
                    s: score[row.label, column.label, s] for s in column.seeds if (row.label, column.label, s) in score
                }
                ahead = [
                    score[self.reference, column.label, s] - value
                    for s, value in mine.items()
                    if row.label != self.reference and (self.reference, column.label, s) in score
                ]
                summary.append(
                    {
                        "row": row.label,
                        "column": column.label,
                        **spread(list(mine.values())),
                        "reference_ahead": paired(ahead) if ahead else None,
                    }
                )
        return summary


def spread(values: list[float]) -> dict[str, Any]:
    return {
        "n": len(values),
        "mean": statistics.fmean(values) if values else None,
        "std": statistics.stdev(values) if len(values) > 1 else None,
    }


_ENOUGH = 3  # with two seeds, twice the standard error means little


def paired(differences: list[float]) -> dict[str, Any]:
    """Mean paired difference and its standard error."""
    n = len(differences)
    error = statistics.stdev(differences) / n**0.5 if n > 1 else None
    mean = statistics.fmean(differences)
    return {
        "n": n,
        "mean": mean,
        "standard_error": error,
        "clear": n >= _ENOUGH and error is not None and abs(mean) > 2 * error,
    }


def read(
    path: Path | None,
    *,
    settings: Iterable[str],
    methods: Iterable[str],
    vary: Iterable[str],
    seeds: int | None,
    metric: str | None,
) -> Comparison:
    """From a file with a [compare] section, from options, or from both (options win)."""
    written, text = config.read_table(path)
    where = str(path or "compare")
    config.parse({key: value for key, value in written.items() if key != "compare"}, where, text)
    table = config.override(written, settings)
    asked = table.pop("compare", {})
    config.parse(table, "--set")
    if not isinstance(asked, dict):
        raise UserError(f"{where}: compare must be a section")
    for key in asked:
        if key not in _KEYS:
            place = where + config.line_of(text, "compare.", key)
            raise UserError(f'{place}: unknown key "compare.{key}"{suggest(key, _KEYS)}')
    for key in ("rows", "columns"):
        if not isinstance(asked.get(key, []), list):
            raise UserError(f"{where}{config.line_of(text, 'compare.', key)}: compare.{key} must be a list")
    rows = [_row(item, where) for item in (list(methods) or asked.get("rows") or DEFAULT_ROWS)]
    number = seeds or _whole(asked.get("seeds", 5), f"{where}: compare.seeds")
    columns = (
        _varied(list(vary), number)
        if vary or not asked.get("columns")
        else [_column(item, seeds, number, where) for item in asked["columns"]]
    )
    _require_different([row.label for row in rows], where)
    _require_different([column.label for column in columns], where)
    known = [column.label for column in columns]
    for row in rows:
        if unknown := [label for label in row.columns if label not in known]:
            raise UserError(f'{where}: row "{row.label}" wants the column "{unknown[0]}"{suggest(unknown[0], known)}')
    chosen = metric or asked.get("metric", "ap")
    if chosen not in METRICS:
        raise UserError(f'{where}: "{chosen}" is no metric{suggest(str(chosen), METRICS)}')
    reference = asked.get("reference", rows[0].label) if not methods else rows[0].label
    if reference not in [row.label for row in rows]:
        raise UserError(f'{where}: compare.reference = "{reference}" is no row')
    return Comparison(tuple(rows), tuple(columns), str(chosen), str(reference), table)


_KEYS = ("rows", "columns", "metric", "reference", "seeds")
DEFAULT_ROWS: list[object] = ["lazy-mil", "one", "ave", "att", "att-ra", "none"]


def _row(item: object, where: str) -> Row:
    if isinstance(item, str):
        return Row(item, (f"method.name={item}",))
    label, settings = _labelled(item, f"{where}: a row", ("label", "set", "columns"))
    assert isinstance(item, dict)
    columns = item.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise UserError(f"{where}: columns of {label} must be a list of column labels")
    return Row(label, settings, tuple(columns))


def _column(item: object, seeds: int | None, default: int, where: str) -> Column:
    label, settings = _labelled(item, f"{where}: a column", ("label", "set", "seeds"))
    assert isinstance(item, dict)
    number = seeds or _whole(item.get("seeds", default), f"{where}: seeds of {label}")
    return Column(label, settings, tuple(range(1, number + 1)))


def _labelled(item: object, what: str, keys: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if not isinstance(item, dict) or not isinstance(item.get("label"), str):
        raise UserError(f'{what} needs a label, for example {{label = "C = 1", set = ["training.fraction=1.0"]}}')
    for key in item:
        if key not in keys:
            raise UserError(f'{what} ({item["label"]}): unknown key "{key}"{suggest(key, keys)}')
    settings = item.get("set", [])
    if not isinstance(settings, list) or not all(isinstance(setting, str) for setting in settings):
        raise UserError(f'{what} ({item["label"]}): set must be a list of "key=value"')
    return item["label"], tuple(settings)


def _varied(vary: list[str], seeds: int) -> list[Column]:
    """`training.fraction=0.1,0.5` gives two columns; several --vary are multiplied."""
    columns: list[tuple[str, ...]] = [()]
    for choice in vary:
        key, equals, values = choice.partition("=")
        if not equals or not values:
            raise UserError(f"--vary {choice}: write it as key=value,value, for example training.fraction=0.1,0.5")
        columns = [(*column, f"{key}={value}") for column in columns for value in values.split(",")]
    return [Column(_label(column), column, tuple(range(1, seeds + 1))) for column in columns]


def _label(settings: tuple[str, ...]) -> str:
    """fraction=0.1, epochs=3: the last part of every key."""
    pairs = (setting.partition("=") for setting in settings)
    return ", ".join(f"{key.rpartition('.')[2]} = {value}" for key, _, value in pairs) or "default"


def _require_different(labels: list[str], where: str) -> None:
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UserError(f'{where}: "{twice[0]}" is there twice')


def _whole(value: object, what: str) -> int:
    if type(value) is not int or value < 1:
        raise UserError(f"{what} must be a whole number from 1")
    return value
