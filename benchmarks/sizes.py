"""How far confidences can be trusted on 30, 300 and 3,000 documents of real text.

    python -m benchmarks.sizes --data FOLDER

FOLDER holds sets in OpenNRE's format (`wiki-ds`, `nyt-human`; missing ones are left out). Their training sentences
become documents, each of the sentences about one entity, and their facts a knowledge base, of which seven in ten are
kept. For each number of documents a user's three commands run (`fedrel label`, `run`, `extract`), with `--set` as
given, and facts are extracted from 200 other documents. A fact is right if the whole knowledge base has it, new if the
one that was kept lacks it.

Prints as JSON, for each set and number: the facts in dev, the highest confidence, how many facts are right of those
held at 0.9 and at 0.5 and of the new ones among these, the share of facts whose confidence another one has, and what
the run said of too little data.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

SETS = ("wiki-ds", "nyt-human")
OTHERS, KEPT, LONGEST = 200, 0.7, 20_000  # documents to extract from, facts of the knowledge base, characters of one
NAMES = 4  # of an entity
Fact = tuple[str, str, str]


def write_documents(source: Path, documents: int, out: Path) -> tuple[set[Fact], set[Fact]]:
    """Writes `text`, `new` and `kb` below `out`; returns all facts, and those that the knowledge base has."""
    rows = [json.loads(line) for line in (source / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    names: dict[str, set[str]] = defaultdict(set)
    about: dict[str, dict[str, None]] = defaultdict(dict)  # sentences, each once, in order
    facts: set[Fact] = set()
    for row in rows:
        head, tail = (_cell(row[end]["id"]) for end in ("h", "t"))
        for end, entity in (("h", head), ("t", tail)):
            names[entity].add(_cell(_mention(row, end)))
        if row["relation"] != "NA":
            facts.add((head, row["relation"], tail))
        about[head][row["text"]] = None
    entities = sorted(name for name, found in about.items() if sum(map(len, found)) < LONGEST)
    random.Random(11).shuffle(entities)
    for folder, chosen in (("text", entities[:documents]), ("new", entities[-OTHERS:])):
        (out / folder).mkdir(parents=True)
        for number, name in enumerate(chosen):
            (out / folder / f"{number:05d}.txt").write_text("\n\n".join(about[name]) + "\n", encoding="utf-8")
    kept = {fact for fact in facts if _draw(fact) < KEPT}
    (out / "kb").mkdir()
    lines = [f"{it}\tthing\t{'|'.join(sorted(n for n in names[it] if len(n) > 2)[:NAMES]) or it}" for it in names]
    (out / "kb" / "entities.tsv").write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
    triples = "".join("\t".join(fact) + "\n" for fact in sorted(kept))
    (out / "kb" / "triples.tsv").write_text(triples, encoding="utf-8")
    return facts, kept


def _mention(row: dict[str, Any], end: str) -> str:
    """As the sentence has it, where the set says where; as a name otherwise."""
    begin, stop = row[end]["pos"]
    return str(row["text"][begin:stop] or row[end]["name"])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", " ").split())


def _draw(fact: Fact) -> float:
    return int.from_bytes(hashlib.sha256("\t".join(fact).encode()).digest()[:4], "big") / 2**32


def measure(source: Path, documents: int, settings: list[str]) -> dict[str, Any]:
    """Label, run and extract, as a user would."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        facts, kept = write_documents(source, documents, out)
        chosen = [word for setting in settings for word in ("--set", setting)]
        kb = ["--kb", str(out / "kb")]
        _fedrel("label", *kb, "--text", str(out / "text"), "--out", str(out / "labelled"))
        data = ["--set", "data.source=opennre", "--set", f"data.path={out / 'labelled'}"]
        _fedrel("run", *data, *chosen, "--out", str(out / "model"))
        given = ["--model", str(out / "model"), "--text", str(out / "new"), *kb, "--min-confidence", "0"]
        _fedrel("extract", *given, "--out", str(out / "facts.jsonl"))
        found = [json.loads(line) for line in (out / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
        result = json.loads((out / "model" / "result.json").read_text(encoding="utf-8"))
        dev = {
            (row["h"]["id"], row["relation"], row["t"]["id"])
            for line in (out / "labelled" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
            if (row := json.loads(line))["relation"] != "NA"
        }
    scored = [((it["head"]["id"], it["relation"], it["tail"]["id"]), it["confidence"]) for it in found]
    distinct = len({confidence for _, confidence in scored})
    entry: dict[str, Any] = {
        **{"set": source.name, "documents": documents, "settings": settings, "dev_facts": len(dev)},
        **{"highest": max((confidence for _, confidence in scored), default=None), "facts": len(scored)},
        "same_confidence": 1 - distinct / len(scored) if scored else 0.0,
    }
    for bar in (0.9, 0.5):
        held = [fact for fact, confidence in scored if confidence >= bar]
        new = [fact for fact in held if fact not in kept]
        entry[f"from_{bar}"] = {
            **{"right": len(facts.intersection(held)), "of": len(held)},
            **{"new_right": len(facts.intersection(new)), "new": len(new)},
        }
    return entry | {"too_little": result["too_little"], "metric": result["metric"], "test": result["test"]}


def _fedrel(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "fedrel.cli", *words], check=True, stdout=sys.stderr, stderr=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--documents", nargs="*", type=int, default=(30, 300, 3000))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    args = parser.parse_args()
    found = [
        measure(args.data / name, documents, args.settings)
        for name in args.sets
        if (args.data / name).is_dir()
        for documents in args.documents
    ]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
