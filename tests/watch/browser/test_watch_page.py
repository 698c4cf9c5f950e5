"""The page in a real browser: while a run goes on, on a phone, in light and dark, with an audit of accessibility."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedrel.watch.server import Source
from fedrel.watch.view import view
from tests.browsers import needs_browser, page_of, serious_faults
from tests.processes import start
from tests.watch.small_runs import CONNECTED, NOW, SUSPICION, add, begin, finish, say, serving, status

pytestmark = needs_browser
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@contextmanager
def watching(folder: Path) -> Iterator[str]:
    """The command as a process of its own, and the address that it prints, with the token."""
    process = start("watch", folder, "--port", 0)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("open "), process.communicate()
        yield line.split()[1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = begin(tmp_path_factory.mktemp("watch") / "run")
    for number in range(1, 9):
        add(folder, number, suspicions=[{**SUSPICION, "round": 5}] if number == 5 else [])
    return say(folder, round=8, best_round=7, doing="train p1")


@pytest.fixture(scope="module")
def address(run) -> Iterator[str]:
    with watching(run) as found:
        yield found


def federation() -> Source:
    """A coordinator's run with every kind of trouble, and one that waits."""
    history = [
        {"round": n, "score": n / 30, "loss": 2 / n, "selection": 0.5, "base_rate": 0.4, "up": 10**6, "down": 2 * 10**6}
        | {"active": 8, "trained": 900, "seconds": 3.5, "all_up": n * 10**6, "all_down": n * 10**6, "all_seconds": 3.5}
        for n in (1, 2, 3)
    ]
    queued = status(run="next", state="queued", place=1, round=0, rounds=0, platforms={}, events=[])
    return Source("kits/admin", lambda now: view([status(history=history), queued], CONNECTED, NOW), where="org")


def test_it_follows_a_run_to_its_report(chromium, tmp_path):
    folder = begin(tmp_path / "run")
    with watching(folder) as address, page_of(chromium, address) as page:
        page.wait_for_selector("#about")
        assert "token" not in page.url
        assert "round 0 of at most 20" in page.inner_text("#about")
        for number in (1, 2, 3):
            add(folder, number)
            say(folder, round=number, best_round=number)
            page.wait_for_function(f"() => document.title.startsWith('{number} of 20')")
        assert page.locator("#chart-score circle").count() == 3
        assert page.get_by_role("progressbar").get_attribute("value") == "3"
        page.click("#pause")
        assert page.get_attribute("#pause", "aria-pressed") == "true"
        add(folder, 4)
        page.wait_for_timeout(2_500)
        assert page.title().startswith("3 of 20"), "what is paused stays"
        page.click("#pause")
        page.wait_for_function("() => document.title.startsWith('4 of 20')")
        page.focus("#rounds .scroll")
        finish(folder, best=4)
        page.wait_for_selector("#report")
        assert page.inner_text("#live") == "run is done, round 4 is the best"
        assert page.evaluate("document.activeElement.closest('section').id") == "rounds", "focus stays where it was"
        assert page.is_hidden("#pause"), "nothing moves any more"
        page.click("#report")
        assert page.title() == "the report"


def test_it_says_when_it_is_no_longer_served(chromium, run):
    with watching(run) as address:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#about")
    page.wait_for_function("() => document.querySelector('#alarm').textContent.includes('does not respond')")
    assert "round 8 of at most 20" in page.inner_text("#about"), "what was known stays"
    context.close()


def test_without_javascript(chromium, address):
    with page_of(chromium, address, java_script_enabled=False) as page:
        assert "round 8 of at most 20" in page.inner_text("#about")
        assert "left out" in page.inner_text("#events")
        assert page.is_hidden("#pause")
        assert page.locator("noscript meta[http-equiv=refresh], head > meta[http-equiv=refresh]").count() == 1


def test_who_wants_no_motion_sees_none(chromium, address):
    with page_of(chromium, address, reduced_motion="reduce") as page:
        page.wait_for_selector("progress")
        moving = "it => getComputedStyle(it, '::-webkit-progress-value').transitionDuration"
        assert page.eval_on_selector("progress", moving) == "0s"


def test_from_one_run_of_a_federation_to_another(chromium):
    with serving(federation()) as address, page_of(chromium, address) as page:
        page.wait_for_selector("#platforms")
        assert page.locator("#platforms tbody tr").count() == 9
        page.click("text=next")
        page.wait_for_function("() => document.title.includes('next')")
        assert "1 ahead of it" in page.inner_text("#about")


@pytest.mark.parametrize("what", ["run", "federation"])
def test_on_a_phone_nothing_sticks_out(chromium, address, what):
    with serving(federation()) as other, page_of(chromium, address if what == "run" else other, **PHONE) as page:
        page.wait_for_selector("#platforms")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "phone"])
def test_no_serious_fault_of_accessibility(chromium, address, axe, scheme, size):
    options = {"color_scheme": scheme, **(PHONE if size == "phone" else {})}
    with serving(federation()) as other:
        for where in (address, other, f"{other}/?run=next", f"{other}/?run=none"):
            with page_of(chromium, where, **options) as page:
                page.wait_for_selector("main section")
                assert serious_faults(page, axe) == [], where
