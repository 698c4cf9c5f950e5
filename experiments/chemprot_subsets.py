"""Two training sets of 500 relations from ChemProt, for table 3 of the FedCMC paper.

    python experiments/chemprot_subsets.py CHEMPROT-FOLDER FOLDER

writes FOLDER/balanced (100 of each class) and FOLDER/unbalanced (in the proportions of the whole); development and test
are copied. Relations that reach over two sentences are drawn like others and left out when the data is read.
"""

import random
import shutil
import sys
from collections import defaultdict
from pathlib import Path

RELATIONS = 500
GOLD = "chemprot_training_gold_standard.tsv"


def main(source: Path, out: Path, seed: int = 1) -> None:
    chance = random.Random(seed)
    every = (source / GOLD).read_text(encoding="utf-8").splitlines()
    by_class: defaultdict[str, list[str]] = defaultdict(list)
    for line in every:
        by_class[line.split("\t")[1]].append(line)
    each = RELATIONS // len(by_class)
    kept = {
        "balanced": [line for lines in by_class.values() for line in chance.sample(lines, each)],
        "unbalanced": chance.sample(every, RELATIONS),
    }
    for name, lines in kept.items():
        shutil.copytree(source, out / name)
        (out / name / GOLD).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
