"""The command line's frame: subcommands, exit codes, one sentence per mistake.

Exit codes: 0 done, 2 the user's input, 1 our fault, 130 interrupted.
"""

from __future__ import annotations

import errno
import sys

import click
import typer

from fedrel.cli import compare, data, methods, run, show
from fedrel.cli.console import complain
from fedrel.errors import UserError
from fedrel.execution import installed_version

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train a relation extractor across organisations whose text stays at home.",
)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("show")(show.show)
app.command("methods")(methods.methods)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def _top(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(installed_version())
        raise typer.Exit


def main() -> None:
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        code = app(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except UserError as error:
        complain(str(error))
        return 2
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        complain(error.format_message())
        return 2
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return 130
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EISDIR):
            place = f"{error.filename}: " if error.filename else ""
            complain(f"{place}{error.strerror}; nothing half-written was left behind")
            return 2
        raise


if __name__ == "__main__":
    main()
