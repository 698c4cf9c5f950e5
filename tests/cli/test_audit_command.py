"""`fedrel audit show`: what a security officer reads."""

import json

import pytest

from fedrel.federation.nodes.audit import Audit, read


@pytest.fixture
def kit(tmp_path):
    (tmp_path / "kit.json").write_text("{}")
    trail = Audit(tmp_path)
    trail.write("connected", name="p0", address="10.0.0.7", version="0.1.0")
    trail.write("refused", name="p1", address="10.0.0.8", why="/v1/submit is not for the role platform")
    trail.write("refused", name="", address="10.0.0.9", why="it has no certificate \x1b[31m[/x]<script>")
    return tmp_path


def test_who_connected_and_who_was_refused_is_shown(kit, fedrel):
    shown = fedrel("audit", "show", kit)
    assert shown.code == 0
    for part in ("p0", "10.0.0.7", "refused", "10.0.0.9", "2 refused, 1 connected"):
        assert part in shown.out
    assert "\x1b" not in shown.out


def test_one_kind_of_event_as_json(kit, fedrel):
    shown = fedrel("audit", "show", kit, "--event", "refused", "--json")
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["name"] for line in lines] == ["p1", ""]
    assert lines[1]["why"].endswith("\x1b[31m[/x]<script>")


def test_a_trail_is_private_and_survives_a_line_that_was_cut(kit):
    path = kit / "audit.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:-20])
    assert len(list(read(kit))) == 2


def test_a_link_in_place_of_the_trail_is_not_followed(kit, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (kit / "audit.jsonl").unlink()
    (kit / "audit.jsonl").symlink_to(victim)
    Audit(kit).write("refused", why="x")
    assert victim.read_text() == "precious"


def test_a_folder_that_is_not_a_kit_is_refused(tmp_path, refused):
    assert "not a kit" in refused("audit", "show", tmp_path / "nothing")
