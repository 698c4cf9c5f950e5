"""One run: set-up, rounds, evaluation, the folder it leaves, and the saved model."""

from fedrel.experiment.assembly import Setup, prepare, read_experiment
from fedrel.experiment.execution import Execution
from fedrel.experiment.saved import SavedModel, load_model

__all__ = ["Execution", "SavedModel", "Setup", "load_model", "prepare", "read_experiment"]
