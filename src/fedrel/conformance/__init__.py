"""Whether a method, extractor, denoiser or format keeps to what fedrel expects of one: fedrel's own, or a plug-in."""

from fedrel.conformance.checks import GROUPS, Check, checks_of, find
from fedrel.conformance.runs import Problem

__all__ = ["GROUPS", "Check", "Problem", "checks_of", "find"]
