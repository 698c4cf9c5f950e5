"""Data flows one way, and imports follow it."""

import ast
import subprocess
import sys
from pathlib import Path

import fedrel

ROOT = Path(fedrel.__file__).parent
# From the bottom up; a module may import from its own layer and from those above it in this list.
LAYERS = [
    [
        "compiled",
        "registers",
        "errors",
        "seeds",
        "files",
        "foreign",
        "parallel",
        "recent",
        "sandbox",
        "stopwatch",
        "templates",
        "trim",
        "units",
        "version",
    ],
    ["config"],
    ["corpus"],
    ["alignment", "documents"],
    ["bags"],
    ["datasets", "inspection", "partition"],
    ["encoding"],
    ["learning.named"],
    ["extractors", "denoisers"],
    ["learning"],
    ["privacy"],
    ["feedback"],
    ["federation.channel", "federation.kits"],
    ["federation.signing"],
    ["federation.codec"],
    ["federation.protocol"],
    ["algorithms"],
    ["federation"],
    ["evaluation"],
    ["assembly"],
    ["federation.engines.ray"],
    ["facts", "judging", "saved", "showcase", "sightings"],
    ["extraction"],
    ["execution", "feedback.review"],
    ["parties"],
    ["worker"],
    ["sections"],
    ["cases", "comparison", "report", "tuning"],
    ["tables"],
    ["federation.nodes.status", "federation.nodes.audit", "federation.nodes.processes"],
    ["federation.engines.https", "federation.engines.nvflare", "federation.nodes"],
    ["cli"],
]


def layer(module):
    name = module.removeprefix("fedrel.")
    found = [
        (len(prefix), number)
        for number, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if name == prefix or name.startswith(prefix + ".")
    ]
    assert found, f"{module} has no place in the layers"
    return max(found)[1]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedrel"):
            if node.module == "fedrel":
                yield from (f"fedrel.{alias.name}" for alias in node.names)
            else:
                # `from fedrel.federation import checkpoint` means the submodule
                for alias in node.names:
                    sub = ROOT / Path(*node.module.split(".")[1:]) / f"{alias.name}.py"
                    yield f"{node.module}.{alias.name}" if sub.exists() else node.module


def test_imports_follow_the_data():
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name == "__init__":
            continue
        module = "fedrel." + name.removesuffix(".__init__")
        for imported in imports(path):
            assert layer(imported) <= layer(module), f"{module} imports {imported}, which lies further on"


def test_nvflare_is_imported_by_its_own_engine_alone():
    """And there by what runs in FLARE's processes alone: our nodes do without it."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "nvflare" for name in names):
                found.add(str(path.relative_to(ROOT)))
    engine = "federation/engines/nvflare"
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
import fedrel.learning.fit, fedrel.algorithms, fedrel.federation.engines.simulator, fedrel.execution
"""
    subprocess.run([sys.executable, "-c", code], check=True)
