"""What varies between the runs of one cell of a table: seeds alone, or worlds or splits as well.

Seeds vary model, partition and cohorts on the same data, so errors over seeds say nothing about other data. Worlds (the
built-in data, made anew with another data.seed) and splits (folders of one data set, each with a test of its own) do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from fedrel.config import WORLD, line_of
from fedrel.errors import UserError
from fedrel.sweeps.settings import is_string_list

Over = Literal["seeds", "worlds", "splits"]
SEEDS: Over = "seeds"
FRESH = 11  # data.seed of the first of so many worlds; those before it have been looked at
_RUNS = 1  # per world or split, unless said otherwise: errors are not over them


@dataclass(frozen=True)
class Variation:
    """`draws`: values of data.seed, or folders below data.path; of seeds alone, one that is empty."""

    over: Over = SEEDS
    draws: tuple[str, ...] = ("",)

    @property
    def seeds(self) -> int | None:
        """How many seeds each has by default; None: as many as a table of seeds."""
        return None if self.over == SEEDS else _RUNS

    def applied(self, table: dict[str, Any], draw: str, what: str) -> dict[str, Any]:
        """The experiment's table with this world or split; `what` is for a message."""
        if self.over == SEEDS:
            return table
        data = dict(table.get("data", {}))
        built_in = data.get("source", WORLD) == WORLD
        if built_in and self.over == "splits":
            raise UserError(f"{what}: splits are folders of data, and this is the built-in world; vary worlds instead")
        if not built_in and self.over == "worlds":
            raise UserError(f"{what}: worlds are of the built-in data, and this reads files; vary splits instead")
        data |= {"seed": int(draw)} if built_in else {"path": str(PurePosixPath(str(data.get("path", ""))) / draw)}
        return {**table, "data": data}


OF_SEEDS = Variation()


def read_variation(asked: Mapping[str, Any], worlds: str, splits: str, where: str, text: str) -> Variation:
    """From the keys `worlds` and `splits` of [compare], or the options of these names, which take precedence. UserError
    for a mistake.
    """
    if worlds and splits:
        raise UserError("--worlds and --splits: name one of them; errors are over one source of variation")
    if worlds or splits:
        names = tuple(it.strip() for it in (worlds or splits).split(","))
        return _worlds(_counted(names), "--worlds") if worlds else _splits(names, "--splits")
    if "worlds" in asked and "splits" in asked:
        raise UserError(f"{where}: compare.worlds and compare.splits: name one of them")
    for key, read in (("worlds", _worlds), ("splits", _splits)):
        if key in asked:
            what, value = f"{where}{line_of(text, 'compare.', key)}: compare.{key}", asked[key]
            if key == "worlds" and isinstance(value, list) and all(type(it) is int for it in value):
                return read(tuple(map(str, value)), what)
            if key == "splits" and is_string_list(value):
                return read(tuple(value), what)
            kind = "numbers, for example [11, 12, 13]" if key == "worlds" else 'folders, for example ["1", "2"]'
            raise UserError(f"{what} must be a list of {kind}")
    return OF_SEEDS


def _counted(names: tuple[str, ...]) -> tuple[str, ...]:
    """Worlds that nobody has looked at, where a single number says how many."""
    if len(names) > 1 or not names[0].isdecimal():
        return names
    return tuple(str(FRESH + place) for place in range(int(names[0])))


def _worlds(names: tuple[str, ...], what: str) -> Variation:
    if not all(name.isascii() and name.isdigit() for name in names):
        raise UserError(f"{what}: how many, or which: --worlds 3, or --worlds 11,12,13")
    return Variation("worlds", _several(tuple(str(int(name)) for name in names), what))


def _splits(names: tuple[str, ...], what: str) -> Variation:
    if wrong := [name for name in names if not name or ".." in PurePosixPath(name).parts or name.startswith("/")]:
        raise UserError(f'{what}: "{wrong[0]}" is no folder below data.path')
    return Variation("splits", _several(names, what))


def _several(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    if len(names) < 2 or len(set(names)) < len(names):
        raise UserError(f"{what}: two or more are needed, each once, or there is nothing that varies")
    return names
