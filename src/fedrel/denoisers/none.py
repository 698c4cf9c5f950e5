"""NONE: every sentence is a training instance with its bag's label."""

from fedrel.denoisers.base import Denoiser


class Nothing(Denoiser):
    by_bag = False
    plain_logits = True
    stackable = True
