"""examples/plugin is installed like anybody's package, and its parts work wherever ours do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deployment import FEDREL, Deployment
from tests.parity.consortium import write_world

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SMALL = ("data.size=600", "partition.platforms=3", "training.rounds=2", "training.epochs=1", "extractor.filters=8")


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The environment of a machine that has the package."""
    folder = tmp_path_factory.mktemp("plugin")
    source = Path(shutil.copytree(EXAMPLE, folder / "source"))
    site = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(site), str(source)], check=True, capture_output=True)
    paths = [str(site), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def fedrel(environment, *arguments):
    return subprocess.run([FEDREL, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=500)


def digest(environment, name, *more):
    told = fedrel(environment, "check-plugin", name, *more)
    assert told.returncode == 0 and "✗" not in told.stdout, told.stdout + told.stderr
    return told.stdout.split(f"{name} sha256:")[1][:64]


def write_bars(folder):
    """Two platforms' worth of rows, in which the relation is plain to see."""
    folder.mkdir()
    for split, count in (("train", 60), ("dev", 20), ("test", 20)):
        rows = []
        for number in range(count):
            verb, relation = (("married", "spouse"), ("runs", "employer"), ("saw", "-"))[number % 3]
            head, tail = f"a{split}{number}", f"b{number}"
            rows.append(f"{head}|{relation}|{tail}|{head} {verb} {tail} .\n")
        (folder / f"{split}.psv").write_text("".join(rows))
    return folder


def test_a_method_of_another_package_keeps_to_all_rules(installed):
    assert len(digest(installed, "fednova")) == 64


@pytest.mark.slow
def test_a_format_of_another_package_keeps_to_all_rules(installed, tmp_path):
    assert len(digest(installed, "bars", "--data", write_bars(tmp_path / "bars"))) == 64


@pytest.mark.slow
@pytest.mark.parametrize("name", ["segments", "max"])
def test_an_extractor_and_a_denoiser_of_another_package_keep_to_all_rules(installed, name):
    digest(installed, name)


def test_parts_of_another_package_run_together_and_are_listed(installed, tmp_path):
    listed = json.loads(fedrel(installed, "methods", "--json").stdout)
    assert listed["fednova"]["package"] == listed["max"]["package"] == "fedrel-example 0.1.0"
    assert listed["fedavg"]["package"] == "fedrel"
    data = write_bars(tmp_path / "bars")
    chosen = ("data.source=bars", f"data.path={data}", "method.name=max", "extractor.kind=segments")
    chosen += ("partition.platforms=2", "training.rounds=2", "extractor.min_count=1")
    done = fedrel(installed, "run", *(it for one in chosen for it in ("--set", one)), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert "micro_f1" in result["test"]  # its labels are gold


@pytest.mark.slow
def test_without_the_package_its_names_are_unknown(tmp_path):
    done = fedrel(dict(os.environ), "run", "--set", "method.name=fednova", "--out", tmp_path / "run")
    assert done.returncode == 2 and 'method.name = "fednova" is no method' in done.stderr


@pytest.mark.slow
def test_a_platform_runs_it_only_if_its_policy_allows_this_very_code(installed, tmp_path):
    """A real federation: p0 and p1 allow the method by digest, p2 another version of it, which it refuses."""
    world = write_world(tmp_path / "world", *SMALL)
    right = digest(installed, "fednova")
    federation = Deployment(tmp_path, world)
    for name in ("coordinator", *federation.platforms):
        federation.environments[name] = {"PYTHONPATH": installed["PYTHONPATH"]}
    for name, allowed in (("p0", right), ("p1", right), ("p2", "0" * 64)):
        policy = federation.kits / name / "local" / "policy.toml"
        assert policy.exists()
        policy.write_text(f'[plugins]\nallow = ["fednova sha256:{allowed}"]\n')
    with federation:
        command = [FEDREL, "submit", str(federation.kits / "admin"), str(world / "experiment.toml")]
        command += ["--set", "method.name=fednova", "--name", "run", "--follow", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=installed)
        assert done.returncode == 0, done.stderr + federation.story()
        assert json.loads(done.stdout)["rounds"] == 2
        ledger = fedrel(installed, "ledger", "show", federation.kits / "p2", "--json")
        assert "its policy allows another version of the plug-in" in ledger.stdout
        assert '"weights' not in ledger.stdout
