"""The report of a finished run as one self-contained page: no network, no scripts, no other file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.evaluation.context import TRIVIAL
from fedrel.evaluation.ranking import worth_showing
from fedrel.report import charts
from fedrel.report.heatmap_svg import confusion_chart, labels_chart
from fedrel.report.methods import how_it_selects, what_it_does, what_selection_measures
from fedrel.report.quoted import example_of, mistakes
from fedrel.util.escaping import shown
from fedrel.util.files import write_atomic
from fedrel.util.templates import environment
from fedrel.util.units import format_bytes

_SHOWN_NAMES = {"p@100": "P@100", "p@200": "P@200", "p@300": "P@300", "p@mean": "P@mean", "max_f1": "max F1"}
_SHOWN_NAMES |= {"micro_f1": "micro F1", "micro_precision": "micro precision", "micro_recall": "micro recall"}
_SHOWN_NAMES |= {"macro_f1": "macro F1"}
_MEANINGS = {  # the scores at the top of the page, in this order, as far as the run has them
    "micro_f1": "all labels but NA",
    "micro_precision": "right among predicted",
    "micro_recall": "found among true",
    "macro_f1": "mean over labels",
    "accuracy": "right among all, with NA",
    "ap": "average precision",
    "auc": "area, whole curve",
    "auc_2000": "area, first 2,000 predictions",
    "p@100": "precision, first 100",
    "max_f1": "best F1 on the curve",
}
_WITHOUT_NA = {"micro_f1": "all labels", "accuracy": "right among all"}
_PHASES = {
    "train": "platforms train on their sentences",
    "score": "platforms score their sentences for the election",
    "show": "platforms score their sentences and report their best evidence",
    "dev": "scoring the dev split after every round",
    "test": "scoring the test split, once",
    "showcase": "scoring the training sentences once more, for the examples below",
    "checkpoint": "saving checkpoints, so that a run can be resumed",
}
_WORK = {
    "data": "reading, partitioning and encoding text, blinding facts",
    "score": "platforms score their sentences",
    "train": "platforms, or the server, train",
    "aggregate": "the server's own part of the rounds",
    "evaluate": "scoring dev and test, and their metrics",
    "codec": "encoding and decoding messages",
}
_ENDS = 8  # best and worst relations shown if there are more than twice as many
_RESULT = ("method", "seed", "rounds", "best_round", "dev", "test", "selection", "bytes", "seconds")
_DETAILS = ("participation", "held", "examples", "data")
_RANKED, _CLASSIFIED = ("pr", "relations"), ("classes", "confusion")  # the keys of the two kinds of evaluation
_AUDIT = ("attacks", "rounds", "members", "non_members")
_ROUND = ("round", "dev", "loss", "selection", "bytes")


def write_report(folder: Path) -> Path:
    """Writes `report.html` into the folder of a finished run; returns its path. Raises UserError if a file of the run
    is missing or unreadable.
    """
    pages = environment("fedrel.report")
    pages.filters |= {"score": "{:.3f}".format, "percent": "{:.0%}".format, "whole": "{:,.0f}".format}
    pages.filters |= {"size": format_bytes, "time": _time, "metric": _metric, "foldable": _foldable}
    path = folder / "report.html"
    write_atomic(path, pages.get_template("report.html.j2").render(_contents(folder)), private=True)  # quotes sentences
    return path


def _contents(folder: Path) -> dict[str, Any]:
    result = _json(folder / "result.json", _text(folder, "result.json"), _RESULT)
    details = _details(folder)
    held = details["held"]
    toml = _text(folder, "experiment.toml")
    experiment = _experiment(folder / "experiment.toml", toml)
    metric = experiment["training"]["metric"]
    rounds = _rounds(folder, metric, result["best_round"])
    classified = "classes" in details
    meanings = _MEANINGS if details["data"].get("na", True) else _MEANINGS | _WITHOUT_NA
    rows = details["classes"] if classified else details["relations"]
    shown_metrics = worth_showing(result["test"])
    tenths = _tenths(folder, details.get("reliability", []))
    ranked = [{"rank": rank, **row} for rank, row in enumerate(rows, 1)]
    found = {
        "result": result,
        "doubts": [shown(warning) for warning in result.get("too_little", [])],
        "metric": metric,
        "where": _where(experiment["data"]),
        "data": details["data"],
        "platforms": len(held),
        "pairs": details["data"].get("has_pairs", True) and details["data"].get("pairs"),
        "scores": [_score_tile(name, meanings[name], result, metric) for name in meanings if name in shown_metrics],
        "warm_up": any(not line["selection"] for line in rounds),
        "losses": any(line["loss"] is not None for line in rounds),
        "charts": _charts(details, tenths, rounds, metric, result["best_round"]),
        "named_platforms": charts.NAMED_PLATFORMS,
        "participation": [(name, details["participation"].get(name, 0), count) for name, count in held.items()],
        "labelled_platforms": len(details.get("labels", ())),
        "classified": classified,
        "ranked": ranked,
        "ends": [ranked] if len(ranked) <= 2 * _ENDS else [ranked[:_ENDS], ranked[-_ENDS:]],
        "counted": all("predicted" in row for row in ranked),
        "mix_up": _mix_up(details["confusion"]) if classified else None,
        "method": what_it_does(result["method"]),
        "selects": how_it_selects(experiment.get("method", {})),
        "selected": what_selection_measures(experiment.get("method", {})),
        "trivial": [(TRIVIAL.get(name, name), score) for name, score in result.get("trivial", {}).items()],
        "tenths": tenths,
        "calibration": result.get("calibration"),
        "mistakes": mistakes(folder / "details.json", details.get("mistakes")),
        "audit": _audit(folder),
        "examples": [example_of(example) for example in details["examples"]],
        "sections": _sections(experiment),
        "toml": toml,
        "phases": _phases(result["seconds"]),
        "profile": _profile(result.get("profile", {})),
    }
    return {**found, "contents": _contents_list(found), "scores_at": "classes" if classified else "pr"}


def _contents_list(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts that the page has, in its order: (id, title)."""
    drawn, ranking = found["charts"], not found["classified"]
    parts = [
        ("classes", "Scores by label", found["classified"]),
        ("confusion", "Which label is taken for which", drawn["confusion"]),
        ("pr", "Precision and recall", ranking),
        ("relations", "Relations", ranking and found["ranked"]),
        ("reliability", "Confidences", drawn["reliability"]),
        ("mistakes", "Mistakes on test", found["mistakes"]),
        ("cases", "Selected and rejected", found["examples"]),
        ("rounds", "Score over rounds", True),
        ("selection", "Selection precision", drawn["selection"]),
        ("bytes", "Bytes", True),
        ("platforms", "Platforms", True),
        ("labels", "Who holds what", drawn["labels"]),
        ("audit", "What could be found out", found["audit"]),
        ("run", "What was run", True),
        ("time", "Time", True),
    ]
    return [(id_, title) for id_, title, is_there in parts if is_there]


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{folder / name}: a report needs this file of a finished run ({error})") from None


