"""What a person sees: colours and live progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fedrel.util.escaping import json_escaped, shown, shown_lines

_LONGEST_LINE = 20_000  # characters: names in it may come from anybody


class _Screen(Console):
    """A console for names, sentences and failures that come from elsewhere: nothing in them is taken for markup, and
    nothing steers the terminal. Styles come from us, as Text.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(shown_lines(segment.text), segment.style)


# Results go to standard output; what happens on the way goes to standard error.
out = _Screen(highlight=False, emoji=False, markup=False)  # with emoji, file.jsonl:100: would show a 💯
err = _Screen(stderr=True, highlight=False, emoji=False, markup=False)


def complain(sentence: str) -> None:
    whole = shown(" ".join(sentence.splitlines()), _LONGEST_LINE)
    err.print(Text.assemble(("fedrel:", "bold red"), " ", whole), soft_wrap=True)


def say(line: str) -> None:
    err.print(Text(shown(line, _LONGEST_LINE), "dim"), soft_wrap=True)


def tell(line: str, style: str = "") -> None:
    """A line of the result; names in it are shown as they are, and never as more lines than this one."""
    out.print(Text(shown(line, _LONGEST_LINE), style), soft_wrap=True)


def print_json(text: str) -> None:
    """For programs, and yet safe for a terminal."""
    sys.stdout.write(json_escaped(text if text.endswith("\n") else text + "\n"))


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
