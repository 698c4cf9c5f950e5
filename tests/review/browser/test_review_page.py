"""The review page in a real browser: by keyboard and mouse, two at once, reloaded, and with the server killed."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Store
from tests.browsers import needs_browser, page_of
from tests.processes import start
from tests.review.browser.small_platform import HEBREW, SCRIPT, save, write_data

pytestmark = needs_browser
KEYS = {RIGHT: "ArrowRight", WRONG: "ArrowLeft", UNKNOWN: "ArrowDown"}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("platform")
    data = write_data(folder / "data", 40)
    return SimpleNamespace(data=data, model=save(data, folder / "model"))


@contextmanager
def reviewing(place, store: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command as a process of its own, and its address."""
    options = ["--store", store, "--port", port, "--user", "anna", "--order", "confident"]
    process = start("review", "--data", place.data, "--model", place.model, *options)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("open "), process.communicate()
        yield line.split()[1], process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def sentence(page) -> str:
    """As the page shows it, without the small numbers."""
    return str(page.evaluate(_SENTENCE))


_SENTENCE = """() => {
    const copy = document.getElementById("sentence")?.cloneNode(true);
    copy?.querySelectorAll("sup").forEach((it) => it.remove());
    return copy ? copy.textContent : "";
}"""
_CHANGED = "was => document.querySelector('#undo input[name=id]')?.value !== was"
_IDLE = "main:not([aria-busy])"
_UNNAMED = "[...document.querySelectorAll('select, input:not([type=hidden])')].filter((it) => !it.labels.length)"


def until_next(page, act: Callable[[], object]) -> None:
    """Acts, and waits for the next form to be there."""
    before = page.locator("#undo input[name=id]").get_attribute("value")
    act()
    page.wait_for_function(_CHANGED, arg=before)


def press(page, key: str) -> None:
    until_next(page, lambda: page.keyboard.press(key))


def click(page, verdict: str) -> None:
    until_next(page, lambda: page.click(f"button[value={verdict}]"))


def stored(path: Path) -> list[tuple[str, str]]:
    with Store.open(path, create=False) as store:
        return [(it.user, it.verdict) for it in store.standing()]


# ----------------------------------------------------------------------------------------


def test_twenty_sentences_by_keyboard_and_mouse_one_undone_and_a_reload(place, chromium, tmp_path):
    given = [(RIGHT, WRONG, UNKNOWN, RIGHT)[n % 4] for n in range(20)]
    store = tmp_path / "verdicts.sqlite"
    with reviewing(place, store) as (address, _), page_of(chromium, address) as page:
        seen = []
        for n, verdict in enumerate(given):
            seen.append(sentence(page))
            if n % 2:
                click(page, verdict)
            else:
                press(page, KEYS[verdict])
        assert len(set(seen)) == 20
        assert [verdict for _, verdict in stored(store)] == given
        press(page, "u")
        assert sentence(page) == seen[-1]
        assert "undone" in page.inner_text(".note")
        page.reload()
        assert [verdict for _, verdict in stored(store)] == given[:-1]
        assert "19 of 42 judged" in page.inner_text(".so-far")
        assert sentence(page) == seen[-1]
        press(page, KEYS[WRONG])
        page.reload()
        assert [verdict for _, verdict in stored(store)] == [*given[:-1], WRONG]
        assert sentence(page) not in seen
        with Store.open(store) as opened:
            assert all(it.latency_ms is not None for it in opened.standing())


