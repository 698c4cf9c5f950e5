"""Reading records: the fields of a message, a reply, a memory or a server's state."""

from __future__ import annotations

from collections.abc import Mapping

from fedrel.learning.named import Named


def named_in(record: Mapping[str, Named | float], field: str) -> Named:
    """The tensors in a field. Raises KeyError where the field is missing, TypeError where it holds a number."""
    value = record[field]
    if not isinstance(value, Named):
        raise TypeError(f"{field} is a number where tensors were expected")
    return value


def number_in(record: Mapping[str, Named | float], field: str) -> float:
    """The number in a field. Raises KeyError where the field is missing, TypeError where it holds tensors."""
    value = record[field]
    if isinstance(value, Named):
        raise TypeError(f"{field} holds tensors where a number was expected")
    return value
