"""Where a run stands, as it lies beside its folder."""

import subprocess
import sys
from dataclasses import asdict

from fedrel.federation.nodes.status import QUEUED, Status, read_status, status_file, status_files, write_status


def test_a_status_that_is_written_is_found_and_read(tmp_path):
    for run in ("b", "a"):
        write_status(status_file(tmp_path, run), asdict(Status(run, score=0.5)))
    (tmp_path / "a").mkdir()
    assert [path.name for path in status_files(tmp_path)] == ["a.status.json", "b.status.json"]
    assert [Status(**read_status(path)) for path in status_files(tmp_path)] == [
        Status("a", score=0.5),
        Status("b", score=0.5),
    ]
    assert Status("a").state == QUEUED


def test_a_status_that_is_not_there_or_torn_says_nothing(tmp_path):
    (tmp_path / "torn.status.json").write_text('{"run": ')
    assert read_status(tmp_path / "none.status.json") == read_status(tmp_path / "torn.status.json") == {}


def test_a_status_under_the_name_of_another_run_says_nothing(tmp_path):
    write_status(tmp_path / "b.status.json", asdict(Status("a")))
    (tmp_path / "c.status.json").write_text("[" * 100_000)
    assert read_status(tmp_path / "b.status.json") == read_status(tmp_path / "c.status.json") == {}


def test_a_status_of_another_version_is_read_as_far_as_it_is_known():
    assert Status.from_json({"run": "a", "state": "done", "colour": "red"}) == Status("a", state="done")


def test_whoever_looks_needs_neither_torch_nor_a_network():
    code = "import fedrel.federation.nodes.status, sys; assert not {'torch', 'aiohttp', 'ssl'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
