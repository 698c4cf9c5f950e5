"""Experiments made and changed in Python, with the checks and the sentences of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path

from fedrel import config
from fedrel.data.sources import with_metric
from fedrel.errors import UserError
from fedrel.experiment.assembly import choose_method, require_extractor

_WHERE = "experiment"  # what messages begin with, in the place of a file


@dataclass(frozen=True)
class Experiment:
    """What is trained, on what and how: the sections of an experiment.toml. `Experiment()` is the built-in demo.

    `written` is what a file would say, `{"training": {"rounds": 20}}`; everything else has its default, which may
    depend on what is written (a transformer has another learning rate). Raises UserError for an unknown key, a wrong
    type or a value out of bounds, in the sentence that the command line prints.
    """

    written: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.settings  # a mistake is told where it is made

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Experiment:
        """The experiment in a file. A mistake in it is told with its line."""
        written, text = config.read_table(Path(path))
        _checked(written, str(path), text)
        return cls(written)

    def with_(self, changes: Mapping[str, object]) -> Experiment:
        """Another experiment, with these values: `with_({"training.rounds": 20, "method.name": "one"})`. Keys are those
        of `fedrel run --set`. Another method takes the settings of the one it replaces away.
        """
        return Experiment(config.with_values(self.written, [(key, _plain(value)) for key, value in changes.items()]))

    @cached_property
    def settings(self) -> config.Experiment:
        """Every value, defaults included: `experiment.settings.training.rounds`."""
        return with_metric(_checked(self.written, _WHERE))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the experiment with every value, as a file that `load` and `fedrel run` read."""
        try:
            Path(path).write_text(config.to_toml(config.to_table(self.settings)), encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from None

    def __repr__(self) -> str:
        """What differs from the built-in demo."""
        usual = dict(_dotted(config.to_table(with_metric(config.parse({})))))
        changed = [(key, value) for key, value in _dotted(config.to_table(self.settings)) if value != usual.get(key)]
        return f"Experiment({', '.join(f'{key} = {value!r}' for key, value in changed) or 'the built-in demo'})"


def _checked(written: Mapping[str, object], where: str, text: str = "") -> config.Experiment:
    settings = config.parse(written, where, text)
    choose_method(settings.method, where, text)
    require_extractor(settings, where, text)
    return settings


def _plain(value: object) -> object:
    """A value as a file would have it."""
    if isinstance(value, PathLike):
        return str(Path(value))
    if isinstance(value, tuple):
        return list(value)
    return value


def _dotted(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Every value of a table under its dotted key."""
    return [
        entry
        for key, value in table.items()
        for entry in (_dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)])
    ]
