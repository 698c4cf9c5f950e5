"""`fedrel submit`, `fedrel status` and `fedrel stop`: an administrator's side of a federation."""

from __future__ import annotations

import json
import re
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
from fedrel.assembly import complete, read_experiment
from fedrel.cli.console import err, out, print_json, say, tell
from fedrel.cli.federation import federation_extra
from fedrel.cli.run import Settings
from fedrel.errors import UserError
from fedrel.federation.engines.nvflare.status import ENDED, read_start, read_status, status_files
from fedrel.units import megabytes

if TYPE_CHECKING:
    from fedrel.federation.engines.nvflare.kits import Kit
    from fedrel.federation.engines.nvflare.session import Admin

KitFolder = Annotated[Path, typer.Argument(help="The admin's kit, or the coordinator's on its own machine.")]
_LOOK = 1.0
_STOP = 60.0  # seconds that a run has to end
_SHOWN = 5  # runs that have ended


def submit(
    kit: KitFolder,
    experiment: Annotated[Path | None, typer.Argument(help="An experiment file.")] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    name: Annotated[str, typer.Option("--name", help="Of the run; a folder is called so.")] = "",
    resume: Annotated[str, typer.Option("--resume", help="Go on with this run.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for the result.")] = False,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for platforms.")] = 60.0,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Start a run on the federation: the same experiment file as for `fedrel run`."""
    opened = _open(kit)
    if resume and (experiment or set_ or name):
        raise UserError("--resume goes on with the run's own experiment; leave out the file, --set and --name")
    from fedrel.federation.engines.nvflare.session import connect

    settings = None if resume else _settings(experiment, set_)
    run = resume or name or f"{experiment.stem if experiment else 'run'}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", run):
        raise UserError(f"--name {run}: letters, digits, . _ and - only, at most 80")
    with connect(opened, timeout=max(wait, 10.0)) as admin:
        if resume:
            _require_resumable(admin, resume)
        _wait_for_platforms(admin, settings.engine.min_platforms if settings else 1, wait)
        job = admin.submit(run, config.to_toml(config.to_table(settings)) if settings else "")
        say(f"{run} was submitted")
        if not follow:
            if json_:
                print_json(json.dumps({"run": run, "job": job}))
            else:
                tell(f"see how it does with: fedrel status {kit}")
            return
        status_ = _follow(admin, run)
    _present(opened, status_, json_)


def _settings(path: Path | None, given: list[str]) -> config.Experiment:
    """The experiment with the defaults of a federation; what cannot work there is refused before it travels."""
    from fedrel.parties import federated

    read_experiment(path, given)  # a mistake in the file is told with its line
    table, _ = config.read_table(path)
    settings = complete(config.parse(federated(config.override(table, given)), "the experiment"))
    return replace(settings, data=replace(settings.data, path=""))  # everybody has their own


def _wait_for_platforms(admin: Admin, wanted: int, seconds: float) -> None:
    """A run can begin without some; it is kinder to wait for those who are on their way."""
    until = time.monotonic() + seconds
    while len(here := admin.connected()) < wanted:
        if time.monotonic() > until:
            raise UserError(
                f"{len(here)} of at least {wanted} platforms are connected after {seconds:g} s "
                f"({', '.join(sorted(here)) or 'none'}); start them, or set engine.min_platforms lower"
            )
        time.sleep(_LOOK)
    say(f"connected: {', '.join(sorted(here))}")


def _require_resumable(admin: Admin, run: str) -> None:
    if not any(job.run == run for job in admin.jobs()):
        raise UserError(f"--resume {run}: the coordinator knows no such run; see `fedrel status`")
    if admin.state(run) is not None:
        raise UserError(f"--resume {run}: it is running")


def _follow(admin: Admin, run: str) -> dict[str, Any]:
    """Until the run has ended, through as many jobs as it takes."""
    last: dict[str, Any] = {"run": run, "state": "starting", "round": 0}
    told: tuple[object, ...] = ()
    with Live(console=err, transient=True, auto_refresh=False) as live:
        while last["state"] not in ENDED:
            time.sleep(_LOOK)
            last = admin.state(run) or last
            if err.is_terminal:
                live.update(_tables([last], {}), refresh=True)
            elif (now := (last["state"], last["round"])) != told:
                told = now
                say(f"{run}: {last['state']}, round {last['round']} of {last.get('rounds', '?')} {last.get('why', '')}")
    return last


def _present(kit: Kit, status_: dict[str, Any], as_json: bool) -> None:
    from fedrel.cli.show import result_table

    if status_["state"] != "done":
        raise UserError(f"{status_['run']} {status_['state']} after round {status_['round']}: {status_['why']}")
    if as_json:
        print_json(json.dumps(status_["result"], indent=1))
        return
    out.print(result_table(status_["result"]))
    folder = Path(status_["folder"])
    where = str(folder) if kit.role == "coordinator" or folder.is_dir() else f"{folder} on {kit.host}"
    tell(f"result  {where}", "bold")


