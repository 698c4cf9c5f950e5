"""Progress while reading text: how much is read, how fast, and the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedrel.cli.console import duration, err

_PLAIN_EVERY = 5.0  # seconds between lines where there is no terminal


class Tick(Protocol):
    def __call__(self, characters: int, sentences: int) -> None: ...


@contextmanager
def reading_progress(what: str, size: int, unit: str = "sentences") -> Iterator[Tick]:
    """A progress bar for `size` characters on a terminal, a line every 5 seconds elsewhere. Yields a function to call
    with the characters and sentences (or whatever the unit is) read so far.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[news]}", style="dim", markup=False),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    task = bar.add_task(what, total=max(size, 1), news="")
    begin = said = time.monotonic()

    def tick(characters: int, sentences: int) -> None:
        nonlocal said
        now = time.monotonic()
        spent = max(now - begin, 1e-9)
        news = f"{sentences:,} {unit}, {sentences / spent:,.0f}/s"
        bar.update(task, completed=min(characters, size), news=news)
        if not err.is_terminal and now - said >= _PLAIN_EVERY:
            said = now
            left = spent / max(characters, 1) * max(size - characters, 0)
            err.print(f"{what}  {news}  about {duration(left)} left", soft_wrap=True)

    with bar:
        yield tick