def _json(where: object, text: str, keys: Iterable[str]) -> dict[str, Any]:
    """A JSON object with at least these keys; raises a UserError that begins with `where` for anything else."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError("not in fedrel's format")
        if missing := [key for key in keys if key not in content]:
            raise ValueError(f"{', '.join(missing)} is missing")
        return content
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: unreadable ({error})") from None


def _details(folder: Path) -> dict[str, Any]:
    path, text = folder / "details.json", _text(folder, "details.json")
    details = _json(path, text, _DETAILS)
    _json(path, text, _CLASSIFIED if "classes" in details else _RANKED)
    if "confusion" in details:
        table = details["confusion"]
        names = table.get("relations") if isinstance(table, dict) else None
        if not isinstance(names, list) or not _is_square(table.get("counts"), len(names)):
            raise UserError(f"{path}: unreadable (confusion needs a row and a column of counts for every relation)")
    held = details.get("labels", {})
    if not isinstance(held, dict) or not all(isinstance(counts, dict) for counts in held.values()):
        raise UserError(f"{path}: unreadable (labels needs the counts of every platform)")
    if not all(_is_count(count) for counts in held.values() for count in counts.values()):
        raise UserError(f"{path}: unreadable (labels has a value that is not a count)")
    return details


def _tenths(folder: Path, found: Any) -> list[dict[str, float]]:
    """Confidences in tenths, with how many were right."""
    try:
        return [{name: float(it[name]) for name in ("low", "count", "right", "confidence")} for it in found]
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{folder / 'details.json'}: unreadable (reliability is not in fedrel's format)") from None


def _audit(folder: Path) -> dict[str, Any] | None:
    """What `fedrel privacy audit` found, a row for each measure; None if the run was not audited."""
    path = folder / "audit.json"
    if not path.exists():
        return None
    report = _json(path, _text(folder, path.name), _AUDIT)
    try:
        return {
            **{name: int(report[name]) for name in ("rounds", "members", "non_members")},
            "attacks": [
                {
                    "wants": shown(attack["wants"]),
                    "verdict": shown(attack["verdict"]),
                    "rows": [
                        (name, *map(float, (it["value"], *it["interval"], it["chance"])))
                        for name, it in attack["measures"].items()
                    ],
                }
                for attack in report["attacks"]
            ],
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: unreadable (not in fedrel's format); delete it, or audit again") from None


def _is_square(rows: Any, size: int) -> bool:
    return (
        isinstance(rows, list)
        and len(rows) == size
        and all(isinstance(row, list) and len(row) == size and all(map(_is_count, row)) for row in rows)
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _experiment(path: Path, toml: str) -> dict[str, Any]:
    try:
        experiment = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: unreadable ({error})") from None
    if "source" not in experiment.get("data", ()) or "metric" not in experiment.get("training", ()):
        raise UserError(f"{path}: unreadable (data.source or training.metric is missing)")
    return experiment


def _rounds(folder: Path, metric: str, best: int) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    lines = _text(folder, path.name).splitlines()
    rounds = [_json(f"{path}:{number}", line, _ROUND) for number, line in enumerate(lines, 1)]
    if any(metric not in line["dev"] for line in rounds):
        raise UserError(f"{path}: a round lacks the dev score {metric}, which the best round was chosen by")
    if best not in [line["round"] for line in rounds]:
        raise UserError(f"{path}: round {best}, the best one, is missing")
    return rounds


def _where(data: Mapping[str, Any]) -> str:
    if data["source"] == "world":
        return "the built-in world"
    return " ".join(part for part in (data["source"], Path(data.get("path", "")).name) if part)


def _metric(name: str) -> str:
    return _SHOWN_NAMES.get(name, name)


def _foldable(name: str) -> str:
    """A name that a narrow column may break after punctuation, not in the middle of a word."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.findall(r"[\W_]*[^\W_]*[\W_]*", shown(name)))


