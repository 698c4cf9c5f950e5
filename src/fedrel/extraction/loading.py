"""Which extractor reads text with a saved model."""

from __future__ import annotations

import warnings
from pathlib import Path

from fedrel.experiment.saved import SavedModel, load_model
from fedrel.extraction.extract import RelationExtractor
from fedrel.extraction.general import FOLDER, GeneralExtractor


def load(folder: str | Path | None = None) -> RelationExtractor:
    """The extractor in the folder of a run, or in the folder `model` in it; without a folder, the general extractor
    that ships with fedrel. Raises UserError if there is none or it was trained on plain texts; warns about a model of
    another version.
    """
    saved = load_model(FOLDER if folder is None else Path(folder))
    if saved.note and folder is not None:
        warnings.warn(saved.note, stacklevel=3)  # to whoever calls fedrel.load
    return extractor_of(saved)


def extractor_of(saved: SavedModel) -> RelationExtractor:
    """The extractor that reads text as this model was trained to."""
    blind_words = saved.extractor.blind and saved.extractor.kind != "bert"
    return GeneralExtractor(saved) if blind_words else RelationExtractor(saved)
