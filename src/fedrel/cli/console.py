"""What a person sees: colours and live progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

# Results go to standard output; what happens on the way goes to standard error.
out = Console(highlight=False, emoji=False)  # with it, file.jsonl:100: would show a 💯
err = Console(stderr=True, highlight=False, emoji=False)


def complain(sentence: str) -> None:
    err.print(Text.assemble(("fedrel:", "bold red"), " ", " ".join(sentence.splitlines())), soft_wrap=True)


def say(line: str) -> None:
    err.print(Text(line, "dim"), soft_wrap=True)


def tell(line: str, style: str = "") -> None:
    """A line of the result; names in it are shown as they are."""
    out.print(Text(line, style), soft_wrap=True)


def print_json(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
