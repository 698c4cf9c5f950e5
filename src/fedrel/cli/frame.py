"""What every command has around it: one sentence per mistake, and an exit code.

Exit codes: 0 done, 2 the user's input, 1 our fault, 3 shut out of the federation, 130 interrupted.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from fedrel.cli.console import complain
from fedrel.errors import UserError

Arguments = ParamSpec("Arguments")
# What a person can mend: a full disk, a folder that is not theirs, a file in the way.
_MENDABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG),
}


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns a mistake into one sentence and an exit code, without a traceback."""

    @functools.wraps(command)
    def wrapper(*args: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            command(*args, **options)
        except UserError as error:
            complain(str(error))
            raise typer.Exit(error.code) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except OSError as error:
            if error.errno not in _MENDABLE:
                raise
            complain(f"{error.filename or 'writing'}: {error.strerror}; what was finished before is kept")
            raise typer.Exit(2) from None

    return wrapper
