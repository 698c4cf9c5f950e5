"""Live progress of a run: round, loss, dev score, sentences per second, bytes, time left."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from fedrel.cli.console import duration, err
from fedrel.experiment.standing import Progress as RoundProgress
from fedrel.util.units import format_bytes

_PLAIN_EVERY = 5.0  # seconds between lines where there is no terminal


class _TwoLines(Progress):
    """The bar, and below it the results of the last round, so that both fit into a narrow terminal."""

    news = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield Text(self.news, no_wrap=True, overflow="ellipsis")


class RunProgress:
    """A progress bar on a terminal; elsewhere a line every 5 seconds, and one for the last round."""

    def __init__(self, name: str, rounds: int, metric: str, *, done: int = 0) -> None:
        self.name, self.rounds, self.metric = name, rounds, metric
        self.first = done
        self.begin = time.monotonic()
        self.last_line = 0.0
        self.bar = _TwoLines(
            SpinnerColumn(),
            TextColumn("{task.fields[name]}", style="bold", markup=False),
            TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=10),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[doing]}", style="dim", markup=False),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        self.task = self.bar.add_task("", total=rounds, completed=done, name=name, left="", doing="")

    def __enter__(self) -> RunProgress:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def tick(self, doing: str) -> None:
        """Shows the current task."""
        self.bar.update(self.task, doing=doing)

    def round_done(self, progress: RoundProgress) -> None:
        """Shows the results of a round."""
        line = progress.line
        seen, now = line["round"] - self.first, time.monotonic()
        if seen == 1:
            self.begin = now  # the first round includes compiling and packing, so it does not predict the others
        left = (now - self.begin) / max(seen - 1, 1) * (self.rounds - line["round"])
        loss = "–" if line["loss"] is None else f"{line['loss']:.3f}"
        selection = line["selection"]
        best = f"best {progress.best_score:.3f}, round {progress.best_round}" if progress.best_round else "warm-up"
        dev, trusted = f"dev {self.metric} {line['dev'][self.metric]:.3f}", line.get("trusted")
        scores = f"{dev} ({best})" if trusted is None else f"{dev}  trusted {trusted:.3f} ({best})"
        news = (
            f"{scores}  loss {loss}"
            + (f"  selection {selection['precision']:.2f}" if selection else "")
            + (f"  ε {line['epsilon']:.3g}" if "epsilon" in line else "")
            + f"  {line['sentences_per_second']:,.0f} sentences/s"
            + f"  ↑{format_bytes(line['bytes']['up'])} ↓{format_bytes(line['bytes']['down'])}"
        )
        at_most = f"≤{duration(left)} left" if seen > 1 else "(time left after the next)"
        self.bar.update(self.task, completed=line["round"], left=at_most, doing="")
        self.bar.news = news
        if not err.is_terminal and (now - self.last_line >= _PLAIN_EVERY or progress.stopped or line["round"] == 1):
            self.last_line = now
            err.print(f"{self.name}  round {line['round']}/{self.rounds}  {at_most}  {news}", soft_wrap=True)
