"""The forms in which facts are written, by the ending of the file's name."""

from collections.abc import Callable, Iterable, Iterator

from fedrel.extraction.facts import Fact, csv_lines, json_lines, ntriples_lines
from fedrel.extraction.rdf import json_ld_lines, turtle_lines

WRITERS: dict[str, Callable[[Iterable[Fact]], Iterator[str]]] = {
    ".jsonl": json_lines,
    ".csv": csv_lines,
    ".nt": ntriples_lines,
    ".ttl": turtle_lines,
    ".jsonld": json_ld_lines,
}
