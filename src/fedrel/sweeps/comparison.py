"""A comparison: a table of methods × settings × seeds, from a file or the command line, and the runs it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedrel import config
from fedrel.data.sources import with_metric
from fedrel.errors import UserError, suggest
from fedrel.evaluation import classification
from fedrel.evaluation.human import METRIC as HUMAN
from fedrel.experiment.assembly import METRICS, complete, objection_to_bags
from fedrel.experiment.hidden_names import METRIC as WITHOUT_NAMES
from fedrel.sweeps.choosing import Grid, Options, options_of, read_choices, read_grid
from fedrel.sweeps.settings import (
    digest,
    is_string_list,
    lacks_data,
    missing_data,
    positive_integer,
    quick_scale,
    quick_settings,
    read_section,
    require_data_used,
    with_data_path,
)
from fedrel.sweeps.variation import OF_SEEDS, Variation, read_variation

# Metrics that are not test scores: the cost of reaching compare.target on dev, and a platform's upload per round.
TO_TARGET = ("rounds_to_target", "bytes_to_target")
COSTS = (*TO_TARGET, "upload_per_platform")
OF_CLASS = ("f1:", "ap:")  # followed by a relation: its F1 if labels are gold, else its average precision

Published = dict[str, dict[str, float | None]]  # a paper's numbers by metric: value, and std if it says


@dataclass(frozen=True)
class Row:
    """A row of the table: a method, or settings."""

    label: str
    settings: tuple[str, ...]  # key=value, as for --set
    columns: tuple[str, ...] = ()  # labels of those that it is run in; empty: all
    paper: Mapping[str, Published] = field(default_factory=dict)  # by column
    choose: Grid = ()  # what dev chooses for this row alone

    def is_in(self, column: Column) -> bool:
        """Whether the row is run in this column."""
        return not self.columns or column.label in self.columns


@dataclass(frozen=True)
class Column:
    """A column of the table: settings, and the seeds to run."""

    label: str
    settings: tuple[str, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One run: a row in a column with a seed, on a world or split if these vary, with settings to choose from."""

    row: str
    column: str
    seed: int
    experiment: config.Experiment
    draw: str = ""
    option: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For messages."""
        return ", ".join(
            [self.row, *self.option, self.column, *([self.draw] if self.draw else []), f"seed {self.seed}"]
        )

    @property
    def name(self) -> str:
        """A readable folder name that differs if any setting does."""
        return f"{re.sub(r'[^a-z0-9]+', '-', self.row.lower()).strip('-')}-{self.seed}-{digest(self.experiment)}"


@dataclass(frozen=True)
class Look:
    """The keys of [compare] with single values: what is computed from the runs, and how it is shown."""

    statistic: Literal["mean", "median"] = "mean"
    scale: float = config.number(1.0, above=0)  # factor for our scores when printed; 100 if the paper has percentages
    target: float = config.number(0.0, above=0)  # the dev score to reach; 0: none
    paper: str = ""  # where the published numbers come from, and with which model
    data: str = ""  # which data to get and where, for a message if it is missing
    choose_by: Literal["dev", "dev_ap_hidden"] = "dev"  # what chooses among `choose`
    figure: Literal["", "pr", "rounds", "bars", "similarity", "cases", "none"] = ""  # empty: what fits the data


@dataclass(frozen=True)
class Comparison:
    """A table of runs: rows × columns × the seeds of each column, × worlds or splits, × settings to choose from."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    metric: str  # compared and drawn
    metrics: tuple[str, ...]  # printed; includes `metric`
    reference: str  # label of the row that the others are compared with
    base: Mapping[str, object]  # the experiment's table, without the settings of rows and columns
    look: Look = Look()
    quick_settings: tuple[str, ...] = ()
    quick: bool = False
    data: Path | None = None  # --data
    variation: Variation = OF_SEEDS
    choose: Grid = ()  # what dev chooses for every row

    def cells(self) -> list[Cell]:
        """Every run of the table. Raises UserError if the settings of any are wrong, before the first one starts."""
        return [
            Cell(row.label, column.label, seed, experiment, draw, option)
            for column in self.columns
            for row in self.rows
            if row.is_in(column)
            for option in self._possible(row, column)
            for draw in self.variation.draws
            for seed in column.seeds
            for experiment in [self._experiment(row, column, option, draw, seed)]
        ]

    def _possible(self, row: Row, column: Column) -> Options:
        """The settings to choose from, without ways to score bags that the method does not have."""
        options = options_of((*self.choose, *row.choose))
        objections = [objection_to_bags(self._parsed(row, column, it, "", 1)) for it in options]
        possible = tuple(it for it, objection in zip(options, objections, strict=True) if objection is None)
        if not possible:
            raise UserError(f"{row.label}, {column.label}: {objections[0]}")
        return possible

    def _parsed(self, row: Row, column: Column, option: tuple[str, ...], draw: str, seed: int) -> config.Experiment:
        what = f"{row.label}, {column.label}"
        settings = [*column.settings, *row.settings, *self.quick_settings, *option, f"seed={seed}"]
        table = config.override(self.base, settings)
        if draw:
            table = self.variation.applied(table, draw, what)
        return config.parse(with_data_path(table, self.data), what)

    def _experiment(self, row: Row, column: Column, option: tuple[str, ...], draw: str, seed: int) -> config.Experiment:
        experiment = complete(self._parsed(row, column, option, draw, seed))
        chooser = experiment.training.metric
        for name in self.metrics:
            if name not in COSTS and _is_gold(name) != _is_gold(chooser):
                raise UserError(
                    f'{row.label}, {column.label}: runs that choose their round by training.metric = "{chooser}" have '
                    f'no "{name}"; set training.metric to a score of the same kind'
                )
        return experiment

    def with_data(self, cells: list[Cell]) -> list[Cell]:
        """The runs whose data is available, so that a table over several data sets can be made in part. Raises
        UserError if none is.
        """
        require_data_used(self.data, [cell.experiment for cell in cells])
        here = [cell for cell in cells if not lacks_data(cell.experiment)] if self.look.data else cells
        if not here:
            raise UserError(missing_data(cells[0].experiment, self.look.data))
        columns = {cell.column for cell in here}
        for cell in cells:
            if cell.draw and cell.column in columns and lacks_data(cell.experiment):
                raise UserError(f"{cell.experiment.data.path}: no such folder, which is one of the splits to vary")
        return here


