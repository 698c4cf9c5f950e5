"""Whether a format reads an example as it should, and refuses damaged copies of it in one sentence."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fedrel.config import Data
from fedrel.conformance.runs import Problem
from fedrel.corpus.detection import detect
from fedrel.data import loading
from fedrel.data.store import iterate
from fedrel.errors import UserError

_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off in the middle": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "not UTF-8": lambda content: content[: len(content) // 2] + b"\xff\xfe" + content[len(content) // 2 :],
    "with its lines reversed": lambda content: b"\n".join(reversed(content.split(b"\n"))),
    "with every digit a letter": lambda content: bytes(ord("x") if 48 <= byte < 58 else byte for byte in content),
}


def format_checks(name: str, data: Path | None) -> Iterator[tuple[str, Callable[[], None]]]:
    """Rules for a format, given a folder with an example."""
    if data is None:
        raise UserError(f'"{name}" is a format; give an example of it to read: fedrel check-plugin {name} --data DIR')
    yield "an example is recognised", lambda: _recognised(name, data)
    yield "an example is read, twice the same", lambda: _read_twice(name, data)
    for damage, change in _DAMAGES.items():
        yield f"a file {damage} is read or refused in one sentence", partial(_damaged, name, data, change)


def _load(name: str, data: Path) -> list[object]:
    dataset = loading.load(Data(source=name, path=str(data), allow_overlap=True))
    return [it for split in (dataset.train, dataset.dev, dataset.test) for it in iterate(dataset, split)]


def _recognised(name: str, data: Path) -> None:
    found = detect(data).source
    if found != name:
        raise Problem(f"{data} is taken for {found}")


def _read_twice(name: str, data: Path) -> None:
    first, second = _load(name, data), _load(name, data)
    if not first:
        raise Problem("the example has no sentence")
    if first != second:
        raise Problem("a second reading gives other sentences")


def _damaged(name: str, data: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes one file at a time. Whatever is raised but a UserError breaks the rule."""
    with tempfile.TemporaryDirectory(prefix="fedrel-check-") as folder:
        for number, path in enumerate(sorted(it for it in data.rglob("*") if it.is_file())[:5]):
            copy = Path(folder) / str(number)
            shutil.copytree(data, copy)
            hurt = copy / path.relative_to(data)
            hurt.write_bytes(change(path.read_bytes()))
            try:
                _load(name, copy)
            except UserError as error:
                if "\n" in str(error).strip():
                    raise Problem(f"{path.name}: the refusal is more than one line") from None
