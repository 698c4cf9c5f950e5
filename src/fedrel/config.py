"""An experiment as a TOML file: every key has a default, every mistake is one sentence.

Needs the standard library alone, so that a machine with nothing but torch can read an experiment.
"""

from __future__ import annotations

import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar

from fedrel.errors import UserError, suggest

Table = Mapping[str, object]
Section = TypeVar("Section")


def number(default: float, *, low: float | None = None, above: float | None = None, high: float | None = None) -> Any:
    """A field with bounds: `low` and `high` may be reached, `above` may not."""
    return field(default=default, metadata={"low": low, "above": above, "high": high})


@dataclass(frozen=True)
class Data:
    source: str = "world"
    path: str = ""
    size: str | int = "demo"  # of the built-in world
    seed: int = 1  # of the built-in world, apart from the experiment's seed: the same data for every seed
    noise: float = number(0.6, low=0, high=1)
    evidence: float = number(7.0, low=1)
    allow_overlap: bool = False


@dataclass(frozen=True)
class Partition:
    kind: Literal["iid"] = "iid"
    platforms: int = number(20, low=1)


@dataclass(frozen=True)
class Extractor:
    kind: Literal["pcnn", "cnn"] = "pcnn"
    vectors: str = "random"  # or "glove", or a file
    embeddings: Literal["trainable", "frozen"] = "trainable"
    min_count: int = number(10, low=1)  # rarer words are unknown, unless they have a pretrained vector
    word_dim: int = number(50, low=1)
    position_dim: int = number(5, low=1)
    filters: int = number(230, low=1)
    window: int = number(3, low=1)
    reach: int = number(60, low=1)  # distances beyond this count as this
    activation: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True)
class Training:
    rounds: int = number(100, low=1)
    patience: int = number(12, low=1)  # rounds without a better dev score before stopping
    metric: str = "ap"  # the dev score that chooses the best round
    fraction: float = number(1.0, above=0, high=1)  # C
    epochs: int = number(3, low=1)  # E
    batch: int = number(32, low=1)  # B
    lr: float = number(1.0, above=0)
    lr_decay: float = number(0.005, low=0, high=1)
    weight_decay: float = number(1e-5, low=0)
    dropout: float = number(0.5, low=0, high=0.99)

    def lr_at(self, round_: int) -> float:
        """lr · (1 - lr_decay)^round."""
        return self.lr * (1.0 - self.lr_decay) ** round_


@dataclass(frozen=True)
class Engine:
    kind: Literal["local"] = "local"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = number(0, low=0)  # of torch; 0 leaves the choice to torch


@dataclass(frozen=True)
class Experiment:
    seed: int = 1
    data: Data = field(default_factory=Data)
    partition: Partition = field(default_factory=Partition)
    extractor: Extractor = field(default_factory=Extractor)
    method: Mapping[str, object] = field(default_factory=lambda: {"name": "lazy-mil"})
    training: Training = field(default_factory=Training)
    engine: Engine = field(default_factory=Engine)


def read(path: Path | None, settings: Iterable[str] = ()) -> Experiment:
    """The experiment in a file (none: all defaults), with `key.path=value` settings on top."""
    table = override(read_table(path), settings)
    text = path.read_text(encoding="utf-8") if path else ""
    return parse(table, str(path or "--set"), text)


def read_table(path: Path | None) -> dict[str, object]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


def override(table: Mapping[str, object], settings: Iterable[str]) -> dict[str, object]:
    """`training.lr=0.1` replaces one value; the value is TOML where it parses, else text."""
    changed = _copy(table)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {setting}: write it as section.key=value, for example training.fraction=0.2")
        *sections, last = key.strip().split(".")
        here = changed
        for section in sections:
            inner = here.setdefault(section, {})
            if not isinstance(inner, dict):
                raise UserError(f"--set {setting}: {section} is a value, not a section")
            here = inner
        here[last] = _value(text.strip())
    return changed


def parse(table: Table, where: str = "experiment", text: str = "") -> Experiment:
    table = dict(table)
    method = table.pop("method", {})
    if not isinstance(method, dict):
        raise UserError(f"{where}: method must be a section with a name")
    experiment = section(Experiment, table, where, text=text)
    chosen = {"name": "lazy-mil", **method}
    if not isinstance(chosen["name"], str):
        raise UserError(f"{where}: method.name must be text")
    return Experiment(**{**vars(experiment), "method": chosen})


def section(cls: type[Section], table: Table, where: str, prefix: str = "", text: str = "") -> Section:
    """A dataclass from a table, strictly: unknown keys, wrong types and values out of bounds are refused."""
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        place = where + _line(text, prefix, key)
        if key not in known:
            raise UserError(f'{place}: unknown key "{name}"{suggest(key, known)}')
        hint = hints[key]
        if is_dataclass(hint):
            if not isinstance(value, dict):
                raise UserError(f"{place}: {name} must be a section")
            values[key] = section(typing.cast(type, hint), value, where, f"{name}.", text)
        else:
            values[key] = _checked(value, hint, known[key].metadata, f"{place}: {name}")
    return cls(**values)


def _checked(value: object, hint: object, bounds: Mapping[str, float | None], name: str) -> object:
    if typing.get_origin(hint) is Literal:
        allowed = typing.get_args(hint)
        if value not in allowed or type(value) is not type(allowed[0]):
            raise UserError(f'{name} = "{value}" is none of {", ".join(allowed)}{suggest(str(value), allowed)}')
        return value
    kinds = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in kinds and type(value) is int:
        value = float(value)
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
    return value


_KINDS: dict[object, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def to_table(experiment: Experiment) -> dict[str, object]:
    """Every value, defaults included: what `parse` reads back to the same experiment."""
    return {
        key: dict(vars(value)) if is_dataclass(value) else dict(value) if isinstance(value, Mapping) else value
        for key, value in vars(experiment).items()
    }


def to_toml(table: Table) -> str:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {_toml(value)}" for key, value in plain.items()]
    for name, values in table.items():
        if isinstance(values, Mapping):
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else f"\\{c}" if c in '"\\' else c for c in str(value)
    )
    return f'"{escaped}"'


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return float(text) if re.fullmatch(r"[+-]?\.\d+", text) else text  # .5 is a number to people


def _copy(table: Mapping[str, object]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in table.items()}


def _line(text: str, prefix: str, key: str) -> str:
    """`:7` where the file's text shows the key inside its section, else nothing."""
    current = ""
    for number_, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            current = header[1].strip() + "."
            if f"{prefix}{key}." == current:
                return f":{number_}"
        elif current == prefix and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return f":{number_}"
    return ""
