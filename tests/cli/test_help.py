"""Help shows what is written, flags without a type, and completion; without locks all but federations works."""

import subprocess
import sys

import pytest
import typer
from typer import rich_utils

from fedrel.cli.app import app


def commands(group=None, path=()):
    """Every command with its words, groups too."""
    group = typer.main.get_command(app) if group is None else group
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_shows_every_bracket_and_no_type_of_a_flag(path, fedrel, monkeypatch):
    monkeypatch.setattr(rich_utils, "MAX_WIDTH", 200)
    outcome = fedrel(*path, "--help")
    assert outcome.code == 0 and "<bool>" not in outcome.out
    shown = " ".join(outcome.out.replace("│", " ").split())
    for text in (it.help for it in COMMANDS[path].params if getattr(it, "help", None)):
        assert " ".join(text.split()) in shown, text


def test_brackets_are_there(fedrel):
    assert "with a [tune] section" in " ".join(fedrel("tune", "--help").out.replace("│", " ").split())
    assert "with a [compare] section" in " ".join(fedrel("compare", "--help").out.replace("│", " ").split())


def test_shells_can_complete(fedrel):
    assert "--install-completion" in fedrel("--help").out


WITHOUT_LOCKS = """
import os, signal, sys
sys.modules["fcntl"] = None  # as on Windows
del os.O_NOFOLLOW
from fedrel.cli.__main__ import main
sys.argv[1:] = {arguments}
main()
"""


@pytest.mark.parametrize("arguments", [["--version"], ["methods", "--json"], ["run", "--help"], ["extract", "--help"]])
def test_commands_work_where_files_have_no_locks(arguments):
    program = WITHOUT_LOCKS.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("node", ["coordinator", "platform"])
def test_a_federation_says_what_it_needs(node, tmp_path):
    program = WITHOUT_LOCKS.format(arguments=[node, "start", str(tmp_path), "--data", str(tmp_path)])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "fedrel: a federation's parties need Linux; here, fedrel simulates, trains and extracts (fedrel run)\n"
    )
