"""An experiment as a TOML file: every key has a default, every mistake is one sentence.

Needs the standard library alone, so that a machine with nothing but torch can read an experiment.
"""

from fedrel.config.checking import line_of, section
from fedrel.config.fitting import MINILM, Table, installed
from fedrel.config.reading import override, parse, read, read_settings, read_table, with_values
from fedrel.config.sections import (
    AUTO,
    DEFAULT_METHOD,
    WORLD,
    Data,
    Dp,
    Engine,
    Evaluation,
    Experiment,
    Extractor,
    Feedback,
    Partition,
    Privacy,
    Report,
    Robust,
    Training,
    number,
)
from fedrel.config.writing import as_setting, as_toml, to_table, to_toml

__all__ = [
    "AUTO",
    "DEFAULT_METHOD",
    "MINILM",
    "WORLD",
    "Data",
    "Dp",
    "Engine",
    "Evaluation",
    "Experiment",
    "Extractor",
    "Feedback",
    "Partition",
    "Privacy",
    "Report",
    "Robust",
    "Table",
    "Training",
    "as_setting",
    "as_toml",
    "installed",
    "line_of",
    "number",
    "override",
    "parse",
    "read",
    "read_settings",
    "read_table",
    "section",
    "to_table",
    "to_toml",
    "with_values",
]
