"""Distant supervision: reads a knowledge base, finds its entities in text, and labels their pairs."""

from fedrel.alignment.gazetteer import Gazetteer, Match
from fedrel.alignment.kb import KB
from fedrel.alignment.kb import load as load_kb
from fedrel.alignment.label import Labeller, Rules
from fedrel.alignment.mentions import Spot, SpottedSentence, Spotter

__all__ = ["KB", "Gazetteer", "Labeller", "Match", "Rules", "Spot", "SpottedSentence", "Spotter", "load_kb"]
