"""Which fedrel this is."""

import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def installed_version() -> str:
    try:
        return version("fedrel")
    except PackageNotFoundError:  # used from a checkout that is not installed
        return "unknown"


def checked_out_commit() -> str:
    """The commit of the checkout that this code runs from, with a + if its files were changed since; empty where there
    is no checkout, as from a wheel.
    """
    here = Path(__file__)
    if not _git("ls-files", "--error-unmatch", here.name):  # another project's checkout, around an environment
        return ""
    changed = _git("status", "--porcelain", "--untracked-files=no", str(here.parent))
    return _git("rev-parse", "HEAD") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    """What git prints; empty if it fails, or there is no git."""
    try:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
