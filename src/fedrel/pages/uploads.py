"""A file that a form sends along, read by hand: what browsers send has one simple shape, and nothing else is taken."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastapi import Request

from fedrel.pages.site import Form, Refused, body_of

_LARGEST = 64_000_000  # bytes, of a body
_MOST_PARTS = 20
_BOUNDARY = re.compile(r'multipart/form-data; *boundary="?([0-9A-Za-z_-]{1,70})"?')
_NAME, _FILE = (re.compile(rb'\b%b="([^"\r\n]*)"' % word) for word in (b"name", b"filename"))


@dataclass(frozen=True)
class Upload:
    """The fields of a form, and the content of its one file with what it is called."""

    fields: Form
    name: str
    content: bytes


async def upload_of(request: Request) -> Upload:
    """Raises Refused for a body that is no form with a file."""
    found = _BOUNDARY.fullmatch(request.headers.get("content-type", ""))
    if found is None:
        raise Refused(400, "This is not a form with a file.")
    body = await body_of(request, _LARGEST, f"This file is too large: {_LARGEST // 1_000_000} MB are the most.")
    boundary = f"\r\n--{found[1]}".encode()
    _, *parts = (b"\r\n" + body).split(boundary, _MOST_PARTS)
    if not parts or not parts.pop().startswith(b"--"):
        raise Refused(400, "This is not a form with a file.")
    fields, files = dict[str, str](), list[tuple[str, bytes]]()
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name, file = _NAME.search(head), _FILE.search(head)
        if file:
            files.append((file[1].decode("utf-8", "replace")[:100], content))
        elif name:
            fields[name[1].decode("utf-8", "replace")] = content.decode("utf-8", "replace")
    if len(files) != 1 or not files[0][0]:
        raise Refused(400, "Choose a file first.")
    return Upload(fields, *files[0])
