"""For the documentation site: what the pages link to outside of docs/ is in the site as well.

Markdown of the project becomes pages under project/, everything else that is linked to (source, examples, folders)
plain text under source/. Links stay as they are in the repository, where they lead to the files themselves.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PROJECT = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "deploy/README.md")
PROJECT += ("examples/README.md", "examples/plugin/README.md")
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_origin: dict[str, str] = {}  # a page of the site: its file, from the root of the repository


def on_files(files: Files, *, config: Any) -> Files:
    """Adds pages of the project, and whatever any page links to."""
    for page in PROJECT:
        _origin[_place(page)] = page
        files.append(File.generated(config, _place(page), content=(ROOT / page).read_text(encoding="utf-8")))
    for file in list(files.documentation_pages()):
        _origin.setdefault(file.src_uri, f"docs/{file.src_uri}")
    for origin in list(_origin.values()):
        for target, _ in _LINK.findall((ROOT / origin).read_text(encoding="utf-8")):
            path = _path(origin, target)
            if (ROOT / path).exists() and files.get_file_from_path(_place(path)) is None:
                files.append(File.generated(config, _place(path), content=_as_text(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Points links to where their targets are in the site."""
    here = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        path = _path(_origin[here], link[1])
        if not (ROOT / path).exists():
            return link[0]  # told by the build, which is strict
        return f"]({posixpath.relpath(_place(path), posixpath.dirname(here) or '.')}{link[2] or ''})"

    return _LINK.sub(moved, markdown)


def _path(origin: str, target: str) -> str:
    """A link's target, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def _place(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path in PROJECT:
        return f"project/{path.lower()}"
    inside = path.removeprefix("docs/")
    is_page = inside != path and "/" not in inside and path.endswith((".md", ".png", ".svg"))
    return inside if is_page else f"source/{path}.txt"


def _as_text(path: Path) -> str | bytes:
    if path.is_dir():
        return "".join(f"{it.name}{'/' if it.is_dir() else ''}\n" for it in sorted(path.iterdir()) if it.name[0] != ".")
    return path.read_bytes()
