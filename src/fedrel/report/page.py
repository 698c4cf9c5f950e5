"""A finished run as one page that needs nothing beside itself: no network, no scripts, no other file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.files import write_whole
from fedrel.report import charts
from fedrel.units import megabytes

_METRICS = ("ap", "auc", "auc_2000", "p@100", "max_f1")  # the headline, in this order
_SHOWN_NAMES = {"p@100": "P@100", "p@200": "P@200", "p@300": "P@300", "p@mean": "P@mean", "max_f1": "max F1"}
_MEANINGS = {
    "ap": "average precision",
    "auc": "area, whole curve",
    "auc_2000": "area, first 2,000 predictions",
    "p@100": "precision, first 100",
    "max_f1": "best F1 on the curve",
}
_PHASES = {
    "train": "platforms train on their sentences",
    "score": "platforms score their sentences for the election",
    "train_elected": "platforms train on the elected sentences",
    "dev": "scoring the dev split after every round",
    "test": "scoring the test split, once",
    "showcase": "scoring the training sentences once more, for the examples below",
    "checkpoint": "saving, so that a run can be resumed",
}
_ENDS = 8  # best and worst relations shown, where there are more than twice as many


def write_report(folder: Path) -> Path:
    """Writes `report.html` next to the files of a finished run, and says where."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Autoescape is on for every value: names and sentences come from data.
    environment = Environment(
        loader=PackageLoader("fedrel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"score": "{:.3f}".format, "percent": "{:.0%}".format, "whole": "{:,.0f}".format}
    environment.filters |= {"size": megabytes, "time": _time, "metric": _metric}
    path = folder / "report.html"
    write_whole(path, environment.get_template("report.html.j2").render(_contents(folder)))
    return path


def _contents(folder: Path) -> dict[str, Any]:
    result = json.loads(_text(folder, "result.json"))
    details = json.loads(_text(folder, "details.json"))
    held = details["held"]
    toml = _text(folder, "experiment.toml")
    experiment = tomllib.loads(toml)
    rounds = [json.loads(line) for line in _text(folder, "metrics.jsonl").splitlines()]
    metric = experiment["training"]["metric"]
    relations = [{"rank": rank, **row} for rank, row in enumerate(details["relations"], 1)]
    return {
        "result": result,
        "metric": metric,
        "where": _where(experiment["data"]),
        "data": details["data"],
        "platforms": len(held),
        "scores": [_score_tile(name, result, metric) for name in _METRICS],
        "warm_up": any(not line["selection"] for line in rounds),
        "charts": _charts(details, rounds, metric, result["best_round"]),
        "named_platforms": charts.NAMED_PLATFORMS,
        "participation": [(name, details["participation"].get(name, 0), count) for name, count in held.items()],
        "relations": [relations] if len(relations) <= 2 * _ENDS else [relations[:_ENDS], relations[-_ENDS:]],
        "relation_count": len(relations),
        "examples": [_example(example) for example in details["examples"]],
        "sections": _sections(experiment),
        "toml": toml,
        "phases": _phases(result["seconds"]),
    }


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{folder / name}: a report needs this file of a finished run ({error})") from None


def _where(data: Mapping[str, Any]) -> str:
    if data["source"] == "world":
        return "the built-in world"
    return " ".join(part for part in (data["source"], Path(data.get("path", "")).name) if part)


def _metric(name: str) -> str:
    return _SHOWN_NAMES.get(name, name)


def _score_tile(name: str, result: Mapping[str, Any], chooses: str) -> dict[str, Any]:
    return {
        "name": name,
        "meaning": _MEANINGS[name],
        "test": result["test"][name],
        "dev": result["dev"][name],
        "chooses": name == chooses,
    }


def _charts(details: Mapping[str, Any], rounds: list[dict[str, Any]], metric: str, best: int) -> dict[str, Any]:
    """SVG by name, and None for a chart that has nothing to show. Safe to mark as such: charts escape their text."""
    from markupsafe import Markup

    drawn = {
        "pr": charts.pr_chart(details["pr"]["precision"], details["pr"]["recall"]),
        "rounds": charts.rounds_chart(rounds, metric, best),
        "selection": charts.selection_chart(rounds) if any(line["selection"] for line in rounds) else None,
        "bytes": charts.bytes_chart(rounds),
        "platforms": charts.participation_chart(details["participation"], details["held"]),
    }
    return {name: svg and Markup(svg) for name, svg in drawn.items()}


def _example(example: Mapping[str, Any]) -> dict[str, Any]:
    """A fact, named as the first selected sentence names it: the ids of a knowledge base say little to a reader."""
    first = example["selected"][0]
    sentences = [
        {**sentence, "selected": group == "selected", "parts": list(_parts(sentence))}
        for group in ("selected", "rejected")
        for sentence in example[group]
    ]
    head, tail = (" ".join(first["tokens"][slice(*first[role])]) for role in ("head", "tail"))
    return {
        "head": head or example["head"],
        "tail": tail or example["tail"],
        "relation": example["relation"],
        "ids": (example["head"], example["tail"]),
        "sentences": sentences,
    }


def _parts(sentence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The sentence in pieces: (role, text), the role being head, tail, "head tail" where they overlap, or ""."""

    def role(place: int) -> str:
        return " ".join(role for role in ("head", "tail") if sentence[role][0] <= place < sentence[role][1])

    for name, places in groupby(range(len(sentence["tokens"])), role):
        yield name, " ".join(sentence["tokens"][place] for place in places)


def _sections(experiment: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(section, [(key, value)]) in the order of the file, what stands outside of sections first."""
    plain = [(key, _value(value)) for key, value in experiment.items() if not isinstance(value, dict)]
    tables = [(key, list(_flat(value))) for key, value in experiment.items() if isinstance(value, dict)]
    return [("experiment", plain), *tables] if plain else tables


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _value(value)


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _phases(seconds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Longest first, with what no phase accounts for last."""
    known = sorted(seconds["by_phase"].items(), key=lambda item: -item[1])
    whole = max(seconds["total"], sum(spent for _, spent in known), 1e-9)
    rest = whole - sum(spent for _, spent in known)
    rows = [(name, _PHASES.get(name, ""), spent) for name, spent in known]
    rows.append(("the rest", "averaging, messages, writing files", rest))
    return [{"name": name, "meaning": why, "seconds": spent, "share": spent / whole} for name, why, spent in rows]


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
