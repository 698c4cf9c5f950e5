"""Attackers with an admin's kit, a viewer's kit, or a recorded command.

| attack | what happens |
|---|---|
| a command signed by another role, in another's name, for something else, with an old or made-up challenge | refused |
| a command sent twice, a reply passed off as a command, a broken envelope, an odd certificate | refused |
| names of runs with paths, escapes or markup | refused, and shown literally |
| experiments that are garbage, huge, or name files of the coordinator's machine | the run fails; nothing is revealed |
| a flood of commands and runs | limited; the status can still be read |
"""

from __future__ import annotations

import base64
import json
import secrets

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fedrel import config
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.status import ENDED
from fedrel.federation.signing import Command, Envelope, Reply, Signer
from tests.attacks.wire import Answer, until

pytestmark = pytest.mark.usefixtures("works_after")
slow = pytest.mark.slow


def challenge(place) -> str:
    return str(place.look()["challenge"])


def command(place, run: str = "", experiment: str = "x = 1", *, by: str = "admin", **other) -> Envelope:
    kit = open_kit(place.kits / by)
    made = {"federation": kit.federation, "challenge": other.get("challenge") or challenge(place), "do": "submit"}
    made |= {"run": run or f"r-{secrets.token_hex(4)}", "experiment": experiment, **other}
    return Signer.of(kit).sign(Command(**made))


def send(place, envelope: Envelope | bytes, *, by: str = "admin", path: str = "/v1/submit") -> Answer:
    body = envelope if isinstance(envelope, bytes) else json.dumps(envelope.as_json()).encode()
    return place.ask(by, "POST", path, body)


def refused(place, answer: Answer, *words: str) -> None:
    """Both the answer and the audit trail give the reason."""
    assert answer.status == 400, answer
    assert all(word in answer.why for word in words), answer.why
    place.named(place.last_source, *words)


def test_a_recorded_command_counts_once(place):
    envelope = command(place, experiment="[[garbage")
    assert send(place, envelope).status == 200
    for _ in range(3):
        refused(place, send(place, envelope), "already used")
    refused(place, send(place, envelope, by="second"), "admin (admin) signed it instead of second")


@slow
@pytest.mark.parametrize("made_up", ["0" * 32, "", "x" * 1000, "\0", "../../x"])
def test_a_made_up_challenge_is_refused(place, made_up):
    kit = open_kit(place.kits / "admin")
    envelope = Signer.of(kit).sign(Command(kit.federation, made_up, "submit", "r", "x = 1"))
    refused(place, send(place, envelope), "already used or has expired")


@slow
@pytest.mark.parametrize("by", ["p0", "viewer", "coordinator"])
def test_a_command_signed_by_another_party_is_refused(place, by):
    """Over the admin's connection, with another party's signature."""
    refused(place, send(place, command(place, by=by)), "signed it instead of admin (admin)")


@slow
def test_an_admin_cannot_impersonate_another(place):
    refused(place, send(place, command(place, by="second")), "second (admin) signed it")


@slow
def test_a_viewer_with_an_admins_signature_may_not_submit(place):
    answer = send(place, command(place), by="viewer")
    assert answer.status == 403
    place.named(place.last_source, "is not for the role viewer")


@slow
def test_a_command_to_stop_cannot_be_used_to_submit(place):
    refused(place, send(place, command(place, do="stop")), "signed for something else")
    refused(place, send(place, command(place), path="/v1/stop"), "signed for something else")


@slow
def test_a_command_of_another_federation_is_refused(place):
    refused(place, send(place, command(place, federation="fedrel-elsewhere")), "another federation")


@slow
def test_a_reply_cannot_be_passed_off_as_a_command(place):
    """The same key and certificate, but another kind of statement."""
    kit = open_kit(place.kits / "admin")
    reply = Signer.of(kit).sign(Reply(kit.federation, "p0", "", "done", "", 0, ""))
    refused(place, send(place, reply), "signature does not match")
    text = json.dumps({**json.loads(command(place).text)})
    refused(place, send(place, Envelope(text, reply.certificate, reply.signature)), "signature does not match")


