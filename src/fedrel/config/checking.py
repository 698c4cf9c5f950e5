"""A section of an experiment from a table, strictly: every mistake is one sentence, with its line where it has one."""

from __future__ import annotations

import re
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Literal, TypeVar

from fedrel.config.fitting import Table
from fedrel.errors import UserError, suggest

Section = TypeVar("Section")


# Old names of keys, which are still read: what was saved under them must load
RENAMED = {("engine", "cohort"): "stacked"}


def section(cls: type[Section], table: Table, where: str, prefix: str = "", text: str = "") -> Section:
    """A dataclass from a table, strictly: unknown keys, wrong types and values out of bounds are refused."""
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values: dict[str, object] = {}

    def wrong(key: str, what: str) -> UserError:
        names = [key, *(old for (part, old), new in RENAMED.items() if (f"{part}.", new) == (prefix, key))]
        return UserError(f"{where}{next(filter(None, (line_of(text, prefix, it) for it in names)), '')}: {what}")

    for key, value in table.items():
        name = f"{prefix}{key}"
        if key not in known:
            raise wrong(key, f'unknown key "{name}"{suggest(key, known)}')
        hint = hints[key]
        if is_dataclass(hint):
            if not isinstance(value, dict):
                raise wrong(key, f"{name} must be a section")
            values[key] = section(typing.cast(type, hint), value, where, f"{name}.", text)
            continue
        try:
            values[key] = _checked(value, hint, known[key].metadata, name)
        except UserError as error:
            raise wrong(key, str(error)) from None
    return cls(**values)


def _checked(value: object, hint: object, bounds: Mapping[str, float | None], name: str) -> object:
    if typing.get_origin(hint) is Literal:
        allowed = typing.get_args(hint)
        if value not in allowed or type(value) is not type(allowed[0]):
            raise UserError(f'{name} = "{value}" is none of {", ".join(allowed)}{suggest(str(value), allowed)}')
        return value
    if hint == tuple[tuple[str, str], ...]:
        return _table_of_texts(value, name)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{name} must be a list of texts, not {value!r}")
        return tuple(_checked(item, str, {}, f"every one of {name}") for item in value)
    kinds = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in kinds and type(value) is int:
        value = float(value) if abs(value) < 2**1023 else float("inf")
    if type(value) not in kinds:
        wanted = " or ".join(_KINDS[kind] for kind in kinds)
        raise UserError(f"{name} must be {wanted}, not {value!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, above, high = bounds.get("low"), bounds.get("above"), bounds.get("high")
        if low is not None and not value >= low:
            raise UserError(f"{name} = {value}: must be at least {low:g}")
        if above is not None and not value > above:
            raise UserError(f"{name} = {value}: must be above {above:g}")
        if high is not None and not value <= high:
            raise UserError(f"{name} = {value}: must be at most {high:g}")
        if value != value or value in (float("inf"), float("-inf")):
            raise UserError(f"{name} = {value}: must be a finite number")
    if isinstance(value, str) and _SURROGATE.search(value):
        raise UserError(f"{name} = {value!r} cannot be written as UTF-8 text")
    return value


def _table_of_texts(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """A table, or a list of pairs as a saved experiment has it."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or not all(isinstance(it, list | tuple) and len(it) == 2 for it in pairs):
        raise UserError(f'{name} must be a table of texts such as {{"old" = "new"}}, not {value!r}')
    checked = [tuple(_checked(text, str, {}, f"every one of {name}") for text in pair) for pair in pairs]
    if len({key for key, _ in checked}) < len(checked):
        raise UserError(f"{name} names one of its keys twice; name it once")
    return typing.cast(tuple[tuple[str, str], ...], tuple(checked))


_SURROGATE = re.compile("[\ud800-\udfff]")  # how Python holds bytes of a command line that are no UTF-8


_KINDS: dict[object, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def line_of(text: str, prefix: str, key: str) -> str:
    """`:7` where the TOML text gives the key of a section its value, else nothing."""
    lines = text.split("\n")
    whole = 0  # lines that are statements to their end: a string or a list may go over several
    for count in range(1, len(lines) + 1):
        try:
            here: object = tomllib.loads("\n".join(lines[:count]) + "\n")
        except ValueError:
            continue
        for part in (*prefix.split(".")[:-1], key):
            here = here.get(part) if isinstance(here, dict) else None
        if here is not None:
            return f":{whole + 1}"
        whole = count
    return ""
