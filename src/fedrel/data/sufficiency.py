"""What a data set is too small for, in a sentence each: said before training, and kept with its result."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedrel.data.store import Dataset, Split

HANDFUL = 5  # facts of a relation, below which nothing can be learnt or told about it
_DEV = 30  # facts of dev, below which a round that is chosen by it, and confidences, are chance
_TRAIN = 100  # facts of train
_NAMED = 4  # relations that a sentence names


def too_little(dataset: Dataset, most: float | None = None) -> list[str]:
    """What cannot be trusted, and what would help; nothing for a data set that is large enough. `most` is the highest
    confidence that dev supports, where it is known. Splits that platforms hold out at home are not counted here.
    """
    found = []
    train, dev = dataset.train, dataset.dev
    one, several = _unit(dataset)
    more = _more(dataset)
    if len(train) and (count := _facts(dataset, train)) < _TRAIN:
        counted = f"{count:,} {one if count == 1 else several}"
        found.append(f"train has {counted}, too few to learn from: {more}; a pretrained encoder makes the most of them")
    if len(train) and (rare := _rare(dataset)):
        named = ", ".join(rare[:_NAMED]) + (" …" if len(rare) > _NAMED else "")
        all_ = len(dataset.relations) - int(dataset.has_na)
        has, them = ("has", "it") if len(rare) == 1 else ("have", "them")
        found.append(
            f"{len(rare)} of {all_} {'relations' if dataset.has_pairs else 'labels'} {has} fewer than {HANDFUL} "
            f"{several} in train ({named}): do not trust predictions of {them}; {more}, or leave {them} out"
        )
    if len(dev) and (count := _facts(dataset, dev)) < _DEV:
        counted = f"{count:,} {one if count == 1 else several}"
        bound = f", and no confidence is above {most:.2f}" if most is not None and most < 1 else ""
        kept = "" if dev_can_choose(dataset) else ", and the last round is kept"
        found.append(
            f"dev has {counted}, too few to choose a round or fit confidences by: its scores are mostly "
            f"chance{kept}{bound}; a larger dev would help (data.dev=0.3), or {more.removesuffix(' would help')}"
        )
    if len(train) and dataset.has_pairs and dataset.has_na and not dataset.gold and not _several(train):
        found.append("no fact of train has a second sentence, so there is nothing to choose: set method.name=none")
    return found


def dev_can_choose(dataset: Dataset) -> bool:
    """Whether dev can tell which round is best. Of labels from a knowledge base and fewer facts it prefers some early
    round by chance, and the last one is better (docs/defaults.md).
    """
    labelled_by_kb = dataset.has_pairs and not dataset.gold
    return not (labelled_by_kb and len(dataset.dev) and _facts(dataset, dataset.dev) < _DEV)


def enough_to_choose(scores: Mapping[str, float]) -> bool:
    """The same of a dev set whose scores alone are known; those of gold labels count no facts."""
    return scores.get("facts", _DEV) >= _DEV


def _more(dataset: Dataset) -> str:
    """What would help. Only distant supervision has a knowledge base; labelled sets need labels."""
    if not dataset.has_pairs:
        return "more labelled texts would help"
    return "more labelled sentences would help" if dataset.gold else "more text or a larger knowledge base would help"


def _unit(dataset: Dataset) -> tuple[str, str]:
    """What is counted: one, and several of it."""
    if not dataset.has_pairs:
        return "labelled text", "labelled texts"
    return ("sentence with a relation", "sentences with a relation") if dataset.gold else ("fact", "facts")


def _facts(dataset: Dataset, split: Split) -> int:
    """Distinct facts under distant supervision, else sentences with a label that counts."""
    labels = np.asarray(split.labels)
    if dataset.has_pairs and dataset.has_na and not dataset.gold:
        return len(split.facts)
    return int((labels >= int(dataset.has_na)).sum())


def _rare(dataset: Dataset) -> list[str]:
    """Relations that train has hardly or, other than dev or test, not at all."""
    train = dataset.train
    if dataset.has_pairs and dataset.has_na and not dataset.gold:
        counts = np.bincount(np.asarray(train.facts)[:, 1].astype(np.int64), minlength=len(dataset.relations))
    else:
        counts = np.bincount(np.asarray(train.labels).astype(np.int64), minlength=len(dataset.relations))
    first = int(dataset.has_na)
    return [dataset.relations[number] for number in range(first, len(counts)) if counts[number] < HANDFUL]


def _several(train: Split) -> bool:
    """Whether some fact has more than one sentence."""
    return len(train.facts) < int((np.asarray(train.labels) > 0).sum())
