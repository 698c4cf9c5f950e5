"""Whether a run has secure sums where nobody says so.

A federation has, wherever it can: nobody should have to ask that others cannot read what a platform sends. So has a
simulation of platforms with folders of their own, which is what a federation of them is compared with. Any other
simulation has not: there is no coordinator from whom anything could be kept, and what is looked at one by one (updates
that are out of line, say) can be looked at. Noise (`dp.unit`) is added to sums alone, so a run with noise has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from fedrel.config import Experiment
from fedrel.config.sections import AUTO
from fedrel.experiment.budget import OFF
from fedrel.experiment.methods import method_of
from fedrel.experiment.sums import objection_to_cohort, objection_to_sums
from fedrel.protocol.sampling import Sampler

_SCREENS = "leave-out"  # the default of robust.screening


def with_sums(
    experiment: Experiment, platforms: Collection[str], say: Callable[[str], None] = lambda line: None
) -> Experiment:
    """The experiment with privacy.sums filled in, where nobody has named it; `say` is told why sums are off."""
    if experiment.privacy.sums != AUTO:
        return experiment
    plain = replace(experiment, privacy=replace(experiment.privacy, sums="off"))
    algorithm, _ = method_of(plain)
    if experiment.partition.kind != "folder" or algorithm.pools_text or not platforms:
        return plain
    active = len(Sampler(tuple(platforms), experiment.training.fraction, experiment.seed).cohort(0))
    secure = as_secure(experiment)
    objection = objection_to_method(experiment) or objection_to_cohort(secure, active)
    if objection is None:
        say("secure sums: the coordinator sees what platforms send added up; updates are not screened one by one")
        return secure
    if len(platforms) > 1:
        say(no_sums(objection))
    return plain


def with_sums_for_noise(experiment: Experiment) -> Experiment:
    """The experiment with secure sums where nobody has named privacy.sums, and noise needs them."""
    needed = experiment.dp.unit != OFF and experiment.privacy.sums == AUTO
    return as_secure(experiment) if needed else experiment


def objection_to_method(experiment: Experiment) -> str | None:
    """Why secure sums are nothing for these settings, however many platforms there are; None: they would work."""
    secure = as_secure(experiment)
    return objection_to_sums(method_of(secure)[0], secure)


def no_sums(objection: str) -> str:
    return f"no secure sums, so the coordinator sees what each platform sends (docs/privacy.md): {objection}"


def as_secure(experiment: Experiment) -> Experiment:
    """With secure sums, and the defaults that go with them."""
    robust, privacy = experiment.robust, replace(experiment.privacy, sums="secure")
    if robust.screening == _SCREENS:
        robust = replace(robust, screening="off")
    return replace(experiment, privacy=privacy, robust=robust)
