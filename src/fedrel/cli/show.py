"""`fedrel show`: a finished run or comparison in the terminal."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import duration, out, print_json, tell
from fedrel.errors import UserError
from fedrel.evaluation.calibration import SURE
from fedrel.evaluation.context import TRIVIAL
from fedrel.evaluation.cost import to_reach, upload_per_platform
from fedrel.evaluation.ranking import worth_showing
from fedrel.experiment.budget import noise_notes
from fedrel.experiment.hidden_names import METRIC as WITHOUT_NAMES
from fedrel.experiment.results import read_json, read_result, read_rounds
from fedrel.util.escaping import shown
from fedrel.util.units import format_bytes


def show(
    folder: Annotated[Path, typer.Argument(help="The folder of a run or of a comparison.")],
    target: Annotated[
        float | None, typer.Option(help="Show in which round this dev score was first reached, and the bytes by then.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show the result of a run or a comparison."""
    if target is not None and not 0 <= target <= 1:
        raise UserError(f"--target {target:g}: scores are between 0 and 1")
    if (folder / "compare.json").is_file():
        if target is not None:
            raise UserError(f"{folder}: --target is for a run, and this is a comparison; its runs are in cells/")
        from fedrel.cli.compare import comparison_table, tell_warnings

        report = read_json(folder / "compare.json", ("metric", "reference", "summary", "cells"))
        if json_:
            print_json(json.dumps(report, indent=1))
        else:
            out.print(comparison_table(report))
            tell_warnings(report)
        return
    result = read_result(folder)
    # A run can be shown without its log of rounds, but --target needs it.
    rounds = read_rounds(folder) if target is not None or (folder / "metrics.jsonl").exists() else []
    reached = None if target is None else _reach(folder, rounds, target)
    if json_:
        print_json(json.dumps(result if reached is None else {**result, "target": reached}, indent=1))
        return
    show_result(result)
    if rounds:
        tell(f"upload  {format_bytes(upload_per_platform(rounds))} per platform and round")
    if reached is not None:
        tell(f"target  {_reach_text(reached, len(rounds))}")
    tell(f"report  {folder / 'report.html'}")


def _reach(folder: Path, rounds: list[dict[str, Any]], target: float) -> dict[str, Any]:
    """In which round the run's own dev metric first reached the target; `reached` is None if it never did."""
    metric = _chosen_by(folder / "experiment.toml")
    scores = [line["dev"].get(metric) for line in rounds]
    if not scores or not all(isinstance(score, int | float) for score in scores):
        raise UserError(f"{folder / 'metrics.jsonl'}: not every round has a dev score {metric}")
    best = max(range(len(rounds)), key=scores.__getitem__)
    return {
        "metric": metric,
        "score": target,
        "reached": to_reach(rounds, metric, target),
        "best": {"round": rounds[best]["round"], "score": scores[best]},
    }


