"""Parts of fedrel that other packages add: entry points by group and name, loaded when they are first used.

A package adds a method, say, by naming it in its own pyproject.toml:

    [project.entry-points."fedrel.algorithms"]
    fednova = "my_package.fednova:METHOD"
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Generic, TypeVar

from fedrel.errors import UserError

Part = TypeVar("Part")


@dataclass(frozen=True)
class Origin:
    """The installed package that a plug-in comes from."""

    package: str
    version: str
    digest: str  # sha256 of its source files, hexadecimal

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Registry(Mapping[str, Part], Generic[Part]):
    """The parts of one kind by name: fedrel's own first, then those of installed packages.

    `group` is the group of entry points. `check` is given a loaded plug-in and says in a few words what is wrong with
    it, or nothing; it runs once per plug-in, when that is first used.
    """

    def __init__(
        self, group: str, own: Mapping[str, Part], check: Callable[[object], str | None] = lambda part: None
    ) -> None:
        self.group = group
        self.own = dict(own)
        self._check = check
        self._loaded: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        if name in self.own:
            return self.own[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in _found(self.group) if name not in self.own)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in _found(self.group)

    def origin(self, name: str) -> Origin | None:
        """Where a part comes from; None for fedrel's own. Raises KeyError for a name that nobody provides."""
        if name in self.own:
            return None
        entry = self._entry(name)
        package = entry.dist
        return Origin(
            package.name if package else entry.module.partition(".")[0],
            package.version if package else "unknown",
            digest_of(entry.module),
        )

    def _entry(self, name: str) -> metadata.EntryPoint:
        found = _found(self.group)[name]
        if len(found) > 1:
            packages = " and ".join(sorted({it.dist.name if it.dist else it.value for it in found}))
            raise UserError(f'"{name}" is provided by {packages}; uninstall one of them')
        return found[0]

    def _load(self, name: str) -> Part:
        entry = self._entry(name)
        try:
            part = entry.load()
        except UserError:
            raise
        except Exception as error:  # somebody else's code: whatever it raises, a person must know whose it is
            raise UserError(
                f'the plug-in "{name}" ({entry.value}, {self.group}) does not load: {type(error).__name__}: {error}'
            ) from error
        if wrong := self._check(part):
            raise UserError(f'the plug-in "{name}" ({entry.value}, {self.group}) {wrong}')
        return part  # type: ignore[no-any-return]


@cache
def _found(group: str) -> dict[str, list[metadata.EntryPoint]]:
    """Entry points by name. One that is installed twice in the same way counts once."""
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=group):
        found.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {name: list(entries.values()) for name, entries in sorted(found.items())}


def digest_of(module: str) -> str:
    """sha256 of the source files of a module's top-level package, by their names and contents."""
    spec = util.find_spec(module.partition(".")[0])
    if spec is None or not (spec.origin or spec.submodule_search_locations):
        raise UserError(f"the plug-in module {module} is not installed")
    if spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations)))
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.py"))}
    else:
        files = {Path(str(spec.origin)).name: Path(str(spec.origin))}
    found = hashlib.sha256()
    for name, path in files.items():
        found.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()