def _score_tile(name: str, meaning: str, result: Mapping[str, Any], chooses: str) -> dict[str, Any]:
    return {
        "name": name,
        "meaning": meaning,
        "test": result["test"][name],
        "dev": result["dev"][name] if name in worth_showing(result["dev"]) else None,  # which may be too small for it
        "chooses": name == chooses,
        "interval": result.get("intervals", {}).get("test") if name == chooses else None,
        "dev_interval": result.get("intervals", {}).get("dev") if name == chooses else None,
    }


def _charts(
    details: Mapping[str, Any], tenths: list[dict[str, float]], rounds: list[dict[str, Any]], metric: str, best: int
) -> dict[str, Any]:
    """SVG by name, or None for a chart without data. They may be Markup, since charts escape their text."""
    from markupsafe import Markup

    confusion, pr = details.get("confusion"), details.get("pr")
    held = details.get("labels", {})
    occurring = dict.fromkeys(name for counts in held.values() for name, count in counts.items() if count)
    order = [name for name in details["data"]["relations"] if name in occurring]
    labels = order + [name for name in occurring if name not in order]
    drawn = {
        "pr": charts.pr_chart(pr["precision"], pr["recall"]) if pr else None,
        "confusion": confusion_chart(**confusion) if confusion and confusion["relations"] else None,
        "labels": labels_chart(held, labels) if labels else None,
        "rounds": charts.rounds_chart(rounds, metric, best, _metric(metric)),
        "selection": charts.selection_chart(rounds) if any(line["selection"] for line in rounds) else None,
        "bytes": charts.bytes_chart(rounds),
        "platforms": charts.participation_chart(details["participation"], details["held"]),
        "reliability": charts.reliability_chart(tenths) if tenths else None,
    }
    return {name: svg and Markup(svg) for name, svg in drawn.items()}


def _mix_up(confusion: Mapping[str, Any]) -> dict[str, Any] | None:
    """The most common mistake, or None if there is none."""
    names = confusion["relations"]
    wrong = [
        {"truth": names[row], "prediction": names[column], "count": count, "of": sum(line)}
        for row, line in enumerate(confusion["counts"])
        for column, count in enumerate(line)
        if count and row != column
    ]
    return max(wrong, key=lambda mistake: mistake["count"], default=None)


def _sections(experiment: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(section, [(key, value)]) in the order of the file, top-level keys first."""
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
    """The phases, longest first, and the rest of the time last."""
    known = sorted(seconds["by_phase"].items(), key=lambda item: -item[1])
    whole = max(seconds["total"], sum(spent for _, spent in known), 1e-9)
    rest = whole - sum(spent for _, spent in known)
    rows = [(name, _PHASES.get(name, ""), spent) for name, spent in known]
    rows.append(("the rest", "averaging, encoding messages, writing files", rest))
    return [{"name": name, "meaning": why, "seconds": spent, "share": spent / whole} for name, why, spent in rows]


def _profile(profile: Mapping[str, float]) -> list[dict[str, Any]]:
    whole = sum(profile.values()) or 1.0
    rows = sorted(profile.items(), key=lambda item: -item[1])
    return [{"name": name, "meaning": _WORK[name], "seconds": it, "share": it / whole} for name, it in rows]


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