def _chosen_by(path: Path) -> str:
    try:
        metric = tomllib.loads(path.read_text(encoding="utf-8"))["training"]["metric"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: unreadable ({error})") from None
    return str(metric)


def _reach_text(found: dict[str, Any], rounds: int) -> str:
    what, best, reached = f"dev {found['metric']} {found['score']:g}", found["best"], found["reached"]
    if reached is None:
        return f"{what} was never reached in {rounds} rounds; the best is {best['score']:.3f} in round {best['round']}"
    sent, received = format_bytes(reached["bytes_up"]), format_bytes(reached["bytes_down"])
    return f"{what} first reached in round {reached['round']}, after {sent} up and {received} down"


def show_result(result: dict[str, Any]) -> None:
    """Prints the scores of a run and, below, what they should be read beside: intervals, trivial answers, warnings."""
    out.print(_scores(result))
    for note in _notes(result):
        tell(note, "bold" if note.startswith("warning") else "")


def _scores(result: dict[str, Any]) -> Table:
    title = f"{result['method']}, seed {result['seed']}: best of {result['rounds']} rounds is {result['best_round']}"
    table = Table(title=Text(shown(title, 200), "bold"), title_justify="left")
    metrics = worth_showing(result["test"])
    if sum(max(len(metric), 5) + 3 for metric in metrics) + 8 > out.width:  # beside each other they would be cut
        return _one_below_the_other(table, result, metrics)
    table.add_column("")
    for metric in metrics:
        table.add_column(Text(metric), justify="right")
    dev = {name: result["dev"][name] for name in worth_showing(result["dev"])}  # it may be too small for some of them
    table.add_row("dev", *(f"{dev[name]:.3f}" if name in dev else "–" for name in metrics), style="dim")
    table.add_row("test", *(Text(f"{result['test'][name]:.3f}", "bold") for name in metrics))
    return table


def _one_below_the_other(table: Table, result: dict[str, Any], metrics: list[str]) -> Table:
    table.add_column("")
    for split, style in (("dev", "dim"), ("test", "bold")):
        table.add_column(split, justify="right", style=style)
    for metric in metrics:
        cells = (f"{result[split][metric]:.3f}" if metric in result[split] else "–" for split in ("dev", "test"))
        table.add_row(Text(metric), *cells)
    return table


def human_note(human: dict[str, Any], metric: object) -> str:
    """What people's labels say, in a sentence that nobody takes for the score by the knowledge base."""
    low, high = human["interval"]
    where = "people chose the labels of test" if human["of"] == "test" else f"labels of {human['of']}"
    beside = f"; {metric} is by the labels of all of test" if human["of"] != "test" else ""
    if trained := human.get("trained"):
        beside += f"; {trained:,} of them are in train as well, so this is no score on new text"
    return (
        f"ap_human {human['ap_human']:.3f} (between {low:.3f} and {high:.3f}), by what sentences state: "
        f"{human['sentences']:,} judged, {human['stating']:,} state a relation ({where}{beside})"
    )


def selection_note(selection: dict[str, Any]) -> str:
    """How many selected sentences express their fact, with the interval where few are judged."""
    said = f"selected sentences that express their fact: {selection['precision']:.0%}"
    if "judged" not in selection:  # a run of an earlier version
        return f"{said} (all sentences: {selection['base_rate']:.0%})"
    judged = f"the truth is known of {selection['judged']:,} sentences"
    if not selection["selected"]:
        return f"{judged}, and none of them was selected"
    low, high = selection["interval"]
    return (
        f"{said} (between {low:.0%} and {high:.0%}; all sentences: {selection['base_rate']:.0%}); {judged}, and of "
        f"their facts {selection['stated']:.0%} have a sentence that expresses them"
    )


def _notes(result: dict[str, Any]) -> list[str]:
    chosen, selection = result.get("metric"), result["selection"]
    intervals = [
        f"{split} {chosen} between {ends[0]:.3f} and {ends[1]:.3f}"
        for split, ends in result.get("intervals", {}).items()
        if ends
    ]
    trivial = [f"{TRIVIAL[answer]} {score:.3f}" for answer, score in result.get("trivial", {}).items()]
    notes = [
        *([f"{', '.join(intervals)} (95 %, by bootstrap)"] if intervals else []),
        *([f"answers that need no model, test {chosen}: {', '.join(trivial)}"] if trivial else []),
        f"{format_bytes(result['bytes']['up'])} up, {format_bytes(result['bytes']['down'])} down",
        f"{duration(result['seconds']['total'])} at {result['sentences_per_second']:,.0f} sentences/s",
    ]
    if result.get("privacy", {}).get("sums") == "secure":
        notes.append(f"secure sums, over at least {result['privacy']['least']} platforms: no update was seen by itself")
    notes += noise_notes(result.get("dp"))
    if (unnamed := result.get(WITHOUT_NAMES)) is not None:
        notes.insert(0, f"dev ap with names hidden {unnamed:.3f}: compare methods by it where labels are distant")
    if human := result.get("human"):
        notes.insert(0, human_note(human, chosen))
    if trusted := result.get("trusted"):
        notes.insert(
            0, f"the round was chosen by people's labels of {trusted['of']}: ap_human {trusted['ap_human']:.3f}"
        )
    if selection:
        notes.insert(0, selection_note(selection))
    if calibration := result.get("calibration"):  # a run of an earlier version has none
        dev, test = (calibration[split] for split in ("dev", "test"))
        notes.append(
            "calibration error: not known, dev has too few facts to tell"
            if calibration.get("most", 1.0) < SURE
            else f"calibration error: test {test['ece_after']:.3f}; nothing could be fitted on dev"
            if dev["ece_after"] is None
            else f"calibration error: dev {dev['ece_before']:.3f}, after fitting {dev['ece_after']:.3f}; "
            f"test {test['ece_before']:.3f}, after fitting {test['ece_after']:.3f}"
        )
    if ties := int(result["test"].get("ties", 0)):
        notes.append(f"{ties:,} candidates of test share their score with others; scores are means over their orders")
    notes += [f"warning: {warning}" for warning in result.get("too_little", [])]
    for split, said in result.get("held_out", {}).items():
        left_out = f", without {', '.join(said['without'])}" if said["without"] else ""
        notes.append(f"{split} was scored by the platforms, each on its own held-out data{left_out}")
    for platform, told in result.get("suspicions", {}).items():
        counts = f"left out of {told['left_out']} rounds, reported in {told['reported']} more"
        notes.append(f"{platform} sent outliers: {counts}; the first: {told['first']}")
    return notes
