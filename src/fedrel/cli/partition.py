"""`fedrel data partition`: who would hold what."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from fedrel import config, datasets
from fedrel.algorithms import Centralised
from fedrel.assembly import choose_method, read_experiment
from fedrel.bags import Dataset, Ints
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.run import Settings
from fedrel.partition import Division, count_labels, divide, unevenness
from fedrel.report.heatmap import ASCII_SHADES, SHADES, HeatMap, require_picture, text_of, write_picture


def partition(
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file; without one, the built-in demo.")
    ] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    show: Annotated[bool, typer.Option("--show", help="Draw who holds which labels.")] = False,
    png: Annotated[Path | None, typer.Option("--png", help="The same as a picture: a .png, .svg or .pdf file.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print all counts as JSON.")] = False,
) -> None:
    """Say who would hold which training sentences, and how uneven that is."""
    if png:
        require_picture(png)
    settings = read_experiment(experiment, set_)
    dataset = datasets.load(settings.data, say=say)
    division = divide(dataset, settings.partition, settings.seed)
    counts = division.label_counts(dataset)  # (K, R)
    server = count_labels(dataset, division.server)  # (R,)
    heading = f"{_what(settings.partition)}, seed {settings.seed}"
    if png:
        write_picture(_heat_map(dataset, division, counts, server), png, f"Who holds which labels: {heading}")
    if json_:
        print_json(json.dumps(_as_json(dataset, division, counts, server), indent=1))
        return
    tell(heading)
    out.print(_table(counts, server))
    if show:
        _tell_map(_heat_map(dataset, division, counts, server))
    if isinstance(choose_method(settings.method)[0], Centralised):
        tell(f"{settings.method['name']} puts all of this in one place; other methods leave it where it is")
    if png:
        tell(f"picture  {png}")
    tell(f"train on it with: {_command(experiment, set_)}")


def _what(settings: config.Partition) -> str:
    return {
        "iid": "dealt out at random (iid)",
        "dirichlet": f"dirichlet with alpha {settings.alpha:g}",
        "source": "a platform for each source",
        "relation": "a platform for each relation",
    }[settings.kind]


def _table(counts: Ints, server: Ints) -> Table:
    sizes, labels = counts.sum(axis=1), (counts > 0).sum(axis=1)  # (K,)
    table = Table("", "least", "median", "most", "all")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("sentences of a platform", *_spread(sizes), f"{sizes.sum():,}")
    table.add_row("labels of a platform", *_spread(labels), f"{(counts.sum(axis=0) > 0).sum():,}")
    table.add_section()
    table.add_row("platforms", "", "", "", f"{len(counts):,}")
    table.add_row("sentences of the server", "", "", "", f"{server.sum():,}")
    table.add_row("unevenness (0: all alike)", "", "", "", f"{unevenness(counts):.2f}")
    return table


def _spread(values: Ints) -> tuple[str, str, str]:
    return f"{values.min():,}", f"{np.median(values):,.0f}", f"{values.max():,}"


def _tell_map(drawn: HeatMap) -> None:
    ascii_only = out.options.ascii_only
    for line in text_of(drawn, width=out.width, shades=ASCII_SHADES if ascii_only else SHADES):
        tell(line.replace("…", "~") if ascii_only else line)


def _heat_map(dataset: Dataset, division: Division, counts: Ints, server: Ints) -> HeatMap:
    """Labels that nobody holds are left out; below the platforms, all of them together, and the server."""
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
