"""The review page over HTTP, as a browser without JavaScript sees it, and as somebody sees it who means harm."""

import json
import re
import shutil
import signal
import socket
import sqlite3
import urllib.request
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedrel.alignment import kb as knowledge
from fedrel.errors import UserError
from fedrel.feedback import database, exchange
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Store, Verdict
from fedrel.feedback.stored_verdicts import keys_of
from fedrel.pages.wording import readable
from fedrel.review import questions
from fedrel.review.questions import Questions
from fedrel.review.queue import Queue, Standing
from fedrel.review.texts import parts
from tests.processes import start
from tests.review.browser.small_platform import (
    HEBREW,
    RELATIONS,
    SCRIPT,
    Visitor,
    queue_of,
    save,
    serving,
    write_data,
    write_texts,
)

TOKEN = "a long enough token"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("platform")
    data = write_data(folder / "data")
    model = save(data, folder / "model")
    return SimpleNamespace(folder=folder, data=data, model=model, queue=queue_of(data, model))


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "verdicts.sqlite") as opened:
        yield opened


@pytest.fixture
def visitor(place, store):
    with serving(place.queue, store) as address:
        yield Visitor(address)


def told(store: Store) -> list[tuple[str, str]]:
    return [(it.user, it.verdict) for it in store.standing()]


def on_disk(store: Store) -> list[str]:
    """What another process would read at this moment."""
    with closing(sqlite3.connect(store.path)) as connection:
        return [row[0] for row in connection.execute("SELECT verdict FROM verdicts ORDER BY number")]


# ---------------------------------------------------------------------------------------- judging


def test_reviewing_without_javascript(visitor, store, place):
    page, seen = visitor.get(), []
    for verdict in (RIGHT, WRONG, UNKNOWN, RIGHT):
        seen.append(page.sentence)
        answer = visitor.post("/verdict", page.form("/verdict") | {"verdict": verdict})
        assert (answer.status, answer.headers["Location"]) == (303, "/?order=confident")
        assert on_disk(store)[-1] == verdict, "it is on disk before the next page is asked for"
        page = visitor.get(answer.headers["Location"])
    assert len(set(seen)) == 4
    assert "4 of 32 judged; in all, you agreed with the model 2 of 3 times (67%); 1 × don’t know." in page.words
    page = visitor.send("/undo", page.form("/undo"))
    assert page.sentence == seen[-1], "what was taken back is asked again"
    assert "undone. What do you say now?" in page.text
    page = visitor.judge(page, WRONG)
    assert told(store) == [("anna", it) for it in (RIGHT, WRONG, UNKNOWN, WRONG)]
    assert page.sentence not in seen
    verdicts = list(store.standing())
    assert {it.model for it in verdicts} == {questions.digest_of(place.model)}
    assert {(it.key, it.relation) for it in verdicts} <= {item.asked for item in place.queue.items}
    assert all(it.latency_ms is not None and it.latency_ms < 60_000 for it in verdicts)


def test_all_are_judged_once_and_then_there_is_nothing_left(visitor, store, place):
    page, seen = visitor.get(), []
    while "<blockquote" in page.text:
        seen.append(page.sentence)
        page = visitor.judge(page, RIGHT)
    assert len(seen) == len(set(seen)) == len(place.queue.items) == 32
    assert "Nothing left to judge here" in page.text
    assert visitor.send("/undo", page.form("/undo")).sentence == seen[-1]


def test_undoing_when_there_is_nothing_to_take_back(visitor, store):
    page = visitor.get()
    assert re.search(r'<button[^>]*aria-keyshortcuts="u" disabled>', page.text)
    assert "There is nothing to undo." in visitor.send("/undo", page.form("/undo")).text
    assert on_disk(store) == []


def test_a_form_that_comes_twice_counts_once(visitor, store):
    page = visitor.get()
    form = page.form("/verdict")
    for verdict in (RIGHT, RIGHT, WRONG):  # a double click, and one that came too late
        after = visitor.send("/verdict", form | {"verdict": verdict})
    assert on_disk(store) == [RIGHT]
    after = visitor.judge(after, UNKNOWN)
    undo = after.form("/undo")
    for _ in range(3):
        visitor.send("/undo", undo)
    assert told(store) == [("anna", RIGHT)]
    visitor.send("/verdict", form | {"verdict": WRONG})
    assert told(store) == [("anna", RIGHT)]


