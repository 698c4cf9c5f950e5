"""Who may use the page: people at this machine, or with the token; and only through forms that the page itself made."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
SHORTEST_TOKEN = 12


class Access:
    """Sessions and CSRF tokens without state: a session is a random number with an HMAC under a key of this process,
    and the token of its forms is another HMAC of it. `token` is what users must enter; None: no login.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._secret = secrets.token_bytes(32)

    @property
    def is_open(self) -> bool:
        """Whether the page needs no token, because only this machine can reach it."""
        return self._token is None

    def admits(self, token: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def new_session(self) -> str:
        """The value of a cookie that `is_session` accepts."""
        number = secrets.token_hex(16)
        return f"{number}.{self._seal('session', number)}"

    def is_session(self, cookie: str) -> bool:
        """Whether `new_session` of this process made the cookie."""
        number, _, seal = cookie.partition(".")
        return hmac.compare_digest(seal.encode(), self._seal("session", number).encode())

    def form_token(self, session: str) -> str:
        """The CSRF token for the forms of a session."""
        return self._seal("form", session)

    def is_own_form(self, session: str, token: str, headers: Mapping[str, str]) -> bool:
        """Whether a form was made by this page for this session and sent from it. Another site does not know the token,
        and can neither send our cookie nor claim our origin.
        """
        return (
            self.is_session(session)
            and hmac.compare_digest(token.encode(), self.form_token(session).encode())
            and is_same_origin(headers)
        )

    def allows_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the request's host name is allowed. Without a token, only names of this machine are: that defeats DNS
        rebinding, a foreign name made to point here.
        """
        return not self.is_open or _hostname(headers.get("host", "")) in LOCAL

    def _seal(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page of the same origin, or from a program that is not a browser."""
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
