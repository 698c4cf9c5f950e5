"""fedrel: relation extractors trained across organisations whose text stays at home.

    import fedrel

    run = fedrel.run(fedrel.Experiment().with_({"training.rounds": 20}))
    run.scores["ap"], run.model.extract("Marie Curie was born in Warsaw.")

Names below are imported when they are first used, since torch takes seconds: docs/python.md shows each of them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrel.api.comparing import ComparisonResult as ComparisonResult
    from fedrel.api.comparing import compare as compare
    from fedrel.api.experiments import Experiment as Experiment
    from fedrel.api.exported import export as export
    from fedrel.api.improving import improve as improve
    from fedrel.api.labelling import LabelledText as LabelledText
    from fedrel.api.labelling import label as label
    from fedrel.api.runs import Curve as Curve
    from fedrel.api.runs import Round as Round
    from fedrel.api.runs import Rounds as Rounds
    from fedrel.api.runs import Run as Run
    from fedrel.api.runs import rounds as rounds
    from fedrel.api.runs import run as run
    from fedrel.corpus import Document as Document
    from fedrel.errors import UserError as UserError
    from fedrel.exports.exporting import Exported as Exported
    from fedrel.extraction.extract import RelationExtractor as RelationExtractor
    from fedrel.extraction.facts import Fact as Fact
    from fedrel.extraction.facts import Support as Support
    from fedrel.extraction.predictions import Prediction as Prediction
    from fedrel.extraction.predictions import Sentence as Sentence

    __version__: str

_WHERE = {
    "fedrel.api": (
        *("ComparisonResult", "Curve", "Experiment", "LabelledText", "Round", "Rounds", "Run"),
        *("compare", "export", "improve", "label", "rounds", "run"),
    ),
    "fedrel.corpus": ("Document",),
    "fedrel.errors": ("UserError",),
    "fedrel.exports": ("Exported",),
    "fedrel.extraction": ("Fact", "Prediction", "RelationExtractor", "Sentence", "Support"),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "ComparisonResult",
    "Curve",
    "Document",
    "Experiment",
    "Exported",
    "Fact",
    "LabelledText",
    "Prediction",
    "RelationExtractor",
    "Round",
    "Rounds",
    "Run",
    "Sentence",
    "Support",
    "UserError",
    "__version__",
    "compare",
    "export",
    "improve",
    "label",
    "load",
    "rounds",
    "run",
]


def load(folder: str | Path | None = None) -> RelationExtractor:
    """The extractor that a run has trained, `fedrel.load("runs/…").predict(…)`, `.extract(…)`; without a folder, the
    general one that ships with fedrel.
    """
    from fedrel.extraction.loading import (
        load as load_extractor,  # torch takes seconds to import: only who needs it waits
    )

    return load_extractor(folder)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from fedrel.version import installed_version

        return installed_version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedrel' has no attribute '{name}'")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
