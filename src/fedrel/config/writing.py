"""An experiment, or a value of one, as TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass

from fedrel.config.fitting import Table
from fedrel.config.reading import toml_value
from fedrel.config.sections import Experiment


def to_table(experiment: Experiment) -> dict[str, object]:
    """Every value, defaults included: what `parse` reads back to the same experiment."""
    return {
        key: dict(vars(value)) if is_dataclass(value) else dict(value) if isinstance(value, Mapping) else value
        for key, value in vars(experiment).items()
    }


def to_toml(table: Table) -> str:
    """A table as TOML: its plain values first, then its sections."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {as_toml(value)}" for key, value in plain.items()]
    for name, values in table.items():
        if isinstance(values, Mapping):
            lines += ["", f"[{name}]", *(f"{key} = {as_toml(value)}" for key, value in values.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def as_setting(key: str, value: object) -> str:
    """`key=value` as `override` reads it back."""
    plain = isinstance(value, str) and toml_value(value.strip()) == value
    return f"{key}={value if plain else as_toml(value)}"


def as_toml(value: object) -> str:
    """A value of an experiment as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return f"{{{', '.join(f'{as_toml(key)} = {as_toml(text)}' for key, text in value)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else f"\\{c}" if c in '"\\' else c for c in str(value)
    )
    return f'"{escaped}"'
