"""docs/security.md names the messages, roles and limits that the code has."""

from __future__ import annotations

import re

import pytest

from fedrel.federation.https import messages, server
from fedrel.federation.nodes import audit, conductor, coordinator
from tests.docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_page_has_every_message_with_those_who_may_send_it():
    rows = re.findall(r"^\| `(GET|POST) (/v1/[a-z]+/?)(?:ID)?` \| ([a-z, ]+) \|", PAGE, re.MULTILINE)
    assert {(method, path): tuple(roles.split(", ")) for method, path, roles in rows} == messages.ROLES


@pytest.mark.parametrize(
    "sentence",
    [
        f"TLS handshake | {server._HANDSHAKE:g} s; {server._HANDSHAKES} at the same time",
        f"connections of one party | {server._CONNECTIONS}",
        f"on an idle connection | {server._IDLE:g} s",
        f"slowest transfer | {server._SLOWEST:,} bytes a second",
        f"gone after {messages.SILENT_SECONDS:g} s",
        f"within {messages.POLL_SECONDS:g} s, is a signed request",
        f"awaited for {conductor._GRACE:g} s",
        f"plus {conductor._SLACK:g} s, plus a second for each {conductor._SLOWEST:,} bytes",
        f"payload of a request | {messages.MOST_PAYLOAD // 2**30} GB",
        f"{messages.MOST_COMMAND // 2**20} MB, signed",
        f"the answer up to {messages.MOST_STATUS // 2**20} MB",
        f"challenge | {coordinator._CHALLENGE:g} s; {coordinator._MOST_CHALLENGES:,} at the same time",
        f"without a new round | {coordinator._TRIES} times",
        f"sign of life | {coordinator._STUCK:g} s",
        f"`audit.jsonl` | {audit._MOST_BYTES // 2**20} MB",
        f"{conductor._MOST_BEGIN // 2**10} KB for `begin`",
    ],
)
def test_a_limit_on_the_page_is_the_code_s(sentence):
    assert sentence in PAGE
