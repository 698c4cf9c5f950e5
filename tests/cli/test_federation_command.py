"""`fedrel federation`: what it makes and says, and one sentence for every mistake."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from fedrel.federation.kits.kit import open_kit
from tests.processes import start

NEW = ("--coordinator", "fed.example.org", "--platforms", "a,b")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation") / "f"
    done = start("federation", "new", folder, *NEW, "--days", 100)
    said, complaint = done.communicate()
    assert (done.returncode, complaint) == (0, "")
    return folder, said


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made[0], tmp_path / "f")


def test_new_says_who_gets_what_and_what_to_do_next(made):
    folder, said = made
    assert [line.strip() for line in said.splitlines()[-4:]] == [
        f"fedrel coordinator start {folder}/coordinator --data PATH",
        f"fedrel platform start {folder}/a --data PATH",
        f"fedrel platform start {folder}/b --data PATH",
        f"fedrel submit {folder}/admin EXPERIMENT.toml --follow",
    ]
    until = datetime.now(UTC) + timedelta(days=100)
    assert f"valid until {until:%Y-%m-%d}. All parties must reach fed.example.org:8002." in said
    assert "keep it here" in said


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (("--coordinator", "10.0.0.7:9001"), ("10.0.0.7", 9001)),
        (("--coordinator", "fed", "--port", 9002), ("fed", 9002)),
        (("--coordinator", "fed:9003", "--port", 9003), ("fed", 9003)),
    ],
)
def test_where_the_coordinator_listens(fedrel, tmp_path, options, address):
    outcome = fedrel("federation", "new", tmp_path / "f", *options, "--platforms", "a", "--admin", "ann", "--json")
    assert [(party["name"], party["role"]) for party in json.loads(outcome.out)] == [
        *(("coordinator", "coordinator"), ("a", "platform"), ("ann", "admin"))
    ]
    for name in ("coordinator", "a", "ann"):
        kit = open_kit(tmp_path / "f" / name)
        assert (kit.host, kit.port) == address


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--platforms", "a,A"), '"A": this name is taken (case does not count)'),
        (("--platforms", "a,admin"), '"admin": this name is reserved; choose another'),
        (("--platforms", "Server"), '"Server": this name is reserved; choose another'),
        (("--platforms", "a,,b"), '"": a name has up to 48 letters'),
        (("--platforms", "../x"), '"../x": a name has up to 48 letters'),
        (("--platforms", "x.y"), '"x.y": a name has up to 48 letters'),
        (("--platforms", "-x"), '"-x": a name has up to 48 letters'),
        (("--platforms", "a", "--admin", "a"), '"a": this name is taken'),
        (("--platforms", "a", "--days", "0"), "--days 0: certificates can be valid for 1 to 3653 days"),
        (("--platforms", "a", "--port", "99999"), "--port 99999: ports range from 1 to 65535"),
        (("--platforms", "a", "--coordinator", "x y"), "--coordinator x y: not a host name or IPv4 address"),
        (("--platforms", "a", "--coordinator", ""), "--coordinator : not a host name or IPv4 address"),
        (("--platforms", "a", "--coordinator", "h:x"), "--coordinator h:x: expected HOST or HOST:PORT"),
        (("--platforms", "a", "--coordinator", "h:1", "--port", "2"), "disagree; give the port once"),
    ],
)
def test_new_refuses(refused, options, sentence):
    assert sentence in refused("federation", "new", "f", "--coordinator", "fed.example.org", *options)


def test_a_folder_that_is_there_is_left_alone(refused, tmp_path):
    (tmp_path / "f").mkdir()
    assert "f: already exists; choose another name" in refused("federation", "new", "f", *NEW)


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    process = start("federation", "new", tmp_path / "f", *NEW, limit=800)
    _, complaint = process.communicate()
    assert process.returncode == 2
    assert complaint.splitlines()[-1].startswith("fedrel: ") and "File too large" in complaint
    assert list(tmp_path.iterdir()) == []


def test_show_lists_parties_expiry_and_revocations(fedrel, folder):
    shown = json.loads(fedrel("federation", "show", folder, "--json").out)
    assert [party["name"] for party in shown] == ["coordinator", "a", "b", "admin"]
    assert {party["days_left"] for party in shown} == {99}
    fedrel("federation", "revoke", folder, "b")
    lines = fedrel("federation", "show", folder).out.splitlines()
    assert any("b " in line and "revoked on" in line for line in lines)
    assert any("a " in line and "99 days left" in line for line in lines)


def test_show_warns_a_month_before_the_end(fedrel, tmp_path):
    fedrel("federation", "new", tmp_path / "f", *NEW, "--days", 29)
    out = fedrel("federation", "show", tmp_path / "f").out
    assert "Renew soon (fedrel federation renew DIR NAME): coordinator, a, b, admin" in out
    fedrel("federation", "new", tmp_path / "g", *NEW, "--days", 32)
    assert "Renew soon" not in fedrel("federation", "show", tmp_path / "g").out


def test_show_of_one_kit(fedrel, folder):
    assert [party["name"] for party in json.loads(fedrel("federation", "show", folder / "a", "--json").out)] == ["a"]
    known = json.loads(fedrel("federation", "show", folder / "coordinator", "--json").out)
    assert [party["name"] for party in known] == ["coordinator", "a", "b", "admin"]


def test_show_of_something_else(refused, tmp_path):
    assert "not a kit" in refused("federation", "show", tmp_path)


def test_add_revoke_and_renew_say_what_to_copy_where(fedrel, folder):
    added = json.loads(fedrel("federation", "add", folder, "c", "--json").out)
    assert added == {"name": "c", "role": "platform", "kit": str(folder / "c")}
    out = fedrel("federation", "add", folder, "d", "--role", "viewer").out
    assert "A coordinator that runs from this folder notices within a second." in out
    assert str(folder / "coordinator" / "members.json") in out
    revoked = json.loads(fedrel("federation", "revoke", folder, "c", "--json").out)
    members = str(folder / "coordinator" / "members.json")
    assert revoked == {"revoked": "c", "files": [members]}
    out = fedrel("federation", "revoke", folder, "d").out
    assert "A coordinator that runs from this kit notices within a second." in out and members in out
    renewed = json.loads(fedrel("federation", "renew", folder, "a", "b", "--json").out)
    assert renewed == {
        name: [str(folder / name / file) for file in ("tls/node.crt", "sign/sign.crt")] for name in ("a", "b")
    }
    assert "A running node uses them without a restart." in fedrel("federation", "renew", folder).out


@pytest.mark.parametrize("command", [("add", "x"), ("revoke", "x"), ("renew",)])
def test_where_there_is_no_federation(refused, command):
    name, *more = command
    assert "no federation was created here" in refused("federation", name, "nowhere", *more)


@pytest.mark.parametrize("missing", ["cryptography", "aiohttp"])
def test_without_the_extra_there_is_one_sentence(made, tmp_path, missing):
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{missing}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
from fedrel.cli.app import main
main()
"""
    commands = {
        "cryptography": ["federation", "new", str(tmp_path / "f"), *NEW],
        "aiohttp": ["coordinator", "start", str(made[0] / "coordinator"), "--data", str(tmp_path)],
    }
    done = subprocess.run([sys.executable, "-c", code, *commands[missing]], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == 'fedrel: a federation needs more packages: pip install "fedrel[federation]"\n'


def test_other_commands_do_not_wait_for_the_extra():
    code = "import fedrel.cli.app, sys; assert not {'aiohttp', 'cryptography'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
