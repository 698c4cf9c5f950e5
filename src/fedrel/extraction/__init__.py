"""From new text to facts: candidate pairs, their scores, and the file formats of facts."""

from fedrel.extraction.extract import Prediction, RelationExtractor
from fedrel.extraction.facts import Fact, Support
from fedrel.extraction.general import GeneralExtractor
from fedrel.extraction.loading import extractor_of, load

__all__ = ["Fact", "GeneralExtractor", "Prediction", "RelationExtractor", "Support", "extractor_of", "load"]