def test_two_tabs_with_the_same_sentence_are_one_verdict(visitor, store):
    one, other = visitor.get(), visitor.get()
    assert one.sentence == other.sentence
    visitor.judge(one, RIGHT)
    visitor.judge(other, WRONG)
    assert told(store) == [("anna", WRONG)]


def test_colleagues_see_what_nobody_has_judged_first(place, store, visitor):
    bert = Visitor(visitor.address)
    page = bert.get()
    page = bert.send("/user", page.form("/user") | {"name": "  Bert <b> "})
    assert "You review as <b><bdi>Bert &lt;b&gt;</bdi></b>" in page.text
    first = visitor.get().sentence
    assert page.sentence == first
    visitor.judge(visitor.get(), RIGHT)
    assert bert.get().sentence != first
    while bert.get().sentence != first:
        bert.judge(bert.get(), WRONG)
    bert.judge(bert.get(), WRONG)
    assert "Nothing left" in bert.get().text
    assert len(told(store)) == 33
    assert {user for user, _ in told(store)} == {"anna", "Bert <b>"}


# ---------------------------------------------------------------------------------------- what is shown


def test_everything_is_shown_as_text(place, store):
    odd = [replace(item, relation=RELATIONS[n % 3]) for n, item in enumerate(place.queue.items)]
    queue = Queue(Questions(odd, place.queue.texts, "m", RELATIONS, has_kb=False))
    with serving(queue, store, user='<u onclick="x">', order="random") as address:
        visitor, pages = Visitor(address), []
        page = visitor.get()
        while "<blockquote" in page.text:
            pages.append(page)
            page = visitor.judge(page, RIGHT)
    shown = "".join(page.text for page in pages)
    assert re.findall(r"<script[^>]*>", shown) == ['<script src="/static/review.js" defer>'] * len(pages)
    assert "&lt;script&gt;document.title=" in shown
    assert "<b>Eve" not in shown and "<u " not in shown and 'works<"at">' not in shown
    assert "works&lt;&#34;at&#34;&gt;" in shown
    assert any(f"{SCRIPT} met <b>Eve</b> &amp; co" == page.sentence for page in pages)
    assert [page.sentence for page in pages if 'id="sentence" dir="rtl"' in page.text] == [" ".join(HEBREW[:-1]) + "."]
    assert not re.search(r'(?:src|href|action|url)\s*[=(]\s*["\']?(?:https?:)?//', shown), "no address elsewhere"


def test_the_facts_other_sentences(visitor):
    for _ in range(5):
        page = visitor.get()
        name = re.search(r"\bAnn\d+\b", page.sentence)
        if name:
            assert "Other sentences with these two (1)" in page.text
            others = re.search(r'<ul class="others">(.*?)</ul>', page.text, re.DOTALL)
            assert others and others[1].count(f"<bdi>{name[0]}</bdi>") == 1
        else:
            assert "No other sentence here has these two." in page.text
        visitor.judge(page, RIGHT)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("born_in", "born in"),
        ("/people/person/place_of_birth", "place of birth"),
        ("http://example.org/ns#lives_in", "lives in"),
        ("/a/b/", "b"),
        ("___", "___"),
        ("/", "/"),
        ("CPR:4", "CPR:4"),
    ],
)
def test_relations_in_words(name, words):
    assert readable(name) == words


def test_sentences_as_one_would_type_them():
    tokens = ["Ann", "(", "21", ")", ",", "of", "Bonn", "'s", "north", "."]
    assert list(parts(tokens, (0, 1, 6, 7))) == [
        ("head", "Ann"),
        ("", " (21), of"),
        ("", " "),
        ("tail", "Bonn"),
        ("", "'s north."),
    ]
    assert list(parts(["a", "b", "c"], (0, 2, 1, 3))) == [
        ("head", "a"),
        ("", " "),
        ("head tail", "b"),
        ("", " "),
        ("tail", "c"),
    ]
    assert list(parts(["a", "b"], (0, 0, 0, 0))) == [("", "a b")]


