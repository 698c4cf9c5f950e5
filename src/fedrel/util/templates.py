"""The one way in which pages are made: names and sentences come from data, so every value is escaped, and whatever
would not be visible in it is spelt out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedrel.util.escaping import shown_lines

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str) -> Environment:
    """Of the templates in a package; a name that a template misspells is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: Any) -> Any:
    """Before it is escaped; what is HTML already is of our own making."""
    return shown_lines(value) if type(value) is str else value
