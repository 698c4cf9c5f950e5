"""Named tensors, the model, and its training. Needs torch and numpy alone."""

from fedrel.learning.fit import Fitted
from fedrel.learning.losses import Loss, Output, cross_entropy
from fedrel.learning.model import Model
from fedrel.learning.named import Named, apply_patch, weighted_mean
from fedrel.learning.proximal import Pull

__all__ = ["Fitted", "Loss", "Model", "Named", "Output", "Pull", "apply_patch", "cross_entropy", "weighted_mean"]
