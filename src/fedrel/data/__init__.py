"""Labelled sentences as columns in memory-mapped files: loading, partition over platforms, inspection."""

from fedrel.data.building import build
from fedrel.data.inspection import inspect
from fedrel.data.loading import load
from fedrel.data.partition import Division, divide
from fedrel.data.store import Dataset, Split, fact_bags, iterate, pair_bags

__all__ = [
    "Dataset",
    "Division",
    "Split",
    "build",
    "divide",
    "fact_bags",
    "inspect",
    "iterate",
    "load",
    "pair_bags",
]
