"""fedrel: relation extractors trained across organisations whose text stays at home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrel.extraction.extract import RelationExtractor

__all__ = ["load"]


def load(folder: str | Path | None = None) -> RelationExtractor:
    """The extractor that a run has trained, `fedrel.load("runs/…").predict(…)`, `.extract(…)`; without a folder, the
    general one that ships with fedrel.
    """
    from fedrel.extraction.loading import (
        load as load_extractor,  # torch takes seconds to import: only who needs it waits
    )

    return load_extractor(folder)
