"""`fedrel run`: one experiment, from data to a report."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from fedrel import config
from fedrel.api.runs import new_folder
from fedrel.cli.console import err, print_json, say, tell
from fedrel.cli.progress import RunProgress
from fedrel.cli.show import show_result
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.assembly import Setup, prepare, read_experiment, stacked_platforms
from fedrel.experiment.divergence import begin_again, require_free
from fedrel.experiment.execution import Execution
from fedrel.experiment.results import experiment_of, read_result
from fedrel.kernels.jit import compiles_first
from fedrel.kernels.step import descend
from fedrel.report.page import write_report
from fedrel.util.profiling import watching
from fedrel.util.units import format_bytes

Settings = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one value, e.g. training.lr=0.1")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]


def run(
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file; without one, the built-in demo.")
    ] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    out_: Annotated[Path | None, typer.Option("--out", help="Folder for the results.")] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="MODEL", help="Go on from a finished run's model and settings.")
    ] = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Go on with an interrupted run.")] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Measure where the time goes, into the result and the report.")
    ] = False,
    json_: AsJson = False,
) -> None:
    """Train one extractor and write model, metrics, ledger and report."""
    if resume and (experiment or set_ or out_ or from_):
        raise UserError(
            "--resume goes on with the folder's own experiment; leave out the file, --set, --out and --from"
        )
    resumed = experiment_of(resume) if resume else None
    if resume and (resume / "result.json").is_file():
        if (resume / "report.html").is_file():
            raise UserError(f"{resume}: this run is finished; look at it with: fedrel show {resume}")
        write_report(resume)  # all that was missing
        _present(read_result(resume), resume, json_)
        return
    settings = resumed or read_experiment(experiment, set_, start=from_)
    folder = resume or out_ or new_folder(experiment.stem if experiment else str(settings.method["name"]))
    if not resume:
        require_free(folder)  # before the data are prepared, which may take long
    with watching(_wait_for_device) if profile else nullcontext():
        result = execute(settings, folder, resume=resume is not None)
    _present(result, folder, json_)


def _wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _present(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps(result, indent=1))
        return
    show_result(result)
    tell(f"result  {folder / 'result.json'}")
    tell(f"model   {folder / 'model'}")
    tell(f"report  {folder / 'report.html'}   (open it in a browser)", "bold")


def execute(settings: config.Experiment, folder: Path, *, resume: bool = False) -> dict[str, Any]:
    """Runs to the end with progress on standard error. A run that diverges begins again with a smaller learning rate,
    as often as training.restarts allows.
    """
    while True:
        try:
            return _execute(settings, folder, resume=resume)
        except DivergedError as error:
            settings, resume = begin_again(settings, folder, error), False
            say(f"{error}; beginning again with training.lr={settings.training.lr:g}")


def _execute(settings: config.Experiment, folder: Path, *, resume: bool) -> dict[str, Any]:
    setup = prepare(settings, say=say)
    say(_what_runs(settings, setup))
    if setup.model.device.type == "cpu" and compiles_first(descend):
        say("compiling for this machine, once: the first round takes up to a minute longer …")
    if setup.algorithm.preparation >= settings.training.rounds:
        say(
            f"warning: all {settings.training.rounds} rounds are preparation, of which the method wants "
            f"{setup.algorithm.preparation}; allow more training.rounds"
        )
    if setup.model.device.type == "cuda":
        say(_on_gpu(setup))
    training = settings.training
    execution: Execution | None = None
    try:
        with RunProgress(str(settings.method["name"]), training.rounds, training.metric) as progress:
            execution = Execution(setup, folder, resume=resume, tick=progress.tick, say=say)
            progress.first = execution.standing.rounds
            for done in execution.rounds():
                progress.round_done(done)
            progress.tick("testing")
            result = execution.finish()
            progress.tick("writing the report")
            write_report(folder)
    except KeyboardInterrupt:
        _offer_resume(execution, folder)
        raise
    except DivergedError:
        raise
    except (UserError, OSError):
        if execution is not None and execution.saved_rounds:
            _offer_resume(execution, folder)
        raise
    up, down = format_bytes(result["bytes"]["up"]), format_bytes(result["bytes"]["down"])
    chosen = "best round by trusted labels" if result["trusted"] else "best dev round"
    say(f"{chosen} {result['best_round']} of {result['rounds']}; {up} up, {down} down")
    return result


def _what_runs(settings: config.Experiment, setup: Setup) -> str:
    dataset, platforms = setup.dataset, len(setup.sites)
    count = len(dataset.relations) - int(dataset.has_na)
    relations = f"{count} {'relation' if dataset.has_pairs else 'label'}{'s' * (count != 1)}"
    texts = "sentences" if dataset.has_pairs else "texts"
    holders = (
        f"held by {platforms:,} platforms, {len(setup.sampler.cohort(0)):,} a round"
        if platforms > 1
        else "of one holder (partition.platforms=… simulates a federation)"
    )
    sums = "; secure sums" if setup.experiment.privacy.sums == "secure" else ""
    return f"{settings.method['name']} on {len(dataset.train):,} {texts} {holders}; {relations}{sums}"


def _on_gpu(setup: Setup) -> str:
    rounded = torch.get_float32_matmul_precision() != "highest"
    numbers = 'products in TF32 (engine.precision = "float32" is exact and slower)' if rounded else "float32"
    together = "; platforms train stacked" if stacked_platforms(setup) else ""
    return f"on {torch.cuda.get_device_name(setup.model.device)}, {numbers}{together}"


def _offer_resume(execution: Execution | None, folder: Path) -> None:
    if execution is not None:
        done = execution.saved_rounds
        err.print(f"kept after round {done}; go on with: fedrel run --resume {folder}", soft_wrap=True)
