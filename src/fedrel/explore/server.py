"""The web server of the page: HTML from templates, addresses that hold what is chosen, and a little JavaScript that
only saves reloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.datastructures import QueryParams

from fedrel.explore import graph
from fedrel.explore.index import ORDERS, STANDINGS, Filter, Index
from fedrel.extraction.forms import WRITERS
from fedrel.pages.access import is_same_origin
from fedrel.pages.passages import passage, stretches
from fedrel.pages.queries import number_in, share_in
from fedrel.pages.site import Form, Refused, Site, form_of
from fedrel.pages.wording import direction, readable, sure

PAGE = 50  # facts on a page
FORMS = {
    ".csv": ("CSV", "text/csv"),
    ".jsonl": ("JSON lines", "application/x-ndjson"),
    ".ttl": ("Turtle", "text/turtle"),
    ".jsonld": ("JSON-LD", "application/ld+json"),
    ".nt": ("N-Triples", "application/n-triples"),
}
_LISTED = 500  # documents that the page lists to choose from
_IN_DOCUMENT = 2_000  # facts whose sentences are marked in a document
_PIECE = 200  # lines of an export sent together


class Explore(Site):
    """The state behind the pages. `cookie` is the name of the session cookie, `source` what the facts are from, and
    `judged` whether it is known which of them are right.
    """

    def __init__(self, index: Index, *, source: str, judged: bool, token: str | None, cookie: str) -> None:
        super().__init__("fedrel.explore", "fedrel explore", token=token, cookie=cookie)
        self.index, self.source, self.judged = index, source, judged
        every = index.find(Filter(), limit=0)
        self.relations, self.has_kb = list(every.relations), any(every.standings.get(it) for it in STANDINGS)
        self.documents = index.documents(_LISTED)
        self.templates.filters |= {"direction": direction, "readable": readable, "wrapped": graph.wrapped}
        self.templates.filters |= {"sure": sure, "whole": "{:,.0f}".format, "share": "{:.0%}".format}
        self.templates.globals |= {"standings": STANDINGS, "orders": ORDERS, "forms": FORMS, "most_drawn": graph.MOST}
        self.templates.globals |= {"left": graph.LEFT, "right": graph.RIGHT, "end": graph.END, "width": graph.WIDTH}

    def page(self, query: QueryParams) -> str:
        """The HTML of the list of facts, and of one fact or entity if one is chosen."""
        wanted, order = filter_of(query), order_of(query)
        place = max(1, number_in(query, "page") or 1)
        found = self.index.find(wanted, order=order, offset=PAGE * (place - 1), limit=PAGE)
        number = number_in(query, "fact")
        return self.render(
            "facts.html.j2",
            **self._common(wanted, order),
            found=found,
            page=place,
            pages=max(1, -(-found.total // PAGE)),
            number=number,
            shown=self._shown(number) if number is not None else None,
            graph=None if number is not None or not wanted.entity else self.graph(wanted.entity),
        )

    def calibration(self, query: QueryParams) -> str:
        """The HTML of the plot of confidences against what is known or right."""
        wanted, order = filter_of(query), order_of(query)
        return self.render(
            "calibration.html.j2", **self._common(wanted, order), bins=self.index.bins(wanted), judged=self.judged
        )

    def document(self, query: QueryParams) -> str:
        """The HTML of a document with the sentences of the facts that are chosen; raises Refused if its text is not at
        hand.
        """
        name = query.get("document", "")
        text = self.index.text(name)
        if text is None:
            raise Refused(404, "The text of this document is not at hand: start fedrel explore with --text.")
        wanted, order = filter_of(query), order_of(query)
        sentences = []
        for row in self.index.find(wanted, order=order, limit=_IN_DOCUMENT).rows:
            fact = self.index.fact(row.number)
            for it in fact.support if fact else ():
                if it.document == name and text[it.start : it.start + len(it.text)] == it.text:
                    sentences.append((it.start, it.start + len(it.text), row.number))
        number = number_in(query, "fact")
        around = next((start for start, _, at in sentences if at == number), 0)
        return self.render(
            "document.html.j2",
            **self._common(wanted, order),
            document=name,
            stretches=list(stretches(text, sentences, around)),
            number=number,
        )

    def graph(self, entity: str) -> graph.Graph:
        """The graph around an entity: the surest facts about it."""
        about = self.index.find(Filter(entity=entity), limit=4 * graph.MOST)
        ends = dict.fromkeys(end for row in about.rows for end in (row.head, row.tail))
        return graph.drawn(entity, self.index.name(entity), about.rows, about.total, self.index.between(ends))

    def _shown(self, number: int) -> dict[str, Any] | None:
        fact = self.index.fact(number)
        if fact is None:
            return None
        passages = [
            (it, passage(it.text, it.start, it.head, it.tail, self.index.text(it.document))) for it in fact.support
        ]
        texts = {it.document for it, around in passages if self.index.text(it.document) is not None}
        return {"fact": fact, "passages": passages, "texts": texts, "graph": self.graph(fact.head)}

    def _common(self, wanted: Filter, order: str) -> dict[str, Any]:
        def link(path: str = "/", **changes: object) -> str:
            return address(path, wanted, order, **changes)

        return {
            "wanted": wanted,
            "order": order,
            "link": link,
            "source": self.source,
            "has_kb": self.has_kb,
            "all_relations": self.relations,
            "all_documents": self.documents,
            "entity_name": self.index.name(wanted.entity) if wanted.entity else "",
            "hidden": hidden_fields(wanted, order),
        }


def create_app(
    index: Index,
    *,
    source: str,
    judged: bool = False,
    token: str | None = None,
    name: str = "fedrel_explore",
) -> FastAPI:
    """The web application. With `token`, visitors must sign in. `name` is that of the session cookie, which must differ
    between servers on several ports of one machine, since a browser sends them the same cookies.
    """
    explore = Explore(index, source=source, judged=judged, token=token, cookie=name)
    app = explore.app(Path(__file__).with_name("static"))

    def admitted(request: Request) -> bool:
        return explore.access.is_open or explore.session_of(request) is not None

    def shown(request: Request, page: str) -> Response:
        query = request.query_params
        if not admitted(request):
            return explore.log_in(query.get("token"))
        if "token" in query:
            return RedirectResponse("/", 303)  # keeps the token out of the browser's history
        return HTMLResponse(getattr(explore, page)(query))

    @app.get("/")
    def facts(request: Request) -> Response:
        return shown(request, "page")

    @app.get("/calibration")
    def calibration(request: Request) -> Response:
        return shown(request, "calibration")

    @app.get("/document")
    def document(request: Request) -> Response:
        return shown(request, "document")

    @app.get("/export")
    def export(request: Request) -> Response:
        form = request.query_params.get("form", "")
        if not admitted(request):
            return explore.log_in(None)
        if form not in FORMS:
            raise Refused(404, "Facts are not written in this form.")
        wanted, order = filter_of(request.query_params), order_of(request.query_params)
        lines = WRITERS[form](index.facts(wanted, order))
        headers = {"Content-Disposition": f'attachment; filename="facts{form}"'}
        return StreamingResponse(_pieces(lines), media_type=f"{FORMS[form][1]}; charset=utf-8", headers=headers)

    @app.post("/login")
    def log_in(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
        if explore.access.is_open or not is_same_origin(request.headers):
            raise Refused(403, "This form came from elsewhere.")
        return explore.log_in(form.get("token", ""))

    return app


def filter_of(query: QueryParams) -> Filter:
    """What the address asks for; what makes no sense in it is ignored."""
    return Filter(
        words=" ".join(query.get("q", "").split()),
        relations=tuple(dict.fromkeys(query.getlist("relation")))[:200],
        standings=tuple(it for it in STANDINGS if it in query.getlist("standing")),
        least=share_in(query, "least", 0.0),
        most=share_in(query, "most", 1.0),
        document=query.get("document", ""),
        entity=query.get("entity", ""),
    )


def order_of(query: QueryParams) -> str:
    """The order that the address asks for, or the surest first."""
    order = query.get("order", "")
    return order if order in ORDERS else "sure"


def hidden_fields(wanted: Filter, order: str) -> list[tuple[str, str]]:
    """A filter as the fields of an address, without those that ask for nothing."""
    fields = [("q", wanted.words)]
    fields += [("relation", it) for it in wanted.relations] + [("standing", it) for it in wanted.standings]
    fields += [("least", f"{wanted.least:g}" if wanted.least > 0 else "")]
    fields += [("most", f"{wanted.most:g}" if wanted.most < 1 else "")]
    fields += [("document", wanted.document), ("entity", wanted.entity), ("order", "" if order == "sure" else order)]
    return [(name, value) for name, value in fields if value]


def address(path: str, wanted: Filter, order: str, **changes: object) -> str:
    """The address of a page with this filter and what is changed in it; None takes a field away."""
    fields = [(name, value) for name, value in hidden_fields(wanted, order) if name not in changes]
    fields += [(name, str(value)) for name, value in changes.items() if value is not None]
    return f"{path}?{urlencode(fields, errors='replace')}" if fields else path


def _pieces(lines: Iterator[str]) -> Iterator[bytes]:
    """Lines as bytes, many at a time."""
    piece: list[str] = []
    for line in lines:
        piece.append(line)
        if len(piece) == _PIECE:
            yield "".join(piece).encode()
            piece = []
    yield "".join(piece).encode()
