"""Problems in the files of a knowledge base that do not prevent loading it."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fedrel.corpus import SHOWN


@dataclass
class Problems:
    """Problems counted by kind, with the first few of each kind as examples: `triples.tsv:7: unknown entity "Q8"`."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def __call__(self, kind: str, path: Path, line: int, what: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN:
            self.examples.setdefault(kind, []).append(f"{path}:{line}: {what}")

    @property
    def total(self) -> int:
        """The number of problems of all kinds."""
        return self.counts.total()


def quoted(text: str, longest: int = 60) -> str:
    """A string from a file for use in a message: in quotes, on one line, cut after `longest` characters."""
    return json.dumps(text if len(text) <= longest else text[:longest] + "…", ensure_ascii=False)
