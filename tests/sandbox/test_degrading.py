"""Systems that support fewer limits."""

import json
import subprocess
import sys

from fedrel.sandbox import landlock, python_paths


def test_on_other_systems_it_imports_and_reports_that_nothing_is_limited():
    code = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import ctypes, json, pathlib, platform, socket, struct, tempfile
sys.platform = "win32"
sys.modules["resource"] = None  # cannot be imported
from fedrel.sandbox import Limits, available, confine
print(json.dumps([[p.files, p.network, p.programs, p.memory, p.problems] for p in (confine(Limits()), available())]))
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    for *holds, problems in json.loads(done.stdout):
        assert not any(holds)
        assert len(problems) == 1 and "requires Linux" in problems[0]


def test_older_kernels_are_asked_for_no_more_than_they_know():
    known_files = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 4: 1 << 15, 5: 1 << 16, 6: 1 << 16, 7: 1 << 16}
    for version, end in known_files.items():
        handled = landlock._handled(True, "none", False, version)
        assert handled.files == end - 1  # every right there is
        assert handled.network == (3 if version >= 4 else 0)
        assert handled.scoped == (3 if version >= 6 else 0)


def test_python_paths_omit_the_current_folder(tmp_path):
    code = "import json, fedrel.sandbox as s; print(json.dumps(list(map(str, s.python_paths()))))"
    (tmp_path / "program.py").write_text(code)
    for command in (["-c", code], ["-m", "program"]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, stdout=subprocess.PIPE, check=True)
        assert str(tmp_path) not in json.loads(done.stdout)
    assert all(path.is_absolute() and path.exists() for path in python_paths())
