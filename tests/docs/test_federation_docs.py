"""Every command in docs/federation.md runs, and the README's script ends with the same weights: a real federation on
loopback, on little data.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedrel import config
from fedrel.algorithms import METHODS
from fedrel.data import loading
from fedrel.experiment.assembly import complete
from fedrel.experiment.parties import federated
from fedrel.privacy.policy import Policy
from tests.deployment import free_port
from tests.docs.test_docs import FEDERATION, ROOT
from tests.processes import descendants

LITTLE = " --set data.size=600 --set extractor.filters=8 --set training.rounds=2"
PATIENCE = 240.0  # seconds: a busy machine takes its time


def commands(heading: str) -> list[str]:
    """The lines after `$ ` in a section of the page."""
    _, _, rest = FEDERATION.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert rest, heading
    return re.findall(r"^\$ (.*)$", rest.partition("\n## ")[0], re.MULTILINE)


class Person:
    """Types commands in a folder of its own, tries again where the page says so, and ends what it started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.nodes: list[subprocess.Popen[bytes]] = []
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path}
        shutil.copytree(ROOT / "deploy", folder / "deploy")

    def meant(self, command: str) -> str:
        """The same with a port that is free, and on little data."""
        command = command.replace("localhost:8002", f"localhost:{self.port}")
        return command.replace(" --out world", f"{LITTLE} --out world")

    def types(self, command: str) -> str:
        if command.endswith("&"):
            self._starts(command.removesuffix("&").split())
            return ""
        until = time.monotonic() + PATIENCE
        while (done := self._runs(command)).returncode and _may_come_too_early(command) and time.monotonic() < until:
            time.sleep(1)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}\n{self.story()}"
        return done.stdout

    def _runs(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.meant(command).split(),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def _starts(self, words: list[str]) -> None:
        with (self.folder / f"{len(self.nodes)}.log").open("wb") as log:
            self.nodes.append(
                subprocess.Popen(
                    words,
                    cwd=self.folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def waits_for(self, run: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Until the coordinator's file on a run says what is wanted."""
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError, ValueError):
                status: dict[str, Any] = json.loads((self.folder / "runs" / f"{run}.status.json").read_text())
                if wanted(status):
                    return status
            assert time.monotonic() < until, self.story()
            time.sleep(0.1)

    def story(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))

    def leaves(self) -> None:
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(60)
            for pid in [*descendants(node.pid), node.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _may_come_too_early(command: str) -> bool:
    """A check before the coordinator listens; going on with a run that has not ended yet."""
    return command.endswith("--check") or "--resume" in command


@pytest.fixture
def person(tmp_path) -> Iterator[Person]:
    somebody = Person(tmp_path)
    try:
        yield somebody
    finally:
        somebody.leaves()


@pytest.mark.slow
def test_three_nodes_train_as_the_page_says(person):
    for command in commands("Ten minutes"):
        person.types(command)
    status, ledger, audit = commands("Watching")
    shown = person.types(status)
    assert all(word in shown for word in ("p0", "p1", "p2", "last reply", "failures")) and "…" not in shown
    assert "sum_mask" in person.types(ledger)
    assert "run started" in person.types(f"{audit} --json")


def test_certificates_are_looked_after_as_the_page_says(fedrel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [new] = [command for command in commands("Ten minutes") if command.startswith("fedrel federation new")]
    for command in [new, *commands("Certificates")]:
        outcome = fedrel(*command.split()[1:])
        assert outcome.code == 0, f"{command}\n{outcome.err}"
    assert {"p3", "auditor"} <= {path.name for path in (tmp_path / "kits").iterdir()}
    assert "revoked" in fedrel("federation", "show", "kits").out


def test_a_kit_is_backed_up_as_the_page_says(fedrel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passphrase").write_text("correct horse battery\n")
    [new] = [command for command in commands("Ten minutes") if command.startswith("fedrel federation new")]
    for command in [new, *commands("Backup")]:
        outcome = fedrel(*command.split()[1:])
        assert outcome.code == 0, f"{command}\n{outcome.err}"
    key = "local/blinding.key"
    assert (tmp_path / "p0-again" / key).read_bytes() == (tmp_path / "kits" / "p0" / key).read_bytes()


@pytest.mark.slow
def test_a_run_is_stopped_and_resumed_as_the_page_says(person):
    for command in commands("Ten minutes"):
        if command.startswith(("fedrel data", "fedrel federation", "fedrel coordinator", "fedrel platform")):
            person.types(command)
    submit, stop, resume = commands("Stopping and resuming")
    person.types(f"{submit} --set training.patience=1000")  # or it might end before it is stopped
    person.waits_for("second", lambda status: status["round"] >= 2)
    person.types(stop)
    stopped = person.waits_for("second", lambda status: status["state"] == "stopped")
    person.types(resume)
    person.waits_for("second", lambda status: status["round"] > stopped["round"])


def script() -> str:
    [found] = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def test_the_script_in_the_readme_is_short():
    assert len(script().splitlines()) <= 10


@pytest.mark.slow
def test_the_script_in_the_readme_ends_with_the_same_weights(person):
    ending = "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"  # also where a line of the script fails
    text = "\n".join([ending, *map(person.meant, script().splitlines())])
    process = subprocess.Popen(
        ["bash", "-ec", text],
        cwd=person.folder,
        env=person.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    person.nodes.append(process)
    said, _ = process.communicate(timeout=500)
    assert (process.returncode, b"the same weights, bit for bit" in said) == (0, True)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", FEDERATION.read_text(encoding="utf-8"), re.DOTALL)


def test_the_experiment_on_the_page_is_one_for_a_federation():
    [text] = [block for block in blocks("toml") if "[data]" in block]
    experiment = complete(config.parse(federated(tomllib.loads(text))))
    assert (experiment.extractor.embeddings, experiment.partition.kind) == ("frozen", "folder")


def test_the_policy_on_the_page_is_a_policy(tmp_path):
    [text] = [block for block in blocks("toml") if "[methods]" in block]
    (tmp_path / "policy.toml").write_text(text)
    assert Policy.read(tmp_path / "policy.toml", methods=METHODS).methods.allow == ("evidence",)


def test_the_sentence_on_the_page_can_be_read(tmp_path):
    [line] = blocks("json")
    (tmp_path / "train.jsonl").write_text(line)
    data = config.parse({"data": {"source": "opennre"}}).data
    read = loading.load_part(data, tmp_path, relations=["person/born_in"])
    start, end = json.loads(line)["t"]["pos"]
    assert (len(read.train), json.loads(line)["text"][start:end]) == (1, "Lyon")


def test_what_the_pages_install_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in (FEDERATION, ROOT / "README.md", ROOT / "deploy" / "README.md", ROOT / "deploy" / "Dockerfile"):
        for named in re.findall(r'"\.\[([a-z,]+)\]"', page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras.keys(), page
