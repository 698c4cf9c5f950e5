"""Evaluates trained models: rankings, classification, calibration, selection quality, cost and significance."""

from fedrel.evaluation.calibration import Calibration, fit_calibration
from fedrel.evaluation.heldout import rank
from fedrel.evaluation.histograms import Histogram
from fedrel.evaluation.ranking import Ranking
from fedrel.evaluation.significance import randomisation
from fedrel.evaluation.task import METRICS, Evaluation, evaluation_of

__all__ = [
    "METRICS",
    "Calibration",
    "Evaluation",
    "Histogram",
    "Ranking",
    "evaluation_of",
    "fit_calibration",
    "randomisation",
    "rank",
]