def test_labels_of_held_out_sentences_can_be_asked_about(place):
    dataset = place.queue.texts.dataset
    queue = queue_of(place.data, place.model, labels_of_dev=True)
    labelled = [row for row in range(len(dataset.dev)) if dataset.dev.labels[row]]
    asked = {(item.row, item.relation) for item in queue.items}
    assert asked <= {(row, dataset.relations[dataset.dev.labels[row]]) for row in labelled}
    assert {item.key for item in queue.items} == set(keys_of(dataset, dataset.dev, labelled))
    item = queue.next(Standing([], "anna"), "anna", "random")
    assert item is not None
    words = "".join(text for _, text in queue.texts.parts(item.row)).replace(" ", "")
    assert words == "".join(dataset.sentence(dataset.dev, item.row))


def test_held_out_sentences_are_judged_at_random(fedrel, place):
    said = fedrel("review", "--data", place.data, "--model", place.model, "--purpose", "dev", "--order", "confident")
    assert said.code == 2 and "--order confident: what is to stand for all held-out sentences" in said.err


def test_orders(place):
    def through(order, user="anna"):
        standing, found = Standing([], user), []
        while item := place.queue.next(standing, user, order):
            found.append(item)
            standing.mine[item.asked] = Verdict(*item.asked, "m", RIGHT, user, "", None)
        return found

    confident, uncertain, random = (through(order) for order in ("confident", "uncertain", "random"))
    assert [it.confidence for it in confident] == sorted((it.confidence for it in confident), reverse=True)
    assert [it.margin for it in uncertain] == sorted(it.margin for it in uncertain)
    assert sorted(it.key for it in random) == sorted(it.key for it in confident)
    assert random == through("random") != through("random", "bert")
    assert random != confident
    assert "new" not in place.queue.orders


def test_no_relation_is_left_out_unless_it_is_close(place, tmp_path):
    scores = {}
    for na in (0.0, 10.0):
        model = save(place.data, tmp_path / f"model {na}", na=na)
        try:
            scores[na] = queue_of(place.data, model)
        except UserError as error:
            assert "nothing to review" in str(error)
    assert list(scores) == [0.0]
    queue = scores[0.0]
    unlikely = [item for item in queue.items if not item.stated]
    assert unlikely, "some are close"
    asked = {name: queue.progress(Standing([], "anna"), "anna", name).of for name in ("uncertain", "confident")}
    assert asked == {"uncertain": len(queue.items), "confident": len(queue.items) - len(unlikely)}
    assert all(item.relation in RELATIONS for item in queue.items)


def test_facts_that_are_new_to_the_knowledge_base(place, store, tmp_path):
    known = place.queue.items[0]
    split = place.queue.texts.dataset.train
    head, tail = (place.queue.texts.dataset.entities[n] for n in split.pair_entities[split.pairs[known.row]])
    (tmp_path / "entities.tsv").write_text(f"{head}\tperson\tAnn\n{tail}\tplace\tBonn\n")
    (tmp_path / "triples.tsv").write_text(f"{head}\t{known.relation}\t{tail}\n")
    queue = queue_of(place.data, place.model, kb=knowledge.load(tmp_path))
    seen = {item.asked for item in queue.items if item.new}
    assert known.asked not in seen and len(seen) >= len(queue.items) - 2
    with serving(queue, store, order="new") as address:
        page = Visitor(address).get()
    assert '<option value="new" selected>' in page.text
    assert "not in the knowledge base" in page.text


def test_the_order_can_be_chosen(visitor):
    page = visitor.get("/?order=uncertain")
    assert '<option value="uncertain" selected>' in page.text
    assert '<option value="uncertain" selected>' in visitor.judge(page, RIGHT).text
    for nonsense in ("new", "nonsense", "%00", "<b>"):
        assert '<option value="confident" selected>' in visitor.get(f"/?order={nonsense}").text


