"""The web server of the page: HTML from templates, plain forms, and a little JavaScript that only saves reloads."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from fedrel.errors import UserError
from fedrel.feedback.agreement import agreement
from fedrel.feedback.store import LONGEST_USER, RIGHT, UNKNOWN, WRONG, Store
from fedrel.pages.access import is_same_origin
from fedrel.pages.site import Form, Refused, Site, form_of
from fedrel.pages.uploads import Upload, upload_of
from fedrel.pages.wording import direction, readable, sure
from fedrel.review.exports import FORMS, SOURCES
from fedrel.review.questions import Item
from fedrel.review.queue import DISPUTED, NOTHING_WANTED, Queue, Standing, Wanted

_LONGEST_LOOK = 600_000  # milliseconds; whoever takes longer was away
_YEAR = 365 * 24 * 3600
_LISTED = 500  # documents that the page lists to choose from
_NOTES = {
    "nothing": "There is nothing to undo.",
    "gone": "Your last answer was undone; its sentence is not among those shown now.",
    "again": "Your last answer was undone. What do you say now?",
    "skipped": "Skipped, and nothing recorded. It comes again at the end.",
}
_IN_WORDS = {RIGHT: "right", WRONG: "wrong", UNKNOWN: "don’t know"}
_STALE = (
    "This page is out of date: fedrel review was restarted after it was loaded, or the form came from elsewhere. "
    "The answer was not stored. Go on to see where you are."
)


class Review(Site):
    """The state behind the pages. `name` is that of the session cookie; `user` and `order` are the defaults. `what`
    names what is reviewed, `guidelines` are HTML, and `ending` is what to do with the verdicts in the end.
    """

    def __init__(
        self,
        queue: Queue,
        store: Store,
        *,
        user: str,
        order: str,
        token: str | None,
        name: str,
        guidelines: Markup | None,
        ending: str,
    ) -> None:
        super().__init__("fedrel.review", "fedrel review", token=token, cookie=name)
        self.queue, self.store = queue, store
        self.user, self.order, self.guidelines, self.ending = user, order, guidelines, ending
        self.name_cookie = f"{name}_user"
        self._skipped: dict[str, dict[tuple[str, str], None]] = {}  # by user, in the order in which that was done
        self._lock = threading.Lock()
        self.templates.filters |= {"direction": direction, "readable": readable, "sure": sure}
        self.templates.filters |= {"percent": "{:.0%}".format, "whole": "{:,.0f}".format}
        self.templates.globals |= {"DISPUTED": DISPUTED, "forms": FORMS, "sources": SOURCES}

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

    def skip(self, user: str, prediction: int) -> None:
        """Puts a question behind all others for this user, until the page is restarted; nothing is stored."""
        asked = self.store.sentence_of(prediction)
        if asked is not None and self.queue.find(asked):
            with self._lock:
                mine = self._skipped.setdefault(user, {})
                mine.pop(asked, None)
                mine[asked] = None

    def skipped(self, user: str) -> list[tuple[str, str]]:
        """What the user has skipped, the longest ago first."""
        with self._lock:
            return list(self._skipped.get(user, ()))

    # ------------------------------------------------------------------------------ pages

    def page(self, request: Request, session: str, *, order: str, note: str, again: int | None) -> str:
        """The HTML of the next sentence to judge; `again` is the prediction whose verdict was just undone."""
        user, wanted = self.user_of(request), Wanted.of(request.query_params)
        standing, skipped = Standing(self.store.standing(), user), self.skipped(self.user_of(request))
        item = self._again(again, standing, order)
        if again is not None:
            note = "again" if item else "" if self._is_judged(again, standing, order) else "gone"
        item = item or self.queue.next(standing, user, order, wanted, skipped)
        return self.render(
            "review.html.j2",
            **self._common("review", user),
            form=self.access.form_token(session),
            order=order,
            orders=self.queue.orders,
            wanted=wanted,
            link=lambda **changes: _address(order, replace(wanted, **changes)),
            kept={"order": order, **wanted.fields()},
            is_filtered=wanted != NOTHING_WANTED,
            relations=self.queue.relations,
            documents=self.queue.documents[:_LISTED],
            progress=self.queue.progress(standing, user, order, wanted),
            can_undo=bool(standing.my_decisions if order == DISPUTED else standing.mine),
            open_disputes=sum(it.decision is None for it in standing.disputes.values()),
            note=_NOTES.get(note, "") or _imported(request),
            undo_id=secrets.token_hex(16),
            shown=self._shown(item, standing, order) if item else None,
            was_skipped=item is not None and item.asked in skipped,
        )

    def agreement(self, request: Request) -> str:
        """The HTML of how far reviewers agree."""
        found = agreement(self.store.standing())
        decidable = sum(
            it.decision is None and self.queue.find((it.key, it.relation)) is not None for it in found.disputes
        )
        return self.render(
            "agreement.html.j2", **self._common("agreement", self.user_of(request)), found=found, decidable=decidable
        )

    def _common(self, here: str, user: str) -> dict[str, Any]:
        return {
            "here": here,
            "user": user,
            "store": str(self.store.path),
            "pairs": self.queue.texts.has_pairs,
            "guidelines": self.guidelines,
            "ending": self.ending,
        }

    def _again(self, prediction: int | None, standing: Standing, order: str) -> Item | None:
        """The item of a prediction whose verdict was undone, unless it has been judged again since."""
        asked = self.store.sentence_of(prediction) if prediction is not None else None
        return self.queue.find(asked) if asked and asked not in standing.answered(order) else None

    def _is_judged(self, prediction: int, standing: Standing, order: str) -> bool:
        return self.store.sentence_of(prediction) in standing.answered(order)

    def _shown(self, item: Item, standing: Standing, order: str) -> dict[str, Any]:
        texts = self.queue.texts
        parts, (before, after) = texts.parts(item.row), texts.around(item.row)
        change = self.queue.change(item, standing)
        first = {name: text for role, text in reversed(parts) for name in role.split()}
        possible, others = self.queue.instead(item)
        dispute = standing.disputes.get(item.asked) if order == DISPUTED else None
        return {
            "prediction": self.store.show(item.key, item.relation, item.confidence, self.queue.digest),
            "id": secrets.token_hex(16),
            "rendered": _milliseconds(),
            "parts": parts,
            "before": before,
            "after": after,
            "document": texts.document(item.row),
            "head": first.get("head", ""),
            "tail": first.get("tail", ""),
            "entities": texts.entities(item.row),
            "relation": item.relation,
            "confidence": item.confidence,
            "stated": item.stated,
            "new": self.queue.has_kb and item.new,
            "others": texts.others(item.row),
            "possible": possible,
            "impossible": others,
            "said": [(it.user, _IN_WORDS[it.verdict], it.corrected) for it in dispute.verdicts] if dispute else [],
            "change": change and {"relation": change.relation, "verdict": _IN_WORDS[change.verdict]},
        }


def create_app(
    queue: Queue,
    store: Store,
    *,
    user: str,
    order: str,
    token: str | None = None,
    name: str = "fedrel_review",
    guidelines: Markup | None = None,
    ending: str = "",
) -> FastAPI:
    """The web application. `user` and `order` are the defaults of a new reviewer; with `token`, reviewers must sign in.
    `name` is that of the session cookie, which must differ between servers on several ports of one machine, since a
    browser sends them the same cookies. `guidelines` are shown beside the questions, and `ending` is the command that
    uses the verdicts.
    """
    review = Review(queue, store, user=user, order=order, token=token, name=name, guidelines=guidelines, ending=ending)
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

    @app.get("/agreement")
    def show_agreement(request: Request) -> Response:
        if review.session_of(request) is None and not review.access.is_open:
            return _log_in(review, None)
        try:
            return HTMLResponse(review.agreement(request))
        except UserError as error:
            return _problem(review, error, None)

    @app.get("/export")
    def export(request: Request) -> Response:
        if review.session_of(request) is None and not review.access.is_open:
            return _log_in(review, None)
        form = request.query_params.get("form", "")
        if form not in FORMS:
            raise Refused(404, "Answers are not written in this form.")
        wanted = Wanted.of(request.query_params)
        standing = Standing(store.standing(), review.user_of(request))
        items = queue.wanted(review.order_of(request.query_params.get("order")), standing.user, standing, wanted)
        content = FORMS[form].write(queue, store, items)
        headers = {"Content-Disposition": f'attachment; filename="{FORMS[form].file}"'}
        return Response(content, media_type=FORMS[form].type, headers=headers)

    @app.post("/import")
    def take_in(request: Request, upload: Annotated[Upload, Depends(upload_of)]) -> Response:
        review.own_form(request, upload.fields)
        of = upload.fields.get("of", "")
        if of not in SOURCES:
            raise Refused(400, "This form was not made by this page.")
        try:
            added = SOURCES[of][1](store, upload.content, upload.name)
        except UserError as error:
            raise Refused(422, f"{error}. Nothing was imported.") from None
        return _back(review, upload.fields, imported=str(added))

    @app.post("/login")
    def log_in(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        if review.access.is_open or not is_same_origin(request.headers):
            raise Refused(403, _STALE)
        return _log_in(review, form.get("token", ""), form.get("name", ""))

    @app.post("/verdict")
    def judge(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        review.own_form(request, form)
        latency = _milliseconds() - _number(form, "rendered")
        corrected = form.get("corrected")
        if corrected is not None and corrected not in queue.all_relations:
            raise Refused(400, "This form was not made by this page.")
        try:
            store.give(
                _number(form, "prediction"),
                review.user_of(request),
                form.get("verdict", "") if corrected is None else WRONG,
                latency if 0 <= latency <= _LONGEST_LOOK else None,
                corrected=corrected,
                decides=review.order_of(form.get("order")) == DISPUTED,
                id=_id(form),
            )
        except UserError as error:
            return _problem(review, error, {"action": "/verdict", "fields": form})
        return _back(review, form)

    @app.post("/skip")
    def skip(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        review.own_form(request, form)
        review.skip(review.user_of(request), _number(form, "prediction"))
        return _back(review, form, note="skipped")

    @app.post("/undo")
    def undo(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        review.own_form(request, form)
        decides = review.order_of(form.get("order")) == DISPUTED
        try:
            prediction = store.undo(review.user_of(request), decides=decides, id=_id(form))
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
    return RedirectResponse(_address(review.order_of(form.get("order")), Wanted.of(form), **more), 303)


def _address(order: str, wanted: Wanted, **more: str) -> str:
    """Where the page shows this order of what is wanted."""
    return "/?" + urlencode({"order": order} | wanted.fields() | more, errors="replace")


def _problem(review: Review, error: UserError, retry: Mapping[str, object] | None) -> Response:
    return HTMLResponse(review.render("problem.html.j2", sentence=str(error), retry=retry), 503)


def _imported(request: Request) -> str:
    """What came of a file that was imported, if that is what led here."""
    added = request.query_params.get("imported", "")
    if not _is_number(added):
        return ""
    rows = "row" if int(added) == 1 else "rows"
    return f"Imported: {int(added):,} {rows}." if int(added) else "Nothing new: all of that is in the store already."


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
