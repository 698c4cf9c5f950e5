"""An algorithm reads like its paper: short, and free of files, devices, engines and neural networks."""

import ast
from pathlib import Path

import pytest

import fedrel.algorithms

FILES = sorted(path for path in Path(fedrel.algorithms.__file__).parent.glob("*.py") if path.stem != "__init__")
MOST = 75  # lines of code, without docstrings and imports
ALLOWED = {
    *(f"fedrel.{it}" for it in ("algorithms", "config", "denoisers", "errors", "feedback", "learning", "protocol")),
    *("collections", "dataclasses", "math", "typing", "torch"),
}


def code_lines(tree: ast.Module, text: str) -> int:
    told = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        if isinstance(node, ast.Import | ast.ImportFrom):
            told |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in told)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_algorithm_is_short_and_knows_nothing_of_the_machine(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert code_lines(tree, text) <= MOST
    assert "torch.nn" not in text and "cuda" not in text
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert all(any(name == known or name.startswith(f"{known}.") for known in ALLOWED) for name in imported), imported
