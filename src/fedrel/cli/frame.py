"""A wrapper around every command, which turns errors into one sentence and an exit code.

Exit codes: 0 success, 2 invalid input, 1 a bug, 3 permanently refused by the coordinator, 130 interrupted.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from fedrel.cli.console import complain
from fedrel.corpus.packed import named_as_given
from fedrel.errors import UserError

Arguments = ParamSpec("Arguments")
# Errors that the user can fix: a full disk, a folder without access, an existing file.
_FIXABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG),
}


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Wraps a command: errors of the user become one sentence and an exit code, without a traceback."""

    @functools.wraps(command)
    def wrapper(*args: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            command(*args, **options)
        except UserError as error:
            complain(named_as_given(str(error)))
            raise typer.Exit(error.code) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except OSError as error:
            if error.errno not in _FIXABLE:
                raise
            complain(f"{error.filename or 'writing'}: {error.strerror}; everything finished before is kept")
            raise typer.Exit(2) from None

    return wrapper
