"""Text as fedrel reads it: documents, sentences with a labelled pair of entities, and labelled texts, in many formats.

What an author of a format needs is here; see docs/text.md.
"""

from fedrel.corpus.checks import sentence_tokens, stretch
from fedrel.corpus.columns import split_columns, whole_number
from fedrel.corpus.format import Format, Sample, has_extension, no_header, same_stem
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.lines import each_object, each_row, numbered_lines
from fedrel.corpus.tokens import token_span
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
    "numbered_lines",
    "same_stem",
    "sentence_tokens",
    "split_columns",
    "stretch",
    "token_span",
    "whole_number",
]