def read(
    path: Path | Mapping[str, object] | None,
    *,
    settings: Iterable[str],
    methods: Iterable[str],
    vary: Iterable[str],
    seeds: int | None,
    metric: str | None,
    quick: bool = False,
    data: Path | None = None,
    worlds: str = "",
    splits: str = "",
    choose: Iterable[str] = (),
    choose_by: str = "",
) -> Comparison:
    """A comparison from a file (or what one would say) with a [compare] section, from command-line options, or from
    both, where options take precedence. Raises UserError for any mistake.
    """
    settings = list(settings)
    table, asked, where, text = read_section(path, settings, "compare", _KEYS)
    for key in (*_LISTS, "metrics"):
        if not isinstance(asked.get(key, []), list):
            raise UserError(f"{where}{config.line_of(text, 'compare.', key)}: compare.{key} must be a list")
    scaled_down = quick_scale(asked, "compare", _OF_QUICK, where, text, data) if quick else {}
    main = str(asked.get("metric") or with_metric(config.parse(table)).training.metric)  # what a paper's number means
    rows = [_row(item, main, where) for item in (list(methods) or asked.get("rows") or DEFAULT_ROWS)]
    if "worlds" in scaled_down or (quick and data is None):
        asked.pop("splits", None)  # of other data
        asked |= {key: scaled_down[key] for key in ("worlds",) if key in scaled_down}
    variation = read_variation(asked, worlds, splits, where, text)
    grid = read_choices(choose) or read_grid(asked.get("choose", {}), f"{where}: compare.choose")
    seeds = seeds or scaled_down.get("seeds")
    usual = variation.seeds if worlds or splits else None  # asked for beside the file, whose seeds are of one world
    number = seeds or usual or positive_integer(asked.get("seeds", variation.seeds or 5), f"{where}: compare.seeds")
    seeds = seeds or usual
    varied = bool(vary) or not asked.get("columns")
    columns = (
        _varied(list(vary), number) if varied else [_column(item, seeds, number, where) for item in asked["columns"]]
    )
    _require_different([row.label for row in rows], where)
    _require_different([column.label for column in columns], where)
    known = [column.label for column in columns]
    for row in rows:
        if unknown := [label for label in (*row.columns, *([] if vary else row.paper)) if label not in known]:
            raise UserError(f'{where}: row "{row.label}": no column "{unknown[0]}"{suggest(unknown[0], known)}')
    rows, columns = _chosen(rows, columns, scaled_down, where)
    asked |= {key: value for key, value in scaled_down.items() if key in _KEYS and key not in _LISTS}
    asked |= {"choose_by": choose_by} if choose_by else {}
    look = config.section(Look, {key: asked[key] for key in vars(Look()) if key in asked}, where, "compare.", text)
    chosen, shown = _metrics(asked, metric, main, look, where)
    reference = asked.get("reference", rows[0].label) if not methods else rows[0].label
    if reference not in [row.label for row in rows]:
        if not quick:
            raise UserError(f'{where}: compare.reference = "{reference}" is not a row')
        reference = rows[0].label
    extra = quick_settings(scaled_down, settings)
    return Comparison(
        tuple(rows),
        tuple(columns),
        chosen,
        shown,
        str(reference),
        table,
        look,
        extra,
        quick=quick,
        data=data,
        variation=variation,
        choose=grid,
    )


