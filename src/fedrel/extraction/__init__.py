"""From new text to facts: candidate pairs, their scores, and the file formats of facts."""

from fedrel.extraction.extract import Prediction, RelationExtractor, load
from fedrel.extraction.facts import Fact, Support

__all__ = ["Fact", "Prediction", "RelationExtractor", "Support", "load"]
