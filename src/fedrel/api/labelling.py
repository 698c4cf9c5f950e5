"""Distant supervision of raw text: a knowledge base and documents in, train, dev and test out; from Python and for the
command line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrel.alignment.kb import KB
from fedrel.alignment.kb import load as load_kb
from fedrel.alignment.label import APART, CAP, LEFT_OUT, RATE, Batch, Labeller, Rules
from fedrel.alignment.mentions import NOT_IN_KB
from fedrel.api.experiments import Experiment
from fedrel.api.runs import StrPath
from fedrel.config import Data
from fedrel.corpus import NA, SHOWN, SPLITS
from fedrel.corpus.documents import Documents
from fedrel.corpus.rules import Rules as Reading
from fedrel.corpus.splitting import NEITHER
from fedrel.data import loading
from fedrel.data.sufficiency import too_little
from fedrel.errors import UserError
from fedrel.experiment.sampled_na import KEY
from fedrel.util.files import atomic_folder
from fedrel.util.parallel import map_in_order

Tick = Callable[[int, int], None]  # called with the characters and sentences read so far

_COUNTS = (
    *("documents", "marked documents", "characters", "sentences", "sentences with a pair"),
    *("mentions", "ambiguous", "settled"),
)


@dataclass(frozen=True)
class LabelledText:
    """A folder of labelled sentences, as `fedrel label` leaves it: train.jsonl, dev.jsonl, test.jsonl, summary.json."""

    folder: Path
    summary: Mapping[str, Any]  # all of summary.json

    @property
    def experiment(self) -> Experiment:
        """An experiment on these sentences, for `fedrel.run`."""
        return Experiment({"data": {"source": "opennre", "path": str(self.folder)}})

    @property
    def sentences(self) -> Mapping[str, int]:
        """How many there are in each split."""
        lines: dict[str, int] = self.summary["lines"]
        return lines


def _nobody_watches(characters: int, sentences: int) -> None:
    pass


def label(
    kb: StrPath,
    text: StrPath,
    out: StrPath,
    *,
    format: str = "",
    na_per_sentence: int = 3,
    na_rate: float = 1.0,
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 1,
    language: str = "en",
    workers: int = 1,
    strict: bool = False,
    tick: Tick = _nobody_watches,
) -> LabelledText:
    """Labels the sentences of raw text with the facts of a knowledge base, as `fedrel label` does; arguments are its
    options. `out` is a new folder. With `workers` above 1, so many processes read side by side, to the same result.
    `tick` is called with the characters and sentences read so far.

    Raises UserError for bad options, an existing `out`, files that cannot be read, and text without facts.
    """
    rules, folder = Rules(na_per_sentence, na_rate, dev, test, seed), Path(out)
    if folder.exists():
        raise UserError(f"{folder} exists; choose a new folder")
    documents = Documents(Path(text), format, bad_rows=0 if strict else Reading().bad_rows)
    base = load_kb(Path(kb))
    labeller = Labeller(base, rules, language)
    return LabelledText(folder, label_into(folder, labeller, documents, base, Path(kb), workers, tick))


def label_into(
    folder: Path, labeller: Labeller, documents: Documents, base: KB, kb: Path, workers: int, tick: Tick
) -> dict[str, Any]:
    """Writes the labelled sentences to a new folder, with a summary, which is returned. `kb` is where the knowledge
    base was read from. Raises UserError, and leaves no folder, if no fact is found.
    """
    with atomic_folder(folder) as new:
        total, lines = _write(labeller, documents, new, workers, tick)
        if not total.facts:
            raise UserError(_nothing_found(total, documents, kb))
        summary = _summary(total, lines, documents, base)
        summary["too_little"] = _too_little(new, lines)
        (new / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8", newline="\n")
    return summary


def _write(
    labeller: Labeller, documents: Documents, folder: Path, workers: int, tick: Tick
) -> tuple[Batch, dict[str, int]]:
    """Writes a file for each split. Returns what was counted, and the number of lines of each."""
    total, rows = Batch(), folder / "rows.jsonl"
    with ExitStack() as stack:
        file = stack.enter_context(rows.open("w", encoding="utf-8", newline="\n"))
        for batch in stack.enter_context(closing(map_in_order(labeller.label, documents.pieces(), workers))):
            file.writelines(batch.lines)
            total.count(batch)
            tick(total.counts["characters"], total.counts["sentences"])
    shares = {SPLITS.index(it): getattr(labeller.rules, it) for it in labeller.rules.splits if it != "train"}
    decided = total.draft.decide_with_facts(shares)  # only now, since it depends on all of them
    with ExitStack() as stack:
        files = {
            SPLITS.index(split): stack.enter_context(
                (folder / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n")
            )
            for split in labeller.rules.splits
        }
        for line, split in zip(stack.enter_context(rows.open(encoding="utf-8", newline="\n")), decided, strict=True):
            if split != NEITHER:
                files[split].write(line)
    rows.unlink()
    total.counts[APART] = decided.count(NEITHER)
    return total, {split: decided.count(SPLITS.index(split)) for split in labeller.rules.splits}


def _too_little(folder: Path, lines: dict[str, int]) -> list[str]:
    """What the labelled lines are too few for; where nothing can be trained on them at all, why not."""
    try:
        return too_little(loading.load(Data(source="opennre", path=str(folder))))
    except UserError as error:
        if not all(lines.values()):
            return []  # an empty split, which is told anyway
        return [str(error).removeprefix(f"{folder}: ")]  # a folder that is about to be renamed


def _nothing_found(total: Batch, documents: Documents, kb: Path) -> str:
    counts, text = total.counts, documents.path
    unknown = total.skipped.reasons[NOT_IN_KB]
    if not counts["sentences"]:
        why = "; ".join(f"{count:,} × {why}" for why, count in documents.skipped.reasons.items())
        return f"{text}: no text to label{f' ({why})' if why else ''}"
    if not counts["mentions"]:
        return f"{text}: {counts['sentences']:,} sentences without any name of {kb}; is it the right knowledge base?"
    if unknown == counts["mentions"]:
        return (
            f"{text}: none of the {unknown:,} marked entities is in {kb}, neither by id nor by name "
            f"(such as {total.skipped.examples[0]}); is it the right knowledge base?"
        )
    return (
        f"{text}: {counts['sentences']:,} sentences with {counts['mentions']:,} entities, but no two of them in one "
        f"sentence that stand in a relation in {kb}; is it the right knowledge base?"
    )


def _summary(total: Batch, lines: dict[str, int], documents: Documents, base: KB) -> dict[str, Any]:
    facts = Counter(relation for _, relation, _ in total.facts)
    left_out = Counter({why: total.counts[why] for why in LEFT_OUT if total.counts[why]})
    return {
        **{name.replace(" ", "_"): total.counts[name] for name in _COUNTS},
        "lines": lines,
        "pairs": len(total.pairs),
        "facts": len(total.facts),
        "relations": {
            relation: {"sentences": total.sentences_of[relation], "facts": facts[relation]}
            for relation in [NA, *base.relations]
        },
        KEY: _na_weight(total),
        "left_out": dict(left_out + total.skipped.reasons + documents.skipped.reasons),
        "left_out_examples": [*documents.skipped.examples, *total.skipped.examples][:SHOWN],
        "files": documents.files.as_json() if documents.files else None,
    }


def _na_weight(total: Batch) -> float:
    """How many pairs without a relation each one that was kept stands for."""
    kept, left_out = total.sentences_of[NA], total.counts[RATE] + total.counts[CAP]
    return round((kept + left_out) / kept, 3) if kept else 1.0
