"""`fedrel submit`, `fedrel status` and `fedrel stop`: the commands of a federation's admin."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedrel import config
from fedrel.cli.console import err, out, print_json, say, tell
from fedrel.cli.federation import federation_extra
from fedrel.cli.run import Settings
from fedrel.cli.watch import view_of
from fedrel.config.sections import AUTO
from fedrel.errors import UserError
from fedrel.experiment.assembly import complete, read_experiment
from fedrel.experiment.fitted import fitted
from fedrel.experiment.loggers import refuse_loggers
from fedrel.util.escaping import shown
from fedrel.util.files import run_name
from fedrel.util.units import format_bytes
from fedrel.watch.states import ENDED, QUEUED, rounds_done
from fedrel.watch.view import Run, View

if TYPE_CHECKING:
    from fedrel.federation.https.session import Session
    from fedrel.federation.kits.kit import Kit

KitFolder = Annotated[Path, typer.Argument(help="An admin's kit; for `status`, a viewer's is enough.")]
_LOOK = 0.5  # seconds between status requests
_STOP = 60.0  # seconds that a run has to end
_CELL = 300  # characters of a table cell
_WIDE = 100  # columns of a terminal in which every column of the status fits


def submit(
    kit: KitFolder,
    experiment: Annotated[Path | None, typer.Argument(help="An experiment file.")] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    name: Annotated[str, typer.Option("--name", help="Name of the run and its folder.")] = "",
    resume: Annotated[str, typer.Option("--resume", help="Name of a run to resume.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for the result.")] = False,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for platforms.")] = 60.0,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Start a run on the federation, with the same experiment file as for `fedrel run`. Runs are queued."""
    opened = _open(kit)
    if resume and (experiment or set_ or name):
        raise UserError("--resume uses the run's own experiment; leave out the file, --set and --name")
    from fedrel.federation.https.session import connect

    settings = None if resume else _settings(experiment, set_)
    run = run_name(resume or name or f"{experiment.stem if experiment else 'run'}-{time.strftime('%Y%m%d-%H%M%S')}")
    with connect(opened) as session:
        _wait_for_platforms(session, settings.engine.min_platforms if settings else 1, wait)
        place = session.submit(run, config.to_toml(config.to_table(settings)) if settings else "")
        say(f"{run} was submitted" + (f"; {place} ahead of it" if place else ""))
        if not follow:
            if json_:
                print_json(json.dumps({"run": run, "place": place}))
            else:
                tell(f"follow it with: fedrel status {kit}")
            return
        status_ = _follow(session, run)
    _present(opened, status_, json_)


def _settings(path: Path | None, given: list[str]) -> config.Experiment:
    """The experiment with the defaults of a federation. Raises UserError here for what cannot work there."""
    from fedrel.experiment.parties import federated
    from fedrel.experiment.sums_by_default import no_sums, objection_to_method

    read_experiment(path, given)  # reports a mistake in the file with its line
    table, _ = config.read_table(path)
    settings = fitted(complete(config.parse(federated(config.override(table, given)), "the experiment")), say=say)
    refuse_loggers(settings)
    if settings.privacy.sums == AUTO and (objection := objection_to_method(settings)):
        say(no_sums(objection))
    return replace(settings, data=replace(settings.data, path=""))  # each party has its own


