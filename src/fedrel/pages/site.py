"""A web application that trusts no other site: headers, sessions, forms and signing in, alike for all our pages."""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment

from fedrel.pages.access import Access
from fedrel.util.templates import environment

Form = Mapping[str, str]

_LARGEST = 16_384  # bytes of a form
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would not send the origin of a form either
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A refusal, shown to the user as a page of its own with this HTTP status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Site:
    """What all our pages have: templates of `package` and shared ones, and visitors with sessions in a cookie of this
    name. `command` is the one that started it, such as "fedrel review".
    """

    def __init__(self, package: str, command: str, *, token: str | None, cookie: str) -> None:
        self.access, self.cookie, self.command = Access(token), cookie, command
        self.templates: Environment = environment(package, "fedrel.pages")
        self.templates.globals["command"] = command

    def render(self, template: str, **values: object) -> str:
        """The HTML of a template."""
        return self.templates.get_template(template).render(values)

    def session_of(self, request: Request) -> str | None:
        """The session cookie of a request, if it is valid."""
        cookie = request.cookies.get(self.cookie, "")
        return cookie if self.access.is_session(cookie) else None

    def admit(self, response: Response, session: str) -> None:
        """Sets the session cookie."""
        response.set_cookie(self.cookie, session, httponly=True, samesite="strict")

    def log_in(self, token: str | None, *, user: str | None = None) -> Response:
        """The answer to a token, or to none. The right token gets a page that leads on by itself: after a mere
        redirect, a browser that followed a link from another site would not send the new cookie. `user` is who is taken
        to be there, if the page asks for a name.
        """
        if token is None or not self.access.admits(token):
            wrong = token is not None
            if wrong:
                time.sleep(0.5)  # slows down guessing
            return HTMLResponse(self.render("login.html.j2", wrong=wrong, user=user), 401)
        response = HTMLResponse(self.render("welcome.html.j2"))
        self.admit(response, self.access.new_session())
        return response

    def app(self, static: Path) -> FastAPI:
        """An application without any page but the files of `static`; it answers only to allowed host names."""
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        app.mount("/static", StaticFiles(directory=static), name="static")

        @app.middleware("http")
        async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
            if self.access.allows_host(request.headers):
                response = await answer(request)
            else:
                response = Response(f"open the page at the address that {self.command} has printed\n", 421)
            for header, value in _HEADERS.items():
                response.headers.setdefault(header, value)
            return response

        @app.exception_handler(Refused)
        def refused(request: Request, error: Refused) -> Response:
            return HTMLResponse(self.render("problem.html.j2", sentence=error.sentence, retry=None), error.status)

        @app.get("/favicon.ico")
        def icon() -> Response:
            return Response(status_code=204)

        return app


async def form_of(request: Request) -> Form:
    """The fields of a form; of a repeated field, the last value. Raises Refused for a body that is not a form."""
    body = await body_of(request, _LARGEST, "This form is too large to be one of ours.")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise Refused(400, "This is not a form.") from None
    return {name: values[-1] for name, values in fields.items()}


async def body_of(request: Request, largest: int, refusal: str) -> bytes:
    """The body of a request. Raises Refused for one of more bytes, as soon as they have come."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > largest:
            raise Refused(413, refusal)
    return bytes(body)


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Answers requests until Ctrl-C."""
    settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    with suppress(KeyboardInterrupt):  # how one ends a server
        uvicorn.Server(settings).run(sockets=[listening])
