"""What the general model gets right, as JSON.

    python -m benchmarks.general.evaluate --part dev --data FOLDER

`dev` is for choosing; `test` was opened once, when all choices were made: the other half of judged.tsv, the test
sentences of `wiki-ds` (labelled by DBpedia) and of `nyt-human` (labelled by people), where FOLDER has them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

from benchmarks.general import judged, labelled
from benchmarks.general.judged import Scores
from fedrel.extraction import load
from fedrel.extraction.general import FOLDER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=FOLDER)
    parser.add_argument("--part", choices=["dev", "test"], default="dev")
    parser.add_argument("--data", type=Path, help="the folder that holds wiki-ds and nyt-human")
    parser.add_argument("--most", type=int, help="of the labelled sentences, the first so many")
    parser.add_argument("--mistakes", action="store_true", help="show the judged sentences that it gets wrong")
    asked = parser.parse_args()
    extractor = load(asked.model)
    sentences = judged.read(asked.part)
    if asked.mistakes:
        print("\n".join(judged.mistakes(extractor, sentences)))
    found = {"judged": judged.score(extractor, sentences)}
    for name, ours in (("wiki-ds", labelled.WIKI), ("nyt-human", labelled.NYT)):
        path = asked.data / name / f"{asked.part}.jsonl" if asked.data else None
        if path is not None and path.is_file():
            found[name] = labelled.score(extractor, path, ours, asked.most)
    print(json.dumps({name: summary(scores) for name, scores in found.items()}, indent=1))


def summary(scores: Scores) -> dict[str, object]:
    """With the average precision over all facts, those that are no candidates included."""
    ap = average_precision_score(scores.right, scores.log_odds) * np.sum(scores.right) / max(scores.facts, 1)
    return scores.summary() | {"ap": round(float(ap), 3)}


if __name__ == "__main__":
    main()
