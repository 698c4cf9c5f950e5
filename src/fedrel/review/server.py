"""The web server of the page: HTML from templates, plain forms, and a little JavaScript that only saves reloads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from fedrel.errors import UserError
from fedrel.feedback.store import LONGEST_USER, RIGHT, UNKNOWN, WRONG, Store
from fedrel.pages.access import is_same_origin
from fedrel.pages.site import Form, Refused, Site, form_of
from fedrel.pages.wording import direction, readable
from fedrel.review.queue import Item, Queue, Standing

_LONGEST_LOOK = 600_000  # milliseconds; whoever takes longer was away
_YEAR = 365 * 24 * 3600
_NOTES = {
    "nothing": "There is nothing to undo.",
    "gone": "Your last answer was undone; its sentence is not among those shown now.",
    "again": "Your last answer was undone. What do you say now?",
}
_IN_WORDS = {RIGHT: "right", WRONG: "wrong", UNKNOWN: "don’t know"}
_STALE = (
    "This page is out of date: fedrel review was restarted after it was loaded, or the form came from elsewhere. "
    "The answer was not stored. Go on to see where you are."
)


class Review(Site):
    """The state behind the pages. `name` is that of the session cookie; `user` and `order` are the defaults."""

    def __init__(self, queue: Queue, store: Store, *, user: str, order: str, token: str | None, name: str) -> None:
        super().__init__("fedrel.review", "fedrel review", token=token, cookie=name)
        self.queue, self.store = queue, store
        self.user, self.order = user, order
        self.name_cookie = f"{name}_user"
        self.templates.filters |= {"direction": direction, "readable": readable}
        self.templates.filters |= {"percent": "{:.0%}".format, "whole": "{:,.0f}".format}

    # ------------------------------------------------------------------------------ sessions and choices

    def user_of(self, request: Request) -> str:
        """The name that the reviewer has chosen, or the default."""
        return _name(unquote(request.cookies.get(self.name_cookie, ""))) or self.user

    def order_of(self, wanted: str | None) -> str:
        """The order asked for, or the default if there is no such order."""
        return wanted if wanted in self.queue.orders else self.order

    def own_form(self, request: Request, form: Form) -> str:
        """The session of a form that this page made; raises Refused for any other."""
        session = self.session_of(request)
        if session is None or not self.access.is_own_form(session, form.get("form", ""), request.headers):
            raise Refused(403, _STALE)
        return session

    def remember(self, response: Response, user: str) -> None:
        """Sets the cookie with the reviewer's name."""
        response.set_cookie(self.name_cookie, quote(user), max_age=_YEAR, httponly=True, samesite="strict")

    # ------------------------------------------------------------------------------ pages

    def page(self, request: Request, session: str, *, order: str, note: str, again: int | None) -> str:
        """The HTML of the next sentence to judge; `again` is the prediction whose verdict was just undone."""
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
        """The item of a prediction whose verdict was undone, unless it has been judged again since."""
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


def create_app(
    queue: Queue, store: Store, *, user: str, order: str, token: str | None = None, name: str = "fedrel_review"
) -> FastAPI:
    """The web application. `user` and `order` are the defaults of a new reviewer; with `token`, reviewers must sign in.
    `name` is that of the session cookie, which must differ between servers on several ports of one machine, since a
    browser sends them the same cookies.
    """
    review = Review(queue, store, user=user, order=order, token=token, name=name)
    app = review.app(Path(__file__).with_name("static"))

    @app.get("/")
    def show(request: Request) -> Response:
        query, session = request.query_params, review.session_of(request)
        if session is None and not review.access.is_open:
            return _log_in(review, query.get("token"))
        if "token" in query:
            return RedirectResponse("/", 303)  # keeps the token out of the browser's history
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
    def log_in(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        if review.access.is_open or not is_same_origin(request.headers):
            raise Refused(403, _STALE)
        return _log_in(review, form.get("token", ""), form.get("name", ""))

    @app.post("/verdict")
    def judge(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
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
    def undo(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        review.own_form(request, form)
        try:
            prediction = store.undo(review.user_of(request), id=_id(form))
        except UserError as error:
            return _problem(review, error, {"action": "/undo", "fields": form})
        return _back(review, form, **({"note": "nothing"} if prediction is None else {"again": str(prediction)}))

    @app.post("/user")
    def rename(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        review.own_form(request, form)
        if not (user := _name(form.get("name", ""))):
            raise Refused(422, f"Give a name of at most {LONGEST_USER} characters.")
        response = _back(review, form)
        review.remember(response, user)
        return response

    return app


def _log_in(review: Review, token: str | None, name: str = "") -> Response:
    """The answer to a token, or to none, and to the name that came with it."""
    response = review.log_in(token, user=review.user)
    if response.status_code == 200 and (user := _name(name)):
        review.remember(response, user)
    return response


def _back(review: Review, form: Form, **more: str) -> Response:
    """A redirect to the next sentence, so that reloading does not send the form again."""
    return RedirectResponse("/?" + urlencode({"order": review.order_of(form.get("order"))} | more), 303)


def _problem(review: Review, error: UserError, retry: Mapping[str, object] | None) -> Response:
    return HTMLResponse(review.render("problem.html.j2", sentence=str(error), retry=retry), 503)


def _name(text: str) -> str:
    """A name with its white space normalised, or "" if it is empty, too long or not printable."""
    name = " ".join(text.split())
    return name if name.isprintable() and len(name) <= LONGEST_USER else ""


def _number(form: Form, field: str) -> int:
    text = form.get(field, "")
    if not _is_number(text):
        raise Refused(400, "This form was not made by this page.")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _id(form: Form) -> str:
    """The id of a form, by which the store recognises it if it is sent again."""
    text = form.get("id", "")
    if len(text) != 32 or not text.isalnum() or not text.isascii():
        raise Refused(400, "This form was not made by this page.")
    return text


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
