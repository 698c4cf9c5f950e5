"""Faults that operators meet: broken networks, full disks, machines that restart, wrong clocks.

`pytest -m slow tests/faults -s` prints the table of docs/faults.md. Every case ends by a deadline, and recovery takes
at most 30 seconds after the cause is gone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.deployment import FEDREL, Deployment
from tests.faults.bad_network import BadNetwork
from tests.faults.runs import begin, failures, finish, in_phase, learned, recovery, tell
from tests.processes import descendants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
LONGEST = 30.0  # seconds for recovery
PATIENT = ["--set", "engine.deadline=600"]
ROOT = os.geteuid() == 0


def port_of(kit: Path) -> int:
    return int(json.loads((kit / "kit.json").read_text())["port"])


# ------------------------------------------------------------------------------------------------------- the network


@pytest.mark.parametrize("seconds", [5, 60, *([600] if os.environ.get("FEDREL_LONG") else [])])
def test_an_interrupted_connection(seconds, world, uninterrupted, tmp_path):
    """The others wait briefly, then continue without it; it takes part again when the connection is back."""
    federation = Deployment(tmp_path, world)
    with BadNetwork(port_of(federation.kits / "p1")) as network:
        network.lead(federation.kits / "p1")
        with federation:
            begin(federation, *PATIENT, "--set", "training.rounds=9000", "--set", "training.patience=9000")
            before = federation.wait("run", in_phase("train"))
            network.cut.set()
            happened = time.monotonic()
            threading.Timer(seconds, network.cut.clear).start()
            waited = recovery(federation, happened, before["round"])
            time.sleep(max(0.0, seconds - (time.monotonic() - happened)))
            back = time.monotonic()
            sent = federation.status("run")["platforms"]["p1"]["bytes"]
            federation.wait("run", lambda status: status["platforms"]["p1"]["bytes"] > sent, 90)
            returned = time.monotonic() - back
            status = federation.status("run")
            times = f"others continued after {waited:.0f} s, p1 was back after {returned:.0f} s"
            print(f"| connection of p1 interrupted for {seconds} s | {times} |")
            assert waited < seconds + LONGEST and returned < LONGEST, status
            assert waited < LONGEST
            federation.submit_stop("run")


def test_a_slow_connection_with_high_latency(world, uninterrupted, tmp_path):
    """300 ms and 30 KB/s: slower, with the same weights."""
    federation = Deployment(tmp_path, world)
    with BadNetwork(port_of(federation.kits / "p1"), delay=0.15, rate=30_000) as network:
        network.lead(federation.kits / "p1")
        with federation:
            begin(federation, *PATIENT)
            status = finish(federation, 900)
            assert not any(failures(status).values()), status
            assert learned(federation) == uninterrupted
            tell("300 ms and 30 KB/s to p1", status, 0, True)


# ------------------------------------------------------------------------------------------------------- machines


def kill_everything(federation):
    for name, node in federation.nodes.items():
        for pid in [node.pid, *descendants(node.pid)]:
            os.kill(pid, signal.SIGKILL)
        node.wait()
        del name


def test_a_reboot_of_everything(world, uninterrupted, tmp_path):
    with Deployment(tmp_path, world) as federation:
        begin(federation, *PATIENT)
        before = federation.wait("run", in_phase("train"))
        kill_everything(federation)
        time.sleep(1)
        happened = time.monotonic()
        for name in federation.nodes:
            federation.start(name)
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert learned(federation) == uninterrupted
        tell("reboot of everything", status, seconds, True)
        assert seconds < LONGEST


def test_a_second_coordinator_takes_over(world, uninterrupted, tmp_path):
    """The kit and the runs folder are all that another machine needs."""
    with Deployment(tmp_path, world) as federation:
        begin(federation, *PATIENT)
        before = federation.wait("run", in_phase("train"))
        node = federation.nodes["coordinator"]
        for pid in [node.pid, *descendants(node.pid)]:
            os.kill(pid, signal.SIGKILL)
        node.wait()
        elsewhere = tmp_path / "elsewhere"
        shutil.copytree(federation.kits / "coordinator", elsewhere / "kit")
        shutil.copytree(federation.runs, elsewhere / "runs")
        happened = time.monotonic()
        federation.runs = elsewhere / "runs"
        federation.start_at("coordinator", elsewhere / "kit")
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert learned(federation) == uninterrupted
        tell("a second coordinator takes over", status, seconds, True)
        assert seconds < LONGEST


@pytest.mark.skipif(not ROOT or not shutil.which("unshare"), reason="needs root to create a pid namespace")
def test_a_coordinator_in_a_container_is_killed(world, uninterrupted, tmp_path):
    """After a restart its processes have the same pids again; none is mistaken for an old one."""
    federation = Deployment(tmp_path, world)
    federation.prefixes["coordinator"] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with federation:
        begin(federation, *PATIENT)
        before = federation.wait("run", in_phase("train"))
        node = federation.nodes["coordinator"]
        for pid in [*descendants(node.pid), node.pid]:
            with_pid_gone(pid)
        node.wait()
        bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        happened = time.monotonic()
        federation.start("coordinator")
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait()
        assert learned(federation) == uninterrupted
        tell("kill of the coordinator in a container", status, seconds, True)
        assert seconds < LONGEST


def with_pid_gone(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


# ------------------------------------------------------------------------------------------------------- the disk


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 40 MB for the coordinator's runs."""
    if not ROOT:
        pytest.skip("needs root to mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_at_the_coordinator(world, uninterrupted, tmp_path, small_disk):
    """The run waits, reports it, and resumes when there is space."""
    federation = Deployment(tmp_path, world)
    federation.runs = small_disk / "runs"
    with federation:
        begin(federation, *PATIENT)
        federation.wait("run", in_phase("train"))
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(2**16))
            except OSError:
                pass
        until = time.monotonic() + 60
        while "the coordinator's disk is full" not in (shown := json.dumps(federation.look())):
            assert time.monotonic() < until, shown
            time.sleep(0.5)
        time.sleep(20)
        before = federation.status("run")["round"]
        filler.unlink()
        happened = time.monotonic()
        seconds = recovery(federation, happened, before)
        status = finish(federation)
        assert learned(federation) == uninterrupted
        tell("full disk at the coordinator", status, seconds, True)
        assert seconds < LONGEST


