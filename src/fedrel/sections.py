"""What files with a [compare] or a [tune] section share: how they are read, where their data is, the quick scale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.datasets import fingerprint
from fedrel.errors import UserError, suggest


def read_section(
    path: Path | None, settings: Iterable[str], name: str, keys: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any], str, str]:
    """A file whose experiment is checked, with settings on top: the experiment, the section [name] of it, and the
    file's name and text, to say where a mistake is. [compare] and [tune] may stand in one file.
    """
    written, text = config.read_table(path)
    where = str(path or name)
    config.parse({key: value for key, value in written.items() if key not in ("compare", "tune")}, where, text)
    table = config.override(written, settings)
    sections = {key: table.pop(key, {}) for key in ("compare", "tune")}
    asked = sections[name]
    config.parse(table, "--set")
    if not isinstance(asked, dict):
        raise UserError(f"{where}: {name} must be a section")
    for key in asked:
        if key not in keys:
            place = where + config.line_of(text, f"{name}.", key)
            raise UserError(f'{place}: unknown key "{name}.{key}"{suggest(key, keys)}')
    return table, asked, where, text


def quick_scale(asked: Mapping[str, Any], name: str, keys: tuple[str, ...], where: str, text: str) -> dict[str, Any]:
    """The section [compare.quick] or [tune.quick], with its values looked at where they are used."""
    quick = asked.get("quick")
    if quick is None:
        raise UserError(f"{where}: there is no quick scale; say what it is in a section [{name}.quick]")
    if not isinstance(quick, dict):
        raise UserError(f"{where}{config.line_of(text, f'{name}.', 'quick')}: {name}.quick must be a section")
    for key, value in quick.items():
        place = f"{where}{config.line_of(text, f'{name}.quick.', key)}"
        if key not in keys:
            raise UserError(f'{place}: unknown key "{name}.quick.{key}"{suggest(key, keys)}')
        if key in ("set", "rows", "columns") and not are_texts(value):
            what = '"key=value"' if key == "set" else f"labels of {key}"
            raise UserError(f"{place}: {name}.quick.{key} must be a list of {what}")
        if key in ("seeds", "trials"):
            whole(value, f"{place}: {name}.quick.{key}")
    return quick


def placed(table: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """With the data where --data says: in that folder, or below it where the table names a folder of its own."""
    section = table.get("data", {})
    if isinstance(section, dict):
        if section.get("source", "world") == "world":
            section.pop("path", None)  # left over from the data that the world stands in for
        elif data:
            section["path"] = str(data / str(section.get("path", "")))
    return table


def lacks_data(experiment: config.Experiment) -> bool:
    data = experiment.data
    return data.source != "world" and not (data.path and Path(data.path).exists())


def require_use(data: Path | None, experiments: Iterable[config.Experiment]) -> None:
    """Refuses --data where nothing reads any."""
    if data and all(experiment.data.source == "world" for experiment in experiments):
        raise UserError(f"--data {data}: all of this runs on the built-in world; set data.source, or leave --data out")


def no_data(experiment: config.Experiment, needed: str) -> str:
    path = experiment.data.path
    return (
        f"{f'{path} is not there' if path else 'no data given'}; get {needed}; then name the folder with --data, "
        "or try --quick"
    )


def on_top(quick: Mapping[str, Any], settings: Iterable[str], data: Path | None) -> tuple[str, ...]:
    """What the quick scale sets, above everything but the user's own settings; where the user names data, neither
    other data nor the score that goes with it.
    """
    own = {setting.partition("=")[0].strip(): setting for setting in settings}
    scaled = {setting.partition("=")[0].strip(): setting for setting in quick.get("set", [])}
    return tuple(
        own.get(key, setting)
        for key, setting in scaled.items()
        if key in own or not (data and (key.startswith("data.") or key == "training.metric"))
    )


def digest(experiment: config.Experiment) -> str:
    """Of everything that the result depends on: settings, and the content of data and word vectors."""
    table = config.to_table(experiment)
    table.pop("engine")  # how fast, not what
    table["data"] = {**vars(experiment.data), "content": fingerprint(experiment.data)}
    if Path(experiment.extractor.vectors).is_file():
        table["vectors"] = hashlib.sha256(Path(experiment.extractor.vectors).read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:10]


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def whole(value: object, what: str) -> int:
    if type(value) is not int or value < 1:
        raise UserError(f"{what} must be a whole number from 1")
    return value
