"""The command line's frame: subcommands, exit codes, one sentence per mistake.

Exit codes: 0 done, 2 the user's input, 1 our fault, 130 interrupted.
"""

from __future__ import annotations

import errno
import functools
import io
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from fedrel.cli import compare, data, estimate, extract, label, methods, partition, review, run, show, tune, verdicts
from fedrel.cli.console import complain
from fedrel.errors import UserError
from fedrel.version import installed_version

Arguments = ParamSpec("Arguments")
# What a person can mend: a full disk, a folder that is not theirs, a file in the way.
_MENDABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG),
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train a relation extractor across organisations whose text stays at home.",
)
data_app = typer.Typer(no_args_is_help=True, help="Make or check data sets.")
app.add_typer(data_app, name="data")
feedback_app = typer.Typer(no_args_is_help=True, help="What users said of predictions.")
app.add_typer(feedback_app, name="feedback")


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns a mistake into one sentence and an exit code, without a traceback."""

    @functools.wraps(command)
    def wrapper(*args: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            command(*args, **options)
        except UserError as error:
            complain(str(error))
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except OSError as error:
            if error.errno not in _MENDABLE:
                raise
            complain(f"{error.filename or 'writing'}: {error.strerror}; what was finished before is kept")
            raise typer.Exit(2) from None

    return wrapper


for command in (run.run, compare.compare, tune.tune, show.show, methods.methods, label.label, extract.extract):
    app.command(command.__name__)(guarded(command))
app.command("review")(guarded(review.review))
for subcommand in (data.world, data.check, partition.partition):
    data_app.command(subcommand.__name__)(guarded(subcommand))
feedback_app.command("estimate")(guarded(estimate.estimate))
feedback_app.command("export")(guarded(verdicts.export))
feedback_app.command("import")(guarded(verdicts.import_))
feedback_app.command("show")(guarded(verdicts.show))


@app.callback(invoke_without_command=True)
def _top(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(installed_version())
        raise typer.Exit


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    app()
