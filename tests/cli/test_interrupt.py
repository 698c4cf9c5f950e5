"""Runs cut off by a person, by a kill, by a full disk: nothing is left half-written, and they go on exactly."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes import descendants, start

SETTINGS = [
    *("data.size=600", "training.rounds=8", "training.patience=99", "training.fraction=0.67"),
    *("method.name=lazy-mil", "method.warmup=2"),
    *("partition.platforms=3", "extractor.filters=4", "extractor.min_count=100", "engine.threads=1"),
]
RUN = ["run", *(part for setting in SETTINGS for part in ("--set", setting))]
SAME = ("method", "seed", "rounds", "best_round", "dev", "test", "selection", "bytes", "version")


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def call(*arguments: object, **more) -> tuple[int, str, str]:
    return end(start(*arguments, **more))


def wait_for_round(folder: Path, number: int, process: subprocess.Popen[str]) -> None:
    log = folder / "metrics.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def complaints(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("fedrel: ")]


def half_written(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]


def what_counts(folder: Path) -> dict[str, object]:
    """All of a finished run that does not tell the time."""
    result = json.loads((folder / "result.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        **{key: result[key] for key in SAME},
        "metrics": [{key: value for key, value in line.items() if "second" not in key} for line in lines],
        "ledger": (folder / "ledger.jsonl").read_text(),
        "weights": (folder / "model" / "weights.safetensors").read_bytes(),
        "examples": json.loads((folder / "details.json").read_text()),
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    code, _, _ = call(*RUN, "--out", folder)
    assert code == 0
    return folder


def finish(folder: Path, uninterrupted: Path) -> None:
    code, out, _ = call("run", "--resume", folder)
    assert code == 0
    assert f"report  {folder}/report.html" in out
    assert (folder / "report.html").is_file()
    assert what_counts(folder) == what_counts(uninterrupted)


def test_an_interrupted_run_says_how_to_go_on_and_goes_on_exactly(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    process = start(*RUN, "--out", folder)
    wait_for_round(folder, 2, process)
    process.send_signal(signal.SIGINT)
    code, out, err = end(process)
    assert code == 130
    assert out == ""
    assert complaints(err) == ["fedrel: interrupted"]
    assert sum(f"go on with: fedrel run --resume {folder}" in line for line in err.splitlines()) == 1
    assert not (folder / "result.json").exists()
    assert not half_written(folder)
    finish(folder, uninterrupted)


def test_a_killed_run_goes_on_exactly_again_and_again(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    process = start(*RUN, "--out", folder)
    wait_for_round(folder, 1, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    process = start("run", "--resume", folder)
    wait_for_round(folder, 5, process)
    process.kill()
    process.communicate()
    assert not (folder / "result.json").exists()
    for name in ("metrics.jsonl", "ledger.jsonl"):
        with (folder / name).open("a") as file:
            file.write('{"round": 9, "dev')  # killed while it wrote
    finish(folder, uninterrupted)


def test_a_disk_that_is_full_from_the_start_leaves_nothing_behind(tmp_path):
    code, out, err = call(*RUN, "--out", tmp_path / "run", limit=2_000)
    assert (code, out) == (2, "")
    assert len(complaints(err)) == 1
    assert "File too large" in complaints(err)[0]
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_during_a_run_is_one_sentence_and_the_run_goes_on_later(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    checkpoint = (uninterrupted / "checkpoint" / "round.safetensors").stat().st_size
    assert checkpoint + 2_000 < (uninterrupted / "ledger.jsonl").stat().st_size, "the ledger outgrows the limit"
    code, out, err = call(*RUN, "--out", folder, limit=checkpoint + 2_000)
    assert (code, out) == (2, "")
    assert len(complaints(err)) == 1
    assert "File too large" in complaints(err)[0]
    assert f"go on with: fedrel run --resume {folder}" in err
    assert 0 < len((folder / "metrics.jsonl").read_text().splitlines()) < 8
    assert not half_written(folder)
    finish(folder, uninterrupted)


def test_a_run_that_lacks_its_report_alone_gets_it(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    shutil.copytree(uninterrupted, folder, ignore=shutil.ignore_patterns("report.html"))
    code, _, err = call("run", "--resume", folder, limit=(uninterrupted / "report.html").stat().st_size // 2)
    assert code == 2
    assert complaints(err) == [f"fedrel: {folder}/report.html: File too large; everything finished before is kept"]
    assert not (folder / "report.html").exists()
    assert not half_written(folder)
    finish(folder, uninterrupted)


def test_a_full_disk_leaves_no_data_set_half_built(tmp_path):
    world = tmp_path / "world"
    code, _, err = call("data", "world", "--size", 500, "--out", world, limit=5_000)
    assert (code, len(complaints(err))) == (2, 1)
    assert list(tmp_path.iterdir()) == []
    cache = tmp_path / "cache"
    code, _, err = call(*RUN, "--out", tmp_path / "run", limit=5_000, env=os.environ | {"FEDREL_CACHE": str(cache)})
    assert (code, len(complaints(err))) == (2, 1)
    assert "File too large" in err
    assert [path for path in cache.rglob("*") if path != cache / "data"] == []
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_comparison_interrupted_at_the_terminal_goes_on_with_the_same_command(tmp_path):
    settings = [it for it in RUN[1:] if it not in ("--set", "method.name=lazy-mil", "method.warmup=2")]
    common = [part for setting in settings for part in ("--set", setting)]
    arguments = ["compare", "--methods", "one,none", "--seeds", 2, "--jobs", 2, *common, "--out"]
    cells = tmp_path / "cut" / "cells"
    process = start(*arguments, tmp_path / "cut")
    while not list(cells.glob("*/checkpoint/best.safetensors")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes at once
    code, out, err = end(process)
    assert (code, out) == (130, "")
    assert complaints(err) == ["fedrel: interrupted"]
    assert "the same command continues from there" in err
    assert call(*arguments, tmp_path / "cut")[0] == 0
    assert call(*arguments, tmp_path / "whole")[0] == 0
    results = list(cells.glob("*/result.json"))
    assert len(results) == 4
    for path in results:
        other = tmp_path / "whole" / "cells" / path.parent.name / "result.json"
        assert json.loads(path.read_text())["test"] == json.loads(other.read_text())["test"]


def test_a_comparison_that_is_killed_takes_its_processes_with_it(tmp_path):
    """Left behind, they would write into the folders of the next one."""
    table = tmp_path / "table.toml"
    table.write_text('[compare]\nrows = ["fedavg", "one"]\nseeds = 2\n')
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    process = start("compare", table, *settings, "--set", "training.rounds=10000", "--out", tmp_path / "out")
    while not list(tmp_path.glob("out/**/metrics.jsonl")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    left = list(descendants(process.pid))
    assert left
    process.kill()
    process.communicate()
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/status").exists() for pid in left):
        assert time.monotonic() < until, "a process of a killed comparison goes on"
        time.sleep(0.05)
