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
DEFAULT_METHOD = "evidence"
WORLD = "world"  # of data.source: the built-in world
AUTO = "auto"  # of training.metric: what the labels of the data call for; filled in where formats are known


def number(default: float, *, low: float | None = None, above: float | None = None, high: float | None = None) -> Any:
    """A field with bounds: `low` and `high` may be reached, `above` may not."""
    return field(default=default, metadata={"low": low, "above": above, "high": high})


@dataclass(frozen=True)
class Data:
    source: str = WORLD
    path: str = ""
    size: str | int = "demo"  # of the built-in world
    seed: int = 1  # of the built-in world, apart from the experiment's seed: the same data for every seed
    noise: float = number(0.6, low=0, high=1)
    evidence: float = number(7.0, low=1)
    allow_overlap: bool = False
    dev: float = number(0.0, low=0, high=0.5)  # share of train to choose rounds by, in place of a dev file; 0: the file
    na: Literal["keep", "drop"] = "keep"  # pairs without a relation: a class of their own, or left out
    relations: tuple[str, ...] = ()  # agreed beforehand, in this order; empty: those that the data hold
    identity: Literal["id", "name", "document"] = "id"  # what makes two mentions one entity, and so two facts one
    na_label: str = ""  # the label that means no relation; empty: the usual names (NA, Other, no_relation …)
    labels: tuple[tuple[str, str], ...] = ()  # new names for labels, a table in the file: {"CPR:3" = "activates"}
    directions: tuple[tuple[str, str], ...] = ()  # of relations, a table: undirected, directed, or "Drug -> Disease"
    max_pairs: int = number(5_000, low=1)  # without a relation, of one sentence with gold relations; the nearest stay
    max_distance: int = number(0, low=0)  # tokens between the entities of such a pair; 0: any number
    bad_rows: float = number(0.01, low=0, high=1)  # share of rows that may be broken and left out; 0: none


@dataclass(frozen=True)
class Partition:
    """Who holds what. `source`: a platform for each file or hospital; `relation`: for each relation; `folder`: for
    each folder in data.path. An experiment on files without this section has one platform, which holds all.
    """

    kind: Literal["iid", "dirichlet", "source", "relation", "folder"] = "iid"
    platforms: int = number(20, low=1)
    alpha: float = number(0.5, above=0, high=1e6)  # of dirichlet: the smaller, the more uneven
    minimum: int = number(1, low=1)  # sentences that every platform holds, of dirichlet
    server: float = number(0.0, low=0, high=0.9)  # share of train that the server itself holds, with its labels


@dataclass(frozen=True)
class Extractor:
    kind: str = "pcnn"  # or cnn, text, bag, bert, or the name of a plug-in
    bias: bool = True  # of the classifier
    # of bert
    weights: str = "minilm"  # the package's; or a folder, or a name on a model hub
    pooling: Literal["auto", "max", "sum", "cls+sum", "cls", "mean"] = "auto"  # auto: sum; for plain text, mean
    blind: bool = False  # mentions give way to their types
    max_length: int = number(128, low=16, high=8_192)  # pieces; a longer sentence is cut far from its entities
    encoder: Literal["trainable", "frozen"] = "trainable"
    lora: int = number(0, low=0, high=1_024)  # rank; 0: all weights are trained and sent
    # of the others
    vectors: str = "random"  # or "glove", or a file
    spread: float = number(
        0.2, low=0, high=100
    )  # standard deviation that a file's vectors are scaled to; 0: as they are
    embeddings: Literal["trainable", "frozen"] = "trainable"
    # training: of everybody's training text. public: agreed without it, from word vectors or else the coordinator's own
    # text; public+FILE: with the words of a file too. Or a file alone, one word a line
    vocabulary: str = "training"
    min_count: int = number(10, low=1)  # of training: rarer words are unknown, unless they have a pretrained vector
    word_dim: int = number(50, low=1, high=10_000)
    position_dim: int = number(5, low=1, high=1_000)
    filters: int = number(230, low=1, high=100_000)
    window: int = number(3, low=1, high=99)
    reach: int = number(60, low=1, high=16_000)  # distances beyond this count as this; stored in 16 bits
    activation: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True)
