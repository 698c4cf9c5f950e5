"""Many runs, several in parallel, each in its own process; an interrupted one is resumed from its checkpoint."""

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
from fedrel.util.files import write_atomic
from fedrel.util.parallel import cores, end_with_parent

DIVERGED = "diverged.txt"


@dataclass(frozen=True)
class Job:
    """One run: its label in messages, its experiment and its folder."""

    label: str
    experiment: Experiment
    folder: Path


Ending = Callable[[Execution, Path], str]  # called after the last round; returns a line for the log


def run_missing(jobs: list[Job], ending: Ending, written: str, parallel: int) -> None:
    """Runs the jobs whose folder has neither the file `written` by `ending` nor a note that the run diverged.
    `parallel`: how many at a time; 0: one per core, or one on a GPU.
    """
    jobs = list({job.folder: job for job in jobs}.values())  # fraction=1 and fraction=1.0 are one run
    missing = [job for job in jobs if not any((job.folder / name).is_file() for name in (written, DIVERGED))]
    if len(missing) < len(jobs):
        say(f"{len(jobs) - len(missing)} of {len(jobs)} runs are already finished and are reused")
    if not missing:
        return
    parallel = min(parallel or (1 if torch.cuda.is_available() else cores()), len(missing))
    say(f"{len(missing)} runs, {parallel} in parallel")
    for job in {job.experiment.data: job for job in reversed(missing)}.values():
        prepare(job.experiment, say=say)  # caches the data once, instead of in several processes at the same time
    context = multiprocessing.get_context("spawn")
    with _progress() as bar, ProcessPoolExecutor(parallel, context, initializer=end_with_parent) as pool:
        task = bar.add_task("", total=len(missing), left="")
        begin = time.monotonic()
        try:
            futures = _submit(pool, missing, ending, parallel)
            for count, (job, line) in enumerate(_as_they_finish(futures), 1):
                left = (time.monotonic() - begin) / count * (len(missing) - count)
                bar.update(task, completed=count, left=f"about {duration(left)} left")
                err.print(f"{count}/{len(missing)}  {job.label}: {line}", soft_wrap=True)
        except BaseException as error:
            for process in pool._processes.values():
                process.terminate()  # an unfinished run is resumed from its checkpoint next time
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                err.print("finished runs are kept; the same command continues from there")
            raise


def _submit(pool: ProcessPoolExecutor, jobs: list[Job], ending: Ending, parallel: int) -> dict[Future[str], Job]:
    """Starts the processes with SIGINT ignored: a terminal sends it to all, but this process decides when they stop."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return {pool.submit(_run, _shared(job.experiment, parallel), str(job.folder), ending): job for job in jobs}
    finally:
        signal.signal(signal.SIGINT, before)


def _shared(experiment: Experiment, parallel: int) -> dict[str, object]:
    """The experiment as a table, for another process, with its share of the cores."""
    workers = max(1, cores() // parallel)
    return config.to_table(replace(experiment, engine=replace(experiment.engine, workers=workers)))


def _run(table: dict[str, object], folder: str, ending: Ending) -> str:
    """Runs one job in this process, from its checkpoint if it was interrupted. Returns a line for the log."""
    path = Path(folder)
    begin = time.monotonic()
    try:
        execution = Execution(prepare(config.parse(table)), path, resume=path.is_dir(), watch_loss=False)
        for _ in execution.rounds():
            pass
        line = ending(execution, path)
    except DivergedError as error:
        write_atomic(path / DIVERGED, str(error))
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
