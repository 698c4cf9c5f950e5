"""`python -m tests.layers`: which package imports from which, from the bottom up.

`--cycles` prints cycles between packages alone, and ends with exit code 1 if there is one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import fedrel

ROOT = Path(fedrel.__file__).parent
# From the bottom up: a package imports from itself and from those in lines above its own.
LAYERS = [
    ["errors", "version", "config"],
    ["util", "sandbox"],
    ["kernels", "corpus"],
    ["alignment", "data"],
    ["encoding"],
    ["extractors", "denoisers"],
    ["learning"],
    ["stacked", "evaluation", "feedback", "privacy"],
    ["protocol"],
    ["algorithms"],
    ["engines"],
    ["experiment"],
    ["extraction", "sweeps", "report", "conformance"],
    ["review", "federation"],
    ["cli"],
]


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its package (a module of the root is a package of its own), without the root itself."""
    for path in sorted(ROOT.rglob("*.py")):
        package = path.relative_to(ROOT).with_suffix("").parts[0]
        if package != "__init__":
            yield package, path


def imported_packages(path: Path) -> Iterator[str]:
    """The packages of ours that a module imports from, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "fedrel":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedrel."):
            yield (node.module or "").split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (it.name.split(".")[1] for it in node.names if it.name.startswith("fedrel."))


def graph() -> dict[str, set[str]]:
    """Package → packages that it imports from."""
    found: dict[str, set[str]] = {}
    for package, path in modules():
        found.setdefault(package, set()).update(it for it in imported_packages(path) if it != package)
    return found


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of packages that reach each other, each sorted; none in a layered design."""
    reached = {package: _reachable(package, edges) for package in edges}
    groups = {
        tuple(sorted(other for other in reached[package] if package in reached.get(other, ()))) for package in edges
    }
    return [list(group) for group in sorted(groups) if group]


def _reachable(package: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [package]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def main() -> None:
    edges = graph()
    if "--cycles" not in sys.argv:
        for layer in LAYERS:
            for package in layer:
                print(f"{package:12} ← {', '.join(sorted(edges[package])) or '–'}")
    circular = cycles(edges)
    for group in circular:
        print(f"cycle: {', '.join(group)}")
    print(f"{len(edges)} packages in {len(LAYERS)} layers, {len(circular)} cycles")
    raise SystemExit(bool(circular))


if __name__ == "__main__":
    main()