def test_markup_and_other_directions_are_shown_as_text(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    found = {}
    with reviewing(place, store) as (address, _), page_of(chromium, address) as page:
        while page.query_selector("#judge"):
            text = sentence(page)
            if "script" in text or HEBREW[0] in text:
                found[text] = page.evaluate("getComputedStyle(document.getElementById('sentence')).direction")
                assert page.evaluate("document.querySelectorAll('script').length") == 1
                assert page.evaluate("document.querySelectorAll('#sentence b').length") == 0
                assert page.title().endswith("judged – fedrel review")
            press(page, "ArrowRight")
        assert "Nothing left" in page.inner_text("h1")
    assert found == {f"{SCRIPT} met <b>Eve</b> &amp; co": "ltr", " ".join(HEBREW[:-1]) + ".": "rtl"}


def test_two_browsers_at_once_lose_nothing(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    with (
        reviewing(place, store) as (address, _),
        page_of(chromium, address) as anna,
        page_of(chromium, address) as bert,
    ):
        bert.click("details.who summary")
        bert.fill("#name", "bert")
        until_next(bert, lambda: bert.click("details.who button"))
        for n in range(10):
            befores = [page.locator("#undo input[name=id]").get_attribute("value") for page in (anna, bert)]
            anna.keyboard.press("ArrowRight")  # both are on their way at the same time
            bert.keyboard.press("ArrowLeft")
            for page, before in zip((anna, bert), befores, strict=True):
                page.wait_for_function(_CHANGED, arg=before)
            if n == 5:
                press(bert, "u")
    told = stored(store)
    assert sorted(told) == [("anna", RIGHT)] * 10 + [("bert", WRONG)] * 9


def test_impatient_fingers_count_once(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    with reviewing(place, store) as (address, _), page_of(chromium, address) as page:
        first = sentence(page)
        until_next(page, lambda: page.dblclick("button[value=right]"))
        page.wait_for_selector(_IDLE)
        told = stored(store)
        assert 1 <= len(told) <= 2  # the second click may have met the next sentence; it never counts for the first
        with Store.open(store) as opened:
            assert len({it.key for it in opened.standing()}) == len(told)
        assert sentence(page) != first
        count = len(told)
        until_next(page, lambda: page.keyboard.down("ArrowRight"))
        for _ in range(5):
            page.keyboard.down("ArrowRight")  # held down: it repeats
        page.keyboard.up("ArrowRight")
        page.wait_for_selector(_IDLE)
        assert len(stored(store)) == count + 1


def test_with_a_keyboard_alone_and_a_screen_reader(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    with reviewing(place, store) as (address, _), page_of(chromium, address) as page:
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.value") == "right":
                break
        until_next(page, lambda: page.keyboard.press("Enter"))
        assert page.evaluate("document.activeElement.value") == "right", "focus stays on the button"
        spoken = page.inner_text("#live")
        assert all(part in spoken for part in re.findall(r"\w+", sentence(page)))
        assert page.get_attribute("#live", "aria-live") == "polite"
        assert page.locator("main").count() == page.locator("header").count() == page.locator("h1").count() == 1
        assert page.evaluate(f"{_UNNAMED}.length") == 0
        page.focus("#order")
        page.keyboard.press("ArrowDown")  # chooses an order, and judges nothing
        page.wait_for_selector(_IDLE)
        assert stored(store) == [("anna", RIGHT)]
        page.select_option("#order", "random")
        until_next(page, lambda: page.click("text=Show next >> xpath=.. >> button"))
        assert "order=random" in page.url
        assert page.input_value("#order") == "random"


def test_on_a_phone_and_without_javascript(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    phone = {"viewport": {"width": 320, "height": 640}, "is_mobile": True, "has_touch": True}
    with reviewing(place, store) as (address, _):
        with page_of(chromium, address, **phone, color_scheme="dark") as page:
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out"
            for name in (RIGHT, WRONG, UNKNOWN):
                box = page.locator(f"button[value={name}]").bounding_box()
                assert box["width"] >= 44 and box["height"] >= 44, "wide enough for a thumb"
            until_next(page, lambda: page.tap("button[value=right]"))
        with page_of(chromium, address, java_script_enabled=False) as page:
            for verdict in (WRONG, UNKNOWN):
                page.click(f"button[value={verdict}]")
            page.click("#undo button")
            assert "undone" in page.inner_text(".note")
    assert stored(store) == [("anna", RIGHT), ("anna", WRONG)]


def test_a_server_killed_in_mid_click_loses_nothing_and_counts_nothing_twice(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    with reviewing(place, store) as (address, server), page_of(chromium, address) as page:
        port = urlsplit(address).port
        press(page, "ArrowRight")
        press(page, "ArrowLeft")
        here = sentence(page)
        os.kill(server.pid, signal.SIGSTOP)  # the click is sent, and nobody answers
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("main[aria-busy]")
        os.kill(server.pid, signal.SIGKILL)
        page.wait_for_selector("#alarm:not(:empty)")
        assert "does not respond" in page.inner_text("#alarm")
        assert stored(store) == [("anna", RIGHT), ("anna", WRONG)]
        with reviewing(place, store, port) as (_, _):
            page.keyboard.press("ArrowRight")
            page.wait_for_selector(".problem")
            assert "was restarted" in page.inner_text(".problem")
            page.get_by_role("link", name="Go on").click()
            page.wait_for_load_state()  # keys need the script
            assert sentence(page) == here
            press(page, "ArrowRight")
            assert stored(store) == [("anna", RIGHT), ("anna", WRONG), ("anna", RIGHT)]


@pytest.mark.slow
def test_a_server_killed_at_any_moment_of_a_click(place, chromium, tmp_path):
    store = tmp_path / "verdicts.sqlite"
    confirmed = 0
    for milliseconds in (0, 2, 4, 8, 15, 30):
        with reviewing(place, store) as (address, server), page_of(chromium, address) as page:
            assert len(stored(store)) in (confirmed, confirmed + 1), "at most the one that was on its way"
            confirmed = len(stored(store))
            assert f"{confirmed} of 42 judged" in page.inner_text(".so-far")
            press(page, "ArrowRight")
            confirmed += 1
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(milliseconds)
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
            with Store.open(store) as opened:
                keys = [it.key for it in opened.standing()]
            assert len(keys) == len(set(keys)) >= confirmed
