"""From new text to facts: candidate pairs, their scores, and the file formats of facts."""

from fedrel.extraction.extract import RelationExtractor
from fedrel.extraction.facts import Fact, Support
from fedrel.extraction.general import GeneralExtractor
from fedrel.extraction.loading import extractor_of, load
from fedrel.extraction.predictions import Prediction, Sentence

__all__ = ["Fact", "GeneralExtractor", "Prediction", "RelationExtractor", "Sentence", "Support", "extractor_of", "load"]