_LISTS = ("rows", "columns")
_KEYS = (*_LISTS, "metric", "metrics", "reference", "seeds", "worlds", "splits", "choose", "quick", *vars(Look()))
_OF_QUICK = ("set", "rows", "columns", "seeds", "worlds", "metric", "metrics", "target", "figure")
DEFAULT_ROWS: list[object] = ["evidence", "lazy-mil", "one", "ave", "att", "att-ra", "none"]


def _chosen(
    rows: list[Row], columns: list[Column], quick: dict[str, Any], where: str
) -> tuple[list[Row], list[Column]]:
    """The rows and columns of the quick scale, without rows that have no column left."""
    for key, items in (("rows", rows), ("columns", columns)):
        known = [item.label for item in items]
        if unknown := [label for label in quick.get(key, []) if label not in known]:
            raise UserError(f'{where}: compare.quick.{key}: no "{unknown[0]}"{suggest(unknown[0], known)}')
    columns = [column for column in columns if column.label in quick.get("columns", [column.label])]
    rows = [row for row in rows if row.label in quick.get("rows", [row.label])]
    return [row for row in rows if any(map(row.is_in, columns))], columns


def _metrics(
    asked: Mapping[str, Any], option: str | None, main: str, look: Look, where: str
) -> tuple[str, tuple[str, ...]]:
    chosen = option or asked.get("metric", main)
    shown = [chosen] if option else asked.get("metrics") or [chosen]
    for name in (chosen, *shown):
        _require_metric(name, where)
        if name in TO_TARGET and not look.target:
            raise UserError(f"{where}: {name} needs compare.target, the dev score to reach")
    if chosen not in shown:
        raise UserError(f'{where}: compare.metric = "{chosen}" is not among compare.metrics')
    return str(chosen), tuple(dict.fromkeys(shown))


