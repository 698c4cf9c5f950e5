"""A real browser for tests of pages."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no browser here: install chromium to test pages")

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def axe_core(folder: Path) -> str:
    """The script of axe-core, which finds faults of accessibility, from the package index of npm."""
    npm = shutil.which("npm")
    got = npm and subprocess.run([npm, "pack", "axe-core@4.14.1"], cwd=folder, capture_output=True, timeout=120)
    if not got or got.returncode:
        pytest.skip("axe-core cannot be had here: install npm to test accessibility")
    shutil.unpack_archive(folder / "axe-core-4.14.1.tgz", folder)
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def serious_faults(page: Any, axe: str) -> list[tuple[str, list[str]]]:
    """The serious faults of accessibility that axe-core finds in a page, each with some of the elements."""
    page.evaluate(axe)
    found = page.evaluate("axe.run()")["violations"]
    serious = [it for it in found if it["impact"] in ("serious", "critical")]
    return [(it["id"], [node["html"] for node in it["nodes"][:3]]) for it in serious]


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
