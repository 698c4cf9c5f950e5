"""What others may import from each package: declared, sorted, documented, and there."""

import importlib
import inspect

import pytest

from tests.layers import LAYERS, ROOT

PACKAGES = [name for layer in LAYERS for name in layer if (ROOT / name).is_dir()]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_is_public(name):
    package = importlib.import_module(f"fedrel.{name}")
    assert package.__doc__
    public = package.__all__
    constants, classes, functions = (
        [it for it in public if it.isupper()],
        [it for it in public if not it.isupper() and it[0].isupper()],
        [it for it in public if it[0].islower()],
    )
    assert public == [*sorted(constants), *sorted(classes), *sorted(functions)]
    for it in public:
        assert not (ROOT / name / f"{it}.py").exists(), f"{it} hides the module of the same name"
        part = getattr(package, it)
        own = inspect.isclass(part) or inspect.isfunction(part)
        assert not own or inspect.getdoc(part), f"{it} has no docstring"


def test_algorithms_export_every_class():
    package = importlib.import_module("fedrel.algorithms")
    classes = {
        name
        for path in (ROOT / "algorithms").glob("*.py")
        for name, it in vars(importlib.import_module(f"fedrel.algorithms.{path.stem}")).items()
        if inspect.isclass(it) and issubclass(it, package.Algorithm) and it.__module__.startswith("fedrel.algorithms")
    }
    assert classes <= set(package.__all__)
