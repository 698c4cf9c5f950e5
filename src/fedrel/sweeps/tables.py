"""Summarises the runs of a comparison, and formats the summary as tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedrel.errors import UserError
from fedrel.evaluation.cost import to_reach, upload_per_platform
from fedrel.evaluation.human import METRIC as HUMAN
from fedrel.evaluation.significance import randomisation
from fedrel.experiment.hidden_names import METRIC as WITHOUT_NAMES
from fedrel.sweeps.comparison import COSTS, OF_CLASS, TO_TARGET, Comparison
from fedrel.sweeps.variation import SEEDS
from fedrel.sweeps.verdict import RULE, interval, verdict
from fedrel.util.units import format_bytes

_ABREAST = 4  # columns per table
_ENOUGH = 3  # seeds; with two, twice the standard error means little


def scores(
    asked: Comparison,
    result: Mapping[str, Any],
    rounds: Sequence[Mapping[str, Any]],
    details: Mapping[str, Any],
    dev_metric: str,
) -> dict[str, float | None]:
    """Every metric of the table for one run, from its result.json, metrics.jsonl and details.json; None if the run
    never reached the target or has no such class. Raises UserError for a metric that the run does not have.
    """
    found: dict[str, float | None] = {}
    reached = to_reach(rounds, dev_metric, asked.look.target) if set(TO_TARGET) & set(asked.metrics) else None
    for metric in asked.metrics:
        if metric in TO_TARGET:
            unit = "round" if metric == "rounds_to_target" else "bytes_up"
            found[metric] = None if reached is None else reached[unit]
        elif metric in COSTS:
            found[metric] = upload_per_platform(rounds)
        elif metric.startswith(OF_CLASS):
            kind, _, name = metric.partition(":")
            classes = details.get("classes" if kind == "f1" else "relations", ())
            found[metric] = next((row[kind] for row in classes if row["relation"] == name), None)
        elif metric == WITHOUT_NAMES:
            found[metric] = result.get(metric)  # runs of earlier versions have none
        elif metric in result["test"]:
            found[metric] = result["test"][metric]
        elif metric == HUMAN:  # of this run, nobody judged anything
            found[metric] = None
        else:
            raise UserError(f'"{metric}" is not a score of this kind of data; there is {", ".join(result["test"])}')
    return found


def summarise(asked: Comparison, cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean, median and standard deviation of every row in every column, and how far the reference is ahead, paired by
    seed; by world or split where these vary, seeds averaged. `cells` are the runs as compare.json lists them.
    """
    of_seeds = asked.variation.over == SEEDS
    score: dict[tuple[str, str], dict[object, list[Mapping[str, float | None]]]] = {}
    for c in cells:
        if c["scores"]:
            unit = c["seed"] if of_seeds else c["draw"]
            score.setdefault((c["row"], c["column"]), {}).setdefault(unit, []).append(c["scores"])
    means = {place: {unit: _averaged(found) for unit, found in units.items()} for place, units in score.items()}
    better = -1 if asked.metric in COSTS else 1  # for a cost, less is better
    summary = []
    for column in asked.columns:
        for row in asked.rows:
            mine = means.get((row.label, column.label), {})
            others = means.get((asked.reference, column.label), {})
            ahead = [
                better * (reference - value)
                for unit, own in mine.items()
                if row.label != asked.reference and (value := own[asked.metric]) is not None
                if (reference := others.get(unit, {}).get(asked.metric)) is not None
            ]
            with_items = bool(ahead) and of_seeds  # of other worlds and splits, items are other ones
            chance = item_test(cells, row.label, asked.reference, column.label) if with_items else None
            by_metric = {name: spread([own[name] for own in mine.values()]) for name in asked.metrics}
            summary.append(
                {
                    "row": row.label,
                    "column": column.label,
                    **by_metric[asked.metric],
                    "metrics": by_metric,
                    "paper": row.paper.get(column.label, {}),
                    "reference_ahead": {**paired(ahead), "p": chance} if ahead else None,
                    "verdict": _verdict(asked, row.label, column.label, ahead, chance),
                }
            )
    return summary


