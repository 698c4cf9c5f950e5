"""Makes the general model anew.

    python -m benchmarks.general --wiki FOLDER --out general_model

FOLDER is that of `wiki-ds`, sentences of Wikipedia labelled by DBpedia; without it, the model learns from the phrase
book alone. Needs the extra `glove`; takes minutes on two cores. Three models are trained: the first chooses sentences
of Wikipedia, the second says what confidences mean on phrasings that are held out, and the third, on all of them, is
the one that is kept.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from benchmarks.general import wikipedia
from benchmarks.general.sentences import Example
from benchmarks.general.train import make
from fedrel.experiment.saved import load_model
from fedrel.extraction import extractor_of

WIKIPEDIA = 30_000  # rows that are looked at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wiki", type=Path, help="the folder of wiki-ds")
    parser.add_argument("--sentences", type=int, default=60_000, help="from the phrase book")
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    size, rounds = asked.sentences, asked.rounds
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        more: list[Example] = []
        if asked.wiki is not None:
            make(scratch / "first", scratch / "1", sentences=size // 2, rounds=-(-rounds // 2))
            first = extractor_of(load_model(scratch / "first"))
            torch.set_num_threads(1)  # its steps are small
            more = list(wikipedia.examples(first, asked.wiki / "train.jsonl", WIKIPEDIA))
            print(f"{len(more):,} sentences of Wikipedia")
        fitted = make(scratch / "second", scratch / "2", sentences=size, rounds=rounds, more=more)
        make(asked.out, scratch / "3", sentences=size, rounds=rounds, part="all", more=more, calibration=fitted)


if __name__ == "__main__":
    main()
