"""What the result of a run says beside its scores: who holds what, who held out what, suspicions, calibration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from platform import machine as architecture
from typing import Any

import torch

from fedrel.data.partition import count_labels
from fedrel.evaluation.calibration import Calibration, ece, sigmoid
from fedrel.experiment.assembly import Setup
from fedrel.experiment.evaluators import Evaluated, Guesses
from fedrel.util.parallel import cores

_SHOWN_PLATFORMS = 100
_CPU = Path("/proc/cpuinfo")


def machine(device: torch.device) -> str:
    """What computes, as far as the last digits of a result depend on it."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        said = _CPU.read_text(encoding="utf-8", errors="replace") if _CPU.is_file() else ""
        models = [line.partition(":")[2].strip() for line in said.splitlines() if line.startswith("model name")]
        name = f"{models[0] if models else architecture()}, {cores()} cores"
    return f"{name}, torch {torch.__version__}"


def labels_held(setup: Setup) -> dict[str, dict[str, int]]:
    """Who holds how many sentences of which label; of the first platforms, where there are very many."""
    relations = setup.dataset.relations
    return {
        name: {relations[label]: int(count) for label, count in enumerate(count_labels(setup.dataset, rows)) if count}
        for name, rows in itertools.islice(setup.sites.rows.items(), _SHOWN_PLATFORMS)
    }


def held_out(setup: Setup, best_line: Mapping[str, Any], test: Evaluated) -> dict[str, dict[str, list[str]]]:
    """Of the splits that platforms hold out: who did not say how the model does on it."""
    without = {"dev": best_line.get("dev_without", []), "test": test.without if "test" in setup.at_home else []}
    return {split: {"without": without[split]} for split in setup.at_home}


def held_out_notes(by_split: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    """A sentence for each split that the platforms hold out, given what `held_out` returns."""
    for split, said in by_split.items():
        left_out = f"; not by {', '.join(said['without'])}, who did not answer" if said["without"] else ""
        yield f"{split} was scored by the platforms, each by sentences of its own, and they sent counts{left_out}"


def suspicion_notes(suspects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A sentence for each platform whose updates were out of line, given the summary of suspicions."""
    for platform, told in suspects.items():
        yield (
            f"{platform} was left out of {told['left_out']} rounds, and reported in {told['reported']} more; "
            f"the first time: {told['first']}"
        )


def calibration_errors(fitted: Calibration, on_test: Guesses) -> dict[str, Any]:
    """Expected calibration error of each pair's best relation: on dev, where the temperature was fitted, and test."""
    confidences = (sigmoid(on_test.scores), fitted.confidence(on_test.scores))
    before, after = (ece(confidence, on_test.right, on_test.times) for confidence in confidences)
    return {
        "temperature": fitted.temperature,
        "offset": fitted.offset,
        "most": fitted.most,
        "dev": {"ece_before": fitted.ece_before, "ece_after": fitted.ece_after},
        "test": {"ece_before": before, "ece_after": after},
    }
