"""XML from strangers, an element at a time.

The package lxml is imported when a file is read, since a machine that only trains may lack it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fedrel.corpus.columns import shortened
from fedrel.errors import UserError

_MOST_ELEMENTS = 500_000  # in an element below the root, which is in memory whole
_LIMITS = ("XML_PARSE_HUGE",)  # the parser names the option that lifts a limit of its own


def children(path: Path, root: str, what: str) -> Iterator[tuple[Any, Any]]:
    """The root of a file and each element in it that is no deeper, which is freed before the next one comes. UserError
    for a file that is not XML, or that begins with another element than `root`; `what` names the format.

    What makes this safe with files from strangers:
    - resolve_entities=False puts no entity into the text, be it a file on this machine or a billion laughs;
    - load_dtd=False and no_network=True, the defaults, fetch nothing that a DOCTYPE names;
    - huge_tree=False, the default, has the parser give up on entities that grow inside of attributes;
    - a file that declares an entity at all is refused below, so none goes missing from a text unseen.
    """
    from lxml import etree

    try:
        with path.open("rb") as file:
            yield from _children(file, path, root, what)
    except etree.XMLSyntaxError as error:
        reason = shortened(error.msg or "empty", 200)
        if any(limit in reason for limit in _LIMITS):
            raise UserError(
                f"{path}:{error.lineno or 1}: too long a text, or elements too deep, to be read from one place of XML "
                "(10 MB, 256 levels); cut the document into several"
            ) from None
        raise UserError(f"{path}:{error.lineno or 1}: not XML ({reason}); is the file damaged or cut off?") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _children(file: BinaryIO, path: Path, name: str, what: str) -> Iterator[tuple[Any, Any]]:
    from lxml import etree

    events = etree.iterparse(
        file, events=("start", "end"), resolve_entities=False, remove_comments=True, remove_pis=True
    )
    root = next(events)[1]
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and declared.entities():
        raise UserError(f"{path}: declares an entity of its own (<!ENTITY …>); write its text in its place")
    if root.tag != name:
        raise UserError(f"{path}:{root.sourceline}: not {what}, which begins with <{name}>")
    inside = 0
    for event, element in events:
        inside += event == "start"
        if inside > _MOST_ELEMENTS:
            raise UserError(
                f"{path}: more than {_MOST_ELEMENTS:,} elements in one <{shortened(str(_below(root, element)))}>; cut "
                "it into several"
            )
        if event == "end" and element.getparent() is root:
            inside = 0
            yield root, element
            element.clear()
            while element.getprevious() is not None:
                del root[0]


def _below(root: Any, element: Any) -> Any:
    """The name of the element below the root that this one is in."""
    while (parent := element.getparent()) is not root:
        element = parent
    return element.tag


def line_of(path: Path, element: Any) -> str:
    """file:line of an element, or the file alone where the parser, which counts no further than 65,534, has no line."""
    line = element.sourceline or 0
    return f"{path}:{line}" if 0 < line < 65_535 else str(path)
