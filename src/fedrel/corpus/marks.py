"""The entities and relations of a document as a reader finds them, broken ones counted and left out."""

from __future__ import annotations

from collections.abc import Callable

from fedrel.corpus.checks import check_span
from fedrel.corpus.columns import shortened
from fedrel.corpus.types import Annotation, Skipped
from fedrel.errors import UserError

LEFT_OUT = "the relation needs an entity that was left out"


class Marks:
    """What is marked in one text; each thing that is added has a place for messages."""

    def __init__(self, text: str, skip: Skipped) -> None:
        self.text = text
        self._skip = skip
        self._found: dict[str, Annotation | None] = {}  # None: left out
        self._relations: list[tuple[str, str, str]] = []

    @property
    def annotations(self) -> tuple[Annotation, ...]:
        return tuple(it for it in self._found.values() if it)

    @property
    def relations(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(self._relations)

    def entity(self, key: object, span: Callable[[], tuple[object, object]], type_: object, where: str) -> None:
        """Adds an entity: its key within the document (None: T and its number), and what finds its start and end, which
        may raise UserError.
        """
        name = named(key) or f"T{len(self._found) + 1}"
        try:
            if name in self._found:
                raise UserError(f'{where}: the id "{shortened(name)}" is there twice; give each entity its own')
            self._found[name] = None
            start, end = span()
            if type(start) is not int or type(end) is not int:
                raise UserError(f"{where}: start and end must be whole numbers")
            check_span(self.text, start, end, where)
            self._found[name] = Annotation(name, start, end, named(type_))
        except UserError as error:
            self._skip.bad(error, where)

    def relation(self, head: object, relation: str, tail: object, where: str) -> None:
        """Adds a relation of two entities, by their keys."""
        ends = named(head), named(tail)
        if missing := [key for key in ends if key not in self._found]:
            self._skip.bad(UserError(f'{where}: no entity has the id "{shortened(missing[0])}"; mark it, too'), where)
        elif any(self._found[key] is None for key in ends):
            self._skip(where, LEFT_OUT)
        else:
            self._relations.append((ends[0], relation, ends[1]))


def named(value: object) -> str:
    """A name that may be written as a number; empty for anything else."""
    return str(value) if type(value) is int and abs(value) < 10**18 else value.strip() if isinstance(value, str) else ""
