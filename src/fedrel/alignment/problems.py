"""What was wrong with a knowledge base but did not stop it from being loaded."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fedrel.corpus import SHOWN


@dataclass
class Problems:
    """Counted by kind, and the first few of each kind by line: `triples.tsv:7: unknown entity "Q8"`."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def __call__(self, kind: str, path: Path, line: int, what: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN:
            self.examples.setdefault(kind, []).append(f"{path}:{line}: {what}")

    @property
    def total(self) -> int:
        return self.counts.total()


def quoted(text: str, longest: int = 60) -> str:
    """A text from a file as messages show it: on one line, and not a page of it."""
    return json.dumps(text if len(text) <= longest else text[:longest] + "…", ensure_ascii=False)
