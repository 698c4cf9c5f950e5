"""Nothing private is sent: an eavesdropper between real processes, with all session keys, finds none of the planted
secrets, for every method.
"""

import base64
import contextlib
import hashlib
import hmac
import re
import shutil
import threading
from pathlib import Path

import pytest

from fedrel.config import DEFAULT_METHOD
from fedrel.federation.kits.kit import SIGN_KEY, TLS_KEY, open_kit
from fedrel.federation.nodes.status import read_status, status_files
from fedrel.privacy.blind import of_agreement
from fedrel.privacy.ledger import read as read_ledger
from tests.canary import (
    FEDERATED,
    Planted,
    break_line,
    everything_planted,
    found_in_files,
    planted_world,
    review,
    settings,
    traces,
)
from tests.deployment import Deployment
from tests.parity.consortium import PLATFORMS
from tests.processes import descendants
from tests.wire import Tap, plain


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return planted_world(tmp_path_factory.mktemp("canary") / "world")


class Tapped(Deployment):
    """A federation with an eavesdropper, who has all session keys, between each platform and the coordinator."""

    def __init__(self, folder: Path, world: Path) -> None:
        super().__init__(folder, world, PLATFORMS)
        self.taps = {name: Tap("localhost", open_kit(self.kits / name).port) for name in PLATFORMS}
        self.elsewhere: set[tuple[str, int]] = set()  # connections of platforms that bypass the taps
        self._watched = threading.Event()
        self._watch = threading.Thread(target=self._look_around)
        for name, tap in self.taps.items():
            path = self.kits / name / "kit.json"
            path.write_text(path.read_text().replace(str(tap.target[1]), str(tap.port)))
            self.inject(name, FEDREL_KEY_LOG=str(self.key_log(name)))
            archive = folder / Planted(name).folder
            shutil.copytree(world / name, archive)
            review(archive, name, archive / "verdicts.sqlite")

    def __enter__(self):
        for tap in self.taps.values():
            tap.__enter__()
        super().__enter__()
        self._watch.start()
        return self

    def __exit__(self, *problem):
        self._watched.set()
        self._watch.join()
        super().__exit__(*problem)
        for tap in self.taps.values():
            tap.__exit__(*problem)

    def start(self, name, *more):
        archive = self.folder / Planted(name).folder
        own = ["--data", str(archive), "--store", str(archive / "verdicts.sqlite")] if name in PLATFORMS else []
        super().start(name, *own, *more)

    def key_log(self, name) -> Path:
        """A path where the network process may write."""
        return Path(self.kits / name / "spool" / "transport" / "session.keys")

    def said(self, name) -> tuple[bytes, bytes]:
        """Everything that a platform sent, and everything that it received, in the order of connections."""
        opened = [plain(talk, self.key_log(name)) for talk in self.taps[name].talks]
        return b"".join(there for there, _ in opened), b"".join(back for _, back in opened)

    def _look_around(self):
        while not self._watched.wait(0.3):
            for name, tap in self.taps.items():
                found = connections([self.nodes[name].pid, *descendants(self.nodes[name].pid)])
                self.elsewhere |= {(name, port) for port in found - {tap.port}}


def connections(pids) -> set[int]:
    """The ports to which these processes are connected, except those on which they listen themselves."""
    mine: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended
            mine |= {str(it.readlink()) for it in Path(f"/proc/{pid}/fd").iterdir()}
    listening, near_and_far = set(), []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            near, far = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
            if f"socket:[{fields[9]}]" not in mine:
                continue
            if fields[3] == "0A":
                listening.add(near)
            else:
                near_and_far.append((near, far))
    return {far for near, far in near_and_far if near not in listening and far not in listening}


@pytest.fixture(scope="module")
def tapped(world, tmp_path_factory):
    with Tapped(tmp_path_factory.mktemp("tapped"), world) as running:
        yield running


DIGEST = rb'sha256\\": \\"([0-9a-f]{64})'  # of a payload, in a signed text within a head


def require_silence(federation: Tapped) -> None:
    """No planted secret and no key is in what a platform sent or received, or anywhere at the coordinator."""
    secrets = everything_planted()
    key = open_kit(federation.kits / "p0").blinding_key()
    runs = [read_status(path)["run_id"] for path in status_files(federation.runs)]
    said = {name: federation.said(name) for name in PLATFORMS}
    agreed = {bytes.fromhex(it.decode()) for _, got in said.values() for it in re.findall(DIGEST, got)}
    assert runs and agreed
    keys = [key, *(of_agreement(key, run, digest) for run in runs for digest in agreed)]
    keys += [hmac.digest(it, f"round {round_}".encode(), "sha256") for it in keys[1:] for round_ in range(3)]
    hidden = {form for it in keys for form in (it, it.hex().encode(), base64.b64encode(it))}
    hidden |= {
        line for name in PLATFORMS for file in (SIGN_KEY, TLS_KEY) for line in secret_lines(federation, name, file)
    }
    for sent, got in said.values():
        assert traces(secrets, sent) == [] and traces(secrets, got) == []
        assert not any(form in sent or form in got for form in hidden)
    for folder in (federation.runs, federation.kits / "coordinator", federation.kits / "admin"):
        assert found_in_files(folder, secrets) == {}
    assert traces(secrets, (federation.folder / "coordinator.log").read_bytes()) == []
    assert federation.elsewhere == set()


def secret_lines(federation: Tapped, name: str, file: str) -> list[bytes]:
    return (federation.kits / name / file).read_bytes().splitlines()[1:-1]


def unseen(sent: bytes, entries) -> list[str]:
    """Replies in a ledger that are not among the sent bytes."""
    wanted = {entry.sha256: entry for entry in entries if not entry.refused}
    for found in re.finditer(rb'\{["}]', sent):  # where a record's header may begin, after its length
        begin = found.start() - 8
        for digest, entry in list(wanted.items()):
            if hashlib.sha256(sent[begin : begin + entry.bytes]).hexdigest() == digest:
                del wanted[digest]
    return [f"{entry.run}, round {entry.round}, {entry.task}" for entry in wanted.values()]


@pytest.mark.parametrize(
    "method", [it if it == DEFAULT_METHOD else pytest.param(it, marks=pytest.mark.slow) for it in FEDERATED]
)
def test_no_planted_secret_is_sent(method, tapped):
    tapped.train(method, *settings(method, "words that are trained"))
    for name in PLATFORMS:
        sent, got = tapped.said(name)
        entries = [it for it in read_ledger(tapped.kits / name / "ledger" / "ledger.jsonl") if it.run == method]
        assert entries and unseen(sent, entries) == []  # otherwise the search would prove nothing
        assert method.encode() in got
    require_silence(tapped)


@pytest.mark.slow
def test_a_failing_platform_reveals_nothing_of_its_text(tapped):
    """One platform cannot read its data, another its own policy; the third continues alone."""
    tapped.wait_until_connected()
    break_line(tapped.folder / Planted("p0").folder)
    (tapped.kits / "p1" / "local" / "policy.toml").write_text(f"{Planted('p1').words[1]} = [")
    patient = ("engine.min_platforms=1", "engine.deadline=300")  # a busy machine is no failure
    tapped.train("failing", *settings("fedavg", "words that are trained"), *patient)
    failures = {name: it["why"] for name, it in tapped.status("failing")["platforms"].items()}
    assert failures["p0"] == failures["p1"] == "see the platform's own log for the reason" and not failures["p2"]
    assert f"{Planted('p0').folder}/train.jsonl:3: not a JSON object" in (tapped.kits / "p0" / "node.log").read_text()
    require_silence(tapped)
