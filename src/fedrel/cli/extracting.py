"""What every command that extracts facts does first, and the progress that it shows."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import torch

from fedrel.alignment.kb import KB
from fedrel.alignment.mentions import Spotter
from fedrel.cli.console import say
from fedrel.cli.label import load_kb
from fedrel.cli.reading import reading_progress
from fedrel.corpus import Skipped
from fedrel.corpus.documents import Documents
from fedrel.corpus.rules import Rules
from fedrel.evaluation.calibration import SURE
from fedrel.experiment.saved import load_model
from fedrel.extraction import RelationExtractor, extractor_of
from fedrel.extraction.general import FOLDER, GeneralExtractor, introduction


def prepared(
    text: Path, model: Path | None, kb: Path | None, source: str, *, strict: bool
) -> tuple[Documents, RelationExtractor, KB | None]:
    """The text, a model (None: the general one) and a knowledge base, with what one should know of them said."""
    documents = Documents(text, source, bad_rows=0 if strict else Rules().bad_rows)
    extractor = extractor_of(load_model(model if model is not None else FOLDER))
    if extractor.saved.note and model is not None:
        say(f"{model}: {extractor.saved.note}, which reads it")
    if isinstance(extractor, GeneralExtractor):
        say(introduction(extractor, named=kb is not None))
    if extractor.calibration.ece_after is None:
        what = "raw scores" if extractor.calibration.most >= SURE else "no more than an order of the facts"
        say(f"the model has no calibration (its dev set had too little to learn it from): confidences are {what}")
    if extractor.calibration.most < SURE:
        say(
            f"no confidence is above {extractor.calibration.most:.2f}: the dev set that this model was chosen on has "
            "too few facts to support more; train on more text"
        )
    base = load_kb(kb) if kb is not None else None
    if base is not None and not set(extractor.relations) & set(base.relations):
        say(f"no relation of the model is in {kb}: every fact will count as new, whatever its types")
    torch.set_num_threads(extractor.saved.threads)
    return documents, extractor, base


class Watch:
    """Two progress bars, one after the other: the text while it is read, then the mentions while they are scored."""

    def __init__(self, size: int) -> None:
        self.counts: Counter[str] = Counter()
        self.skipped = Skipped()
        self._bars = ExitStack()
        self._tick = self._bars.enter_context(reading_progress("reading", size))
        self._scoring = False

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *problem: object) -> None:
        self._bars.close()

    def __call__(self, spotter: Spotter) -> None:
        self.counts, self.skipped = spotter.counts, spotter.skipped
        if not self.counts["scored"]:
            if self.counts["sentences"] % 500 == 0:
                self._tick(self.counts["characters"], self.counts["sentences"])
            return
        if not self._scoring:
            self._scoring = True
            self._bars.close()
            self._tick = self._bars.enter_context(reading_progress("scoring", self.counts["sightings"]))
        done, all_ = self.counts["scored"], self.counts["sightings"]
        self._tick(done, self.counts["sentences"] * done // all_)
