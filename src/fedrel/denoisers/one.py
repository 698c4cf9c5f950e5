"""ONE (Zeng et al., EMNLP 2015): per bag, the sentence most likely to express the bag's own label,
chosen anew in every batch (without dropout); the loss is on it alone."""

from fedrel.denoisers.base import Denoiser


class One(Denoiser):
    chooses = True
    plain_logits = True
    stackable = True
