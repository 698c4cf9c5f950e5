"""A walk through everything that the page does, in a real browser, in light, dark and on a phone."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedrel.feedback.store import RIGHT, WRONG, Store
from tests.browsers import PHONE, needs_browser, page_of, serious_faults
from tests.processes import start
from tests.review.small_facts import SAID, write_facts, write_text

pytestmark = needs_browser
GUIDELINES = (
    "# What counts\n\nSay **right** only if *this* sentence says so.\n\n<script>document.title = 'taken'</script>\n"
)
LOOKS = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": PHONE}
_FORM = "#undo input[name=id]"


@contextmanager
def reviewing(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command on facts as a process of its own, and the address that it prints."""
    facts, text = write_facts(folder / "facts.jsonl"), write_text(folder / "text")
    (folder / "rules.md").write_text(GUIDELINES)
    options = ["--text", text, "--guidelines", folder / "rules.md", "--port", 0, "--user", "anna"]
    process = start("review", facts, *options)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("open "), process.communicate()
        yield line.split()[1], process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until_next(page, act: Callable[[], object]) -> None:
    """Acts, and waits for the next form to be there."""
    before = page.locator(_FORM).get_attribute("value")
    act()
    page.wait_for_function(f"was => document.querySelector('{_FORM}')?.value !== was", arg=before)


def told(path: Path) -> list[tuple[str, str, str | None, bool]]:
    with Store.open(path, create=False) as store:
        return [(it.user, it.verdict, it.corrected, it.decides) for it in store.standing()]


@pytest.mark.parametrize("look", ["light", *(pytest.param(it, marks=pytest.mark.slow) for it in ("dark", "phone"))])
def test_everything_once(chromium, tmp_path, look):
    store = tmp_path / "facts.jsonl.verdicts.sqlite"
    with reviewing(tmp_path) as (address, process):
        with page_of(chromium, address, **LOOKS[look]) as page:

            def key(name: str) -> None:
                until_next(page, lambda: page.keyboard.press(name))

            def shown() -> str:
                return str(page.locator("#sentence").text_content())

            def fits() -> bool:
                return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

            assert fits()
            assert page.locator(".context").first.inner_text().startswith("The parish kept its records.")
            guidelines = page.locator(".guidelines.open" if look != "phone" else ".guidelines.folded")
            assert guidelines.is_visible() and page.locator(".guidelines:visible").count() == 1
            assert page.title() != "taken"

            first = shown()  # a verdict, and it is taken back
            key("ArrowRight")
            assert told(store) == [("anna", RIGHT, None, False)]
            key("u")
            assert told(store) == [] and shown() == first

            key("s")  # skipped: nothing recorded, comes last
            assert told(store) == [] and shown() != first

            second = shown()  # another relation, by typing
            page.keyboard.press("c")
            page.keyboard.type("lives")
            assert page.locator(".pick:visible").all_inner_texts() == ["lives in"] and fits()
            until_next(page, lambda: page.keyboard.press("Enter"))
            assert told(store) == [("anna", WRONG, "lives_in", False)]
            assert shown() not in (first, second)

            page.keyboard.press("/")  # a filter
            page.keyboard.type("tom reed kiel")
            page.fill("#least", "0.8")
            until_next(page, lambda: page.click("#filter button"))
            assert "0 of 1 judged" in page.inner_text(".so-far") and fits()
            assert shown().startswith("Since the war")
            key("ArrowRight")
            assert "Nothing left" in page.inner_text("h1")
            for _ in range(2):
                with page.expect_navigation():
                    page.locator(".chips a").first.click()
            assert page.locator(".chips").count() == 0
            assert "2 of 6 judged" in page.inner_text(".so-far")

            page.click("details.who summary")  # a second reviewer, who disagrees
            page.fill("#name", "bert")
            until_next(page, lambda: page.click("details.who button"))
            page.goto(f"{address}?q=since")
            key("ArrowLeft")
            assert told(store)[-1] == ("bert", WRONG, None, False)

            page.get_by_role("link", name="Agreement").click()
            page.wait_for_selector(".figure")
            assert "anna, bert" in page.inner_text("table") and fits()
            assert "1 prediction; 1 without a decision" in page.inner_text("main")
            page.get_by_role("link", name="Decide").click()
            page.wait_for_selector(".said")
            page.wait_for_load_state()  # keys need the script
            assert page.locator(".said li").all_inner_texts() == ["anna: right", "bert: wrong"]
            key("ArrowRight")
            assert told(store)[-1] == ("bert", RIGHT, None, True)
            assert "Nothing left to decide" in page.inner_text("h1")

            page.click(".export summary")
            with page.expect_download() as waiting:
                page.get_by_text("JSON lines").click()
            lines = [json.loads(it) for it in Path(waiting.value.path()).read_text().splitlines()]
            assert [bool(it["taken_back"]) for it in lines] == [True, False, False, False, False]
            assert not any(name in str(lines) for name, *_ in SAID)

            line = {**lines[1], "id": "from-elsewhere", "user": "carl"}  # a colleague's file comes in
            (tmp_path / "carl.jsonl").write_text(json.dumps(line) + "\n")
            page.click(".import summary")
            page.set_input_files(".import input[type=file]", tmp_path / "carl.jsonl")
            assert fits()
            until_next(page, lambda: page.click(".import button"))
            assert page.inner_text(".note") == "Imported: 1 row."
            assert "carl" in [who for who, *_ in told(store)]
            page.click(".import summary")
            page.set_input_files(".import input[type=file]", tmp_path / "rules.md")
            page.click(".import button")
            page.wait_for_selector(".problem")
            assert "rules.md:1: not a line of JSON" in page.inner_text(".problem") and fits()
            page.get_by_role("link", name="Go on").click()
            page.wait_for_selector(".so-far")
            assert "fedrel feedback judged" in page.inner_text("pre") and fits()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    judged = f"fedrel feedback judged {store} {tmp_path}/facts.jsonl"
    assert out.startswith(f"4 verdicts in {store}; next: {judged}"), out


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_no_serious_fault_of_accessibility(chromium, tmp_path, axe, look):
    with reviewing(tmp_path) as (address, _), page_of(chromium, address, **LOOKS[look]) as page:
        for path in ("", "?q=nobody", "?order=disputed", "agreement"):
            page.goto(address + path)
            for summary in page.locator("summary:visible").all():
                summary.click()
            assert serious_faults(page, axe) == [], path
