"""Tampered files of the coordinator: checkpoints, statuses, folders, the list of members.

| attack | what happens |
|---|---|
| a byte of a checkpoint is changed | the run is not resumed, and says why |
| a status that names another run, has other types, is a link, is huge or deep | it is ignored |
| the folder of a run is a link | refused |
| the list of members is damaged, or grants too much | the last valid one stays in use; certificates decide |
| the audit trail is a link | it is not followed |
"""

from __future__ import annotations

import json
import time

import pytest

from fedrel.federation.kits.kit import open_kit
from tests.attacks.place import Place
from tests.attacks.test_admins import command, send
from tests.attacks.wire import poll, until

pytestmark = pytest.mark.usefixtures("works_after")
slow = pytest.mark.slow

STATUSES = {
    "another's name": {"run": "another", "state": "queued", "experiment": "x = 1"},
    "a path": {"run": "../../x", "state": "queued"},
    "state alone": {"run": "NAME", "state": "done"},
    "no state": {"run": "NAME"},
    "a list for a state": {"run": "NAME", "state": ["queued"]},
    "text for a time": {"run": "NAME", "state": "queued", "queued": "yesterday"},
    "text for a round": {"run": "NAME", "state": "running", "round": "x", "rounds": {}},
    "a list of platforms": {"run": "NAME", "state": "done", "platforms": []},
    "text for a platform": {"run": "NAME", "state": "done", "platforms": {"p0": "x"}},
    "numbers without end": {"run": "NAME", "state": "done", "score": 1e999, "beat": float("nan")},
    "escapes": {"run": "NAME", "state": "done", "why": "\x1b[2J[/x]\u202e<script>", "metric": "[/x]"},
    "a list": [1, 2],
    "deep": "[" * 100_000,
    "noise": "\x00\xff",
}


@pytest.mark.parametrize("which", [pytest.param(it, marks=() if it == "state alone" else slow) for it in STATUSES])
def test_a_tampered_status_crashes_nothing(place, which):
    name = f"tampered-{which.replace(' ', '-').replace(chr(39), '')}"
    content = STATUSES[which]
    text = content if isinstance(content, str) else json.dumps(content).replace("NAME", name)
    path = place.runs / f"{name}.status.json"
    path.write_text(text)
    time.sleep(1.2)
    try:
        place.still_works(3.0)
        assert not (place.runs / "another").exists()
        found = {it["run"] for it in place.look()["runs"]}
        assert found <= {name}
        if which in ("escapes", "numbers without end"):
            done = place.cli("status", place.kits / "viewer")
            assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
            assert not {"\x1b", "\u202e"} & set(done.stdout)
    finally:
        path.unlink(missing_ok=True)


@slow
def test_a_status_that_is_a_link_is_replaced_not_followed(place, tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    (place.runs / "linked.status.json").symlink_to(target)
    assert send(place, command(place, "linked", "[[")).status == 200
    place.wait("linked", lambda it: it["state"] == "failed")
    assert target.read_text() == "precious"
    assert not (place.runs / "linked.status.json").is_symlink()


@slow
def test_a_run_whose_folder_is_a_link_writes_nothing_there(place, tmp_path):
    """The run's process can write only to the runs folder, wherever a link leads."""
    assert send(place, command(place, "moved", "[[")).status == 200
    place.wait("moved", lambda it: it["state"] == "failed")
    before = {path: path.read_bytes() for path in (place.kits / "admin").rglob("*") if path.is_file()}
    (place.runs / "moved").symlink_to(place.kits / "admin")
    answer = send(place, command(place, "moved", ""))
    if answer.status == 200:
        place.wait("moved", lambda it: it["state"] == "failed")
    (place.runs / "moved").unlink()
    assert {path: path.read_bytes() for path in (place.kits / "admin").rglob("*") if path.is_file()} == before


@slow
def test_a_damaged_list_of_members_changes_nothing(place):
    path = place.kits / "coordinator" / "members.json"
    good = path.read_bytes()
    try:
        for bad in (b"", b"[", b'{"members": 5}', b'{"members": [{"name": 1}]}', b"[" * 100_000):
            path.write_bytes(bad)
            time.sleep(1.2)
            assert place.ask("viewer", "GET", "/v1/status").status == 200
            assert place.ask("viewer", "POST", "/v1/submit", b"{}").status == 403
    finally:
        path.write_bytes(good)
    time.sleep(1.2)


@slow
def test_a_list_of_members_cannot_grant_another_role_than_the_certificate(place):
    path = place.kits / "coordinator" / "members.json"
    good = path.read_text()
    members = json.loads(good)
    for it in members["members"]:
        if it["name"] == "viewer":
            it["role"] = "admin"
    try:
        path.write_text(json.dumps(members))
        assert until(lambda: place.ask("viewer", "GET", "/v1/status").status == 403)
        assert place.ask("viewer", "POST", "/v1/submit", b"{}").status == 403
        place.named(place.last_source, "is not in the coordinator's list of members")
    finally:
        path.write_text(good)
    assert until(lambda: place.ask("viewer", "GET", "/v1/status").status == 200)


@slow
def test_an_audit_trail_that_is_a_link_is_not_followed(place, tmp_path):
    path, target = place.kits / "coordinator" / "audit.jsonl", tmp_path / "target"
    aside = path.with_suffix(".aside")
    target.write_text("precious")
    path.rename(aside)
    path.symlink_to(target)
    try:
        assert place.ask("p0", "POST", "/v1/submit", b"{}").status == 403
        time.sleep(0.3)
        assert target.read_text() == "precious"
    finally:
        path.unlink()
        aside.rename(path)
    assert place.ask("p0", "POST", "/v1/poll", poll()[:-1]).status == 400
    place.named(place.last_source)


@slow
def test_a_flipped_bit_of_a_checkpoint_is_detected(place: Place):
    """A stopped run, resumed after one bit of its checkpoint was changed."""
    for name in ("p0", "p1"):
        place.start(name)
    assert until(lambda: {"p0", "p1"} <= set(place.look()["connected"]), 60.0)
    place.submit(
        str(place.world / "experiment.toml"),
        *("--set", "training.rounds=200", "--set", "training.patience=200", "--set", "engine.min_platforms=2"),
        *("--name", "flipped"),
    )
    place.wait("flipped", lambda it: it["round"] >= 2)
    assert place.cli("stop", place.kits / "admin", "flipped").returncode == 0
    place.wait("flipped", lambda it: it["state"] == "stopped")
    path = next((place.runs / "flipped").rglob("round.safetensors"))
    good = path.read_bytes()
    for position in (len(good) // 2, len(good) - 1, 20):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        assert send(place, command(place, "flipped", "")).status == 200
        status = place.wait("flipped", lambda it: it["state"] in ("failed", "running", "done"))
        assert status["state"] == "failed" and "damaged" in status["why"], status
    path.write_bytes(good)
    assert send(place, command(place, "flipped", "")).status == 200
    place.wait("flipped", lambda it: it["state"] == "running")
    assert place.cli("stop", place.kits / "admin", "flipped").returncode == 0
    assert open_kit(place.kits / "p0")
