"""The page over HTTP, as a browser without JavaScript sees it, and as somebody sees it who means harm."""

import re
import time
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pytest

from fedrel.errors import UserError
from fedrel.watch.folder import RunFolder
from fedrel.watch.history import extended
from fedrel.watch.server import Source, clock, span
from fedrel.watch.view import View, view
from tests.review.browser.small_platform import Visitor
from tests.watch.small_runs import CONNECTED, NOW, add, begin, finish, line, serving, status

TOKEN = "a long enough token"
SCRIPT = "<script>document.title='taken'</script>"


def local(folder) -> Source:
    watched = RunFolder(folder)
    return Source("runs/run", lambda now: view([watched.look(now)], None, now), lambda: watched.report)


def coordinator(*statuses, where="org.example") -> Source:
    return Source("kits/admin", lambda now: view(statuses, CONNECTED, NOW), where=where)


def tiles(page) -> dict[str, str]:
    found = re.findall(r"<dt>(.*?)</dt><dd class=\"value\">(.*?)</dd>", page.text)
    return dict(found)


def test_a_run_that_goes_on_and_then_ends(tmp_path):
    folder = begin(tmp_path / "run")
    for number in (1, 2, 3):
        add(folder, number)
    with serving(local(folder)) as address:
        page = Visitor(address).get()
        assert "round 3 of at most 20 · at most 40 s left · evidence" in page.words
        assert "now: train p2" in page.words
        assert tiles(page) == {
            **{"dev ap": "0.075", "training loss": "0.667", "selection precision": "56%", "bytes up": "3.0 KB"},
            **{"platforms": "3", "time in rounds": "6 s"},
        }
        assert '<noscript><meta http-equiv="refresh" content="5">' in page.text
        assert re.findall(r'<section class="chart of4" id="chart-(\w+)"', page.text) == [
            *("score", "loss", "selection", "bytes")
        ]
        assert "/report" not in page.text and Visitor(address).get("/report").status == 404
    finish(folder, best=2)
    with serving(local(folder)) as address:
        page = Visitor(address).get()
        assert "3 rounds, the best was 2" in page.words and "3 of 20" not in page.words
        assert tiles(page)["test ap"] == "0.612"
        assert "noscript" not in page.text, "there is nothing to wait for"
        report = Visitor(address).get("/report")
        assert report.status == 200 and "the report" in report.text
        policy = report.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "script" not in policy


def test_nothing_new_is_said_in_few_bytes(tmp_path):
    folder = begin(tmp_path / "run")
    with serving(local(folder)) as address:
        first = Visitor(address).get()
        tag = first.headers["ETag"]
        again = Visitor(address).get(If_None_Match=tag)
        assert (again.status, again.text) == (304, "")


def test_a_federation_shows_who_is_late_refused_and_gone():
    queued = status(run="next", state="queued", place=1, round=0, rounds=0, history=[], platforms={}, events=[])
    history = extended([], line(1), "ap")
    with serving(coordinator(status(history=history), queued)) as address:
        visitor = Visitor(address)
        page = visitor.get()
        rows = re.findall(r'<th scope="row">([^<]*)</th><td><span class="chip (\w+)">([^<]*)', page.text)
        assert ("away", "bad", "gone") in rows and ("strict", "bad", "refused") in rows
        assert ("slow", "odd", "late") in rows and ("quick", "good", "active") in rows
        assert "broken: no reply used out of memory" in page.words
        assert "1 gone, 1 refused, 1 failed, 2 late" in page.words
        assert "queued, 1 ahead of it" in visitor.get("/?run=next").words
        assert "There is no run of this name." in visitor.get("/?run=other").words
    over = status(state="done", round=13, result={"test": {"ap": 0.7}}, why="")
    with serving(coordinator(over)) as address:
        page = Visitor(address).get()
        assert "13 rounds, the best was 2" in page.words and "13 of 20" not in page.words
        assert "The report is /srv/runs/together/report.html on org.example" in page.words
    with serving(coordinator(status(state="stopped", why="stopped on request"))) as address:
        assert "fedrel submit kits/admin --resume together" in Visitor(address).get().words


def test_before_anything_is_submitted_platforms_are_there():
    with serving(coordinator()) as address:
        page = Visitor(address).get()
        assert "No run yet" in page.words and "absent" in page.words


def test_what_was_known_stays_while_the_coordinator_is_away():
    calls = []

    def look(now) -> View:
        calls.append(now)
        if len(calls) > 1:
            raise UserError("cannot reach the coordinator at org.example:8002: refused")
        return view([status()], CONNECTED, NOW)

    with serving(Source("kits/admin", look, where="org.example")) as address:
        assert "round 3 of at most 20" in Visitor(address).get().words
        for _ in range(40):
            page = Visitor(address).get()
            if "cannot reach" in page.words:
                break
            time.sleep(0.1)  # it looks once a second
        assert "cannot reach the coordinator at org.example:8002: refused round" not in page.words
        assert "cannot reach the coordinator" in page.words and "round 3 of at most 20" in page.words


def test_everything_is_shown_as_text():
    platforms = {SCRIPT: {"bytes": 1, "failures": 1, "why": SCRIPT, "seen": 1e300}, "\u202eevil": {"bytes": 1}}
    events = [{"time": 1, "round": 1, "what": SCRIPT, "platform": SCRIPT, "why": "\u202e"}]
    nasty = status(run=SCRIPT, why=SCRIPT, doing=SCRIPT, metric=SCRIPT, platforms=platforms, events=events)
    nasty |= {"history": extended([], line(1) | {"dev": {SCRIPT: 0.5}}, SCRIPT), "folder": SCRIPT}
    for changes in ({}, {"state": "done"}, {"state": "failed"}, {"state": SCRIPT}):
        with serving(coordinator({**nasty, **changes})) as address:
            text = Visitor(address).get().text + Visitor(address).get("/?" + urlencode({"run": SCRIPT})).text
        assert set(re.findall(r"<script[^>]*>", text)) == {'<script src="/static/watch.js" defer>'}
        assert "&lt;script&gt;" in text and "\u202e" not in text
        assert not re.search(r'(?:src|href|action|url)\s*[=(]\s*["\']?(?:https?:)?//', text), "no address elsewhere"


def test_without_the_token_nobody_sees_anything(tmp_path):
    folder = begin(tmp_path / "run")
    add(folder, 1)
    finish(folder, best=1)
    with serving(local(folder), token=TOKEN) as address:
        stranger = Visitor(address)
        for path in ("/", "/report", "/?token=wrong"):
            answer = stranger.get(path)
            assert answer.status == 401 and "evidence" not in answer.text, path
        owner = Visitor(address)
        assert owner.get(f"/?{urlencode({'token': TOKEN})}").status == 200
        assert "1 round," in owner.get().words and owner.get("/report").status == 200
        assert Visitor(address).post("/login", {"token": TOKEN}, Origin="http://evil.example").status == 403
        connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
        connection.request("GET", "/", headers={"Host": "evil.example"})
        assert connection.getresponse().status == 401
        connection.close()


@pytest.mark.parametrize("query", ["run=%00", f"run={'x' * 3000}", "run=%ed%a0%80", "x=1&run=&run=y"])
def test_no_address_is_an_error(query):
    with serving(coordinator(status())) as address:
        assert Visitor(address).get(f"/?{query}").status == 200


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (3_599, "59 min"), (11_100, "3 h 5 min")]
)
def test_time_in_words(seconds, words):
    assert span(seconds) == words


@pytest.mark.parametrize("time", [0.0, -5.0, 1e300])
def test_what_is_no_time_is_not_shown(time):
    assert clock(time) == ""
