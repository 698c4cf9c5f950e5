"""What an experiment's [method] section names: an algorithm, and the denoiser of its model."""

from __future__ import annotations

from collections.abc import Mapping

from fedrel import config
from fedrel.algorithms import METHODS
from fedrel.config import Experiment
from fedrel.errors import UserError, suggest
from fedrel.experiment.sums import SECURE
from fedrel.protocol.algorithm import Algorithm


def choose_method(settings: Mapping[str, object], where: str = "", text: str = "") -> tuple[Algorithm, str]:
    """The [method] section, a name and that method's own settings: an algorithm, and the denoiser of its model."""
    options = dict(settings)
    name = str(options.pop("name"))
    if name not in METHODS:
        place = f"{where}{config.line_of(text, 'method.', 'name')}: " if where else ""
        raise UserError(f'{place}method.name = "{name}" is no method{suggest(name, METHODS)}')
    method = METHODS[name]
    algorithm = config.section(method.algorithm, options, where or f"method {name}", "method.", text)
    return algorithm, method.denoiser or vars(algorithm)["denoiser"]


def method_of(experiment: Experiment) -> tuple[Algorithm, str]:
    """What a run's platforms and coordinator do: the method, in the form that does with what the coordinator may know,
    and the denoiser of its model.
    """
    algorithm, denoiser = choose_method(experiment.method)
    summing = METHODS[str(experiment.method["name"])].from_sums if experiment.privacy.sums == SECURE else None
    return (summing(algorithm, experiment) if summing else algorithm), denoiser
