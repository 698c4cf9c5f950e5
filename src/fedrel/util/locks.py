"""Locks on files, which the kernel releases when their process dies."""

from __future__ import annotations

from fedrel.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def lock_alone(descriptor: int) -> None:
    """Locks an open file for this process alone. Raises BlockingIOError if another has it, UserError where there is no
    such lock.
    """
    require_locks()
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def require_locks() -> None:
    """Raises UserError on a system that has no locks on files: there, no party of a federation can run."""
    if fcntl is None:
        raise UserError("a federation's parties need Linux; here, fedrel simulates, trains and extracts (fedrel run)")
