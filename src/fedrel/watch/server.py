"""The web server of the page: one page, made anew from what is known now; a little JavaScript asks for it again."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.datastructures import QueryParams

from fedrel.errors import UserError
from fedrel.pages.access import is_same_origin
from fedrel.pages.site import Form, Refused, Site, form_of
from fedrel.util.units import format_bytes
from fedrel.watch import curves, states
from fedrel.watch.view import Platform, Run, View

_OFTEN = 0.7  # seconds for which an answer of the source serves everybody
_LISTED = 200  # platforms in the table; those that need a look come first
_LATEST = 50  # rounds in the table
# The report is one file with its own styles, and neither scripts nor addresses
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class Source:
    """Where the page gets its content: what is known at some time (UserError: nothing, for this reason), and the
    report of a finished run. `name` is what is watched, `where` the machine that the runs' folders are on, if it is
    another one.
    """

    name: str
    look: Callable[[float], View]
    report: Callable[[], Path | None] = lambda: None
    where: str = ""


class Watch(Site):
    """The state behind the page. `cookie` is the name of the session cookie."""

    def __init__(self, source: Source, *, token: str | None, cookie: str) -> None:
        super().__init__("fedrel.watch", "fedrel watch", token=token, cookie=cookie)
        self.source = source
        self._lock = threading.Lock()
        self._seen: tuple[float, View, str] = (-_OFTEN, View([], []), "")
        self.templates.filters |= {"size": format_bytes, "whole": "{:,.0f}".format, "span": span, "clock": clock}
        self.templates.filters |= {"score": "{:.3f}".format, "percent": "{:.0%}".format, "marked": marked}
        self.templates.globals |= {"chart": curves, "left_of": left_of, "shown_columns": shown_columns, "cell": cell}

    def look(self) -> tuple[View, str]:
        """What is known, and why it is not known better; with a problem, what was known before."""
        with self._lock:
            at, view, _ = self._seen
            if time.monotonic() - at >= _OFTEN:
                problem = ""
                try:
                    view = self.source.look(time.time())
                except UserError as error:
                    problem = str(error)
                self._seen = time.monotonic(), view, problem
            return self._seen[1], self._seen[2]

    def page(self, query: QueryParams) -> str:
        """The HTML of the page."""
        view, problem = self.look()
        run = view.run(query.get("run", ""))
        if run is None and query.get("run"):
            problem = problem or "There is no run of this name."
        shown = run.platforms if run is not None and run.platforms else view.platforms
        return self.render(
            "watch.html.j2",
            view=view,
            run=run,
            problem=problem,
            source=self.source,
            report=run is not None and self.source.report() is not None,
            charts=curves.charts(run) if run is not None else [],
            platforms=shown[:_LISTED],
            more=max(0, len(shown) - _LISTED),
            latest=list(reversed(run.history[-_LATEST:])) if run is not None else [],
            moving=problem != "" or run is None or not run.ended or bool(self.source.where),
        )


def create_app(source: Source, *, token: str | None = None, name: str = "fedrel_watch") -> FastAPI:
    """The web application. With `token`, visitors must sign in. `name` is that of the session cookie, which must differ
    between servers on several ports of one machine, since a browser sends them the same cookies.
    """
    watch = Watch(source, token=token, cookie=name)
    app = watch.app(Path(__file__).with_name("static"))

    def admitted(request: Request) -> bool:
        return watch.access.is_open or watch.session_of(request) is not None

    @app.get("/")
    def page(request: Request) -> Response:
        query = request.query_params
        if not admitted(request):
            return watch.log_in(query.get("token"))
        if "token" in query:
            return RedirectResponse("/", 303)  # keeps the token out of the browser's history
        html = watch.page(query)
        tag = f'"{hashlib.sha256(html.encode(errors="replace")).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == tag:  # nothing is new
            return Response(status_code=304, headers={"ETag": tag})
        return HTMLResponse(html, headers={"ETag": tag})

    @app.get("/report")
    def report(request: Request) -> Response:
        if not admitted(request):
            return watch.log_in(None)
        path = watch.source.report()
        try:
            content = path.read_bytes() if path is not None else None
        except OSError:
            content = None
        if content is None:
            raise Refused(404, "There is no report yet: it is written when the run has ended.")
        headers = {"Content-Security-Policy": _REPORT_POLICY}
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)

    @app.post("/login")
    def log_in(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        if watch.access.is_open or not is_same_origin(request.headers):
            raise Refused(403, "This form came from elsewhere.")
        return watch.log_in(form.get("token", ""))

    return app


def span(seconds: float) -> str:
    """A stretch of time for people: "40 s", "12 min", "3 h 5 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{60 * minutes + rest} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def left_of(run: Run) -> str:
    """How much longer a run takes at most, in words; coarse, since it is a guess."""
    if run.left is None or run.state != "running":
        return ""
    coarse = 10 if 10 <= run.left < 120 else 1
    return f"at most {span(coarse * math.ceil(run.left / coarse))} left"


def clock(time_: float) -> str:
    """A time of this machine's clock; empty for 0. Times come from elsewhere, and may be none."""
    try:
        at = datetime.fromtimestamp(time_)
    except (ValueError, OverflowError, OSError):
        return ""
    today = at.date() == datetime.now().date()
    return "" if time_ <= 0 else at.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


_COLUMNS = (  # of the table of platforms: the field, its title, its style
    ("rounds", "rounds", "number"),
    ("held", "sentences", "number"),
    ("sent", "sent", "number"),
    ("seen", "last reply", ""),
    ("failures", "failures", "number"),
    ("outliers", "outliers", "number"),
    ("problem", "last problem", "problem"),
)


def shown_columns(platforms: list[Platform]) -> list[tuple[str, str, str]]:
    """The columns in which any of them has something."""
    return [column for column in _COLUMNS if any(getattr(it, column[0]) for it in platforms)]


def cell(platform: Platform, name: str) -> str:
    """A field of a platform in words; nothing for 0."""
    value = getattr(platform, name)
    if not value:
        return ""
    return format_bytes(value) if name == "sent" else clock(value) if name == "seen" else _words(value)


def _words(value: str | int) -> str:
    return value if isinstance(value, str) else f"{value:,}"


_KINDS = {
    **dict.fromkeys((states.GONE, states.REFUSED, states.FAILED, "failed", states.INTERRUPTED), "bad"),
    **dict.fromkeys((states.LATE, states.LEFT_OUT, "waiting", "stopped"), "odd"),
    **dict.fromkeys((states.WORKING, "running", "starting"), "live"),
    **dict.fromkeys((states.ACTIVE, "done"), "good"),
}


def marked(state: str) -> str:
    """How a state is marked: bad, odd, live, good or calm."""
    return _KINDS.get(state, "calm")
