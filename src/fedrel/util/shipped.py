"""Files that come with fedrel beside its code: the example of docs/example, and the experiments of the papers."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import fedrel
from fedrel.errors import UserError

_PLACES = {"example": "docs/example", "experiments": "experiments"}  # in the sources
_SHARE = ("share", "fedrel")  # where an installation has them


def shipped(part: str) -> dict[PurePosixPath, Path]:
    """Every file of a part ("example", "experiments"), by its path in it. Raises UserError if they are not there."""
    package = Path(fedrel.__file__).parent
    for root in (package.parents[1] / _PLACES[part], package.parent.joinpath(*_SHARE, part)):  # checkout, pip --target
        if root.is_dir():
            files = [path for path in sorted(root.rglob("*")) if path.is_file()]
            return {PurePosixPath(path.relative_to(root).as_posix()): path for path in files}
    found: dict[PurePosixPath, Path] = {}
    try:
        listed = distribution("fedrel").files or []
    except PackageNotFoundError:
        listed = []
    for file in listed:
        parts = [it for it in file.parts if it != ".."]
        if (*parts[:3],) == (*_SHARE, part):
            found[PurePosixPath(*parts[3:])] = Path(str(file.locate()))
    if not found:
        raise UserError(f"this installation of fedrel lacks its {part}; install it from its wheel again")
    return found
