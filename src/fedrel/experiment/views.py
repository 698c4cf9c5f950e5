"""Whether a finished model scores sentences with names shown and hidden, or shown alone."""

from __future__ import annotations

from collections.abc import Callable

from fedrel.experiment.assembly import Setup
from fedrel.experiment.evaluators import Evaluated
from fedrel.learning.model import BOTH_VIEWS, SHOWN

_CLEARLY = 0.03  # of dev's score


def choose_view(setup: Setup, on_dev: Callable[[], Evaluated]) -> Evaluated:
    """Sets the model's view and returns its evaluation on dev. A sentence counts with names shown and hidden, unless
    dev is clearly better without the second. Dev alone must not decide by less: its labels come from the knowledge
    base, and whoever knows the names by heart guesses them without reading.
    """
    setup.model.hidden_view = BOTH_VIEWS
    both, metric = on_dev(), setup.experiment.training.metric
    if not setup.model.hide_names:
        return both
    needed = both.metrics()[metric] + _CLEARLY  # platforms that hold dev are asked now, with this view
    setup.model.hidden_view = SHOWN
    shown = on_dev()
    if shown.metrics()[metric] > needed:
        return shown
    setup.model.hidden_view = BOTH_VIEWS
    return both
