"""Terminal output: colours and live progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fedrel.util.escaping import json_escaped, shown, shown_lines

_LONGEST_LINE = 20_000  # characters; names in it may be untrusted


class _Screen(Console):
    """A console for untrusted names, sentences and error messages: nothing in them is interpreted as markup or as a
    terminal control sequence. Our own styles are passed as Text.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(shown_lines(segment.text), segment.style)


# Results go to standard output, progress and messages to standard error.
out = _Screen(highlight=False, emoji=False, markup=False)  # with emoji, file.jsonl:100: would become 💯
err = _Screen(stderr=True, highlight=False, emoji=False, markup=False)


def complain(sentence: str) -> None:
    """Prints an error to standard error, as one line."""
    whole = shown(" ".join(sentence.splitlines()), _LONGEST_LINE)
    err.print(Text.assemble(("fedrel:", "bold red"), " ", whole), soft_wrap=True)


def say(line: str) -> None:
    """Prints a progress message to standard error, as one line."""
    err.print(Text(shown(line, _LONGEST_LINE), "dim"), soft_wrap=True)


def tell(line: str, style: str = "") -> None:
    """Prints one line of the result to standard output; control characters and line breaks in it are escaped."""
    out.print(Text(shown(line, _LONGEST_LINE), style), soft_wrap=True)


def print_json(text: str) -> None:
    """Prints JSON to standard output, escaped so that it is safe on a terminal too."""
    sys.stdout.write(json_escaped(text if text.endswith("\n") else text + "\n"))


def duration(seconds: float) -> str:
    """As H:MM:SS, or M:SS below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
