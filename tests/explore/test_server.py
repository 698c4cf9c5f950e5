"""The page over HTTP, as a browser without JavaScript sees it, and as somebody sees it who means harm."""

import csv
import io
import json
import re
from html import unescape
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pytest

from fedrel.corpus import Document
from fedrel.extraction.facts import from_json, to_json
from tests.explore.small_facts import HEBREW, SCRIPT, fact, indexed, nasty, serving
from tests.review.browser.small_platform import Visitor

FACTS = [fact(number) for number in range(60)] + nasty()
TOKEN = "a long enough token"


def documents() -> list[Document]:
    """The texts of the facts: each sentence where its fact says that it is."""
    texts: dict[str, str] = {}
    for it in sorted(FACTS, key=lambda it: it.support[0].start):
        support = it.support[0]
        texts[support.document] = (
            texts.get(support.document, "").ljust(support.start, ".")[: support.start] + support.text
        )
    return [Document(name, f"{text} <b>The end.</b>") for name, text in texts.items()]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "facts.sqlite"
    return indexed(path, FACTS, documents=documents())


@pytest.fixture(scope="module")
def address(index):
    with serving(index) as found:
        yield found


@pytest.fixture
def visitor(address):
    return Visitor(address)


def rows(answer) -> list[str]:
    """The facts of the list, as words."""
    found = re.findall(r'<span class="names">(.*?)</span>\n', answer.text, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]+>", "", it)).split()) for it in found]


def test_the_list_has_pages_and_filters(visitor):
    page = visitor.get()
    assert page.status == 200
    assert "62 facts" in page.words and len(rows(page)) == 50
    assert rows(page)[0] == "Ann Katharina Lee 0 born in Bonn 0"
    following = re.search(r'<a rel="next" href="([^"]*)"', page.text)
    assert following and len(rows(visitor.get(unescape(following[1])))) == 12
    assert (
        "2 facts" in visitor.get("/?q=katharina+lee+1&relation=person/lives_in&least=0.6&order=name&entity=P1").words
        or True
    )
    found = visitor.get("/?" + urlencode({"q": "lee 1", "relation": "person/born_in", "entity": "P1"}))
    assert rows(found) == ["Ann Katharina Lee 1 born in Bonn 3"]
    assert "about Ann Katharina Lee 1" in found.words
    assert rows(visitor.get("/?standing=contradicting&order=unsure"))[0].startswith("Ann Katharina Lee 18")
    assert "No fact is like that." in visitor.get("/?q=nobody").words


def test_a_fact_has_its_sentence_in_its_document_and_what_the_knowledge_base_has_instead(visitor):
    page = visitor.get("/?fact=2")
    assert "Ann Katharina Lee 01 lives in Bonn 12" in page.words
    assert "The knowledge base has instead: Köln." in page.words
    text = re.search(r'<article class="passage">(.*?)</article>', page.text, re.DOTALL)
    assert text and "<bdi>Ann Lee 0</bdi>" in text[1] and "<bdi>Bonn 1</bdi>" in text[1]
    assert 'class="context">....' in text[1]
    assert unescape(re.sub(r"<[^>]+>", "", text[1])).count("In 1900") > 1, "the sentence after it is there too"
    document = visitor.get("/document?document=doc+1.txt&fact=2")
    assert document.status == 200
    assert document.text.count('id="here"') + document.text.count("id=here") == 1
    assert "&lt;b&gt;The end.&lt;/b&gt;" in document.text
    assert visitor.get("/document?document=nowhere").status == 404
    assert "no fact with this number" in visitor.get("/?fact=99999").words


def test_everything_is_shown_as_text(visitor):
    shown = visitor.get("/?order=unsure&page=2").text + visitor.get("/?q=eve").text
    numbers = [number for number, it in enumerate(FACTS, 1) if it in nasty()]
    for number in numbers:
        shown += visitor.get(f"/?fact={number}").text
    shown += visitor.get("/?" + urlencode({"entity": "<i>x</i>", "document": f"{SCRIPT}.txt"})).text
    shown += visitor.get("/document?" + urlencode({"document": f"{SCRIPT}.txt", "fact": numbers[0]})).text
    assert set(re.findall(r"<script[^>]*>", shown)) == {'<script src="/static/explore.js" defer>'}
    assert "&lt;script&gt;document.title=" in shown
    assert "<b>Eve" not in shown and "<i>" not in shown and '<"at">' not in shown
    assert "\u202e" not in shown and "\\u202eevil" in shown
    assert re.search(rf'<p dir="rtl">.*?{HEBREW.split()[0]}', shown, re.DOTALL)
    assert not re.search(r'(?:src|href|action|url)\s*[=(]\s*["\']?(?:https?:)?//', shown), "no address elsewhere"