# --------------------------------------------------------------------------------------- queue, clocks, status


def test_six_runs_submitted_at_once(world, tmp_path):
    with Deployment(tmp_path, world) as federation:
        names = [f"run-{number}" for number in range(6)]

        def send(name):
            return federation.submit(
                str(world / "experiment.toml"), "--name", name, "--set", "training.rounds=2", "--json"
            )

        begun = time.monotonic()
        with ThreadPoolExecutor(6) as pool:
            places = sorted(json.loads(done.stdout)["place"] for done in pool.map(send, names))
        assert places == sorted(places) and len(set(places)) >= 5, places
        for name in names:
            federation.wait(name, lambda status: status["state"] in ("done", "failed"), 300)
        assert [federation.status(name)["state"] for name in names] == ["done"] * 6
        print(f"| six runs at once | all done after {time.monotonic() - begun:.0f} s |")


@pytest.mark.skipif(not shutil.which("faketime"), reason="needs faketime")
@pytest.mark.parametrize("who", ["p1", "coordinator"])
@pytest.mark.parametrize("off", ["-1h", "+1h"])
def test_a_clock_that_is_an_hour_off(who, off, world, uninterrupted, tmp_path):
    federation = Deployment(tmp_path, world)
    federation.prefixes[who] = ["faketime", "-f", off]
    federation.environments[who] = {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}  # only the wall clock is wrong
    with federation:
        begin(federation)
        status = finish(federation)
        assert not any(failures(status).values()), status
        assert learned(federation) == uninterrupted
        tell(f"clock of {who} off by {off}", status, 0, True)


def test_the_status_is_always_known(world, tmp_path):
    """The status never contains a question mark, whatever the run is doing."""
    with Deployment(tmp_path, world) as federation:
        begin(federation, "--set", "training.rounds=2")
        until = time.monotonic() + 120
        while federation.status("run")["state"] != "done" and time.monotonic() < until:
            shown = subprocess.run([FEDREL, "status", str(federation.kits / "admin")], capture_output=True, text=True)
            assert shown.returncode == 0 and "?" not in shown.stdout, shown
        assert federation.status("run")["state"] == "done"
