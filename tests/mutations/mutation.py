"""What a mutation is, and the copy of the repository in which it is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COPIED = ("src/fedrel", "tests", "benchmarks", "pyproject.toml")  # all that tests import, and pytest's settings
PASSED, FAILED = 0, 1  # exit codes of pytest; any other means that the tests did not run


@dataclass(frozen=True)
class Mutation:
    """One mistake, and a fast test that notices it: one that trains no convolution, whose kernels every copy of the
    source has to compile for a minute.
    """

    what: str
    where: str  # a file or a package under src/fedrel
    old: str  # found exactly once there; short, so that edits around it do no harm
    new: str
    test: str  # that fails with the mistake; where it is parametrized, at least once

    def place(self, source: Path) -> Path:
        """The file under `source` (src/fedrel) that holds `old`. Raises LookupError unless it is there exactly once."""
        top = source / self.where
        files = sorted(top.rglob("*.py")) if top.is_dir() else [top]
        counts = {path: path.read_text(encoding="utf-8").count(self.old) for path in files if path.exists()}
        if sum(counts.values()) != 1:
            found = sum(counts.values())
            raise LookupError(f"{self.what}: {self.old!r} is {found} times in {self.where}; adapt tests/mutations")
        return next(path for path, count in counts.items() if count)


class Copy:
    """The repository's source and tests in a folder of their own. Kernels are compiled there once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            origin, to = ROOT / name, folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_dir():
                shutil.copytree(origin, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(origin, to)

    def passes(self, tests: Iterable[str]) -> bool:
        """Whether all of these tests pass. Raises RuntimeError if they cannot be run."""
        names = list(dict.fromkeys(tests))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *names]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        path = os.pathsep.join([str(self.folder / "src"), str(self.folder)])
        env = kept | {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(self.folder / ".numba")}
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        ran = done.returncode == PASSED or (done.returncode == FAILED and "\nFAILED " in done.stdout)
        if not ran:  # with -x, pytest ends with FAILED for modules that cannot be imported, too
            raise RuntimeError(f"pytest {' '.join(names)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.returncode == PASSED

    def notices(self, mutation: Mutation) -> bool:
        """Whether the mutation's test fails with it."""
        with self._mutated(mutation):
            return not self.passes([mutation.test])

    @contextmanager
    def _mutated(self, mutation: Mutation) -> Iterator[None]:
        path = mutation.place(self.folder / "src/fedrel")
        text, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        _forget_bytecode(path)
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled kernels stay valid
            _forget_bytecode(path)


def _forget_bytecode(path: Path) -> None:
    """Python takes bytecode for current if the source's size and the second of its change are the same."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()