@slow
@pytest.mark.parametrize("field", ["federation", "challenge", "do", "run", "experiment"])
def test_no_character_of_a_command_can_be_changed(place, field):
    envelope = command(place)
    changed = {**json.loads(envelope.text), field: "changed"}
    refused(place, send(place, Envelope(json.dumps(changed), envelope.certificate, envelope.signature)), "signature")


@slow
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"text": 1, "certificate": 2, "signature": 3}',
        b'{"text": "{}", "certificate": "", "signature": ""}',
        b'{"text": "\\ud800", "certificate": "\\ud800", "signature": "zz"}',
        b'{"text": "{}", "certificate": "", "signature": "", "more": ""}',
        b'{"text": "{}", "text": "[]", "certificate": "x", "signature": "00"}',
        b"\xff\xfe" + b"{" * 1000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'{"text": ' + b"9" * 1_000_000 + b"}",
    ],
    ids=["empty", "list", "null", "table", "types", "blank", "halves", "more", "twice", "bytes", "deep", "number"],
)
def test_an_invalid_envelope_is_refused(place, content):
    refused(place, send(place, content))


def test_an_odd_certificate_is_refused_and_crashes_nothing(place):
    """A certificate with a version that does not exist, for which the library raises a special exception."""
    certificate = x509.load_pem_x509_certificate((place.kits / "admin/sign/sign.crt").read_bytes())
    der = certificate.public_bytes(Encoding.DER)
    place_of_version = der.index(bytes.fromhex("a003020102")) + 4
    odd = der[:place_of_version] + b"\x07" + der[place_of_version + 1 :]
    pem = f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(odd).decode()}-----END CERTIFICATE-----\n"
    envelope = command(place)
    refused(place, send(place, Envelope(envelope.text, pem, envelope.signature)), "not from this federation")


@slow
@pytest.mark.parametrize("purpose", ["the TLS certificate", "no certificate", "the authority's own", "another's"])
def test_a_signature_needs_the_certificate_for_signatures(place, purpose):
    files = {
        "the TLS certificate": "admin/tls/node.crt",
        "the authority's own": "ca/ca.pem",
        "another's": "second/sign/sign.crt",
    }
    pem = (place.kits / files[purpose]).read_text() if purpose in files else ""
    envelope = command(place)
    refused(place, send(place, Envelope(envelope.text, pem, envelope.signature)))


NAMES = {
    "up": "../x",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "root": "/etc/x",
    "nul": "a\0b",
    "long": "a" * 300,
    "hidden": ".coordinator.lock",
    "empty": " ",
    "markup": "[/x]",
    "escape": "\x1b[2Jx",
    "html": "<script>alert(1)</script>",
    "bidi": "\u202eabc",
    "newline": "a\nb",
    "star": "*",
    "surrogate": "\ud800",
}


@slow
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_run_cannot_be_a_path(place, name):
    before = {path for path in place.folder.rglob("*") if "spool" not in str(path)}
    refused(place, send(place, command(place, NAMES[name])), "cannot be the name of a run")
    after = {path for path in place.folder.rglob("*") if "spool" not in str(path)}
    assert {path.name for path in after - before} <= {"audit.jsonl", "node.log"}
    line = (place.kits / "coordinator" / "audit.jsonl").read_text().splitlines()[-1]
    assert line.isascii() and "\x1b" not in line


@slow
def test_an_existing_run_cannot_be_overwritten(place):
    (place.runs / "mine").mkdir(exist_ok=True)
    refused(place, send(place, command(place, "mine")), "there is a run with this name")
    link = place.runs / "link"
    link.symlink_to(place.kits)
    refused(place, send(place, command(place, "link")), "a symbolic link, which may lead anywhere")
    link.unlink()


@slow
@pytest.mark.parametrize("run", ["nothing-like-it", "mine2"])
def test_a_run_that_does_not_exist_cannot_be_stopped_or_resumed(place, run):
    refused(place, send(place, command(place, run, "")), "has no such run")
    refused(place, send(place, command(place, run, "", do="stop"), path="/v1/stop"), "is not running")


