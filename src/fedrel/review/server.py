"""The page itself: HTML made here, plain forms, and a little JavaScript that only saves reloading."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment

from fedrel.errors import UserError
from fedrel.feedback.store import LONGEST_USER, RIGHT, UNKNOWN, WRONG, Store
from fedrel.review.access import Access, is_same_origin
from fedrel.review.queue import Item, Queue, Standing, direction, readable
from fedrel.util.templates import environment

Form = Mapping[str, str]

_LARGEST = 16_384  # bytes of a form
_LONGEST_LOOK = 600_000  # milliseconds; whoever took longer was away
_YEAR = 365 * 24 * 3600
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would not tell the origin of a form either
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NOTES = {
    "nothing": "There is nothing to take back.",
    "gone": "Your last answer was taken back; its sentence is not among those shown now.",
    "again": "Your last answer was taken back. What do you say now?",
}
_IN_WORDS = {RIGHT: "right", WRONG: "wrong", UNKNOWN: "don’t know"}
_STALE = (
    "This page is out of date: fedrel review was started again since it was loaded, or the form came from elsewhere. "
    "The answer was not counted. Go on, and you see where you stand."
)


class _Refused(Exception):
    """Something that a person sees as a page of its own."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Review:
    """What the pages need to know."""

    def __init__(self, queue: Queue, store: Store, *, user: str, order: str, token: str | None, name: str) -> None:
        self.queue, self.store, self.access = queue, store, Access(token)
        self.user, self.order = user, order
        self.cookie, self.name_cookie = name, f"{name}_user"

    # ------------------------------------------------------------------------------ who and what

    def session_of(self, request: Request) -> str | None:
        cookie = request.cookies.get(self.cookie, "")
        return cookie if self.access.is_session(cookie) else None

    def user_of(self, request: Request) -> str:
        return _name(unquote(request.cookies.get(self.name_cookie, ""))) or self.user

    def order_of(self, wanted: str | None) -> str:
        return wanted if wanted in self.queue.orders else self.order

    def own_form(self, request: Request, form: Form) -> str:
        """The session of a form that this page made; anything else is refused."""
        session = self.session_of(request)
        if session is None or not self.access.is_own_form(session, form.get("form", ""), request.headers):
            raise _Refused(403, _STALE)
        return session

    def admit(self, response: Response, session: str) -> None:
        response.set_cookie(self.cookie, session, httponly=True, samesite="strict")

    def remember(self, response: Response, user: str) -> None:
        response.set_cookie(self.name_cookie, quote(user), max_age=_YEAR, httponly=True, samesite="strict")

    # ------------------------------------------------------------------------------ pages

    def page(self, request: Request, session: str, *, order: str, note: str, again: int | None) -> str:
        user = self.user_of(request)
        standing = Standing(self.store.standing(), user)
        item = self._again(again, standing)
        if again is not None:
            note = "again" if item else "" if self._is_judged(again, standing) else "gone"
        item = item or self.queue.next(standing, user, order)
        return self.render(
            "review.html.j2",
            form=self.access.form_token(session),
            user=user,
            order=order,
            orders=self.queue.orders,
            progress=self.queue.progress(standing, user, order),
            can_undo=bool(standing.mine),
            note=_NOTES.get(note, ""),
            undo_id=secrets.token_hex(16),
            store=str(self.store.path),
            pairs=self.queue.saved.has_pairs,
            shown=self._shown(item, standing) if item else None,
        )

    def _again(self, prediction: int | None, standing: Standing) -> Item | None:
        """The sentence of a verdict that was just taken back, unless it was judged anew since."""
        asked = self.store.sentence_of(prediction) if prediction is not None else None
        return self.queue.find(asked) if asked and asked not in standing.mine else None

    def _is_judged(self, prediction: int, standing: Standing) -> bool:
        return self.store.sentence_of(prediction) in standing.mine

    def _shown(self, item: Item, standing: Standing) -> dict[str, Any]:
        parts = self.queue.parts(item.row)
        change = self.queue.change(item, standing)
        first = {name: text for role, text in reversed(parts) for name in role.split()}
        return {
            "prediction": self.store.show(item.key, item.relation, item.confidence, self.queue.digest),
            "id": secrets.token_hex(16),
            "rendered": _milliseconds(),
            "parts": parts,
            "head": first.get("head", ""),
            "tail": first.get("tail", ""),
            "relation": item.relation,
            "confidence": item.confidence,
            "stated": item.stated,
            "new": self.queue.has_kb and item.new,
            "others": self.queue.others(item),
            "change": change and {"relation": change.relation, "verdict": _IN_WORDS[change.verdict]},
        }

    def render(self, template: str, **values: object) -> str:
        return self._environment.get_template(template).render(values)

    @cached_property
    def _environment(self) -> Environment:
        pages = environment("fedrel.review")
        pages.filters |= {"direction": direction, "readable": readable}
        pages.filters |= {"percent": "{:.0%}".format, "whole": "{:,.0f}".format}
        return pages


