"""`python -m benchmarks.explore`: how long the page of `fedrel explore` takes with 100,000 facts.

Made-up facts about 20,000 people and 2,000 towns, each with five sentences, are written, read and indexed as the
command does it; then pages are asked for over HTTP, as the browser does it. Times are processor time of both ends, the
median of several requests that differ: what one waits where nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import uvicorn

from fedrel.explore.index import Index
from fedrel.explore.server import create_app
from fedrel.extraction.facts import Fact, Support, read_facts, to_json

RELATIONS = [f"person/relation_{number}" for number in range(20)]
PEOPLE, TOWNS, DOCUMENTS = 20_000, 2_000, 5_000
SENTENCES = 5  # of each fact
WORDS = [f"word{number}" for number in range(5_000)]
SEEN = 7  # requests of each kind


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--facts", type=int, default=100_000)
    count = arguments.parse_args().facts
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "facts.jsonl").write_text("".join(map(to_json, made(count))), encoding="utf-8")
        begin = time.process_time()
        index = Index.build(folder / "facts.sqlite", read_facts(folder / "facts.jsonl"))
        spent = time.process_time() - begin
        report = {
            "cores": os.cpu_count(),
            "facts": len(index),
            "megabytes of facts.jsonl": round((folder / "facts.jsonl").stat().st_size / 1e6),
            "megabytes of the index": round(index.path.stat().st_size / 1e6),
            "seconds to index": round(spent, 1),
            "milliseconds of a page": timed(index),
        }
    print(json.dumps(report, indent=1))


def made(count: int) -> Iterator[Fact]:
    """Facts, the surest first."""
    draw = random.Random(1)
    for number in range(count):
        person, town = draw.randrange(PEOPLE), draw.randrange(TOWNS)
        support = tuple(sentence(draw, f"Ann Lee {person}", f"Bonn {town}") for _ in range(SENTENCES))
        known = draw.random() < 0.5
        yield Fact(
            *(f"P{person}", f"Ann Lee {person}", draw.choice(RELATIONS), f"T{town}", f"Bonn {town}"),
            *(6 - 12 * number / count, known, SENTENCES, support),
        )


def sentence(draw: random.Random, person: str, town: str) -> Support:
    """A sentence of 20 words that names both."""
    words = draw.choices(WORDS, k=15)
    text = f"{person} {' '.join(words)} {town}."
    spans = (0, len(person)), (len(text) - 1 - len(town), len(text) - 1)
    return Support(f"document {draw.randrange(DOCUMENTS)}.txt", 200 * draw.randrange(50), text, *spans, 0.5)


def timed(index: Index) -> dict[str, float]:
    """The median time of each kind of page, as a browser waits for it."""
    app = create_app(index, source="facts.jsonl")
    kinds = {
        "all facts": [f"/?page={1 + number}" for number in range(SEEN)],
        "the last pages": [f"/?page={len(index) // 50 - number}" for number in range(SEEN)],
        "one relation": [f"/?relation={RELATIONS[number]}" for number in range(SEEN)],
        "confidence, standing and order": [
            f"/?least=0.{number}&standing=new&order=often" for number in range(1, 1 + SEEN)
        ],
        "a word of sentences": [f"/?q={WORDS[number]}" for number in range(SEEN)],
        "first letters of a name": [f"/?q=ann+lee+{number}" for number in range(1, 1 + SEEN)],
        "an entity and its graph": [f"/?entity=P{number}" for number in range(SEEN)],
        "a fact": [f"/?fact={1 + number * len(index) // SEEN}" for number in range(SEEN)],
        "calibration": [f"/calibration?relation={RELATIONS[number]}" for number in range(SEEN)],
        "export of all as CSV": ["/export?form=.csv"],
    }
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        port = listening.getsockname()[1]
        found = {kind: statistics.median(waited(port, path) for path in paths) for kind, paths in kinds.items()}
        server.should_exit = True
        thread.join()
    return {kind: round(1000 * seconds) for kind, seconds in found.items()}


def waited(port: int, path: str) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=300)
    begin = time.process_time()
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    spent = time.process_time() - begin
    connection.close()
    assert response.status == 200, path
    return spent


if __name__ == "__main__":
    main()
