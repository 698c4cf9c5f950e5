"""Text as fedrel reads it: documents, sentences with a labelled pair of entities, and labelled texts, in many formats.

What an author of a format needs is here; see docs/text.md.
"""

from fedrel.corpus.format import Format, Sample, has_extension, no_header, same_stem
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.lines import each_object, each_row
from fedrel.corpus.types import (
    NA,
    SHOWN,
    SPLITS,
    Annotation,
    Document,
    Instance,
    LabelledText,
    Mention,
    Skipped,
    lots,
)

__all__ = [
    "FORMATS",
    "NA",
    "SHOWN",
    "SPLITS",
    "Annotation",
    "Document",
    "Format",
    "Instance",
    "LabelledText",
    "Mention",
    "Sample",
    "Skipped",
    "each_object",
    "each_row",
    "has_extension",
    "lots",
    "no_header",
    "same_stem",
]