def create_app(
    queue: Queue, store: Store, *, user: str, order: str, token: str | None = None, name: str = "fedrel_review"
) -> FastAPI:
    """`name` is that of the cookie: servers on several ports of one machine share their cookies."""
    review = Review(queue, store, user=user, order=order, token=token, name=name)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.mount("/static", StaticFiles(directory=Path(__file__).with_name("static")), name="static")

    @app.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        if review.access.allows_host(request.headers):
            response = await answer(request)
        else:
            response = Response("open the page by the address that fedrel review printed\n", 421)
        for header, value in _HEADERS.items():
            response.headers.setdefault(header, value)
        return response

    @app.exception_handler(_Refused)
    def refused(request: Request, error: _Refused) -> Response:
        return HTMLResponse(review.render("problem.html.j2", sentence=error.sentence, retry=None), error.status)

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status_code=204)

    @app.get("/")
    def show(request: Request) -> Response:
        query, session = request.query_params, review.session_of(request)
        if session is None and not review.access.is_open:
            return _log_in(review, query.get("token"))
        if "token" in query:
            return RedirectResponse("/", 303)  # what stands in an address stays in the history
        again = query.get("again", "")
        known = session or review.access.new_session()
        try:
            page = review.page(
                request,
                known,
                order=review.order_of(query.get("order")),
                note=query.get("note", ""),
                again=int(again) if _is_number(again) else None,
            )
        except UserError as error:
            return _problem(review, error, None)
        response = HTMLResponse(page)
        if session is None:
            review.admit(response, known)
        return response

    @app.post("/login")
    def log_in(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        if review.access.is_open or not is_same_origin(request.headers):
            raise _Refused(403, _STALE)
        return _log_in(review, form.get("token", ""), form.get("name", ""))

    @app.post("/verdict")
    def judge(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        review.own_form(request, form)
        latency = _milliseconds() - _number(form, "rendered")
        try:
            store.give(
                _number(form, "prediction"),
                review.user_of(request),
                form.get("verdict", ""),
                latency if 0 <= latency <= _LONGEST_LOOK else None,
                id=_id(form),
            )
        except UserError as error:
            return _problem(review, error, {"action": "/verdict", "fields": form})
        return _back(review, form)

    @app.post("/undo")
    def undo(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        review.own_form(request, form)
        try:
            prediction = store.undo(review.user_of(request), id=_id(form))
        except UserError as error:
            return _problem(review, error, {"action": "/undo", "fields": form})
        return _back(review, form, **({"note": "nothing"} if prediction is None else {"again": str(prediction)}))

    @app.post("/user")
    def rename(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        review.own_form(request, form)
        if not (user := _name(form.get("name", ""))):
            raise _Refused(422, f"A name has letters, and at most {LONGEST_USER} of them.")
        response = _back(review, form)
        review.remember(response, user)
        return response

    return app


async def _form(request: Request) -> Form:
    """The fields of a form, each once."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST:
            raise _Refused(413, "This form is too large to be one of ours.")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise _Refused(400, "This is no form.") from None
    return {name: values[-1] for name, values in fields.items()}


def _log_in(review: Review, token: str | None, name: str = "") -> Response:
    """A good token gives a page that leads on by itself: a browser that came here by a link from elsewhere would not
    send the new cookie along if it were only sent on.
    """
    if token is None or not review.access.admits(token):
        wrong = token is not None
        if wrong:
            time.sleep(0.5)  # guessing takes a while
        return HTMLResponse(review.render("login.html.j2", wrong=wrong, user=review.user), 401)
    response = HTMLResponse(review.render("welcome.html.j2"))
    review.admit(response, review.access.new_session())
    if user := _name(name):
        review.remember(response, user)
    return response


def _back(review: Review, form: Form, **more: str) -> Response:
    """To the next sentence: by a redirect, so that reloading sends no form again."""
    return RedirectResponse("/?" + urlencode({"order": review.order_of(form.get("order"))} | more), 303)


def _problem(review: Review, error: UserError, retry: Mapping[str, object] | None) -> Response:
    return HTMLResponse(review.render("problem.html.j2", sentence=str(error), retry=retry), 503)


def _name(text: str) -> str:
    """As somebody wants to be called, or "" if that is no name."""
    name = " ".join(text.split())
    return name if name.isprintable() and len(name) <= LONGEST_USER else ""


def _number(form: Form, field: str) -> int:
    text = form.get(field, "")
    if not _is_number(text):
        raise _Refused(400, "This is no form of this page.")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _id(form: Form) -> str:
    """By which the store knows the same form when it comes again."""
    text = form.get("id", "")
    if len(text) != 32 or not text.isalnum() or not text.isascii():
        raise _Refused(400, "This is no form of this page.")
    return text


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
