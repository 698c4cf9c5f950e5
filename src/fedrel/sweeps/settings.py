"""What files with a [compare] or a [tune] section share: how they are read, where their data is, the quick scale."""

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


def quick_scale(
    asked: Mapping[str, Any], name: str, keys: tuple[str, ...], where: str, text: str, data: Path | None
) -> dict[str, Any]:
    """The section [compare.quick] or [tune.quick], with its values looked at where they are used. Where the user names
    data, the section `with_data` in it; without one, neither other data nor the scores that go with it.
    """
    quick = asked.get("quick")
    if quick is None:
        raise UserError(f"{where}: there is no quick scale; say what it is in a section [{name}.quick]")
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
        if key in ("set", "rows", "columns") and not are_texts(value):
            what = '"key=value"' if key == "set" else f"labels of {key}"
            raise UserError(f"{place}: {name}.{key} must be a list of {what}")
        if key in ("seeds", "trials"):
            whole(value, f"{place}: {name}.{key}")


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
    """Or the table that its users are drawn from."""
    data = experiment.data
    if lacks_users(experiment):
        return True
    return data.source != "world" and not (data.path and Path(data.path).exists())


def lacks_users(experiment: config.Experiment) -> bool:
    feedback = experiment.feedback
    drawn = experiment.method["name"] == "feedback" and feedback.users == "table" and not feedback.store
    return drawn and bool(feedback.table) and not Path(feedback.table).exists()


def require_use(data: Path | None, experiments: Iterable[config.Experiment]) -> None:
    """Refuses --data where nothing reads any."""
    if data and all(experiment.data.source == "world" for experiment in experiments):
        raise UserError(f"--data {data}: all of this runs on the built-in world; set data.source, or leave --data out")


def no_data(experiment: config.Experiment, needed: str) -> str:
    path = experiment.data.path
    if lacks_users(experiment):
        return (
            f"{experiment.feedback.table} is not there (feedback.table, a table of users); "
            "fedrel feedback estimate VERDICTS --users FILE writes one"
        )
    return (
        f"{f'{path} is not there' if path else 'no data given'}; get {needed}; then name the folder with --data, "
        "or try --quick"
    )


def on_top(quick: Mapping[str, Any], settings: Iterable[str]) -> tuple[str, ...]:
    """What the quick scale sets, above everything but the user's own settings."""
    own = {setting.partition("=")[0].strip(): setting for setting in settings}
    scaled = {setting.partition("=")[0].strip(): setting for setting in quick.get("set", [])}
    return tuple(own.get(key, setting) for key, setting in scaled.items())


def digest(experiment: config.Experiment) -> str:
    """Of everything that the result depends on: settings, and the content of data, word vectors, users and verdicts."""
    table = config.to_table(experiment)
    table.pop("engine")  # how fast, not what
    table["data"] = {**vars(experiment.data), "content": fingerprint(experiment.data)}
    if Path(experiment.extractor.vectors).is_file():
        table["vectors"] = hashlib.sha256(Path(experiment.extractor.vectors).read_bytes()).hexdigest()
    if who := _who_judges(experiment.feedback):
        table["judges"] = who
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:10]


def _who_judges(feedback: config.Feedback) -> str:
    """The content of the file that users, or what they said, come from; what is not there is told where it is read."""
    if feedback.store:
        return stored_content(Path(feedback.store)) if Path(feedback.store).exists() else ""
    measured = Path(feedback.table) if feedback.users == "table" and feedback.table else None
    return sha256(measured) if measured and measured.is_file() else ""


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def whole(value: object, what: str) -> int:
    if type(value) is not int or value < 1:
        raise UserError(f"{what} must be a whole number from 1")
    return value
