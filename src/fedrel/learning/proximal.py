"""The part of a local objective that depends on the weights alone."""

from __future__ import annotations

from dataclasses import dataclass

from fedrel.config import Training
from fedrel.learning.named import Named


@dataclass(frozen=True)
class Pull:
    """Adds strength · (w - w_loaded) + push to the gradient; w_loaded is what the model was loaded with.

    FedProx, FedDyn and SCAFFOLD all have this form, and in it a step on a large word table costs the touched rows
    alone (see WordTable).
    """

    strength: float = 0.0
    push: Named | None = None


def too_strong(setting: str, strength: float, training: Training) -> str | None:
    """What to change, if a step of plain gradient descent would carry the weights beyond where they are pulled to;
    None: nothing.
    """
    if training.optimizer != "sgd" or training.lr * (strength + training.weight_decay) < 1:
        return None
    return f"training.lr times method.{setting} must be below 1, or every step overshoots the global model"
