"""A real browser for tests of pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no browser here: install chromium to test pages")


@contextmanager
def launched() -> Iterator[Any]:
    """A browser without pages."""
    from playwright.sync_api import sync_playwright

    options: Any = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}  # containers have nothing to build one on
    with sync_playwright() as playwright, playwright.chromium.launch(**options) as browser:
        yield browser


@contextmanager
def page_of(browser, address: str, **options) -> Iterator[Any]:
    """A browser of its own (cookies, storage) with one page; anything it asks of another address is noted, and so is
    every mistake in its script.
    """
    context = browser.new_context(**options)
    page = context.new_page()
    problems: list[str] = []
    page.on("request", lambda it: problems.append(it.url) if urlsplit(it.url).hostname != "127.0.0.1" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda it: problems.append(it.text) if "Content Security Policy" in it.text else None)
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.goto(address)
    yield page
    assert problems == []
    context.close()
