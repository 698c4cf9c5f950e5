"""Where a run stands, as it lies beside its folder."""

import subprocess
import sys
from dataclasses import asdict

from fedrel.federation.engines.nvflare.status import ALIVE, Status, read_status, status_file, status_files, write_status


def test_a_status_that_is_written_is_found_and_read(tmp_path):
    for run in ("b", "a"):
        write_status(status_file(tmp_path, run), asdict(Status(run, score=0.5)))
    (tmp_path / "a").mkdir()
    assert [path.name for path in status_files(tmp_path)] == ["a.status.json", "b.status.json"]
    assert [Status(**read_status(path)) for path in status_files(tmp_path)] == [
        Status("a", score=0.5),
        Status("b", score=0.5),
    ]
    assert Status("a").state in ALIVE


def test_a_status_that_is_not_there_or_torn_says_nothing(tmp_path):
    (tmp_path / "torn.status.json").write_text('{"run": ')
    assert read_status(tmp_path / "none.status.json") == read_status(tmp_path / "torn.status.json") == {}


def test_whoever_looks_needs_neither_nvflare_nor_torch():
    code = "import fedrel.federation.engines.nvflare.status, sys; assert not {'nvflare', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
