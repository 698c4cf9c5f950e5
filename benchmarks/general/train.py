"""Makes the general model: sentences from the phrase book, word vectors of frequent words, a PCNN, its calibration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.general.sentences import BOOK, Book, Example, meaningful_words
from fedrel import config
from fedrel.encoding import vectors
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.saved import load_model, save_model
from fedrel.extraction.general import MARKERS
from fedrel.learning.model import WORDS
from fedrel.learning.named import Named

WORDS_KEPT = 24_000  # most frequent ones, besides those of the phrase book
STRANGE_FROM = 9_000  # most frequent words, for sentences that say nothing of the kind
TOO_NEAR = 0.6  # cosine to a word of the phrase book: such a word could mean the same
DEV_SENTENCES = 4_000
SEED = 1


def make(
    folder: Path,
    scratch: Path,
    *,
    sentences: int,
    rounds: int,
    part: str = "train",
    more: Iterable[Example] = (),
    calibration: Calibration | None = None,
    settings: Iterable[str] = (),
) -> Calibration:
    """Trains a model on so many sentences, writes it to `folder` and returns its calibration. `scratch` is an empty
    folder for the data and the run, `part` the part of the phrase book to train on, `more` are further examples. The
    confidences are fitted on the phrasings that are held out of "train", unless a `calibration` is given. `settings`
    are of the run, on top of what was chosen.
    """
    pretrained = vectors.load("glove")
    strange = strange_words(pretrained)
    data = scratch / "data"
    data.mkdir(parents=True)
    for split, size in (("train", sentences), ("dev", DEV_SENTENCES), ("test", 200)):
        book = Book(part if split == "train" else "dev", strange, Random(f"{SEED} {split}"))
        write(data / f"{split}.jsonl", chain(book.examples(size), more if split == "train" else ()), split)
    (scratch / "words.txt").write_text("\n".join(vocabulary(pretrained)) + "\n", encoding="utf-8")
    chosen = [
        "data.source=opennre",
        f"data.path={data}",
        "method.name=none",
        f"seed={SEED}",
        "extractor.kind=pcnn",
        "extractor.vectors=glove",
        "extractor.embeddings=frozen",
        f"extractor.vocabulary={scratch / 'words.txt'}",
        f"training.rounds={rounds}",
        f"training.patience={rounds}",
        "training.lr=0.2",
        "training.dropout=0.2",
        "extractor.position_dim=10",
        "training.metric=ap",
        *settings,
    ]
    setup = prepare(config.read(None, chosen))
    run = Execution(setup, scratch / "run", watch_loss=False)
    for done in run.rounds():
        print(
            f"round {done.line['round']}: loss {done.line['loss']:.3f}, ap on dev {done.line['dev']['ap']:.3f}",
            flush=True,
        )
    run.finish()
    saved = load_model(scratch / "run")
    weights = Named({name: value for name, value in saved.weights.items() if name != WORDS})
    assert setup.model.frozen_words is not None
    setup.model.frozen_words = setup.model.frozen_words.half()  # half the size, and as good
    extractor = replace(setup.experiment.extractor, blind=True, vocabulary="public")
    setup = replace(setup, experiment=replace(setup.experiment, extractor=extractor))
    folder.mkdir(parents=True, exist_ok=True)
    save_model(folder, setup, weights, calibration or saved.calibration)
    return saved.calibration


def write(path: Path, examples: Iterable[Example], part: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, (tokens, head, tail, relation) in enumerate(examples):
            sides = {
                side: {"id": f"{part}{number}{side}", "name": tokens[at], "pos": [at, at + 1]}
                for side, at in (("h", head), ("t", tail))
            }
            file.write(json.dumps({"token": tokens, **sides, "relation": relation}) + "\n")


def vocabulary(pretrained: vectors.Pretrained) -> list[str]:
    plain = (word for word in pretrained.words if re.fullmatch(r"[a-z]+|\d{1,4}|[^\w\s]", word))
    frequent = [word for word, _ in zip(plain, range(WORDS_KEPT), strict=False)]
    ours = sorted(set(re.findall(r"[a-z]+", BOOK.read_text(encoding="utf-8"))))
    known = set(pretrained.words)
    return list(dict.fromkeys([*MARKERS, *frequent, *(word for word in ours if word in known)]))


def strange_words(pretrained: vectors.Pretrained) -> list[str]:
    """Frequent words that mean nothing like any that carries a relation in the phrase book."""
    place = {word: at for at, word in reversed(list(enumerate(pretrained.words[:60_000])))}
    table = np.asarray(pretrained.vectors[:60_000], np.float32)
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    ours = table[[place[word] for word in sorted(meaningful_words()) if word in place]]
    found = [word for word in pretrained.words[:STRANGE_FROM] if re.fullmatch(r"[a-z]{3,}", word)]
    near = (table[[place[word] for word in found]] @ ours.T).max(axis=1)
    return [word for word, cosine in zip(found, near.tolist(), strict=True) if cosine < TOO_NEAR]
