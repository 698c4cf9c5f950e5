"""`python -m tests.layers`: which package imports from which, from the bottom up; exit code 1 if there is a cycle.

`--cycles` prints cycles between packages alone; `--svg` prints the map in docs/architecture.md.
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
    ["kernels", "corpus", "pages"],
    ["alignment", "data"],
    ["encoding"],
    ["extractors", "denoisers"],
    ["learning"],
    ["stacked", "evaluation", "feedback", "privacy"],
    ["protocol"],
    ["algorithms"],
    ["engines"],
    ["experiment"],
    ["extraction", "sweeps", "report", "conformance", "audit", "exports", "watch"],
    ["api"],
    ["review", "explore", "federation"],
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


_HOLDS = {
    **{"errors": "one sentence, exit code 2", "version": "", "config": "experiment.toml"},
    **{"util": "files, processes, seeds, plug-ins", "sandbox": "Landlock, seccomp"},
    **{"kernels": "compiled loops", "corpus": "readers of formats", "pages": "what web pages share"},
    **{"alignment": "knowledge base, names in text", "data": "columnar store, partition"},
    **{"encoding": "sentences to tensors"},
    **{"extractors": "sentence encoders", "denoisers": "bags of sentences"},
    **{"learning": "model, fit, losses, named tensors"},
    **{"stacked": "platforms as one program", "evaluation": "metrics", "feedback": "verdicts of people"},
    **{"privacy": "policy, ledger, blinding"},
    **{"protocol": "rounds, tasks, codec, replies"},
    **{"algorithms": "one paper, one file"},
    **{"engines": "simulator, Ray, remote"},
    **{"experiment": "one run, the saved model"},
    **{"watch": "a run, live"},
    **{"extraction": "text to facts", "sweeps": "compare, tune", "report": "page, figures"},
    **{"conformance": "check-plugin", "audit": "attacks, measured"},
    **{"exports": "ONNX, Hugging Face", "api": "import fedrel"},
    **{"review": "page for judges", "explore": "page of facts", "federation": "kits, nodes, transport"},
    **{"cli": "the fedrel command"},
}
_WIDE, _ROW, _GAP = 960, 52, 8
_SHADES = ("#eef3f8", "#dfe9f3", "#cfdfee", "#c0d5e9")


def drawn() -> str:
    """The layers as SVG: a package imports from rows below its own alone."""
    rows = list(reversed(LAYERS))
    boxes = []
    for row, packages in enumerate(rows):
        width = (_WIDE - _GAP * (len(packages) + 1)) / len(packages)
        for place, package in enumerate(packages):
            x, y = _GAP + place * (width + _GAP), _GAP + row * (_ROW + _GAP)
            shade = _SHADES[row * len(_SHADES) // len(rows)]
            boxes.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{_ROW}" rx="6" fill="{shade}" stroke="#7a9"/>'
                f'<text x="{x + width / 2:.0f}" y="{y + 22}" font-weight="bold" fill="#16324f">{package}</text>'
                f'<text x="{x + width / 2:.0f}" y="{y + 40}" font-size="12" fill="#3d5670">{_HOLDS[package]}</text>'
            )
    high = len(rows) * (_ROW + _GAP) + _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" font-family="sans-serif" '
        f'font-size="15" text-anchor="middle"><rect width="{_WIDE}" height="{high}" fill="white"/>'
        + "\n".join(boxes)
        + "</svg>\n"
    )


def main() -> None:
    if "--svg" in sys.argv:
        print(drawn(), end="")
        return
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
