"""Jinja templates for all HTML pages. Names and sentences come from data, so every value is HTML-escaped and its
invisible characters are shown as escape sequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedrel.util.escaping import shown_lines

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(*packages: str) -> Environment:
    """A Jinja environment for the `templates` folders of some packages, those of the first before those of the others;
    an undefined name in a template is an error.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: Any) -> Any:
    """Called on every value before HTML-escaping; `Markup` is our own HTML and passes unchanged."""
    return shown_lines(value) if type(value) is str else value