def test_the_next_model_says_what_changed(place, store, tmp_path):
    with serving(place.queue, store) as address:
        visitor = Visitor(address)
        for _ in range(20):
            visitor.judge(visitor.get(), WRONG)
    before = {it.key: it for it in store.standing()}
    queue = queue_of(place.data, save(place.data, tmp_path / "next", seed=5))
    assert queue.digest != place.queue.digest
    changed = [it for it in queue.items if it.key in before and before[it.key].relation != it.relation]
    same = {it.asked for it in queue.items} & {(it.key, it.relation) for it in before.values()}
    assert changed and same, "some of both"
    with serving(queue, store) as address:
        visitor, told_changed = Visitor(address), 0
        page = visitor.get()
        one = len(changed) == 1
        assert (
            f"For {len(changed)} {'sentence' if one else 'sentences'} that you judged, this model predicts" in page.text
        )
        while "<blockquote" in page.text:
            told_changed += "Changed: an older model predicted “" in page.text
            assert not told_changed or "your answer was “wrong”" in page.text or "Changed:" not in page.text
            page = visitor.judge(page, RIGHT)
    assert told_changed == len(changed)
    assert len(list(store.standing())) == 20 + len(queue.items) - len(same), "what was judged so is not asked again"


def test_what_changed_can_be_judged_first(place, store, tmp_path):
    with serving(place.queue, store) as address:
        visitor = Visitor(address)
        page = visitor.get("/?order=changed")
        assert "Nothing left to judge here" in page.text and "0 of 0 judged" in page.words
        for _ in range(20):
            visitor.judge(visitor.get(), WRONG)
    before = {it.key: it.relation for it in store.standing()}
    queue = queue_of(place.data, save(place.data, tmp_path / "next", seed=5))
    changed = {it.asked for it in queue.items if before.get(it.key, it.relation) != it.relation}
    with serving(queue, store) as address:
        visitor = Visitor(address)
        assert '<a href="/?order=changed">' in visitor.get().text
        page = visitor.get("/?order=changed")
        for done in range(len(changed)):
            assert f"{done} of {len(changed)} judged" in page.words
            assert "Changed: an older model predicted “" in page.text
            page = visitor.judge(page, RIGHT)
        assert "Nothing left to judge here" in page.text
        again = visitor.send("/undo", page.form("/undo"))
        assert "Changed: an older model predicted “" in again.text
        visitor.judge(again, UNKNOWN)
    new = {(it.key, it.relation) for it in store.standing() if it.model == queue.digest}
    assert new == changed


def test_plain_texts(tmp_path, store):
    data = write_texts(tmp_path / "texts")
    model = save(data, tmp_path / "model", source="classification", kind="bag")
    queue = queue_of(data, model, "classification")
    with serving(queue, store) as address:
        visitor = Visitor(address)
        page = visitor.get()
        assert "Is this label right?" in page.text and "<mark" not in page.text
        assert re.fullmatch(r"a (good|bad) film train \d+ <\s?i\s?>", page.sentence)
        visitor.judge(page, RIGHT)
    assert [it.relation in ("good", "bad") for it in store.standing()] == [True]


def test_a_model_of_another_kind_is_refused(place, tmp_path):
    data = write_texts(tmp_path / "texts")
    with pytest.raises(UserError, match="the data has plain texts, but the model was trained on sentences"):
        queue_of(data, place.model, "classification")


# ---------------------------------------------------------------------------------------- who may


def test_forms_from_elsewhere_are_refused(visitor, store):
    page = visitor.get()
    good = page.form("/verdict") | {"verdict": RIGHT}
    stranger = Visitor(visitor.address)
    theirs = stranger.get().form("/verdict")["form"]
    tried = [
        visitor.post("/verdict", good | {"form": ""}),
        visitor.post("/verdict", {name: value for name, value in good.items() if name != "form"}),
        visitor.post("/verdict", good | {"form": "0" * 64}),
        visitor.post("/verdict", good | {"form": theirs}),
        visitor.post("/verdict", good | {"form": "é"}),
        visitor.post("/verdict", good, Origin="http://evil.example"),
        visitor.post("/verdict", good, Origin="null"),
        visitor.post("/verdict", good, Origin="http://["),
        visitor.post("/verdict", good, Origin="", Sec_Fetch_Site="cross-site"),
        visitor.post("/verdict", good, Cookie=""),
        visitor.post("/undo", good, Origin="http://evil.example"),
        visitor.post("/user", good | {"name": "eve"}, Origin="http://evil.example"),
        visitor.post("/undo", {}),
        visitor.post("/user", {"name": "eve"}),
    ]
    assert [answer.status for answer in tried] == [403] * len(tried)
    assert all("The answer was not stored." in answer.text for answer in tried)
    assert on_disk(store) == []
    assert visitor.get("/verdict").status == 405
    assert visitor.post("/verdict", good).status == 303, "and the good one still counts"


