"""`fedrel data`: write the built-in world to files, or check a data set."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedrel import config, datasets
from fedrel.bags import SPLITS
from fedrel.cli.console import out, print_json, say, tell
from fedrel.corpus import opennre
from fedrel.errors import UserError, suggest
from fedrel.files import folder_whole


def world(
    out_: Annotated[Path, typer.Option("--out", help="A new folder.")],
    size: Annotated[str, typer.Option(help='"demo", "nyt10" or a number of training sentences.')] = "demo",
    seed: int = 1,
    noise: Annotated[float, typer.Option(help="Share of a fact's sentences that do not express it.")] = 0.6,
    evidence: Annotated[float, typer.Option(help="Mean sentences per fact.")] = 7.0,
    json_: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write the built-in world: sentences (OpenNRE JSON lines) and its knowledge base (entities.tsv, triples.tsv)."""
    if out_.exists():
        raise UserError(f"{out_} exists; choose a new folder")
    table = {"size": int(size) if size.isdecimal() else size, "seed": seed, "noise": noise, "evidence": evidence}
    made = datasets.world_of(config.parse({"data": table}, "fedrel data world").data)
    with folder_whole(out_) as folder:
        for split in SPLITS:
            say(f"writing {split}.jsonl …")
            with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(opennre.lines(made.instances(split)))
        with (folder / "entities.tsv").open("w", encoding="utf-8") as file:
            file.writelines(f"{e.id}\t{e.type}\t{'|'.join(e.names)}\n" for e in made.entities())
        with (folder / "triples.tsv").open("w", encoding="utf-8") as file:
            file.writelines("\t".join(triple) + "\n" for triple in made.triples())
    if json_:
        print_json(json.dumps({"folder": str(out_), "relations": made.relations()}))
        return
    tell(str(out_))
    tell(f"train on it with: fedrel run --set data.source=opennre --set data.path={out_}")


def check(
    path: Annotated[Path, typer.Argument(help="A folder with train, dev and test files, or one file.")],
    source: Annotated[str, typer.Option(help=f"Format: {', '.join(datasets.READERS)}.")] = "opennre",
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Read a data set as `fedrel run` would, and say what is in it."""
    if source not in datasets.READERS:
        raise UserError(f'"{source}" is no format of files{suggest(source, datasets.READERS)}')
    dataset = datasets.load(
        config.parse({"data": {"source": source, "path": str(path)}}, "fedrel data check").data, say=say
    )
    summary = {}
    for name in SPLITS:
        split = getattr(dataset, name)
        labels = Counter(split.labels.tolist())
        summary[name] = {
            "sentences": len(split),
            "pairs": len(split.pair_entities),
            "facts": len(split.facts),
            "sentences_per_relation": {dataset.relations[n]: count for n, count in sorted(labels.items())},
        }
    overlap = dataset.meta["overlap"]
    if json_:
        print_json(json.dumps({"splits": summary, "overlap": overlap, "notes": dataset.notes}, indent=1))
        return
    table = Table(title=escape(str(path)), title_justify="left")
    table.add_column("")
    for name in SPLITS:
        table.add_column(name, justify="right")
    for row in ("sentences", "pairs", "facts"):
        table.add_row(row, *(f"{summary[name][row]:,}" for name in SPLITS), style="bold")
    for relation in dataset.relations:
        counts = (summary[name]["sentences_per_relation"].get(relation, 0) for name in SPLITS)  # type: ignore[attr-defined]
        table.add_row(escape(relation), *(f"{count:,}" for count in counts))
    out.print(table)
    for note in dataset.notes:
        tell(note)
    if overlap:
        tell(f"{overlap:,} pairs are in both train and test: `fedrel run` wants data.allow_overlap=true for this.")
    else:
        tell("no pair is in both train and test: ready to run.")
