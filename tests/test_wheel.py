"""What is built for others: the wheel works outside of the repository, and carries the example and the experiments."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMALL = ["data.size=600", "training.rounds=2", "partition.platforms=3", "extractor.filters=8"]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with a wheel and an sdist, made from a copy of what is in the repository."""
    copy, out = tmp_path_factory.mktemp("sources") / "fedrel", tmp_path_factory.mktemp("built")
    names = ("src", "docs", "experiments", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*names, "constraints.txt"):
        whole = ROOT / name
        if whole.is_dir():
            shutil.copytree(whole, copy / name, ignore=left_out)
        else:
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole, copy / name)
    for kind in ("wheel", "sdist"):
        make = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
        subprocess.run([sys.executable, "-c", make], cwd=copy, check=True, capture_output=True)
    return out


@pytest.mark.slow
def test_both_carry_the_example_and_the_experiments(built):
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    in_wheel = {name.partition("/share/fedrel/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    with tarfile.open(sdist) as packed:
        in_sdist = {name.partition("/")[2] for name in packed.getnames()}
    for path in sorted((ROOT / "docs" / "example").rglob("*.*")):
        assert f"example/{path.relative_to(ROOT / 'docs' / 'example')}" in in_wheel
        assert str(path.relative_to(ROOT)) in in_sdist
    for path in (ROOT / "experiments").glob("*.toml"):
        assert f"experiments/{path.name}" in in_wheel and f"experiments/{path.name}" in in_sdist
    assert "fedrel/py.typed" in zipfile.ZipFile(wheel).namelist()


@pytest.mark.slow
def test_from_the_wheel_in_an_empty_folder(built, tmp_path):
    [wheel], here, target = built.glob("*.whl"), tmp_path / "here", tmp_path / "installed"
    here.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(target), "FEDREL_CACHE": str(tmp_path / "cache")}

    def fedrel(*words: str) -> str:
        command = [sys.executable, "-m", "fedrel.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=here)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [sys.executable, "-c", "import fedrel; print(fedrel.__file__)"]
    assert subprocess.check_output(where, text=True, env=environment, cwd=here).startswith(str(target))
    sets = [part for setting in SMALL for part in ("--set", setting)]
    assert json.loads(fedrel("run", *sets, "--out", "demo", "--json"))["rounds"] == 2
    fedrel("data", "example", "--out", "example")
    assert (here / "example" / "truth.tsv").read_bytes() == (ROOT / "docs" / "example" / "truth.tsv").read_bytes()
    fedrel("label", "--kb", "example/kb", "--text", "example/new", "--out", "labelled")
    data = ["--set", "data.source=opennre", "--set", "data.path=labelled", "--set", "extractor.vectors=random"]
    fedrel("run", *data, "--set", "training.rounds=2", "--set", "extractor.filters=8", "--out", "model")
    options = ["--kb", "example/kb", "--min-confidence", "0", "--out", "facts.jsonl"]
    fedrel("extract", "--model", "model", "--text", "example/new/borough-bulletin-001.txt", *options)
    assert (here / "facts.jsonl").read_text().count("\n") > 3
    (here / "text.txt").write_text("Marie Curie was born in Warsaw.\n")
    said = fedrel("extract", "--text", "text.txt", "--out", "general.jsonl", "--json")
    assert json.loads(said)["facts"] == 1
    explore = [sys.executable, "-m", "fedrel.cli", "explore", "facts.jsonl", "--port", "0"]
    with subprocess.Popen(explore, stdout=subprocess.PIPE, text=True, env=environment, cwd=here) as process:
        try:
            assert process.stdout is not None
            address = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
            visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            visitor.open(address, timeout=60).close()
            page = visitor.open(urllib.parse.urljoin(address, "/"), timeout=60).read().decode()
        finally:
            process.send_signal(signal.SIGINT)
    best = json.loads((here / "facts.jsonl").read_text().splitlines()[0])
    assert best["head"]["name"] in page and process.returncode == 0
    assert sorted(path.name for path in here.iterdir()) == [
        *("demo", "example", "facts.jsonl", "general.jsonl", "labelled", "model", "text.txt"),
    ]


def test_the_example_is_written_whole(fedrel, refused, tmp_path):
    assert "exists; choose a new folder" in refused("data", "example", "--out", tmp_path)
    outcome = fedrel("data", "example", "--out", tmp_path / "new", "--json")
    written = json.loads(outcome.out)["files"]
    assert len([it for it in written if it.startswith("experiments/")]) == len(list((ROOT / "experiments").iterdir()))
    for path in (ROOT / "docs" / "example").rglob("*.*"):
        inside = path.relative_to(ROOT / "docs" / "example")
        assert (tmp_path / "new" / inside).read_bytes() == path.read_bytes()
