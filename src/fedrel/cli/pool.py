"""Many runs, several at a time, each in a process of its own; one that was cut off goes on where it was."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from fedrel import config
from fedrel.cli.console import duration, err, say
from fedrel.config import Experiment
from fedrel.errors import DivergedError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.util.files import write_whole
from fedrel.util.parallel import cores, end_with_parent

DIVERGED = "diverged.txt"


@dataclass(frozen=True)
class Job:
    label: str
    experiment: Experiment
    folder: Path


Ending = Callable[[Execution, Path], str]  # what happens after the last round; answers with a line for the log


def run_missing(jobs: list[Job], ending: Ending, written: str, side_by_side: int) -> None:
    """Runs what is not over: what `ending` has not `written` yet, and what has not diverged, which it would again."""
    jobs = list({job.folder: job for job in jobs}.values())  # fraction=1 and fraction=1.0 are one run
    missing = [job for job in jobs if not any((job.folder / name).is_file() for name in (written, DIVERGED))]
    if len(missing) < len(jobs):
        say(f"{len(jobs) - len(missing)} of {len(jobs)} runs are finished already and are used again")
    if not missing:
        return
    side_by_side = min(side_by_side or (1 if torch.cuda.is_available() else cores()), len(missing))
    say(f"{len(missing)} runs, {side_by_side} side by side")
    for job in {job.experiment.data: job for job in reversed(missing)}.values():
        prepare(job.experiment, say=say)  # reads the data once, before several processes would
    context = multiprocessing.get_context("spawn")
    with _progress() as bar, ProcessPoolExecutor(side_by_side, context, initializer=end_with_parent) as pool:
        task = bar.add_task("", total=len(missing), left="")
        begin = time.monotonic()
        try:
            futures = _submit(pool, missing, ending, side_by_side)
            for count, (job, line) in enumerate(_as_they_finish(futures), 1):
                left = (time.monotonic() - begin) / count * (len(missing) - count)
                bar.update(task, completed=count, left=f"about {duration(left)} left")
                err.print(f"{count}/{len(missing)}  {job.label}: {line}", soft_wrap=True)
        except BaseException as error:
            for process in pool._processes.values():
                process.terminate()  # a half-finished run goes on from its checkpoint next time
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                err.print("what was finished is kept; the same command goes on from there")
            raise


def _submit(pool: ProcessPoolExecutor, jobs: list[Job], ending: Ending, side_by_side: int) -> dict[Future[str], Job]:
    """Starts the processes deaf to Ctrl-C, which a terminal sends to all: this one tells them when to stop."""
    hearing = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return {pool.submit(_run, _shared(job.experiment, side_by_side), str(job.folder), ending): job for job in jobs}
    finally:
        signal.signal(signal.SIGINT, hearing)


def _shared(experiment: Experiment, side_by_side: int) -> dict[str, object]:
    """As a table, since it goes to another process; runs side by side share the cores."""
    workers = max(1, cores() // side_by_side)
    return config.to_table(replace(experiment, engine=replace(experiment.engine, workers=workers)))


def _run(table: dict[str, object], folder: str, ending: Ending) -> str:
    """One run in this process, gone on with where it was cut off."""
    path = Path(folder)
    begin = time.monotonic()
    try:
        execution = Execution(prepare(config.parse(table)), path, resume=path.is_dir())
        for _ in execution.rounds():
            pass
        line = ending(execution, path)
    except DivergedError as error:
        write_whole(path / DIVERGED, str(error))
        return str(error)
    return f"{line}, {duration(time.monotonic() - begin)}"


def _as_they_finish(futures: dict[Future[str], Job]) -> Iterator[tuple[Job, str]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield futures[future], future.result()


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} runs"),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
