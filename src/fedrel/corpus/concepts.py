"""Concepts of a database as biomedical corpora write them: several in one id, and names by which relations call them.

D006261|D010146      a mention of two concepts; MeSH ids are also joined by , ; and +
p|SUB|V|600|E        one concept: a variant of a gene
Chemical|MESH:D001   in a relation: the type of the concept, and its id
"""

import re
from collections.abc import Mapping

_UNLINKED = ("", "-", "-1", "none", "null")
_VARIANT = r"(?:tmVar:)?[a-z]?\|[A-Za-z]+\|"
_IS_VARIANT = re.compile(_VARIANT)
_BETWEEN_VARIANTS = re.compile(rf"[,;](?={_VARIANT})")
_BETWEEN = re.compile(r"[|;,]|\+(?=(?:\w+:)?[A-Z]?[0-9]{4,})")

NOT_MARKED = "the relation joins a concept that is not marked in the text"


def is_linked(identifier: str) -> bool:
    """Whether it names a concept: -1 says that none was found."""
    return identifier.casefold() not in _UNLINKED


def concepts(identifier: str) -> tuple[str, ...]:
    """The concepts of a mention in their order, none twice; empty if it is not linked."""
    between = _BETWEEN_VARIANTS if _IS_VARIANT.match(identifier) else _BETWEEN
    return tuple(dict.fromkeys(it for it in map(str.strip, between.split(identifier)) if is_linked(it)))


def known_as(name: str, known: Mapping[str, str]) -> str | None:
    """The entity that a relation means by a name, given those of the document by the names that they go by."""
    return known.get(name) or known.get(name.partition("|")[2])
