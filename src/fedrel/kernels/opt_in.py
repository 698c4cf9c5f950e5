"""How a class says that a fast path may stand in for its own code."""

from __future__ import annotations


def opted_in(part: object, name: str) -> bool:
    """Whether the exact class of `part` sets the attribute `name` to True in its own body.

    An inherited attribute does not count: a subclass may add a parameter or override a method, and a fast path written
    for its parent would ignore both without an error.
    """
    return vars(type(part)).get(name) is True
