"""What `data.source` may name: the built-in world, or a format of files that can be trained on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedrel.config import AUTO, WORLD, Data, Experiment
from fedrel.corpus import FORMATS, NA
from fedrel.corpus.formats import labelled_formats
from fedrel.corpus.rules import Rules
from fedrel.errors import UserError, suggest

_METRIC_OF_WORLD = "ap"  # it is distant supervision


def require_source(source: str) -> None:
    """Raises UserError, with what it may have meant, for a name that is neither the world nor a labelled format."""
    if source != WORLD and not (source in FORMATS and FORMATS[source].labelled):
        raise UserError(f'data.source = "{source}" is unknown{suggest(source, [WORLD, *labelled_formats()])}')


def with_metric(experiment: Experiment) -> Experiment:
    """The experiment with the metric that its data call for where it leaves that open: gold labels are evaluated
    sentence by sentence, those of distant supervision as a ranking of facts.
    """
    if experiment.training.metric != AUTO:
        return experiment
    source = experiment.data.source
    require_source(source)
    metric = _METRIC_OF_WORLD if source == WORLD else FORMATS[source].default_metric
    return replace(experiment, training=replace(experiment.training, metric=metric))


def are_texts(data: Data) -> bool:
    """Whether the data are plain texts with a label each, without a pair of entities."""
    return data.source != WORLD and FORMATS[data.source].texts is not None


def has_na(data: Data) -> bool:
    """Whether "no relation" is one of the labels."""
    return data.na == "keep" and not are_texts(data)


def agreed_relations(data: Data) -> list[str]:
    """The relations agreed beforehand, without NA, which is the first by itself; UserError if one is named twice."""
    names = [name for name in data.relations if not (name == NA and has_na(data))]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f'data.relations names "{twice[0]}" twice; name it once')
    return names


def kind_of(data: Data) -> dict[str, Any]:
    """What `build` has to know of the data as a whole, as its keyword arguments. UserError for settings that change
    nothing in data of this source.
    """
    require_useful(data)
    return {
        "relations": agreed_relations(data),
        "na": has_na(data),
        "has_pairs": not are_texts(data),
        "gold": is_gold(data),
    }


def require_useful(data: Data) -> None:
    """Raises UserError for settings about labels that change nothing in data of this source."""
    if data.source == WORLD:
        useless = ["labels", "na_label", "directions", "human"]
        why = "the built-in world has the labels that it is made with"
    elif are_texts(data):
        useless, why = ["na_label", "directions", "human"], "whole texts with a label have no pairs of entities"
    elif FORMATS[data.source].sentences:
        useless, why = ["directions"], f"every row of {data.source} says which entity is the head"
    else:
        return
    if given := next((name for name in useless if getattr(data, name)), None):
        raise UserError(f"data.{given} changes nothing here, since {why}; leave it out")


def is_gold(data: Data) -> bool:
    """Whether people labelled sentences with pairs, so that a pair may well be in train and in test."""
    return data.source != WORLD and FORMATS[data.source].gold and not are_texts(data)


def rules_of(data: Data) -> Rules:
    """What the [data] section asks of readers."""
    return Rules(
        identity=data.identity,
        na_label=data.na_label,
        labels=dict(data.labels),
        directions=dict(data.directions),
        max_pairs=data.max_pairs,
        max_distance=data.max_distance,
        bad_rows=data.bad_rows,
    )
