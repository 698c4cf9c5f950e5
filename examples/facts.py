"""From text and a knowledge base to facts: label, train, extract. The commands of the same names do it at scale."""

import subprocess
import tempfile
from pathlib import Path

import fedrel

EXAMPLE = Path(__file__).parents[1] / "docs" / "example"


def run(*command: object) -> None:
    subprocess.run(["fedrel", *map(str, command)], check=True, capture_output=True)


with tempfile.TemporaryDirectory() as folder:
    labelled, model = Path(folder) / "labelled", Path(folder) / "model"
    run("label", "--kb", EXAMPLE / "kb", "--text", EXAMPLE / "text", "--out", labelled)
    small = ("data.source=opennre", f"data.path={labelled}", "training.rounds=5", "partition.platforms=3")
    run("run", *(part for setting in small for part in ("--set", setting)), "--out", model)

    extractor = fedrel.load(model)
    first = sorted((EXAMPLE / "new").glob("*.txt"))[0].read_text(encoding="utf-8")
    found = extractor.extract(first, kb=EXAMPLE / "kb", min_confidence=0.0)
    for fact in sorted(found, key=lambda fact: -fact.confidence)[:5]:
        print(fact)
