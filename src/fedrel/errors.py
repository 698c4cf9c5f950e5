"""Mistakes of the person at the keyboard, told in one sentence that says how to mend them."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Bad input: the command line prints the message and exits with this code, without a traceback."""

    code = 2


class DivergedError(UserError):
    """Training produced a loss that is not a number."""


class ShutOutError(UserError):
    """The coordinator refuses this party for good: a service manager need not start it again."""

    code = 3


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "pcnn"?` where something known is near, else the list of what there is."""
    names = sorted(known)
    if not names:
        return ""
    return nearest(word, names) or f"; there is {', '.join(names)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "pcnn"?` where something known is near, else nothing."""
    names = sorted(known)
    near = [it for it in names if it.casefold() == word.casefold()] or get_close_matches(word, names, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
