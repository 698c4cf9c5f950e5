"""Kits with NVFlare's real processes: they let their own in, and nobody else."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare import provisioning
from fedrel.federation.engines.nvflare.kits import Kit, open_kit
from tests.kits import a_job, ask, certify


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.5)
    return found


@contextmanager
def running(kit: Kit):
    """A party's process, and all that it starts; what it says lies in said.txt."""
    with (kit.folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            kit.command(), env=kit.environment(), stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def said(kit: Path) -> str:
    return (kit / "said.txt").read_text()


def ended(federation: Path, job: Path):
    number = ask(federation / "admin", "submit", job)
    found = wait_for(lambda: [meta for meta in [ask(federation / "admin", "meta", number)] if "FINISHED" in str(meta)])
    return found[0]


@pytest.mark.slow
def test_real_processes_let_their_own_in_and_nobody_else(tmp_path, other):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    federation, marker, driver = tmp_path / "federation", tmp_path / "code-ran", tmp_path / "driver"
    provisioning.new(federation, host="localhost", port=port, platforms=["a", "b"])
    provisioning.add(federation, "eve", "viewer")
    posing, outside, late, guest = (tmp_path / name for name in ("posing", "outside", "late", "guest"))
    for kit in (posing, outside, late):
        shutil.copytree(federation / "a", kit)
    shutil.copytree(federation / "admin", guest)
    for name in ("client.crt", "client.key"):
        shutil.copy(federation / "b/startup" / name, posing / "startup")
        shutil.copy(other / "a/startup" / name, outside / "startup")
        shutil.copy(federation / "a/startup" / name, guest / "startup")
    certify(federation, late, since=timedelta(days=-9), until=timedelta(days=-2))
    driver.mkdir()
    (driver / "code_driver.py").write_text(f"open({str(marker)!r}, 'w')")
    a, b = open_kit(federation / "a"), open_kit(federation / "b")
    with running(open_kit(federation / "coordinator")), running(a), running(b) as second:
        wait_for(lambda: ask(federation / "admin", "clients") == ["a", "b"])
        assert ask(federation / "coordinator/keeper", "clients") == ["a", "b"]
        assert a.greet() == "TLSv1.3"

        with pytest.raises(UserError, match=r"refuses the certificate of a: .*EXPIRED"):
            Kit(late, "a", "platform", "localhost", port).greet()
        with pytest.raises(UserError, match=r"refuses the certificate of a: .*UNKNOWN_CA"):
            Kit(outside, "a", "platform", "localhost", port).greet()
        with socket.create_connection(("localhost", port), timeout=10) as plain, suppress(ConnectionResetError):
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert plain.recv(100) == b""

        with running(Kit(posing, "a", "platform", "localhost", port)):
            wait_for(lambda: "authenticated as 'b' but claimed endpoint 'a'" in said(federation / "coordinator"))

        job = a_job(tmp_path / "theirs", comm_config=json.dumps({"comm_driver_path": str(driver)}))
        assert ask(federation / "eve", "submit", job) == {"refused": "AuthorizationError"}
        assert ask(guest, "submit", job, user="a") == {"refused": "AuthorizationError"}
        assert ended(federation, job)["status"] == "FINISHED:ABNORMAL"
        assert "is not in allow_list" in said(federation / "a") + said(federation / "b")
        (a_job(tmp_path / "code") / "app/custom").mkdir()
        (tmp_path / "code/app/custom/code.py").write_text("")
        assert "BYOC not permitted" in str(ended(federation, tmp_path / "code")["job_deploy_detail"])
        assert not marker.exists()
        assert second.poll() is None

    provisioning.revoke(federation, "b")
    with running(open_kit(federation / "coordinator")), running(a), running(b) as shut_out:
        wait_for(lambda: ask(federation / "admin", "clients") == ["a"])
        assert shut_out.wait(60) == 101
        assert "registration rejected: Client 'b' is disabled" in said(federation / "b")
        assert ask(federation / "admin", "clients") == ["a"]