def test_a_foreign_name_for_this_machine_is_refused(visitor):
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8765", "[", ""):
        assert visitor.get(Host=host or " ").status in (400, 421)
    for host in ("localhost:8765", "127.0.0.1", "[::1]:80"):
        assert visitor.get(Host=host).status == 200


def test_every_answer_forbids_other_addresses(visitor):
    for path in ("/", "/static/review.js", "/static/review.css", "/nowhere", "/favicon.ico", "/docs", "/openapi.json"):
        answer = visitor.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "http" not in policy and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.status == (404 if path in ("/nowhere", "/docs", "/openapi.json") else answer.status)
    cookies = visitor.get(Cookie="").headers.get_all("Set-Cookie")
    assert cookies and all("HttpOnly" in it and "SameSite=strict" in it for it in cookies)


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"])
def test_no_other_file_is_served(visitor, path):
    assert visitor.get(path).status in (400, 404)


@pytest.mark.parametrize(
    "change",
    [
        *({"prediction": number} for number in ("99", "x", "-1", "9" * 40, "")),
        *({"id": it} for it in ("", "' OR 1=1 --", "a" * 33, "é" * 32)),
        *({"verdict": "maybe"}, {"verdict": ""}, {"rendered": "١"}, {"x": "y" * 20_000}),
    ],
)
def test_forms_with_nonsense_change_nothing(visitor, store, change):
    answer = visitor.post("/verdict", visitor.get().form("/verdict") | {"verdict": RIGHT} | change)
    assert answer.status in (400, 413, 503)
    assert "That did not work" in answer.text
    assert on_disk(store) == []
    assert visitor.ask("POST", "/verdict", "%ff=%ff&" * 50).status == 400


def test_reading_old_addresses_is_harmless(visitor):
    for query in ("again=x", "again=99", "again=" + "9" * 30, "note=nothing", "note=%3Cb%3E", "token=x"):
        assert visitor.get(f"/?{query}").status in (200, 303)


def test_names(visitor):
    form = visitor.get().form("/user")
    for name in ("", "   ", "a" * 101, "a\x07b"):
        assert visitor.post("/user", form | {"name": name}).status == 422
    assert "<bdi>רות; bert=1</bdi>" in visitor.send("/user", form | {"name": "רות; bert=1"}).text


def test_with_a_token_nobody_gets_in_without_it(place, store):
    with serving(place.queue, store, token=TOKEN) as address:
        visitor = Visitor(address)
        for answer in (visitor.get(), visitor.get("/?token=wrong"), visitor.post("/login", {"token": "é"})):
            assert answer.status == 401
            assert "<blockquote" not in answer.text
        assert visitor.cookies == {}
        assert visitor.post("/login", {"token": TOKEN}, Origin="http://evil.example").status == 403
        assert visitor.post("/verdict", {"prediction": "1", "verdict": RIGHT}).status == 403
        answer = visitor.get(f"/?token={TOKEN.replace(' ', '+')}")
        assert answer.status == 200 and 'content="0; url=/"' in answer.text and TOKEN not in answer.text
        visitor.judge(visitor.get(), RIGHT)
        assert visitor.get("/?token=x").status == 303
        other = Visitor(address)
        assert other.post("/login", {"token": TOKEN, "name": "bert"}).status == 200
        other.judge(other.get(Host="reviews.example"), WRONG)
        forged = Visitor(address, {name: value[:-1] + "0" for name, value in visitor.cookies.items()})
        assert forged.get().status in (200, 401)  # 200: the last digit was 0 already
    assert told(store) == [("anna", RIGHT), ("bert", WRONG)]


def test_a_page_of_an_earlier_start_is_told_so_and_keeps_its_name(place, store):
    with serving(place.queue, store) as address:
        visitor = Visitor(address)
        page = visitor.send("/user", visitor.get().form("/user") | {"name": "bert"})
        form = page.form("/verdict") | {"verdict": RIGHT}
    with serving(place.queue, store) as address:
        visitor.address = address
        answer = visitor.post("/verdict", form)
        assert answer.status == 403 and "was restarted" in answer.text
        assert visitor.get().sentence == page.sentence
        visitor.judge(visitor.get(), WRONG)
    assert told(store) == [("bert", WRONG)]


# ---------------------------------------------------------------------------------------- when the store fails


def test_a_locked_store_is_one_sentence_and_trying_again_counts_once(place, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_TIMEOUT", 0.2)
    with (
        Store.open(tmp_path / "verdicts.sqlite") as store,
        serving(place.queue, store) as address,
        closing(sqlite3.connect(store.path, isolation_level=None)) as other,
    ):
        visitor = Visitor(address)
        page = visitor.get()
        other.execute("BEGIN IMMEDIATE")
        answer = visitor.post("/verdict", page.form("/verdict") | {"verdict": RIGHT})
        assert answer.status == 503
        assert "another program has held the store" in answer.text
        other.execute("COMMIT")
        again = answer.form("/verdict")
        for _ in range(2):
            visitor.send("/verdict", again)
        assert told(store) == [("anna", RIGHT)]
        assert visitor.get().sentence != page.sentence


# ---------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: others could read your text"),
        (["--token", "short"], "--token: at least 12 characters"),
        (["--order", "new"], "--order new needs --kb"),
        (["--user", "a" * 101], "a name has printable characters"),
        (["--source", "text"], "--source text: no format of labelled data"),
        (["--model", "nowhere"], "nowhere: no model in this folder"),
        (["--data", "nowhere"], "nowhere: no such file or folder"),
        (["--store", "."], "this is a folder"),
    ],
)
def test_what_cannot_be_is_refused(refused, place, options, sentence):
    assert sentence in refused("review", "--data", place.data, "--model", place.model, "--port", 0, *options)


