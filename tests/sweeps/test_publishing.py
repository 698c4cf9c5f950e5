"""Tables on pages: made from JSON files, and made again from them."""

import json
from pathlib import Path

import pytest

from fedrel.errors import UserError
from fedrel.sweeps.publishing import place_on, publish, published

ROOT = Path(__file__).parents[2]
PLACE = "<!-- table small: made by fedrel compare --publish -->\n<!-- end of table small -->\n"
PAGE = f"# A page\n\nBefore.\n\n{PLACE}\nAfter.\n"


def run(row, column, seed, score, **others):
    return {
        **{"row": row, "column": column, "seed": seed, "draw": "", "option": [], "folder": "cells/x"},
        **{"scores": {"ap": score}, "dev": {"ap": score}, "test": {"ap": score}, "best_round": 3, "rounds": 5},
        **{"seconds": 60.0 * seed, "settings": "0123456789", "version": "0.1.0", "commit": "a" * 40, "device": "CPU X"},
        **others,
    }


def entry(row, mean, **others):
    found = {"n": 2, "runs": 2, "mean": mean, "median": mean, "std": 0.01}
    return {
        **{"row": row, "column": "C | D", **found, "metrics": {"ap": found}, "paper": {}, "reference_ahead": None},
        **others,
    }


REPORT = {
    **{"metric": "ap", "metrics": ["ap"], "reference": "one", "quick": False, "dev_metric": "ap", "statistic": "mean"},
    **{"scale": 1.0, "target": None, "warnings": ["one is slow"], "seconds": 7.0, "options": [], "paper": ""},
    "summary": [
        entry("one", 0.5),
        entry("two", 0.25, verdict={"claim": "ahead", "verdict": "confirmed", "interval": [0.1, 0.2]}),
    ],
    "cells": [run("one", "C | D", 1, 0.5), run("one", "C | D", 2, 0.5), run("two", "C | D", 1, 0.25)],
}


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_a_table_is_written_between_its_lines(page):
    beside = publish(page, "small", "fedrel compare small.toml", REPORT)
    assert beside == page.with_name("page-small.json")
    text = page.read_text()
    before, table, after = text.partition("Before.\n\n<!-- table small: made by fedrel compare --publish -->\n")
    assert (before, after[-32:]) == ("# A page\n\n", "<!-- end of table small -->\n\nAfter.\n"[-32:])
    assert "\n`fedrel compare small.toml`\n\ntest ap, mean ± standard deviation over seeds;" in text
    assert "\n| method | C \\| D |\n|---|---|\n" in text
    assert "\n| one | 0.500 ± 0.010 (n=2) |\n" in text
    assert "\n| two | 0.250 ± 0.010 (n=2)<br>one ahead: confirmed |\n" in text
    assert "\none is slow.\n" in text
    assert (
        "\n3 runs, by fedrel 0.1.0 at aaaaaaaaaaaa on CPU X; a run took 60 seconds (median; 0.07 hours in all). Every "
        "run, with its scores, settings and time: [page-small.json](page-small.json).\n"
    ) in text
    assert table


def test_the_json_says_of_every_run_what_made_it(page):
    content = json.loads(publish(page, "small", "fedrel compare small.toml", REPORT).read_text())
    first = content["cells"][0]
    assert {key: first[key] for key in ("version", "commit", "device", "settings", "seconds")} == {
        **{"version": "0.1.0", "commit": "a" * 40, "device": "CPU X", "settings": "0123456789", "seconds": 60.0}
    }
    assert content["command"] == "fedrel compare small.toml"
    assert "folder" not in first
    assert "test" not in first, "scores are enough"


def test_a_page_is_made_again_from_its_json(page):
    publish(page, "small", "fedrel compare small.toml", REPORT)
    made = page.read_text()
    assert published(page) == made
    page.write_text(made.replace("0.500", "0.600"))
    assert published(page) == made, "a number typed by hand does not last"
    publish(page, "small", "fedrel compare small.toml", REPORT)
    assert page.read_text() == made


def test_a_run_that_diverged_and_changed_files_are_told(page):
    gone = run("two", "C | D", 2, None, seconds=None, scores=None, version=None, commit=None, device=None)
    changed = run("two", "C | D", 1, 0.3, commit="b" * 40 + "+", device="")
    publish(page, "small", "x", {**REPORT, "cells": [changed, gone]})
    assert "2 runs, 1 of which diverged, by fedrel 0.1.0 at bbbbbbbbbbbb, with changes; a run took" in page.read_text()


def test_a_page_without_a_place_is_refused(page, tmp_path):
    assert place_on(str(page), "small") == (page, "small")
    assert place_on(f"{page}#small", "other") == (page, "small")
    with pytest.raises(UserError, match="no place for the table other, or several; write where it belongs"):
        place_on(str(page), "other")
    with pytest.raises(UserError, match=r'"\.\./x" is no name of a table'):
        place_on(f"{page}#../x", "other")
    with pytest.raises(UserError, match="the page cannot be read"):
        place_on(str(tmp_path / "none.md"), "small")
    page.write_text(PAGE + PLACE)
    with pytest.raises(UserError, match="no place for the table small, or several"):
        place_on(str(page), "small")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"summary": 3}'])
def test_a_damaged_json_is_told(page, content):
    publish(page, "small", "x", REPORT).write_text(content)
    with pytest.raises(UserError, match=r"page-small\.json: no table can be made of this file"):
        published(page)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_table_of_the_docs_is_made_from_its_json(page):
    assert published(page) == page.read_text(encoding="utf-8")
