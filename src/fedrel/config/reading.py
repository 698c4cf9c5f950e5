"""An experiment from a TOML file and settings of a command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrel.config.checking import RENAMED, line_of, section
from fedrel.config.fitting import Table, fitting
from fedrel.config.sections import DEFAULT_METHOD, Experiment
from fedrel.errors import UserError


def read(path: Path | None, settings: Iterable[str] = ()) -> Experiment:
    """The experiment in a file (none: all defaults), with `key.path=value` settings on top."""
    table, text = read_table(path)
    parse(table, str(path), text)  # a mistake in the file is told with its line, one in a setting without
    return parse(override(table, settings), "--set")


def read_table(path: Path | None) -> tuple[dict[str, object], str]:
    """What a file says, and its text to find lines in."""
    if path is None:
        return {}, ""
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
        return _beside(path, tomllib.loads(text)), text
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        number_ = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{number_}: not UTF-8 text; convert the file to UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


def _beside(path: Path, table: dict[str, object]) -> dict[str, object]:
    """A folder of platforms may hold its experiment: without a path, the data lie where the file does."""
    data, partition = table.get("data"), table.get("partition")
    if isinstance(data, dict) and isinstance(partition, dict) and partition.get("kind") == "folder":
        data["path"] = data.get("path") or str(path.parent)
    return table


def override(table: Mapping[str, object], settings: Iterable[str]) -> dict[str, object]:
    """`training.lr=0.1` replaces one value; the value is TOML where it parses, else text.
    Another `method.name` comes first and takes the settings of the method it replaces away.
    """
    return with_values(table, read_settings(settings).items(), "--set ")


def read_settings(settings: Iterable[str]) -> dict[str, object]:
    """The values of `key.path=value` by key, the last where there are several of one."""
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {setting}: write it as section.key=value, for example training.fraction=0.2")
        values[key.strip()] = toml_value(text.strip())
    return values


def with_values(
    table: Mapping[str, object], values: Iterable[tuple[str, object]], where: str = ""
) -> dict[str, object]:
    """The table with values in the place of its own, each under a dotted key such as training.lr. Another method.name
    comes first and takes the settings of the method it replaces away.
    """
    changed = _copy(_renamed(table, "experiment"))
    for key, value in sorted(values, key=lambda it: it[0] != "method.name"):
        *sections, last = key.split(".")
        last = RENAMED.get((".".join(sections), last), last)
        here = changed
        for name in sections:
            inner = here.setdefault(name, {})
            if not isinstance(inner, dict):
                raise UserError(f"{where}{key}: {name} is a value, not a section")
            here = inner
        if key == "method.name" and value != here.get("name", DEFAULT_METHOD):
            here.clear()
        here[last] = value
    return changed


def parse(table: Table, where: str = "experiment", text: str = "") -> Experiment:
    """The experiment in a table. Raises UserError, with the line where `text` has it, for what is no setting."""
    table = fitting(_renamed(table, where, text))
    method = table.pop("method", {})
    if not isinstance(method, dict):
        raise UserError(f"{where}: method must be a section with a name")
    experiment = section(Experiment, table, where, text=text)
    chosen = {"name": DEFAULT_METHOD, **method}
    if not isinstance(chosen["name"], str):
        raise UserError(f"{where}: method.name must be text")
    return Experiment(**{**vars(experiment), "method": chosen})


def _renamed(table: Table, where: str, text: str = "") -> dict[str, object]:
    """The table with today's names for its keys."""
    found = dict(table)
    for (part, old), new in RENAMED.items():
        inner = found.get(part)
        if isinstance(inner, dict) and old in inner:
            if new in inner:
                place = f"{where}{line_of(text, f'{part}.', old)}"
                raise UserError(f"{place}: {part}.{old} is the old name of {part}.{new}; leave one of them out")
            found[part] = {new if key == old else key: value for key, value in inner.items()}
    return found


def toml_value(text: str) -> object:
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return float(text) if re.fullmatch(r"[+-]?\.\d+", text) else text  # .5 is a number to people
    plain = len(read) == 1 and isinstance(read["value"], bool | int | float | str | list | dict)
    return read["value"] if plain else text  # 2024-01-01 is a folder's name sooner than a date


def _copy(table: Mapping[str, object]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in table.items()}