def test_a_port_in_use_is_one_sentence(refused, place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused("review", "--data", place.data, "--model", place.model, "--port", port)
    assert sentence == f"port {port} of 127.0.0.1: Address already in use; choose another with --port"


def test_it_ends_with_where_the_verdicts_are(place, tmp_path):
    data = shutil.copytree(place.data, tmp_path / "clinic")
    process = start("review", "--data", data, "--model", place.model, "--port", 0, "--user", "anna")
    assert process.stdout is not None
    address = process.stdout.readline().split()[1].rstrip("/")
    visitor = Visitor(address)
    visitor.judge(visitor.get(), RIGHT)
    assert urllib.request.urlopen(f"{address}/static/review.js").status == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    store = tmp_path / "clinic.verdicts.sqlite"
    assert (process.returncode, out.count("\n")) == (0, 1)
    improving = f"fedrel improve {place.model} --verdicts {store} --data {data}"
    assert out == f"1 verdicts in {store}; next: {improving}\n"
    assert "Traceback" not in err and "fedrel:" not in err
    exported = tmp_path / "verdicts.jsonl"
    with Store.open(store, create=False) as opened:
        exchange.export(opened, exported)
    line = json.loads(exported.read_text())
    assert (line["user"], line["verdict"], line["model"]) == ("anna", RIGHT, questions.digest_of(place.model))
    assert not any(word in exported.read_text() for word in ("Ann0", "Bonn", "came")), "no text of a sentence"


def test_a_disk_that_fills_up_is_one_sentence_and_nothing_is_lost(place, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    arguments = ["review", "--data", place.data, "--model", place.model, "--store", store, "--port", 0]
    process = start(*arguments, limit=300_000)
    try:
        assert process.stdout is not None
        visitor, confirmed = Visitor(process.stdout.readline().split()[1].rstrip("/")), 0
        while (page := visitor.get()).status == 200 and "<blockquote" in page.text:
            answer = visitor.post("/verdict", page.form("/verdict") | {"verdict": RIGHT})
            if answer.status != 303:
                page = answer
                break
            confirmed += 1
        assert page.status == 503
        assert "the disk is full or failing" in page.words
        assert "this was not stored, everything before it was" in page.words
    finally:
        process.kill()
        process.communicate()
    with Store.open(store) as opened:
        assert len(list(opened.standing())) == confirmed > 3