def status(
    kit: KitFolder,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing until Ctrl-C.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show the federation: platforms, runs, rounds, bytes, failures."""
    opened = _open(kit)
    from fedrel.federation.engines.nvflare.session import connect

    with connect(opened) as admin:
        if json_:
            print_json(json.dumps(_look(admin, opened), indent=1))
            return
        if not watch:
            out.print(_tables(**_look(admin, opened)))
            return
        with Live(console=out, auto_refresh=False) as live:
            while True:
                live.update(_tables(**_look(admin, opened)), refresh=True)
                time.sleep(_LOOK)


def _look(admin: Admin, kit: Kit) -> dict[str, Any]:
    running = {job.run: job.id for job in reversed(admin.jobs()) if job.state == "RUNNING"}
    try:
        found = [admin.state(run) for run in running]
    except UserError:  # who may only look sees less
        found = [
            {"run": run, "job": job, "state": "running", "round": "?", "metric": ""} for run, job in running.items()
        ]
    going = [it for it in found if it]
    return {"runs": [*going, *_ended(admin, kit, {it["run"] for it in going})], "connected": admin.connected()}


def _ended(admin: Admin, kit: Kit, going: set[str]) -> list[dict[str, Any]]:
    """The last runs that are over: on the coordinator's machine with why, elsewhere as NVFlare calls it."""
    if runs := _runs_here(kit):
        files = sorted(status_files(runs), key=lambda path: path.stat().st_mtime)
        known = [status_ for path in files if (status_ := read_status(path))]
    else:
        known = [
            {"run": job.run, "state": job.state.lower().removeprefix("finished:"), "round": "?", "metric": ""}
            for job in reversed(admin.jobs())
        ]
    over = {it["run"]: it for it in known if it["run"] not in going}
    return list(over.values())[-_SHOWN:]


def _runs_here(kit: Kit) -> Path | None:
    """Where the coordinator keeps its runs, if this is its kit and it was started with it."""
    try:
        return Path(read_start(kit.folder)["runs"]) if kit.role == "coordinator" else None
    except (OSError, ValueError):
        return None


def _tables(runs: list[dict[str, Any]], connected: dict[str, float]) -> Table:
    grid = Table.grid(padding=(1, 0))
    table = Table("run", "state", "round", "dev", "best", "doing")
    for it in runs:
        score = it.get("score")
        table.add_row(
            it["run"],
            it["state"],
            f"{it['round']} of {it.get('rounds', '?')}",
            f"{it['metric']} {score:.3f}" if isinstance(score, float) else "",
            str(it.get("best_round") or ""),
            it.get("why") or (it.get("doing", "") if it["state"] not in ENDED else ""),
        )
    if not runs:
        table.add_row("no run", "", "", "", "", "")
    grid.add_row(table)
    of_runs = {name: entry for it in runs for name, entry in it.get("platforms", {}).items()}
    parties = Table("platform", "connected", "last answer", "sent", "failures", "last failure")
    for name in sorted(connected.keys() | of_runs.keys()):
        mine = of_runs.get(name, {})
        here = Text("yes", "green") if name in connected else Text("no", "red")
        seen = datetime.fromtimestamp(mine["seen"], UTC).strftime("%H:%M:%S UTC") if mine.get("seen") else ""
        failures = mine.get("failures", 0)
        parties.add_row(
            name,
            here,
            seen,
            megabytes(mine["bytes"]) if mine else "",
            Text(str(failures), "red" if failures else ""),
            mine.get("why", ""),
        )
    grid.add_row(parties)
    return grid


def stop(
    kit: KitFolder,
    run: Annotated[str, typer.Argument(help="The run to stop; without it, the one that is running.")] = "",
) -> None:
    """Stop a run; it can be gone on with."""
    opened = _open(kit)
    from fedrel.federation.engines.nvflare.session import connect

    with connect(opened) as admin:
        running = {
            it["run"]: it["job"] for it in _look(admin, opened)["runs"] if it["state"] not in ENDED and "job" in it
        }
        if not run and len(running) != 1:
            raise UserError(f"{len(running)} runs are going on; name one of them: {', '.join(running) or 'none'}")
        chosen = run or next(iter(running))
        if chosen not in running:
            raise UserError(f"{chosen} is not running; see `fedrel status {kit}`")
        admin.command(running[chosen], "stop")
        until = time.monotonic() + _STOP
        while admin.running(chosen) and time.monotonic() < until:
            time.sleep(_LOOK)
    tell(f"{chosen} stops; go on with: fedrel submit {kit} --resume {chosen}")


def _open(path: Path) -> Kit:
    with federation_extra():
        from fedrel.federation.engines.nvflare.kits import open_kit

    return open_kit(path)
