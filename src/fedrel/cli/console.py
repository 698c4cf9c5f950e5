"""What a person sees: colours and live progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console

# Results go to standard output; what happens on the way goes to standard error.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def complain(sentence: str) -> None:
    err.print(f"[bold red]fedrel:[/] {_escape(sentence)}", soft_wrap=True)


def say(line: str) -> None:
    err.print(f"[dim]{_escape(line)}[/]", soft_wrap=True)


def print_json(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def megabytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _escape(text: str) -> str:
    return text.replace("[", r"\[")