class Training:
    rounds: int = number(100, low=1, high=1_000_000)
    patience: int = number(12, low=1)  # rounds without a better dev score before stopping, once a method has settled
    # the dev score that chooses the best round; auto: ap, where labels are gold micro_f1, of labelled texts accuracy
    metric: str = AUTO
    fraction: float = number(1.0, above=0, high=1)  # C
    epochs: int = number(3, low=1)  # E
    batch: int = number(32, low=1, high=1_000_000)  # B
    micro_batch: int = number(0, low=0, high=1_000_000)  # sentences at once, gradients adding up to B; 0: all B
    optimizer: Literal["sgd", "adamw"] = "sgd"  # adamw begins anew in every round
    lr: float = number(1.0, above=0, high=1_000)
    lr_auto: bool = False  # lr follows from the sentences of a platform; an experiment without an lr has it so
    lr_decay: float = number(0.005, low=0, high=1)
    weight_decay: float = number(1e-5, low=0, high=1)
    dropout: float = number(0.5, low=0, high=0.99)
    restarts: int = number(3, low=0, high=20)  # how often a run that diverges begins again, with 0.3 of its lr

    def lr_at(self, round_: int) -> float:
        """lr · (1 - lr_decay)^round."""
        return self.lr * (1.0 - self.lr_decay) ** round_


@dataclass(frozen=True)
class Engine:
    kind: Literal["local", "ray"] = "local"
    address: str = ""  # of ray: a cluster to join; empty: one on this machine, for this run
    device: Literal["auto", "cpu", "cuda"] = "auto"
    workers: int = number(0, low=0, high=1_024)  # platforms that work side by side; 0: as many as a trial finds useful
    # stacked training, platforms as one program; auto: on a GPU. The last digits differ from training them one by one
    stacked: Literal["auto", "on", "off"] = "auto"
    # of torch, inside one step. More change the last digits, and wait for each other on a busy machine; 0: all
    threads: int = number(1, low=0, high=1_024)
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = "auto"  # auto: on a GPU tf32, bfloat16 in a transformer
    save_every: int = number(1, low=1, high=1_000_000)  # rounds between checkpoints
    # how weights travel: half rounds them to 16 bits, which is half the bytes and not quite the same result
    transport: Literal["exact", "half"] = "exact"
    # of a federation
    deadline: float = number(600.0, above=0, high=1e6)  # seconds that a platform has for a request
    min_platforms: int = number(2, low=1)  # that must answer, or the round is repeated


# Old names of keys, which are still read: what was saved under them must load
_RENAMED = {("engine", "cohort"): "stacked"}

# What fits some extractors better than the defaults above; a key that is given stands.
_FITTING: dict[tuple[str, str, str], dict[str, dict[str, object]]] = {
    ("extractor", "kind", "bert"): {
        "training": {"optimizer": "adamw", "lr": 5e-5, "lr_decay": 0.0, "weight_decay": 0.01, "dropout": 0.1},
    },
    **{
        ("extractor", "kind", kind): {
            "extractor": {"min_count": 2, "spread": 0.0},
            "training": {"optimizer": "adamw", "lr": 3e-3, "lr_decay": 0.0},
        }
        for kind in ("text", "bag")
    },
}


@dataclass(frozen=True)
class Feedback:
    """Who says "right" or "wrong": simulated users, or people whose verdicts lie in a store (`fedrel review`)."""

    users: Literal["fixed", "low-noise", "adversarial", "always-positive", "always-negative", "table"] = "fixed"
    gamma: float = number(1.0, low=0, high=1)  # of fixed: P(right | the prediction is right)
    delta: float = number(1.0, low=0, high=1)  # of fixed: P(wrong | the prediction is wrong)
    table: str = ""  # of table: a file of measured users
    store: str = ""  # a store, or a folder of stores; takes the place of simulated users


@dataclass(frozen=True)
class Robust:
    """What the server does about platforms that lie, or whose training goes wrong; see docs/robust.md."""

    screening: Literal["leave-out", "report", "off"] = "leave-out"  # of updates that are out of line
    far: float = number(4.0, above=1, high=1e6)  # times the median length that an update may have
    heaviest: float = number(10.0, low=1, high=1e9)  # times the median of what platforms hold that one may count as
    aggregation: Literal["mean", "clipped", "median", "trimmed", "krum"] = "mean"
    clip: float = number(1.0, above=0, high=1e6)  # of clipped: times the median length that is left of a longer update
    liars: float = number(0.2, low=0, high=0.49)  # of trimmed, the share cut off at either end; of krum, expected


