"""Many runs, in this process or several at a time in processes of their own; an interrupted one is resumed from its
checkpoint.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from fedrel import config
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


@dataclass(frozen=True)
class Done:
    """A job that has ended: a line for the log, and how long it took; `seconds` is None if the run diverged."""

    job: Job
    line: str
    seconds: float | None


Ending = Callable[[Execution, Path], str]  # called after the last round; returns a line for the log


def unfinished(jobs: Sequence[Job], written: str) -> list[Job]:
    """The jobs whose folder has neither the file `written` by an Ending nor a note that the run diverged."""
    distinct = {job.folder: job for job in jobs}.values()  # fraction=1 and fraction=1.0 are one run
    return [job for job in distinct if not any((job.folder / name).is_file() for name in (written, DIVERGED))]


def run_here(jobs: Sequence[Job], ending: Ending) -> Iterator[Done]:
    """Runs the jobs one after the other in this process."""
    for job in jobs:
        yield Done(job, *_run(_shared(job.experiment, 1), str(job.folder), ending))


def run_in_processes(jobs: Sequence[Job], ending: Ending, parallel: int) -> Iterator[Done]:
    """Runs the jobs, `parallel` at a time, each in a process of its own; yields each when it has ended. Their data are
    in the cache already, or every process would build it.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(parallel, context, initializer=end_with_parent) as pool:
        try:
            futures = _submit(pool, jobs, ending, parallel)
            for job, (line, seconds) in _as_they_finish(futures):
                yield Done(job, line, seconds)
        except BaseException:
            for process in pool._processes.values():
                process.terminate()  # an unfinished run is resumed from its checkpoint next time
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def cache_data(jobs: Sequence[Job], say: Callable[[str], None]) -> None:
    """Prepares the data of all jobs once, instead of in several processes at the same time."""
    for job in {job.experiment.data: job for job in reversed(jobs)}.values():
        prepare(job.experiment, say=say)


_Outcome = tuple[str, float | None]


def _submit(
    pool: ProcessPoolExecutor, jobs: Sequence[Job], ending: Ending, parallel: int
) -> dict[Future[_Outcome], Job]:
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


def _run(table: dict[str, object], folder: str, ending: Ending) -> _Outcome:
    """Runs one job in this process, from its checkpoint if it was interrupted. Returns a line for the log, and the
    seconds unless it diverged.
    """
    path = Path(folder)
    begin = time.monotonic()
    try:
        execution = Execution(prepare(config.parse(table)), path, resume=path.is_dir(), watch_loss=False)
        for _ in execution.rounds():
            pass
        line = ending(execution, path)
    except DivergedError as error:
        write_atomic(path / DIVERGED, str(error))
        return str(error), None
    return line, time.monotonic() - begin


def _as_they_finish(futures: dict[Future[_Outcome], Job]) -> Iterator[tuple[Job, _Outcome]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield futures[future], future.result()