def _wait_for_platforms(session: Session, wanted: int, seconds: float) -> None:
    """Waits until enough platforms are connected, for the case that they are still starting. Raises UserError if they
    are not after `seconds`.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            here = session.look()["connected"]
        except UserError:
            if time.monotonic() > until:
                raise
            here = {}
        if len(here) >= wanted:
            say(f"connected: {', '.join(shown(name) for name in sorted(here))}")
            return
        if time.monotonic() > until:
            raise UserError(
                f"{len(here)} of at least {wanted} platforms are connected after {seconds:g} s "
                f"({', '.join(sorted(here)) or 'none'}); start them, or set engine.min_platforms lower"
            )
        time.sleep(_LOOK)


def _follow(session: Session, run: str) -> dict[str, Any]:
    """Prints the progress of a run until it has ended, even if the coordinator is away for a while. Returns its
    status.
    """
    last: dict[str, Any] = {"run": run, "state": QUEUED, "round": 0}
    told: tuple[object, ...] = ()
    with Live(console=err, transient=True, auto_refresh=False) as live:
        while last["state"] not in ENDED:
            time.sleep(_LOOK)
            try:
                last = session.state(run) or last
            except UserError as error:
                last = {**last, "why": str(error)}
            line = _line(last)
            if err.is_terminal:
                live.update(Text(line), refresh=True)
            elif told != (now := (last["state"], last["round"], last.get("why"))):
                told = now
                say(line)
    return last


def _line(status: dict[str, Any]) -> str:
    if status["state"] == QUEUED:
        return f"{status['run']}: queued, {status.get('place', 0)} ahead of it"
    score = status.get("score")
    dev = f", dev {status['metric']} {score:.3f}" if isinstance(score, float) else ""
    why = f": {shown(str(status['why']), _CELL)}" if status.get("why") else ""
    return f"{status['run']}: {status['state']}, rounds: {rounds_done(status)}{dev}{why}"


def _present(kit: Kit, status: dict[str, Any], json_: bool) -> None:
    from fedrel.cli.show import show_result

    if status["state"] != "done":
        why = shown(str(status.get("why", "")), 1000)
        raise UserError(f"{status['run']} {status['state']} after round {status['round']}: {why}")
    if json_:
        print_json(json.dumps(status["result"], indent=1))
        return
    show_result(status["result"])
    folder = Path(status["folder"])
    where = shown(str(folder)) if folder.is_dir() else f"{shown(str(folder))} on {kit.host}"
    tell(f"result  {where}", "bold")


def status(
    kit: KitFolder,
    watch: Annotated[bool, typer.Option("--watch", help="Keep updating, until Ctrl-C.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show the federation: platforms, runs, rounds, bytes, failures."""
    opened = _open(kit)
    from fedrel.federation.https.session import connect

    with connect(opened) as session:
        if json_:
            found = session.look()
            print_json(json.dumps({"runs": found["runs"], "connected": found["connected"]}, indent=1))
            return
        if not watch:
            out.print(tables(view_of(session, time.time())))
            return
        with Live(console=out, auto_refresh=False) as live:
            while True:
                live.update(tables(view_of(session, time.time())), refresh=True)
                time.sleep(2 * _LOOK)


def tables(found: View) -> Table:
    """The status as tables. Its texts may be untrusted: markup and control characters in them are shown literally."""
    grid = Table.grid(padding=(1, 0))
    table = Table("run", "state", "round", "dev", "best", "doing")
    for run in found.runs:
        table.add_row(*(Text(shown(cell, _CELL)) for cell in _row(run)))
    if not found.runs:
        table.add_row("no run", "", "", "", "", "")
    grid.add_row(table)
    wide = out.width >= _WIDE
    about = ("platform", *(["connected"] if wide else []), "state", "last reply", "sent", "failures", "outliers")
    parties = Table(*about, *(["last problem"] if wide else []))
    for it in found.platforms:
        seen = datetime.fromtimestamp(it.seen, UTC).strftime("%H:%M:%S UTC") if it.seen else ""
        parties.add_row(
            Text(shown(it.name, 60)),
            *([Text("yes", "green") if it.connected else Text("no", "red")] if wide else []),
            Text(it.state),  # "gone" where it is not connected
            Text(seen),
            Text(format_bytes(it.sent) if it.sent else ""),
            Text(str(it.failures), "red" if it.failures else ""),
            Text(str(it.outliers), "red" if it.outliers else ""),
            *([Text(shown(it.problem, _CELL))] if wide else []),
        )
    grid.add_row(parties)
    if not wide:  # in a column of its own it would be cut
        for it in found.platforms:
            if it.problem:
                grid.add_row(Text(f"{shown(it.name, 60)}, last problem: {shown(it.problem, _CELL)}"))
    return grid


def _row(run: Run) -> tuple[str, ...]:
    doing = run.why or run.doing
    if run.state == QUEUED:
        doing = f"{run.place} ahead of it"
    elif run.is_silent:
        doing = f"{doing} (no heartbeat for {run.silent:.0f} s)".strip()
    score = "" if run.score is None else f"{run.metric} {run.score:.3f}"
    return run.name, run.state, run.done, score, str(run.best_round or ""), doing


def stop(
    kit: KitFolder,
    run: Annotated[str, typer.Argument(help="The run to stop; may be omitted if there is only one.")] = "",
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Stop a run. It can be resumed later."""
    opened = _open(kit)
    from fedrel.federation.https.session import connect

    with connect(opened) as session:
        going = [str(it["run"]) for it in session.look()["runs"] if it["state"] not in ENDED]
        if not run and len(going) != 1:
            raise UserError(f"{len(going)} runs are active; name one of them: {', '.join(going) or 'none'}")
        chosen = run or going[0]
        if chosen not in going:
            raise UserError(f"{shown(chosen)} is not running; see `fedrel status {kit}`")
        session.stop(chosen)
        until = time.monotonic() + _STOP
        while time.monotonic() < until and (session.state(chosen) or {"state": "stopped"})["state"] not in ENDED:
            time.sleep(_LOOK)
    if json_:
        print_json(json.dumps({"run": chosen}))
        return
    tell(f"{chosen} was stopped; resume it with: fedrel submit {kit} --resume {chosen}")


def _open(path: Path) -> Kit:
    with federation_extra():
        from fedrel.federation.kits.kit import open_kit

    return open_kit(path)
