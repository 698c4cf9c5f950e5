"""Services, containers and the page about them: what they say is understood by those who read it."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from fedrel.cli.app import app
from fedrel.errors import ShutOutError

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SYSTEMD = shutil.which("systemd-analyze")
EXPOSURE = "20"  # tenths of a point; a service without any protection has 96


def understood(words: list[str]) -> None:
    """Arguments and options are those of a command; nothing is run."""
    group: list[str] = []
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, f"fedrel {' '.join([*group, *words])}"
        group.append(words[0])
        command, words = command.commands[words[0]], words[1:]
    command.make_context(" ".join(group), list(words))


def unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser["Service"]


def test_there_is_a_service_for_each_kind_of_node():
    assert [path.name for path in UNITS] == ["fedrel-coordinator.service", "fedrel-platform.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_service_is_hardened_and_restarts(path):
    service = unit(path)
    wanted = {
        **{"Restart": "always", "OOMPolicy": "continue", "User": "fedrel", "UMask": "0077", "KillMode": "mixed"},
        **{"NoNewPrivileges": "true", "ProtectSystem": "strict", "ProtectHome": "true", "PrivateTmp": "true"},
        **{"CapabilityBoundingSet": "", "SocketBindDeny": "any"},
    }
    assert {name: service[name] for name in wanted} == wanted
    allowed = "@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp"
    assert service["SystemCallFilter"] == allowed  # by the last four a node's processes confine themselves
    assert service["ReadWritePaths"] == "/var/lib/fedrel"


def test_a_revoked_platform_is_not_restarted():
    coordinator, platform = (unit(path) for path in UNITS)
    assert platform["RestartPreventExitStatus"] == str(ShutOutError.code)
    assert "RestartPreventExitStatus" not in coordinator  # it cannot be revoked


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_service_starts_a_command_that_there_is(path):
    program, *words = unit(path)["ExecStart"].split()
    assert program == "/opt/fedrel/bin/fedrel"
    understood(words)


@pytest.mark.skipif(SYSTEMD is None, reason="no systemd here; the tests above look at what matters most")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_understands_a_service(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/fedrel/bin/fedrel", sys.executable))
    verify = subprocess.run([str(SYSTEMD), "verify", str(copy)], capture_output=True, text=True)
    assert (verify.returncode, verify.stderr) == (0, "")
    security = [str(SYSTEMD), "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", str(copy)]
    assert subprocess.run(security, capture_output=True).returncode == 0


def test_the_image_runs_as_nobody_in_particular_and_holds_nothing_but_the_package():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    copied = {
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    }
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == copied
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_the_containers_run_commands_that_there_are_without_rights():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"coordinator", "platform"}
    for service in services.values():
        understood(service["command"])
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert any(volume.endswith(":/data:ro") for volume in service["volumes"])
    assert "ports" not in services["platform"]


def test_the_commands_of_the_page_are_commands():
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    found = [line.split() for line in re.findall(r"(?:^\$ |`|-- /opt/fedrel/bin/)fedrel ([^`\n]+)", page, re.MULTILINE)]
    assert len(found) >= 7
    for words in found:
        understood(words)


def test_the_files_that_the_page_copies_are_there():
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    for name in re.findall(r"deploy/[\w./-]+", page):
        assert (DEPLOY.parent / name).exists(), name
