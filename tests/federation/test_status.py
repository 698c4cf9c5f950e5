"""The status file of a run."""

import subprocess
import sys
from dataclasses import asdict

import pytest

from fedrel.federation.nodes.status import QUEUED, Status, read_status, status_file, status_files, write_status


def test_a_written_status_is_found_and_read(tmp_path):
    for run in ("b", "a"):
        write_status(status_file(tmp_path, run), asdict(Status(run, score=0.5)))
    (tmp_path / "a").mkdir()
    assert [path.name for path in status_files(tmp_path)] == ["a.status.json", "b.status.json"]
    assert [Status(**read_status(path)) for path in status_files(tmp_path)] == [
        Status("a", score=0.5),
        Status("b", score=0.5),
    ]
    assert Status("a").state == QUEUED


def test_a_missing_or_damaged_status_is_empty(tmp_path):
    (tmp_path / "torn.status.json").write_text('{"run": ')
    assert read_status(tmp_path / "none.status.json") == read_status(tmp_path / "torn.status.json") == {}


def test_a_status_under_another_runs_name_is_empty(tmp_path):
    write_status(tmp_path / "b.status.json", asdict(Status("a")))
    (tmp_path / "c.status.json").write_text("[" * 100_000)
    assert read_status(tmp_path / "b.status.json") == read_status(tmp_path / "c.status.json") == {}


@pytest.mark.parametrize(
    "changes",
    [
        *({"history": [1]}, {"history": [{"round": "x"}]}, {"events": [None]}, {"events": [{"times": "x"}]}),
        *({"events": {}}, {"cohort": "p0"}, {"platforms": {"p0": {"asked": "now"}}}),
    ],
)
def test_a_tampered_status_is_empty(tmp_path, changes):
    write_status(status_file(tmp_path, "a"), {**asdict(Status("a")), **changes})
    assert read_status(tmp_path / "a.status.json") == {}


def test_unknown_fields_of_a_status_are_ignored():
    assert Status.from_json({"run": "a", "state": "done", "colour": "red"}) == Status("a", state="done")


def test_reading_a_status_needs_neither_torch_nor_a_network():
    code = "import fedrel.federation.nodes.status, sys; assert not {'torch', 'aiohttp', 'ssl'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
