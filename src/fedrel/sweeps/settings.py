"""What [compare] and [tune] sections have in common: reading them, finding their data, and their quick scale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.data.loading import fingerprint
from fedrel.errors import UserError, suggest
from fedrel.feedback.stored_verdicts import stored_content
from fedrel.util.files import sha256

_WITH_DATA = "with_data"
_OF_OTHER_DATA = ("data.", "training.metric")


def read_section(
    path: Path | Mapping[str, object] | None, settings: Iterable[str], name: str, keys: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any], str, str]:
    """Reads a file (or what one would say) with a [compare] or a [tune] section, or both, and applies settings: returns
    the experiment's table, the section `name`, and the file's name and text for messages. Raises UserError for a
    mistake in the experiment, and for a key of the section that is not in `keys`.
    """
    written, text = (dict(path), "") if isinstance(path, Mapping) else config.read_table(path)
    where = name if path is None or isinstance(path, Mapping) else str(path)
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


def quick_scale(
    asked: Mapping[str, Any], name: str, keys: tuple[str, ...], where: str, text: str, data: Path | None
) -> dict[str, Any]:
    """The section [compare.quick] or [tune.quick]. If the user names data, its section `with_data` instead; if there is
    none, the section without its settings of data, metrics and target. Values are checked where they are used.

    Raises UserError if there is no quick scale, or for an unknown key.
    """
    quick = asked.get("quick")
    if quick is None:
        raise UserError(f"{where}: there is no quick scale; define one in a section [{name}.quick]")
    _check_scale(quick, f"{name}.quick", (*keys, _WITH_DATA), where, text)
    made_for_data = quick.get(_WITH_DATA)
    if made_for_data is not None:
        _check_scale(made_for_data, f"{name}.quick.{_WITH_DATA}", keys, where, text)
    scale = {key: value for key, value in quick.items() if key != _WITH_DATA}
    if data is None:
        return scale
    if made_for_data is not None:
        return dict(made_for_data)
    kept = [it for it in scale.get("set", []) if not it.strip().startswith(_OF_OTHER_DATA)]
    return {key: value for key, value in scale.items() if key not in ("metric", "metrics", "target")} | {"set": kept}


def _check_scale(scale: object, name: str, keys: tuple[str, ...], where: str, text: str) -> None:
    above, _, last = name.rpartition(".")
    if not isinstance(scale, dict):
        raise UserError(f"{where}{config.line_of(text, f'{above}.', last)}: {name} must be a section")
    for key, value in scale.items():
        place = f"{where}{config.line_of(text, f'{name}.', key)}"
        if key not in keys:
            raise UserError(f'{place}: unknown key "{name}.{key}"{suggest(key, keys)}')
        if key in ("set", "rows", "columns") and not is_string_list(value):
            what = '"key=value"' if key == "set" else f"labels of {key}"
            raise UserError(f"{place}: {name}.{key} must be a list of {what}")
        if key in ("seeds", "trials"):
            positive_integer(value, f"{place}: {name}.{key}")


def with_data_path(table: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """The table with the path of its data set from --data: that folder, or the table's own path below it."""
    section = table.get("data", {})
    if isinstance(section, dict):
        if section.get("source", "world") == "world":
            section.pop("path", None)  # left over from the data that the world replaces
        elif data:
            section["path"] = str(data / str(section.get("path", "")))
    return table


def lacks_data(experiment: config.Experiment) -> bool:
    """Whether the data of an experiment, or the table of its users, is missing."""
    data = experiment.data
    if lacks_users(experiment):
        return True
    return data.source != "world" and not (data.path and Path(data.path).exists())


def lacks_users(experiment: config.Experiment) -> bool:
    """Whether an experiment draws users from a table that is missing."""
    feedback = experiment.feedback
    drawn = experiment.method["name"] == "feedback" and feedback.users == "table" and not feedback.store
    return drawn and bool(feedback.table) and not Path(feedback.table).exists()


def require_data_used(data: Path | None, experiments: Iterable[config.Experiment]) -> None:
    """Raises UserError for --data if no experiment reads data."""
    if data and all(experiment.data.source == "world" for experiment in experiments):
        raise UserError(f"--data {data}: everything here runs on the built-in world; set data.source, or omit --data")


def missing_data(experiment: config.Experiment, needed: str) -> str:
    """A message that says what an experiment lacks and how to get it; `needed` describes its data."""
    path = experiment.data.path
    if lacks_users(experiment):
        return (
            f"{experiment.feedback.table}: no such file (feedback.table, a table of users); "
            "fedrel feedback estimate VERDICTS --users FILE writes one"
        )
    return (
        f"{f'{path}: no such file or folder' if path else 'no data given'}; get {needed}; then name the folder with "
        "--data, or try --quick"
    )


def quick_settings(quick: Mapping[str, Any], settings: Iterable[str]) -> tuple[str, ...]:
    """The settings of the quick scale, which override all others but the user's own."""
    own = {setting.partition("=")[0].strip(): setting for setting in settings}
    scaled = {setting.partition("=")[0].strip(): setting for setting in quick.get("set", [])}
    return tuple(own.get(key, setting) for key, setting in scaled.items())


def digest(experiment: config.Experiment) -> str:
    """10 hexadecimal digits of a hash over everything that the result depends on: settings, and the content of data,
    word vectors, users and verdicts.
    """
    table = config.to_table(experiment)
    table.pop("engine")  # affects speed, not results
    table.pop("report")  # nor does where a run is logged
    table["data"] = {**vars(experiment.data), "content": fingerprint(experiment.data)}
    if Path(experiment.extractor.vectors).is_file():
        table["vectors"] = hashlib.sha256(Path(experiment.extractor.vectors).read_bytes()).hexdigest()
    if who := _who_judges(experiment.feedback):
        table["judges"] = who
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:10]


def _who_judges(feedback: config.Feedback) -> str:
    """A hash of the file that users or verdicts come from; empty if it is missing, which its reader reports."""
    if feedback.store:
        return stored_content(Path(feedback.store)) if Path(feedback.store).exists() else ""
    measured = Path(feedback.table) if feedback.users == "table" and feedback.table else None
    return sha256(measured) if measured and measured.is_file() else ""


def is_string_list(value: object) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def positive_integer(value: object, what: str) -> int:
    """The value; raises a UserError that begins with `what` unless it is an integer of at least 1."""
    if type(value) is not int or value < 1:
        raise UserError(f"{what} must be a whole number of at least 1")
    return value
