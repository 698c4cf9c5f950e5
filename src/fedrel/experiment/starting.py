"""Going on from a finished model: with its extractor, vocabulary and relations, and the settings of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedrel import config
from fedrel.config import Experiment
from fedrel.corpus import NA
from fedrel.data import loading
from fedrel.data.store import Dataset
from fedrel.errors import UserError
from fedrel.experiment.saved import SavedModel, load_model

IN_FEDERATION = (
    "training.start and data.more are for one machine: a federation begins with a fresh model, on what each platform "
    "has; leave them out, or go on from its model here with fedrel run --from"
)
_OPEN = ("kind_auto", "hide_auto")  # of [extractor]: how it was chosen, not what it is


def run_of(model: Path) -> Path | None:
    """The folder of the run that a model belongs to, given that or the folder `model` in it; None: it lies alone."""
    found = [folder for folder in (model, model.absolute().parent) if (folder / "experiment.toml").is_file()]
    return found[0] if found and (model.name == "model" or found[0] == model) else None


def settings_from(model: Path, changes: Mapping[str, object] | None = None) -> dict[str, object]:
    """The table of an experiment that goes on from a model: the settings of its run, but for [feedback], under those of
    `changes`, another table.
    """
    saved, run = load_model(model), run_of(model)
    table: dict[str, object] = {} if run is None else config.read_table(run / "experiment.toml")[0]
    table.pop("feedback", None)
    table["extractor"] = {name: _plain(value) for name, value in vars(saved.extractor).items()}
    given = [
        (f"{section}.{key}", value)
        for section, values in (changes or {}).items()
        if isinstance(values, Mapping)
        for key, value in values.items()
    ]
    plain = [(key, value) for key, value in (changes or {}).items() if not isinstance(value, Mapping)]
    return config.with_values(table, [("training.start", str(model)), *plain, *given])


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Start:
    """The model that training.start names."""

    saved: SavedModel
    name: str

    @classmethod
    def of(cls, experiment: Experiment, denoiser: str) -> Start | None:
        """None: the experiment begins with a fresh model."""
        name = experiment.training.start
        return cls(load_model(Path(name), denoiser), name) if name else None

    def load(self, experiment: Experiment, say: Callable[[str], None]) -> tuple[Experiment, Dataset]:
        """The data, with the model's relations in the model's order. UserError where the data have others."""
        dataset = loading.load(experiment.data, say=say)
        saved = self.saved
        if (dataset.has_pairs, dataset.has_na) != (saved.has_pairs, saved.has_na):
            kind = "sentences with pairs of entities" if saved.has_pairs else "plain texts"
            na = "with" if saved.has_na else "without"
            raise UserError(f"{self.name} was trained on {kind}, {na} a label for no relation, and these data differ")
        if others := [name for name in dataset.relations if name not in saved.relations]:
            raise UserError(
                f'the data have "{others[0]}", which is none of the {len(saved.relations)} relations of {self.name}; '
                "rename it with data.labels, or train a fresh model"
            )
        if dataset.relations == saved.relations:
            return experiment, dataset
        relations = tuple(name for name in saved.relations if not (name == NA and saved.has_na))
        experiment = replace(experiment, data=replace(experiment.data, relations=relations))
        return experiment, loading.load(experiment.data, say=say)

    def require_same_extractor(self, experiment: Experiment) -> None:
        """UserError if the experiment asks for another extractor or vocabulary."""
        mine, asked = vars(self.saved.extractor), vars(experiment.extractor)
        if different := [name for name, value in asked.items() if name not in _OPEN and mine[name] != value]:
            name = different[0]
            raise UserError(
                f"extractor.{name} is {config.as_toml(mine[name])} in {self.name} and {config.as_toml(asked[name])} "
                "here; a model is gone on from with its own extractor and vocabulary: leave the setting out"
            )