@dataclass(frozen=True)
class Experiment:
    seed: int = 1
    data: Data = field(default_factory=Data)
    partition: Partition = field(default_factory=Partition)
    extractor: Extractor = field(default_factory=Extractor)
    method: Mapping[str, object] = field(default_factory=lambda: {"name": DEFAULT_METHOD})
    training: Training = field(default_factory=lambda: Training(lr_auto=True))
    feedback: Feedback = field(default_factory=Feedback)
    robust: Robust = field(default_factory=Robust)
    engine: Engine = field(default_factory=Engine)


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
    changed = _copy(_renamed(table, "experiment"))
    for setting in sorted(settings, key=lambda setting: not setting.startswith("method.name=")):
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {setting}: write it as section.key=value, for example training.fraction=0.2")
        *sections, last = key.strip().split(".")
        last = _RENAMED.get((".".join(sections), last), last)
        here = changed
        for section in sections:
            inner = here.setdefault(section, {})
            if not isinstance(inner, dict):
                raise UserError(f"--set {setting}: {section} is a value, not a section")
            here = inner
        value = _value(text.strip())
        if key.strip() == "method.name" and value != here.get("name", DEFAULT_METHOD):
            here.clear()
        here[last] = value
    return changed


def parse(table: Table, where: str = "experiment", text: str = "") -> Experiment:
    """The experiment in a table. Raises UserError, with the line where `text` has it, for what is no setting."""
    table = _fitting(_renamed(table, where, text))
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
    for (part, old), new in _RENAMED.items():
        inner = found.get(part)
        if isinstance(inner, dict) and old in inner:
            if new in inner:
                place = f"{where}{line_of(text, f'{part}.', old)}"
                raise UserError(f"{place}: {part}.{old} is the old name of {part}.{new}; leave one of them out")
            found[part] = {new if key == old else key: value for key, value in inner.items()}
    return found


def _fitting(table: Table) -> dict[str, object]:
    """The table, with the defaults of its kinds where it says nothing."""
    filled = dict(table)
    for (part, key, value), defaults in _FITTING.items():
        chosen = table.get(part)
        if isinstance(chosen, dict) and chosen.get(key) == value:
            for name, values in defaults.items():
                given = filled.get(name, {})
                filled[name] = {**values, **given} if isinstance(given, dict) else given
    training, data = filled.get("training", {}), filled.get("data", {})
    alone = isinstance(data, dict) and data.get("source", WORLD) != WORLD and not filled.get("partition")
    if alone:  # files belong to whoever has them, unless a federation is simulated
        filled["partition"] = {"platforms": 1}
    if isinstance(training, dict):
        rate = {} if "lr" in training else {"lr_auto": True}
        epochs = {"epochs": 1} if alone else {}  # a round costs nothing, and sentences are selected anew in each
        filled["training"] = {**rate, **epochs, **training}
    return filled


def section(cls: type[Section], table: Table, where: str, prefix: str = "", text: str = "") -> Section:
    """A dataclass from a table, strictly: unknown keys, wrong types and values out of bounds are refused."""
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values: dict[str, object] = {}

    def wrong(key: str, what: str) -> UserError:
        names = [key, *(old for (part, old), new in _RENAMED.items() if (f"{part}.", new) == (prefix, key))]
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


def to_table(experiment: Experiment) -> dict[str, object]:
    """Every value, defaults included: what `parse` reads back to the same experiment."""
    return {
        key: dict(vars(value)) if is_dataclass(value) else dict(value) if isinstance(value, Mapping) else value
        for key, value in vars(experiment).items()
    }


def to_toml(table: Table) -> str:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {as_toml(value)}" for key, value in plain.items()]
    for name, values in table.items():
        if isinstance(values, Mapping):
            lines += ["", f"[{name}]", *(f"{key} = {as_toml(value)}" for key, value in values.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def as_setting(key: str, value: object) -> str:
    """`key=value` as `override` reads it back."""
    plain = isinstance(value, str) and _value(value.strip()) == value
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


def _value(text: str) -> object:
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return float(text) if re.fullmatch(r"[+-]?\.\d+", text) else text  # .5 is a number to people
    plain = len(read) == 1 and isinstance(read["value"], bool | int | float | str | list | dict)
    return read["value"] if plain else text  # 2024-01-01 is a folder's name sooner than a date


def _copy(table: Mapping[str, object]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in table.items()}


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
