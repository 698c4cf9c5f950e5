"""Data flows one way, and imports follow it."""

import ast
import subprocess
import sys

from tests.layers import LAYERS, ROOT, cycles, drawn, graph, imported_packages, modules


def test_imports_follow_the_data():
    layer = {package: number for number, packages in enumerate(LAYERS) for package in packages}
    for package, path in modules():
        assert package in layer, f"{package} has no place in the layers"
        for imported in imported_packages(path):
            allowed = imported == package or layer[imported] < layer[package]
            both_root = {imported, package} <= set(LAYERS[0])
            assert allowed or both_root, f"{path.relative_to(ROOT)} imports from {imported}, which is no layer below"


def test_packages_have_one_place_and_no_cycles():
    assert cycles(graph()) == []
    assert len(LAYERS) <= 16
    assert len([package for layer in LAYERS for package in layer]) == len(graph())


def test_the_check_for_cycles_finds_one():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_the_map_shows_the_layers_as_they_are():
    """Draw it anew with: python -m tests.layers --svg > docs/architecture.svg"""
    page = ROOT.parents[1] / "docs" / "architecture.svg"
    assert page.read_text(encoding="utf-8") == drawn()


def test_the_root_is_small():
    assert {path.stem for path in ROOT.glob("*.py")} == {"__init__", "errors", "version"}


def test_nvflare_is_imported_by_its_own_engine_alone():
    """And there by what runs in FLARE's processes alone: our nodes do without it."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "nvflare" for name in names):
                found.add(str(path.relative_to(ROOT)))
    engine = "federation/nvflare"
    assert found == {f"{engine}/{name}.py" for name in ("controller", "executor", "guard")}


def test_learning_algorithms_and_simulator_need_torch_and_numpy_alone():
    code = """
import sys
class Refuse:
    needed_by_torch = {"typing_extensions", "sympy", "mpmath", "networkx", "filelock", "fsspec", "packaging", "optree"}
    allowed = {"torch", "torchgen", "functorch", "numpy", "fedrel"} | needed_by_torch | set(sys.stdlib_module_names)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.allowed:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Refuse())
import fedrel.learning.fit, fedrel.algorithms, fedrel.engines.simulator, fedrel.experiment.execution
"""
    subprocess.run([sys.executable, "-c", code], check=True)