def _row(item: object, metric: str, where: str) -> Row:
    if isinstance(item, str):
        return Row(item, (f"method.name={item}",))
    label, settings = _labelled(item, f"{where}: a row", ("label", "set", "columns", "paper", "choose"))
    assert isinstance(item, dict)
    columns = item.get("columns", [])
    if not is_string_list(columns):
        raise UserError(f"{where}: columns of {label} must be a list of column labels")
    paper = item.get("paper", {})
    if not isinstance(paper, dict):
        raise UserError(f"{where}: paper of {label} must be a section of numbers by column")
    published = {column: _published(value, metric, f"{where}: paper of {label}") for column, value in paper.items()}
    grid = read_grid(item.get("choose", {}), f"{where}: choose of {label}")
    return Row(label, settings, tuple(columns), published, grid)


def _published(value: object, metric: str, what: str) -> Published:
    """A paper's numbers: a number, [number, standard deviation], or one of these for each metric."""
    found: Published = {}
    for name, entry in (value if isinstance(value, dict) else {metric: value}).items():
        parts = entry if isinstance(entry, list) else [entry]
        numbers = [float(part) for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
        if len(numbers) != len(parts) or len(numbers) != 1 + isinstance(entry, list):
            raise UserError(f"{what}: {entry!r} is neither a number nor [number, standard deviation]")
        _require_metric(name, what)
        found[name] = {"value": numbers[0], "std": numbers[1] if len(numbers) > 1 else None}
    return found


def _is_gold(metric: str) -> bool:
    """Whether a metric is of single sentences with gold labels; the others rank facts."""
    return metric in classification.METRICS or metric.startswith("f1:")


def _require_metric(name: object, where: str) -> None:
    known = (*METRICS, HUMAN, WITHOUT_NAMES, *COSTS)
    if name not in known and not str(name).startswith(OF_CLASS):
        raise UserError(f'{where}: "{name}" is not a metric{suggest(str(name), known)}')


def _column(item: object, seeds: int | None, default: int, where: str) -> Column:
    label, settings = _labelled(item, f"{where}: a column", ("label", "set", "seeds"))
    assert isinstance(item, dict)
    number = seeds or positive_integer(item.get("seeds", default), f"{where}: seeds of {label}")
    return Column(label, settings, tuple(range(1, number + 1)))


def _labelled(item: object, what: str, keys: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if not isinstance(item, dict) or not isinstance(item.get("label"), str):
        raise UserError(f'{what} needs a label, for example {{label = "C = 1", set = ["training.fraction=1.0"]}}')
    for key in item:
        if key not in keys:
            raise UserError(f'{what} ({item["label"]}): unknown key "{key}"{suggest(key, keys)}')
    settings = item.get("set", [])
    if not is_string_list(settings):
        raise UserError(f'{what} ({item["label"]}): set must be a list of "key=value"')
    return item["label"], tuple(settings)


def _varied(vary: list[str], seeds: int) -> list[Column]:
    """The columns of --vary: `training.fraction=0.1,0.5` gives two, and several options give all combinations."""
    columns: list[tuple[str, ...]] = [()]
    for choice in vary:
        key, equals, values = choice.partition("=")
        if not equals or not values:
            raise UserError(f"--vary {choice}: write it as key=value,value, for example training.fraction=0.1,0.5")
        columns = [(*column, f"{key}={value}") for column in columns for value in values.split(",")]
    return [Column(_label(column), column, tuple(range(1, seeds + 1))) for column in columns]


def _label(settings: tuple[str, ...]) -> str:
    """A label of settings by the last part of each key: "fraction = 0.1, epochs = 3"."""
    pairs = (setting.partition("=") for setting in settings)
    return ", ".join(f"{key.rpartition('.')[2]} = {value}" for key, _, value in pairs) or "default"


def _require_different(labels: list[str], where: str) -> None:
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UserError(f'{where}: "{twice[0]}" is listed twice')