def _averaged(found: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Every score, over the runs that have it."""
    known = {name: [value for it in found if (value := it[name]) is not None] for name in found[0]}
    return {name: statistics.fmean(values) if values else None for name, values in known.items()}


def _verdict(
    asked: Comparison, row: str, column: str, ahead: list[float], chance: float | None
) -> dict[str, Any] | None:
    """Whether the runs bear out which of a row and the reference the paper has ahead; None: it does not say, or the
    data are not the paper's kind. `ahead` is how far the reference is.
    """
    published = {it.label: it.paper.get(column, {}).get(asked.metric) for it in asked.rows}
    own, reference = published[row], published[asked.reference]
    if not ahead or own is None or reference is None or (asked.quick and asked.data is None):
        return None
    margin = (reference["value"] or 0.0) - (own["value"] or 0.0)
    if not margin:
        return None
    margin *= -1 if asked.metric in COSTS else 1  # for a cost, less is better
    found = interval(ahead)
    return {
        "claim": "ahead" if margin > 0 else "behind",  # of the reference, in the paper
        "verdict": verdict([it if margin > 0 else -it for it in ahead], chance),
        "interval": found and list(found),  # 95 %, of how far the reference is ahead here
        "differences": ahead,
    }


def item_test(cells: Sequence[Mapping[str, Any]], row: str, reference: str, column: str) -> float | None:
    """The p value of the difference in accuracy between two rows, by paired randomisation over the test items, each
    scored by the share of seeds that got it right; None if the runs do not say which items they got right.
    """
    both = []
    for name in (row, reference):
        runs = [cell.get("right") for cell in cells if (cell["row"], cell["column"]) == (name, column)]
        found = [[int(mark) for mark in run] for run in runs if run]
        if not found or len({len(run) for run in found}) != 1:
            return None
        both.append([statistics.fmean(marks) for marks in zip(*found, strict=True)])
    return randomisation(*both) if len(both[0]) == len(both[1]) else None


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, median and standard deviation over the `n` runs that have a value; `runs` counts all."""
    known = [value for value in values if value is not None]
    return {
        "n": len(known),
        "runs": len(values),
        "mean": statistics.fmean(known) if known else None,
        "median": statistics.median(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
    }


def paired(differences: list[float]) -> dict[str, Any]:
    """The mean of paired differences with its standard error; `clear` if it is more than twice that over at least three
    seeds.
    """
    n = len(differences)
    error = statistics.stdev(differences) / n**0.5 if n > 1 else None
    mean = statistics.fmean(differences)
    return {
        "n": n,
        "mean": mean,
        "standard_error": error,
        "clear": n >= _ENOUGH and error is not None and abs(mean) > 2 * error,
    }


def comparison_table(report: Mapping[str, Any]) -> Group:
    """A report (compare.json) as tables to print, below each other if there are many columns. Reports of earlier
    versions lack the keys that are read with `.get` here.
    """
    columns = list(dict.fromkeys(entry["column"] for entry in report["summary"]))
    rows = list(dict.fromkeys(entry["row"] for entry in report["summary"]))
    entries = {(entry["row"], entry["column"]): entry for entry in report["summary"]}
    tables = []
    for begin in range(0, len(columns), _ABREAST):
        table = Table(show_lines=True)
        table.add_column("method")
        shown = columns[begin : begin + _ABREAST]
        for column in shown:
            table.add_column(Text(column), justify="right")
        for row in rows:
            texts = [cell_text(entries[row, column], report) for column in shown]
            if any(texts):
                table.add_row(Text(row), *(text or Text("–") for text in texts))
        tables.append(table)
    return Group(Text(title(report), "italic"), *tables, *(Text(note, "dim") for note in notes(report)))


def title(report: Mapping[str, Any]) -> str:
    """What the numbers of the table are."""
    metric, target = report["metric"], report.get("target")
    name = f"{report.get('statistic', 'mean')} ± standard deviation over {_over(report)}"
    if report.get("scale", 1.0) != 1.0:
        name += f", times {report['scale']:g}"
    goal = f"dev {report.get('dev_metric')} of {target}"
    what = {
        "rounds_to_target": f"rounds to a {goal} (dev, since test is used only once, at the end)",
        "bytes_to_target": f"bytes uploaded until a {goal} (dev, since test is used only once, at the end)",
        "upload_per_platform": "bytes that a platform uploads in a round",
        WITHOUT_NAMES: "ap on dev with names hidden, which needs neither test nor clean labels",
    }.get(metric, f"test {metric}")
    chosen = "" if metric in COSTS else "; the best round is chosen on dev"
    return ("QUICK SCALE: " if report.get("quick") else "") + f"{what}, {name}{chosen}"


def _over(report: Mapping[str, Any]) -> str:
    """What errors are over."""
    varied = report.get("variation")
    if not varied or varied["over"] == SEEDS:
        return SEEDS
    seeds = varied["seeds"]
    return f"{varied['over']} ({', '.join(varied['draws'])}; {seeds} seed{'s, averaged' if seeds > 1 else ''} each)"


def notes(report: Mapping[str, Any]) -> list[str]:
    """What a reader of the table has to know of it."""
    found = []
    if any(entry["reference_ahead"] for entry in report["summary"]):
        found.append(
            f"Δ: how far {report['reference']} is ahead, mean paired difference ± its standard error; "
            "* more than twice its standard error"
        )
    if any((entry["reference_ahead"] or {}).get("p") is not None for entry in report["summary"]):
        found.append("p: paired randomisation test of accuracy over the test items, seeds averaged")
    if set(TO_TARGET) & set(report.get("metrics", ())):
        found.append("—: never reached; if only some seeds did, the numbers are over those")
    if report.get("options"):
        by = ", with names hidden" if report.get("choose_by") == WITHOUT_NAMES else ""
        found.append(f"chosen: on dev{by}, by the mean over all runs, for each row and column")
    if any(entry.get("verdict") for entry in report["summary"]):
        found.append(RULE)
    if report.get("paper"):
        found.append(f"paper: {report['paper']}")
    if report.get("quick"):
        found.append("quick scale: small data and few rounds, not comparable with the paper's numbers")
    return found


def cell_text(entry: Mapping[str, Any], report: Mapping[str, Any]) -> Text:
    """Everything in a cell of the table, a line each."""
    lines: list[Text] = []
    by_metric = entry.get("metrics") or {report["metric"]: entry}
    for name, found in by_metric.items():
        parts: list[Text] = []
        if ours := _ours(name, found, report):
            best = name == report["metric"] and _value(entry, report) == _best(entry["column"], report)
            parts.append(Text(ours, "bold" if best else ""))
        if paper := entry.get("paper", {}).get(name):
            std = f" ± {_published_number(name, paper['std'])}" if paper["std"] is not None else ""
            parts.append(Text(f"paper {_published_number(name, paper['value'])}{std}", "cyan"))
        if len(by_metric) > 1 and parts:
            lines.append(Text.assemble(f"{name} ", Text(" · ").join(parts)))
        else:
            lines += parts
    if ahead := entry["reference_ahead"]:
        error = ahead["standard_error"]
        shown = _number(report["metric"], ahead["mean"], report, sign="+")
        give = f" ± {_number(report['metric'], error, report)}" if error is not None else ""
        chance = ahead.get("p")
        said = "" if chance is None else " p < .001" if chance < 0.001 else f" p = {chance:.3f}".replace("0.", ".")
        lines.append(Text(f"Δ {shown}{give}{'*' if ahead['clear'] else ''}{said}", "dim"))
    if judged := entry.get("verdict"):
        lines.append(Text(f"{report['reference']} {judged['claim']}: {judged['verdict']}", "cyan"))
    if entry.get("chosen"):
        lines.append(Text(f"chosen: {', '.join(entry['chosen'])}", "dim"))
    if entry.get("selection"):
        said = f"selection {entry['selection']['mean']:.2f} of {entry['selection']['base_rate']:.2f}"
        lines.append(Text(said, "dim"))
    return Text("\n").join(lines)


def _ours(metric: str, found: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    runs = found.get("runs", found["n"])
    if not runs:
        return ""
    count = f"(n={found['n']})"
    if metric in TO_TARGET:
        count = f"({found['n']} of {runs} reached it)"
    elif found["n"] < runs:
        count = f"(n={found['n']} of {runs})"
    if not found["n"]:
        return f"— {count}"
    std = f" ± {_number(metric, found['std'], report)}" if found["std"] is not None else ""
    if metric != report["metric"] and found["n"] == runs:
        count = ""  # the same as for the main metric
    return f"{_number(metric, _value(found, report), report)}{std} {count}".rstrip()


def _value(found: Mapping[str, Any], report: Mapping[str, Any]) -> Any:
    return found[report.get("statistic", "mean")]


def _best(column: str, report: Mapping[str, Any]) -> float | None:
    """The best value among the rows in which every run has one, since a mean over only some runs is not comparable."""
    values = [
        _value(entry, report)
        for entry in report["summary"]
        if entry["column"] == column and entry["n"] and entry["n"] == entry.get("runs", entry["n"])
    ]
    return (min if report["metric"] in COSTS else max)(values, default=None)


def _number(metric: str, value: float, report: Mapping[str, Any], sign: str = "") -> str:
    if metric == "rounds_to_target":
        return f"{value:{sign}.1f}"
    if metric in COSTS:
        return f"{'-' if value < 0 else sign}{format_bytes(abs(value))}"
    scale = report.get("scale", 1.0)
    return f"{value * scale:{sign}.{3 if scale < 10 else 2}f}"


def _published_number(metric: str, value: float) -> str:
    """A number of a paper, on the paper's own scale."""
    return format_bytes(value) if metric in COSTS and metric != "rounds_to_target" else f"{value:g}"
