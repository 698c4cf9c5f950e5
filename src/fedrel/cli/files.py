"""The table of what became of every file of a folder of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from fedrel.cli.console import out
from fedrel.corpus import Skipped
from fedrel.corpus.file_counts import FileCounts
from fedrel.util.escaping import shown

_BROKEN = 20  # files that are named with what is wrong with them
_LONGEST = 400  # characters of a cell


def show_files(files: FileCounts | None) -> None:
    """Prints the table; nothing for a single file, which has none."""
    if files is None:
        return
    table = Table(title=f"{files.total:,} {'file' if files.total == 1 else 'files'}", title_justify="left")
    table.add_column("")
    table.add_column("files", justify="right")
    table.add_column("which", overflow="fold")
    read = ", ".join(f"{count:,} {extension}" for extension, count in files.read.most_common())
    rows = [("read", files.read.total(), read)]
    if files.empty.count:
        rows.append(("without text", files.empty.count, str(files.empty)))
    for extension, names in sorted(files.skipped.items()):
        rows.append((f"skipped: {extension}", names.count, f"{names}\n{names.advice}"))
    if files.broken_count:
        broken = [f"{name}: {why}" for name, why in list(files.broken.items())[:_BROKEN]]
        if (more := files.broken_count - len(broken)) > 0:
            broken.append(f"and {more:,} more")
        rows.append(("broken", files.broken_count, "\n".join(broken)))
    if files.aside.count:
        rows.append(("set aside", files.aside.count, f"{files.aside} (hidden, or about the text)"))
    for what, count, which in rows:
        lines = "\n".join(shown(line, _LONGEST) for line in which.split("\n"))
        table.add_row(Text(what), f"{count:,}", Text(lines))
    out.print(table)


def beside_files(reasons: Mapping[str, int], skipped: Skipped) -> dict[str, int]:
    """Why something was left out, without the files that are in the table."""
    return dict(Counter(reasons) - skipped.files.reasons)


def examples_beside_files(examples: list[str], skipped: Skipped) -> list[str]:
    """The first of what was left out, without the files that are in the table."""
    known = set(skipped.files.messages)
    return [line for line in examples if line not in known]
