"""Many runs, several in parallel, with progress on standard error."""

from __future__ import annotations

import time

import torch
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from fedrel.cli.console import duration, err, say
from fedrel.sweeps.pool import Ending, Job, cache_data, run_in_processes, unfinished
from fedrel.util.parallel import cores


def run_missing(jobs: list[Job], ending: Ending, written: str, parallel: int) -> None:
    """Runs the jobs whose folder has neither the file `written` by `ending` nor a note that the run diverged.
    `parallel`: how many at a time; 0: one per core, or one on a GPU.
    """
    missing, count = unfinished(jobs, written), len({job.folder for job in jobs})
    if len(missing) < count:
        say(f"{count - len(missing)} of {count} runs are already finished and are reused")
    if not missing:
        return
    parallel = min(parallel or (1 if torch.cuda.is_available() else cores()), len(missing))
    say(f"{len(missing)} runs, {parallel} in parallel")
    cache_data(missing, say)
    with _progress() as bar:
        task = bar.add_task("", total=len(missing), left="")
        begin = time.monotonic()
        try:
            for number, done in enumerate(run_in_processes(missing, ending, parallel), 1):
                left = (time.monotonic() - begin) / number * (len(missing) - number)
                bar.update(task, completed=number, left=f"about {duration(left)} left")
                took = "" if done.seconds is None else f", {duration(done.seconds)}"
                err.print(f"{number}/{len(missing)}  {done.job.label}: {done.line}{took}", soft_wrap=True)
        except KeyboardInterrupt:
            err.print("finished runs are kept; the same command continues from there")
            raise


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
