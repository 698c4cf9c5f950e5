"""`python -m benchmarks.extract`: sentences per second and memory of `fedrel extract`, on 10,000 and on 100,000.

A PCNN of 230 filters and 53 relations that has learnt nothing (what it says costs as much as what a trained one says)
reads the text of the built-in world, finds the names of its knowledge base, and writes facts. Each size runs in a
process of its own, so that the memory is its own too, interpreter and libraries included. Where the time goes is
measured around single functions; the rest is what lies between them.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from benchmarks.align import alone, memory

WORLD = 100_000  # training sentences; from here on a world has all 53 relations
MIN_CONFIDENCE = 0.028  # chance is 1/53: some thousand facts


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sentences", type=int, nargs="+", default=[10_000, 100_000], help="at most 100,000")
    options = arguments.parse_args()
    report: dict[str, Any] = {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report["model"] = alone(prepare, folder)
        sizes = {}
        for sentences in options.sentences:
            choose_text(folder, sentences)
            sizes[str(sentences)] = alone(measure, folder, sentences)
    report["sentences"] = sizes
    peaks = [size["peak_megabytes"] for size in sizes.values()]
    report["peak_of_the_last_over_the_first"] = round(peaks[-1] / peaks[0], 2)
    print(json.dumps(report, indent=1))


def prepare(folder: Path) -> dict[str, object]:
    """Writes `model` and `world`; called in a fresh process."""
    from fedrel.config import Data, Experiment
    from fedrel.corpus import world_text
    from fedrel.corpus.world import World
    from fedrel.evaluation.calibration import Calibration
    from fedrel.experiment.assembly import prepare as set_up
    from fedrel.experiment.saved import save_model

    setup = set_up(Experiment(data=Data(size=WORLD)))
    save_model(folder / "model", setup, setup.weights, Calibration())
    (folder / "world").mkdir()
    world_text.write(World(WORLD), folder / "world")
    extractor = setup.experiment.extractor
    return {
        "extractor": extractor.kind,
        "filters": extractor.filters,
        "relations": len(setup.dataset.relations),
        "words": len(setup.encoding),
    }


def choose_text(folder: Path, sentences: int) -> None:
    """So many lines of the world's documents, a sentence each, as the documents of a folder."""
    chosen = folder / f"text-{sentences}"
    chosen.mkdir()
    left = sentences
    for path in sorted((folder / "world" / "text").iterdir()):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:left]
        (chosen / path.name).write_text("".join(lines), encoding="utf-8")
        left -= len(lines)
        if not left:
            return
    shutil.rmtree(chosen)
    raise SystemExit(f"the world has only {sentences - left:,} sentences")


def measure(folder: Path, sentences: int) -> dict[str, object]:
    """Called in a fresh process: once for the time and the memory, then again for where the time goes."""
    from fedrel.alignment.gazetteer import Gazetteer
    from fedrel.cli.extract import extract
    from fedrel.corpus import pairs
    from fedrel.encoding.words import WordEncoding
    from fedrel.extraction import extract as extraction
    from fedrel.learning.model import Model

    def run(text: Path) -> dict[str, Any]:
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            extract(
                model=folder / "model",
                text=text,
                kb=folder / "world" / "kb",
                out_=folder / "facts.jsonl",
                min_confidence=MIN_CONFIDENCE,
                json_=True,
            )
        summary: dict[str, Any] = json.loads(printed.getvalue())
        return summary

    text = folder / f"text-{sentences}"
    run(next(text.iterdir()))  # the compiler has its turn
    summary = run(text)
    report = {name: summary[name] for name in ("sentences", "pairs", "facts", "seconds", "sentences_per_second")}
    report |= memory()
    spent: Counter[str] = Counter()
    steps: list[tuple[str, Any, str]] = [
        ("split sentences", pairs, "sentence_spans"),
        ("enter names", Gazetteer, "_add"),
        ("find names", Gazetteer, "find_all"),
        ("pair names", extraction, "ordered_pairs"),
        ("tokenize", extraction, "tokenize"),
        ("pack", WordEncoding, "pack"),
        ("score", Model, "score_sentences"),
    ]
    for step, owner, name in steps:
        setattr(owner, name, timed(getattr(owner, name), step, spent))
    seconds = run(text)["seconds"]
    report["seconds_by_step"] = {
        **{step: round(spent[step], 2) for step, _, _ in steps},
        "the rest": round(seconds - spent.total(), 2),
    }
    return report


def timed(function: Callable[..., Any], step: str, spent: Counter[str]) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[step] += time.perf_counter() - begin  # type: ignore[assignment]

    return wrapper


if __name__ == "__main__":
    main()
