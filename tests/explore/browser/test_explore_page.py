"""The page in a real browser: by keyboard and mouse, on a phone, in light and dark, with an audit of accessibility."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedrel.extraction.facts import to_json
from tests.browsers import needs_browser, page_of
from tests.explore.small_facts import SCRIPT, fact, nasty
from tests.processes import start

pytestmark = needs_browser
FACTS = [fact(number) for number in range(120)] + nasty()
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
IDLE = "main:not([aria-busy])"


@contextmanager
def exploring(folder: Path) -> Iterator[str]:
    """The command as a process of its own, and the address that it prints, with the token."""
    path = folder / "facts.jsonl"
    path.write_text("".join(map(to_json, FACTS)), encoding="utf-8")
    process = start("explore", path, "--port", 0)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("open "), process.communicate()
        yield line.split()[1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    with exploring(tmp_path_factory.mktemp("explore")) as found:
        yield found


@contextmanager
def opened(browser, address: str, **options):
    with page_of(browser, address, **options) as page:
        page.wait_for_selector("#found")
        yield page


def total(page) -> str:
    page.wait_for_selector(IDLE)
    return page.inner_text("#found")


def test_searching_and_filtering_as_one_types(chromium, address):
    with opened(chromium, address) as page:
        assert total(page) == "122 facts"
        assert "token" not in page.url
        page.keyboard.press("/")
        page.keyboard.type("lee 12")
        page.wait_for_function("() => document.querySelector('#found').textContent === '4 facts'")
        assert page.evaluate("document.activeElement.id") == "q", "one can go on typing"
        assert "q=lee+12" in page.url
        page.get_by_label("lives in").check()
        page.wait_for_function("() => document.querySelector('#found').textContent === '1 fact'")
        page.reload()
        assert total(page) == "1 fact"
        assert page.input_value("#q") == "lee 12"
        page.click("text=All facts")
        page.wait_for_function("() => document.querySelector('#found').textContent === '122 facts'")
        page.get_by_label("contradicting").check()
        page.wait_for_function("() => document.querySelector('#found').textContent === '20 facts'")
        page.focus("#least")
        page.keyboard.press("End")
        page.wait_for_function("() => document.querySelector('#found').textContent === '0 facts'")


def test_with_the_keyboard_alone(chromium, address):
    with opened(chromium, address) as page:
        page.keyboard.press("ArrowDown")
        page.wait_for_selector("#detail")
        first = page.inner_text("#detail")
        page.wait_for_selector(IDLE)
        assert page.evaluate("document.activeElement.className") == "row"
        page.keyboard.press("ArrowDown")
        page.wait_for_function("was => document.querySelector('#detail')?.innerText !== was", arg=first)
        page.keyboard.press("Escape")
        page.wait_for_selector("#detail", state="detached")
        page.keyboard.press("n")
        page.wait_for_function("() => document.querySelector('.pager').textContent.includes('2 of 3')")
        page.keyboard.press("p")
        page.wait_for_function("() => document.querySelector('.pager').textContent.includes('1 of 3')")
        page.go_back()
        page.wait_for_function("() => document.querySelector('.pager').textContent.includes('2 of 3')")


def test_from_a_fact_to_its_entity_and_along_the_graph(chromium, address):
    with opened(chromium, address) as page:
        page.locator(".row").nth(1).click()
        page.wait_for_selector("#detail")
        assert page.locator(".passage mark.head").inner_text().startswith("Ann Lee 0")
        assert "Köln" in page.inner_text(".detail .note")
        page.locator(".graph a").first.click()
        page.wait_for_selector(".chips")
        assert "about Bonn 0" in page.inner_text(".chips")
        assert page.locator(".graph .centre").text_content().strip().startswith("Bonn 0")
        assert page.locator(".graph svg a").count() == 12
        assert page.evaluate("document.activeElement.id") == "detail"


def test_what_is_filtered_is_taken_away(chromium, address):
    with opened(chromium, address) as page:
        page.fill("#q", "lee 12")
        page.wait_for_function("() => document.querySelector('#found').textContent === '4 facts'")
        page.click(".export summary")
        with page.expect_download() as waiting:
            page.click("text=JSON lines")
        assert waiting.value.suggested_filename == "facts.jsonl"
        assert len(Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()) == 4


def test_markup_is_text(chromium, address):
    with opened(chromium, address) as page:
        page.fill("#q", "script")
        page.wait_for_function("() => document.querySelector('#found').textContent === '1 fact'")
        page.locator(".row").first.click()
        page.wait_for_selector("#detail")
        assert SCRIPT in page.inner_text("#detail")
        assert page.title() == "1 fact – fedrel explore"
        assert page.evaluate("document.querySelectorAll('script').length") == 1


def test_without_javascript(chromium, address):
    with opened(chromium, address, java_script_enabled=False) as page:
        page.fill("#q", "lee 12")
        page.click("text=Show")
        assert page.inner_text("#found") == "4 facts"
        page.locator(".row").first.click()
        assert "Ann Katharina Lee" in page.inner_text("#detail")


@pytest.mark.parametrize("path", ["/", "/?fact=2", "/?entity=T0", "/calibration"])
def test_on_a_phone_nothing_sticks_out(chromium, address, path):
    with opened(chromium, address, **PHONE) as page:
        page.goto(address.split("?")[0].rstrip("/") + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        for box in (it.bounding_box() for it in page.locator(".row").all()[:5]):
            assert box["height"] >= 44


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "phone"])
def test_no_serious_fault_of_accessibility(chromium, address, axe, scheme, size):
    options = {"color_scheme": scheme, **(PHONE if size == "phone" else {})}
    with opened(chromium, address, **options) as page:
        for path in ("/", "/?fact=2", "/?entity=T0", "/?q=nobody", "/calibration"):
            page.goto(address.split("?")[0].rstrip("/") + path)
            assert axe(page) == [], path
