"""docs/security.md names the messages, roles and limits that the code has."""

from __future__ import annotations

import re

import pytest

from fedrel.federation.https import bodies, connections, messages
from fedrel.federation.nodes import admins, audit, exchange, run_queue
from tests.docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_page_has_every_message_with_those_who_may_send_it():
    rows = re.findall(r"^\| `(GET|POST) (/v1/[a-z]+/?)(?:ID)?` \| ([a-z, ]+) \|", PAGE, re.MULTILINE)
    assert {(method, path): tuple(roles.split(", ")) for method, path, roles in rows} == messages.ROLES


@pytest.mark.parametrize(
    "sentence",
    [
        f"TLS handshake | {connections.HANDSHAKE:g} s; {connections.HANDSHAKES} at the same time",
        f"connections of one party | {connections.CONNECTIONS}",
        f"on an idle connection | {bodies.IDLE:g} s",
        f"slowest transfer | {bodies.SLOWEST:,} bytes a second",
        f"gone after {messages.SILENT_SECONDS:g} s",
        f"within {messages.POLL_SECONDS:g} s, is a signed request",
        f"awaited for {exchange.GRACE:g} s",
        f"plus {exchange.SLACK:g} s, plus a second for each {exchange.SLOWEST:,} bytes",
        f"payload of a request | {messages.MOST_PAYLOAD // 2**30} GB",
        f"{messages.MOST_COMMAND // 2**20} MB, signed",
        f"the answer up to {messages.MOST_STATUS // 2**20} MB",
        f"challenge | {admins.CHALLENGE:g} s; {admins.MOST_CHALLENGES:,} at the same time",
        f"without a new round | {run_queue.TRIES} times",
        f"heartbeat | {run_queue.STUCK:g} s",
        f"`audit.jsonl` | {audit._MOST_BYTES // 2**20} MB",
        f"{exchange.MOST_BEGIN // 2**10} KB for `begin`",
    ],
)
def test_a_limit_on_the_page_is_the_code_s(sentence):
    assert sentence in PAGE
