"""Facts to explore, among them nasty ones, with documents, a knowledge base and an index of them."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from fedrel.explore.index import Index
from fedrel.explore.server import create_app
from fedrel.extraction.facts import Fact, Support

SCRIPT = "<script>document.title='taken'</script>"
HEBREW = "רות גרה בעיר חיפה"
RELATIONS = ("person/born_in", "person/lives_in", 'works<"at">')


def fact(number: int, **changes: object) -> Fact:
    """The fact of this number: person number // 3 and one of seven towns, in a sentence of document number % 4."""
    person, town, relation = f"Ann Lee {number // 3}", f"Bonn {number % 7}", RELATIONS[number % 3]
    before = "In 1900, "
    text = f"{before}{person} came to {town} by night {number}."
    head = (len(before), len(before) + len(person))
    tail = (head[1] + len(" came to "), head[1] + len(" came to ") + len(town))
    support = Support(f"doc {number % 4}.txt", 100 * (number // 4), text, head, tail, 0.75)
    known = (None if number < 0 else number % 3 == 0) if "known" not in changes else changes.pop("known")
    fields = {
        "head": f"P{number // 3}",
        "head_name": f"Ann Katharina Lee {number // 3}",
        "relation": relation,
        "tail": f"T{number % 7}",
        "tail_name": town,
        "log_odds": 4 - number / 10,
        "known": known,
        "sentences": 1 + number % 5,
        "support": (support,),
        "instead": (("T99", "Köln"),) if number % 3 == 1 and number % 2 else (),
    }
    return Fact(**{**fields, **changes})  # type: ignore[arg-type]


def nasty() -> list[Fact]:
    """Facts whose names, ids and sentences are markup, run from right to left, or hide characters."""
    hebrew = Support("doc 0.txt", 0, HEBREW, (0, 3), (13, 17), 0.5)
    markup = Support(f"{SCRIPT}.txt", 0, f"{SCRIPT} met <b>Eve</b> &amp; co", (0, len(SCRIPT)), (44, 54), 0.5, page=3)
    return [
        fact(1000, head="<i>x</i>", head_name=SCRIPT, tail_name="\u202eevil", support=(markup,), log_odds=1.0),
        fact(1001, head="R", head_name="רות", tail_name="חיפה", support=(hebrew,), log_odds=1.1),
    ]


def indexed(path: Path, facts: list[Fact], **options) -> Index:
    return Index.build(path, facts, **options)


@contextmanager
def serving(index: Index, *, token: str | None = None, judged: bool = False) -> Iterator[str]:
    """The address of a real server, in a thread."""
    app = create_app(index, source="facts.jsonl", judged=judged, token=token)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
