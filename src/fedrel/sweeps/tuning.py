"""A search for settings: the trials it needs, and how they rank. It uses only dev, never test."""

from __future__ import annotations

import itertools
import json
import math
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedrel import config
from fedrel.errors import UserError, suggest
from fedrel.experiment.assembly import METRICS, complete
from fedrel.experiment.execution import Execution
from fedrel.experiment.sign_of_life import FILE as PROGRESS
from fedrel.sweeps.settings import (
    digest,
    lacks_data,
    missing_data,
    quick_scale,
    quick_settings,
    read_section,
    require_data_used,
    with_data_path,
)
from fedrel.util.files import write_atomic

TRIAL = "trial.json"
_TRIES = 100  # draws per trial of a random search, until one differs from those before; a small space may run out


@dataclass(frozen=True)
class Search:
    """The keys of [tune] with single values."""

    search: Literal["grid", "random"] = "grid"
    trials: int = config.number(20, low=1, high=100_000)  # of a random search
    seed: int = 1  # of a random search
    paper: str = ""  # where the space comes from
    data: str = ""  # which data to get and where, for a message if it is missing


@dataclass(frozen=True)
class Range:
    """A range that a random search draws from, both ends included; integers if both ends are."""

    low: float
    high: float
    log: bool = False  # log-uniform instead of uniform

    def draw(self, chance: random.Random) -> float:
        """A random value, to four significant digits unless it is an integer."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = chance.uniform(low, high)
        value = min(max(math.exp(value) if self.log else value, self.low), self.high)
        return round(value) if isinstance(self.low, int) and isinstance(self.high, int) else float(f"{value:.4g}")


@dataclass(frozen=True)
class Trial:
    """One run of a search, with the settings that it tries."""

    settings: Mapping[str, object]
    experiment: config.Experiment

    @property
    def name(self) -> str:
        """The name of its folder, which differs if any setting does."""
        return f"trial-{digest(self.experiment)}"

    @property
    def flags(self) -> list[str]:
        """Its settings as key=value, as for --set."""
        return [_setting(key, value) for key, value in self.settings.items()]


@dataclass(frozen=True)
class Tuning:
    """A search and its trials."""

    search: Search
    trials: tuple[Trial, ...]
    metric: str  # on dev
    quick: bool


def read(path: Path, *, settings: Iterable[str], quick: bool = False, data: Path | None = None) -> Tuning:
    """A search from a file with a [tune] section. Raises UserError for any mistake, in any trial, before the first one
    starts.
    """
    settings = list(settings)
    table, asked, where, text = read_section(path, settings, "tune", _KEYS)
    scaled_down = quick_scale(asked, "tune", ("set", "trials", "space"), where, text, data) if quick else {}
    asked |= {key: value for key, value in scaled_down.items() if key != "set"}
    search = config.section(Search, {k: asked[k] for k in vars(Search()) if k in asked}, where, "tune.", text)
    space = dict(_space(asked.get("space", {}), where))
    if not space:
        raise UserError(f'{where}: [tune.space] is empty; say what to try, for example "training.lr" = [0.1, 0.5]')
    base = config.override(table, quick_settings(scaled_down, settings))
    trials: dict[str, Trial] = {}
    for choice in _choices(space, search, where):
        changed = config.override(base, [_setting(key, value) for key, value in choice.items()])
        experiment = complete(config.parse(with_data_path(changed, data), where))
        if search.data and lacks_data(experiment):
            raise UserError(missing_data(experiment, search.data))
        trial = Trial(choice, experiment)
        trials.setdefault(trial.name, trial)
    require_data_used(data, [trial.experiment for trial in trials.values()])
    metric = next(iter(trials.values())).experiment.training.metric
    if metric not in METRICS:
        raise UserError(f'training.metric = "{metric}" is not a metric{suggest(metric, METRICS)}')
    return Tuning(search, tuple(trials.values()), metric, quick)


_KEYS = ("space", "quick", *vars(Search()))


def end_trial(execution: Execution, folder: Path) -> str:
    """Writes trial.json with the dev scores of a finished trial, deletes its checkpoint, and returns a line to print.
    The test split is not used.
    """
    standing, experiment = execution.standing, execution.setup.experiment
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    result = {
        "dev": lines[standing.best_round - 1]["dev"],
        "best_round": standing.best_round,
        "rounds": standing.rounds,
        "seconds": standing.seconds,
    }
    write_atomic(folder / TRIAL, json.dumps(result, indent=1) + "\n")
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    (folder / PROGRESS).unlink(missing_ok=True)
    metric = experiment.training.metric
    return f"dev {metric} {result['dev'][metric]:.3f}, best round {standing.best_round} of {standing.rounds}"


def ranked(tuning: Tuning, results: Mapping[str, Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """The trials as rows of tune.json, best dev score first, diverged ones last, ties in the order of the search.
    `results` has the trial.json of each by name; None: it diverged.
    """
    rows = [
        {
            "settings": dict(trial.settings),
            "folder": f"trials/{trial.name}",
            "score": found["dev"][tuning.metric] if (found := results[trial.name]) else None,
            **({key: found[key] for key in ("dev", "best_round", "rounds", "seconds")} if found else {}),
        }
        for trial in tuning.trials
    ]
    return sorted(rows, key=lambda row: math.inf if row["score"] is None else -row["score"])


def _choices(space: Mapping[str, list[object] | Range], search: Search, where: str) -> Iterator[dict[str, object]]:
    if search.search == "grid":
        lists: list[list[object]] = []
        for key, values in space.items():
            if isinstance(values, Range):
                raise UserError(f'{where}: tune.space: {key} is a range, which needs search = "random"')
            lists.append(values)
        for combination in itertools.product(*lists):
            yield dict(zip(space, combination, strict=True))
        return
    chance = random.Random(search.seed)
    drawn: list[dict[str, object]] = []
    for _ in range(search.trials * _TRIES):
        choice: dict[str, object] = {
            key: values.draw(chance) if isinstance(values, Range) else chance.choice(values)
            for key, values in space.items()
        }
        if choice not in drawn:
            drawn.append(choice)
            yield choice
        if len(drawn) == search.trials:
            return


def _space(table: object, where: str, prefix: str = "") -> Iterator[tuple[str, list[object] | Range]]:
    """The space by dotted key: the sections of `training.lr = […]` and the quoted key `"training.lr" = […]` are the
    same.
    """
    if not isinstance(table, dict):
        raise UserError(f"{where}: tune.space must be a section")
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, list) and value:
            yield name, value
        elif isinstance(value, dict) and {"low", "high"} <= value.keys():
            yield name, _range(value, f"{where}: tune.space: {name}")
        elif isinstance(value, dict) and value and not value.keys() & {"low", "high", "log"}:
            yield from _space(value, where, f"{name}.")
        else:
            raise UserError(
                f"{where}: tune.space: {name} must be a list of values, or {{low = 0.01, high = 1.0, log = true}}"
            )


def _range(table: Mapping[str, object], what: str) -> Range:
    for key in table:
        if key not in ("low", "high", "log"):
            raise UserError(f'{what}: unknown key "{key}"{suggest(key, ("low", "high", "log"))}')
    low, high, log = table["low"], table["high"], table.get("log", False)
    if type(low) not in (int, float) or type(high) not in (int, float) or type(log) is not bool:
        raise UserError(f"{what}: low and high must be numbers, log true or false")
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if not low < high or not math.isfinite(low + high) or (log and low <= 0):
        raise UserError(f"{what}: low must be below high" + (" and above 0" if log else ""))
    return Range(low, high, log)


def _setting(key: str, value: object) -> str:
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"
