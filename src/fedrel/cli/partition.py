"""`fedrel data partition`: which platform gets which data and, optionally, each platform's part as a folder."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from fedrel import config
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.run import Settings
from fedrel.data import loading
from fedrel.data.partition import COORDINATOR, Division, count_labels, divide, unevenness, write_parts
from fedrel.data.sources import with_metric
from fedrel.data.store import Dataset, Ints
from fedrel.errors import UserError
from fedrel.experiment.assembly import choose_method, read_experiment
from fedrel.experiment.fitted import fitted
from fedrel.report.heatmap import ASCII_SHADES, SHADES, HeatMap, require_picture, text_of, write_picture
from fedrel.util.files import atomic_folder

_EXPERIMENT = "experiment.toml"
_NOT_PATHS = ("", "random", "glove", "minilm", "training", "public")  # of an extractor's vectors, weights, vocabulary


def partition(
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file; without one, the built-in demo.")
    ] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    show: Annotated[bool, typer.Option("--show", help="Draw which platform has which labels.")] = False,
    png: Annotated[Path | None, typer.Option("--png", help="Draw it to a .png, .svg or .pdf file.")] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", help="A new folder: each platform's part, and an experiment to run on it.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print all counts as JSON.")] = False,
) -> None:
    """Show which platform gets which training sentences, and how uneven that is. With --out, write a folder for each
    platform with its train, one for the coordinator with dev and test, and experiment.toml.
    """
    if png:
        require_picture(png)
    if out_ and out_.exists():
        raise UserError(f"{out_} exists; choose a new folder")
    settings = read_experiment(experiment, _divided(experiment, set_))
    dataset = loading.load(settings.data, say=say)
    division = divide(dataset, settings.partition, settings.seed)
    counts = division.label_counts(dataset)  # (K, R)
    server = count_labels(dataset, division.server)  # (R,)
    heading = f"{_what(settings.partition)}, seed {settings.seed}"
    if png:
        write_picture(_heat_map(dataset, division, counts, server), png, f"Labels by platform: {heading}")
    if out_:
        _write(settings, dataset, division, out_)
    if json_:
        written = {"folder": str(out_)} if out_ else {}
        print_json(json.dumps(_as_json(dataset, division, counts, server) | written, indent=1))
        return
    tell(heading)
    out.print(_table(counts, server))
    if show:
        _tell_map(_heat_map(dataset, division, counts, server))
    if choose_method(settings.method)[0].pools_text:
        tell(f"{settings.method['name']} pools all of this in one place; other methods do not")
    if png:
        tell(f"picture  {png}")
    if out_:
        tell(f"written  {out_}: a folder for each platform, and {COORDINATOR}")
    tell(f"train on it with: {_command(out_ / _EXPERIMENT, []) if out_ else _command(experiment, set_)}")


def _what(settings: config.Partition) -> str:
    return {
        "iid": "distributed at random (iid)",
        "dirichlet": f"dirichlet with alpha {settings.alpha:g}",
        "source": "a platform for each source",
        "relation": "a platform for each relation",
        "folder": "a platform for each folder",
    }[settings.kind]


def _divided(experiment: Path | None, settings: list[str]) -> list[str]:
    """The settings; where nobody says how many platforms there are, as many as the built-in demo has."""
    table, _ = config.read_table(experiment)
    said = table.get("partition") or any(it.startswith("partition.") for it in settings)
    return settings if said else [*settings, f"partition.platforms={config.Partition().platforms}"]


def _write(settings: config.Experiment, dataset: Dataset, division: Division, folder: Path) -> None:
    say(f"writing {folder} …")
    with atomic_folder(folder) as new:
        source = write_parts(dataset, division, new)
        relations = tuple(dataset.relations[int(dataset.has_na) :])
        experiment = replace(
            # the metric of the data, not of the format in which they are written
            fitted(with_metric(settings), dataset, division),
            data=config.Data(  # what labels and entities are taken for is in the files
                source=source,
                relations=relations,
                na=settings.data.na,
                allow_overlap=settings.data.allow_overlap or dataset.gold,
            ),
            partition=replace(settings.partition, kind="folder", platforms=len(division.platforms)),
            extractor=_from_anywhere(settings.extractor),
        )
        told = "# data.path is empty: the data are in the folder of this file.\n"
        (new / _EXPERIMENT).write_text(told + config.to_toml(config.to_table(experiment)), encoding="utf-8")


def _from_anywhere(settings: config.Extractor) -> config.Extractor:
    """The settings with absolute paths, so that the experiment runs from any folder."""
    public, plus, file = settings.vocabulary.rpartition("public+")
    return replace(
        settings,
        vectors=_whole_path(settings.vectors),
        weights=_whole_path(settings.weights),
        vocabulary=f"{public}{plus}{_whole_path(file)}",
    )


def _whole_path(text: str) -> str:
    is_path = text not in _NOT_PATHS and Path(text).exists()
    return str(Path(text).absolute()) if is_path else text


def _table(counts: Ints, server: Ints) -> Table:
    sizes, labels = counts.sum(axis=1), (counts > 0).sum(axis=1)  # (K,)
    table = Table("", "min", "median", "max", "total")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("sentences per platform", *_spread(sizes), f"{sizes.sum():,}")
    table.add_row("labels per platform", *_spread(labels), f"{(counts.sum(axis=0) > 0).sum():,}")
    table.add_section()
    table.add_row("platforms", "", "", "", f"{len(counts):,}")
    table.add_row("sentences of the server", "", "", "", f"{server.sum():,}")
    table.add_row("unevenness (0: all the same)", "", "", "", f"{unevenness(counts):.2f}")
    return table


def _spread(values: Ints) -> tuple[str, str, str]:
    return f"{values.min():,}", f"{np.median(values):,.0f}", f"{values.max():,}"


def _tell_map(drawn: HeatMap) -> None:
    ascii_only = out.options.ascii_only
    for line in text_of(drawn, width=out.width, shades=ASCII_SHADES if ascii_only else SHADES):
        tell(line.replace("…", "~") if ascii_only else line)


def _heat_map(dataset: Dataset, division: Division, counts: Ints, server: Ints) -> HeatMap:
    """Label counts of each platform, then of all platforms together and of the server. Unused labels are left out."""
    held = np.flatnonzero(counts.sum(axis=0) + server)
    summaries = {"all": counts.sum(axis=0)} | ({"server": server} if server.any() else {})
    return HeatMap(
        [*division.platforms, *summaries],
        [dataset.relations[label] for label in held],
        np.vstack([counts, *summaries.values()])[:, held],
        len(summaries),
    )


def _as_json(dataset: Dataset, division: Division, counts: Ints, server: Ints) -> dict[str, object]:
    def named(row: Ints) -> dict[str, int]:
        return dict(zip(dataset.relations, row.tolist(), strict=True))

    return {
        "platforms": {name: named(row) for name, row in zip(division.platforms, counts, strict=True)},
        "server": named(server),
        "unevenness": unevenness(counts),
    }


def _command(experiment: Path | None, settings: list[str]) -> str:
    chosen = [part for setting in settings for part in ("--set", setting)]
    return shlex.join(["fedrel", "run", *([str(experiment)] if experiment else []), *chosen])
