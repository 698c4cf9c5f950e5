"""What `import fedrel` offers: experiments, runs, comparisons and labelled text, without a line printed."""

from fedrel.api.comparing import ComparisonResult, compare
from fedrel.api.experiments import Experiment
from fedrel.api.exported import export
from fedrel.api.improving import improve
from fedrel.api.labelling import LabelledText, label
from fedrel.api.runs import Curve, Round, Rounds, Run, rounds, run

__all__ = [
    "ComparisonResult",
    "Curve",
    "Experiment",
    "LabelledText",
    "Round",
    "Rounds",
    "Run",
    "compare",
    "export",
    "improve",
    "label",
    "rounds",
    "run",
]