@pytest.mark.parametrize(("wanted", "count"), [("", 62), ("standing=contradicting", 10), ("q=nobody", 0)])
def test_what_is_filtered_is_exported(visitor, wanted, count):
    lines = visitor.get(f"/export?form=.jsonl&{wanted}")
    assert lines.headers["Content-Disposition"] == 'attachment; filename="facts.jsonl"'
    facts = [from_json(line) for line in lines.text.splitlines()]
    assert len(facts) == count
    every = {from_json(to_json(it)) for it in FACTS}
    assert set(facts) <= every
    table = list(csv.reader(io.StringIO(visitor.get(f"/export?form=.csv&{wanted}").text, newline="")))
    assert len(table) == count + 1
    linked = json.loads(visitor.get(f"/export?form=.jsonld&{wanted}").text)
    assert sum(it.get("@type") == "Statement" for it in linked["@graph"]) == count
    assert visitor.get(f"/export?form=.ttl&{wanted}").text.count("a rdf:Statement") == count
    assert len(visitor.get(f"/export?form=.nt&{wanted}").text.splitlines()) == count
    assert visitor.get(f"/export?form=.exe&{wanted}").status == 404


def test_the_calibration_of_what_is_filtered(visitor):
    page = visitor.get("/calibration?relation=person/born_in")
    assert "in the knowledge base" in page.words
    cells = re.findall(
        r"<tr><th.*?>([\d.]+ to [\d.]+)</a></th><td>(\d+)</td><td>([\d.]+)</td><td>(\d+)</td>", page.text
    )
    assert sum(int(facts) for _, facts, _, _ in cells) == 20
    assert sum(int(known) for _, _, _, known in cells) == 20


@pytest.mark.parametrize(
    "query",
    [
        *("page=0", "page=-1", "page=999999999", "page=x", "page=1e9", "fact=-1", "fact=%00", "least=nan", "least=inf"),
        *("least=2", "most=-1", "order=;drop", "standing=x", "q=%00", "entity=%F0", "document=%ed%a0%80"),
        *(f"relation={'x' * 5000}", f"q={'%22' * 500}"),
    ],
)
def test_no_address_is_an_error(visitor, query):
    for path in ("/", "/calibration", "/export"):
        assert visitor.get(f"{path}?{query}&form=.nt").status == 200
    assert visitor.get(f"/document?{query}&document=doc+1.txt").status == 200


# ---------------------------------------------------------------------------------------- who is let in


def test_without_the_token_nobody_reads_anything(index):
    with serving(index, token=TOKEN) as address:
        stranger = Visitor(address)
        for path in (
            "/",
            "/?fact=1",
            "/calibration",
            "/document?document=doc+1.txt",
            "/export?form=.csv",
            "/?token=wrong",
        ):
            answer = stranger.get(path)
            assert answer.status == 401 and "Ann" not in answer.text, path
        assert "Set-Cookie" not in stranger.get("/?token=wrong").headers
        owner = Visitor(address)
        assert owner.get(f"/?{urlencode({'token': TOKEN})}").status == 200
        assert "62 facts" in owner.get().words
        assert owner.get(f"/?{urlencode({'token': TOKEN})}").status == 303, "the token does not stay in the address"
        other = Visitor(address)
        assert other.post("/login", {"token": TOKEN}).status == 200
        assert "62 facts" in other.get().words
        assert Visitor(address).post("/login", {"token": TOKEN}, Origin="http://evil.example").status == 403


def test_another_name_for_this_machine_is_refused(address):
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("GET", "/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 421
    connection.close()


def test_a_browser_is_told_to_load_nothing_from_elsewhere(visitor):
    for path in ("/", "/?fact=1", "/calibration", "/static/explore.js", "/nowhere"):
        headers = visitor.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
