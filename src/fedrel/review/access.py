"""Who may use the page: people at this machine, or with the token; and only from forms that the page itself made."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
SHORTEST_TOKEN = 12


class Access:
    """A session is a random number with a seal that only this process can make; the token of a form is another seal of
    it. Nothing is kept, so there is nothing to clean up.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._secret = secrets.token_bytes(32)

    @property
    def is_open(self) -> bool:
        """Everybody who reaches the page may use it, since only this machine can."""
        return self._token is None

    def admits(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def new_session(self) -> str:
        number = secrets.token_hex(16)
        return f"{number}.{self._seal('session', number)}"

    def is_session(self, cookie: str) -> bool:
        number, _, seal = cookie.partition(".")
        return hmac.compare_digest(seal.encode(), self._seal("session", number).encode())

    def form_token(self, session: str) -> str:
        return self._seal("form", session)

    def is_own_form(self, session: str, token: str, headers: Mapping[str, str]) -> bool:
        """Made by this page for this session, and sent from it: another site knows no token, and cannot send our
        cookie or claim our origin.
        """
        return (
            self.is_session(session)
            and hmac.compare_digest(token.encode(), self.form_token(session).encode())
            and is_same_origin(headers)
        )

    def allows_host(self, headers: Mapping[str, str]) -> bool:
        """Without a token, only by a name of this machine: a foreign name that is made to point here is refused."""
        return not self.is_open or _hostname(headers.get("host", "")) in LOCAL

    def _seal(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()


def is_same_origin(headers: Mapping[str, str]) -> bool:
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "same-origin") == "same-origin"
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    except ValueError:
        return False


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
