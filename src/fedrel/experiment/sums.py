"""Runs whose coordinator knows sums over platforms alone: what must hold for that, and how their replies add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fedrel.config import Experiment
from fedrel.experiment.budget import Budget
from fedrel.privacy.accounting import PLATFORM
from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.form import Form
from fedrel.protocol.noised import NoisyLayout
from fedrel.protocol.round import Ask
from fedrel.protocol.summed import Layout, Units, objection_to_form
from fedrel.protocol.tasks import form_of, tasks

SECURE = "secure"  # of privacy.sums


def objection_to_sums(algorithm: Algorithm, experiment: Experiment) -> str | None:
    """Why a run cannot do with sums alone, in one sentence; None: it can, or need not."""
    if experiment.privacy.sums != SECURE:
        return None
    method, robust = experiment.method["name"], experiment.robust
    ours = 'with privacy.sums = "secure" only sums over platforms are known'
    if robust.aggregation != "mean":
        return f'robust.aggregation = "{robust.aggregation}" compares single updates, and {ours}; set it to "mean"'
    if robust.screening != "off":
        return f'robust.screening = "{robust.screening}" looks at single updates, and {ours}; set it to "off"'
    if (kind := experiment.engine.kind) != "local":
        return f'engine.kind = "{kind}" hands every reply to one process, and {ours}; set it to "local"'
    if algorithm.pools_text:
        return f"{method} has all text in one place, where there is nothing to add up; leave privacy.sums out"
    if algorithm.reads_replies:
        return f"{method} looks at the reply of every platform, and {ours}; choose another method, or leave it out"
    found = (objection_to_form(form_of(algorithm, name)) for name in tasks(algorithm) if adds_up(algorithm, name))
    if what := next(filter(None, found), ""):
        return f"{method} sends {what}, which cannot be added up, and {ours}; choose another method, or leave it out"
    return None


def objection_to_cohort(experiment: Experiment, active: int) -> str | None:
    """Why so few active platforms are none that may be summed; None: they are enough."""
    least = experiment.privacy.least
    if experiment.privacy.sums != SECURE or active >= least:
        return None
    return (
        f"{active} platform{'s take' if active != 1 else ' takes'} part in a round, and no sum over fewer than "
        f"{least} is opened (privacy.least); raise training.fraction, or take more platforms"
    )


def sum_notes(experiment: Experiment) -> list[str]:
    """What a reader of results should know about how replies were added up."""
    if experiment.privacy.sums != SECURE:
        told = "no secure sums: the coordinator sees what each platform sends (docs/privacy.md)"
        return [told] if experiment.partition.kind == "folder" else []
    least = experiment.privacy.least
    return [f"secure sums: the coordinator sees sums over at least {least} platforms, and no platform's own updates"]


def layouts(
    algorithm: Algorithm,
    experiment: Experiment,
    held: Callable[[], Mapping[str, int]],
    sizes: Mapping[str, int],
    budget: Budget | None = None,
) -> Callable[[Ask], Layout | None]:
    """How the replies to a request add up; None: they need not. `held`: sentences of every platform, as far as it has
    said so. `budget`: of the noise in them, where there is some.
    """

    def layout(ask: Ask) -> Layout | None:
        form = form_of(algorithm, ask.task)
        if form is None or not adds_up(algorithm, ask.task):
            return None
        told = held() if budget is None or budget.mechanism.unit != PLATFORM else {}
        units = Units.of(len(ask.to), told)
        said = algorithm.sizes_in(next(iter(ask.to.values()), {}))
        found = layout_of(form, units, ask.round, budget)
        return replace(found, model=ask.model, sizes={**sizes, **said})

    return layout if experiment.privacy.sums == SECURE else lambda ask: None


def layout_of(form: Form, units: Units, round_: int, budget: Budget | None) -> Layout:
    """How replies of this form add up in a round, the same for all who know what was agreed on; the weights that they
    are compared with, and sizes, are to be filled in.
    """
    if budget is None:
        return Layout(form, units)
    return NoisyLayout(form, units, mechanism=budget.mechanism, rate=budget.experiment.training.lr_at(round_))


def adds_up(algorithm: Algorithm, task: str) -> bool:
    """Whether the replies to a task are to be added up: those of a method's rounds, unless they are empty. Counts on
    held-out sentences leave as they are.
    """
    form = form_of(algorithm, task)
    return not hasattr(Algorithm, task) and (form is None or bool(form.fields))
