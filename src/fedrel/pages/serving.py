"""Where a page is served: an address of this machine, or of others for those who know a token."""

from __future__ import annotations

import os
import secrets
import socket

from fedrel.errors import UserError
from fedrel.pages.access import LOCAL, SHORTEST_TOKEN


def check_token(host: str, token: str | None) -> None:
    """Raises UserError for a token that is too short, and for none where other machines could reach the page."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(f"--token: at least {SHORTEST_TOKEN} characters, such as {secrets.token_urlsafe(16)}")
    if token is None and host not in LOCAL:
        raise UserError(
            f"--host {host}: others could read your text; let only those in who know a token, such as "
            f"--token {secrets.token_urlsafe(16)}"
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, made before anything slow, so that a port in use is known at once: UserError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except socket.gaierror as error:
        raise UserError(f"--host {host}: no address of this machine ({error.strerror})") from None
    except OSError as error:
        raise UserError(f"port {port} of {host}: {os.strerror(error.errno or 0)}; choose another with --port") from None


def address_of(host: str, listening: socket.socket) -> str:
    """Where a browser finds the page."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