EXPERIMENTS = {
    "garbage": ("\x00\x01[[[", "not valid TOML"),
    "deep": ("x = " + "[" * 50_000, ""),
    "unknown key": ("[training]\nnonsense = 1", "unknown key"),
    "long key": (f"[training]\n{'n' * 250_000} = 1", "unknown key"),
    "escape": ('method.name = "\\u001b[2J[/x]<script>"', "is no method"),
    "huge numbers": ("training.rounds = 99999999999999999999999999", "training.rounds"),
    "not finite": ("training.lr = nan", "training.lr"),
    "no data": ('data.source = "/etc/passwd"', ""),
}


@slow
@pytest.mark.parametrize("which", EXPERIMENTS)
def test_an_invalid_experiment_fails_with_a_reason(place, which):
    """The node is then ready for the next run."""
    text, why = EXPERIMENTS[which]
    run = f"bad-{which.replace(' ', '-')}"
    answer = send(place, command(place, run, text))
    if answer.status == 400:
        return
    status = place.wait(run, lambda it: it["state"] in ("failed", "done"), 60.0)
    assert status["state"] == "failed"
    assert why in status["why"], status["why"]
    assert len(status["why"]) < 5_000
    assert status["attempt"] == 1, "it was tried again and again"
    done = place.cli("status", place.kits / "viewer")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "Traceback" not in done.stderr


SECRETS = {
    "vocabulary": ("extractor.vocabulary={}",),
    "vocabulary beside": ("extractor.vocabulary=public+{}",),
    "vocabulary by dots": ("extractor.vocabulary=./../../..{}",),
    "vectors": ("extractor.vectors={}", "extractor.embeddings=frozen"),
    "labels by people": ("data.human={}",),
    "trusted labels": ("data.trusted={}",),
    "table of users": ("feedback.users=table", "feedback.table={}", "method.name=feedback"),
}


@slow
@pytest.mark.parametrize("which", SECRETS)
def test_an_experiment_can_read_no_file_of_the_coordinators_machine(place, which):
    """An admin may submit runs, but not read the coordinator's signing key or any file outside its data folder. Files
    that the coordinator reads as a vocabulary would be sent to every platform.
    """
    secret = place.kits / "coordinator" / "sign" / "sign.key"
    run = f"reads-{which.replace(' ', '-')}"
    table, _ = config.read_table(place.world / "experiment.toml")
    text = config.to_toml(config.override(table, [it.format(secret) for it in SECRETS[which]]))
    assert send(place, command(place, run, text)).status == 200
    status = place.wait(run, lambda it: it["state"] in ("failed", "done", "waiting"), 60.0)
    if status["state"] != "failed":
        send(place, command(place, run, "", do="stop"), path="/v1/stop")
    assert status["state"] == "failed", "it waits for platforms, to send them the words of the file"
    assert secret.read_text().splitlines()[1] not in json.dumps(status)
    assert "not in the coordinator's data folder" in status["why"], status["why"]


@slow
def test_a_flood_of_status_requests_does_not_block_commands(place):
    for _ in range(50):
        assert place.ask("viewer", "GET", "/v1/status").status == 200
    assert send(place, command(place, "after-the-flood", "[[")).status == 200


@slow
def test_a_queue_of_long_experiments_does_not_block_the_status(place):
    """Each has the maximum length of an experiment; more than a hundred are refused."""
    assert send(place, command(place, "too-long", "#" * 300_000)).status == 400
    place.named(place.last_source, "is too long")
    table, _ = config.read_table(place.world / "experiment.toml")
    assert send(place, command(place, "first", config.to_toml(table))).status == 200
    place.wait("first", lambda it: it["state"] == "waiting")  # for platforms: there are none
    answers = [send(place, command(place, f"long-{number}", "#" * 250_000)).status for number in range(105)]
    assert answers.count(200) in range(85, 101)
    assert answers[-1] == 400
    place.named(place.last_source, "runs are already queued")
    place.still_works(4.0)
    assert len(json.dumps(place.look())) < 2**20
    for it in place.look()["runs"]:
        if it["state"] not in ENDED:
            send(place, command(place, it["run"], "", do="stop"), path="/v1/stop")
    assert until(lambda: all(it["state"] in ENDED for it in place.look()["runs"]), 60.0)
