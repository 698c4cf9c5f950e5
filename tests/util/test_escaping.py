"""Names, sentences and failures that mean harm, through everything that shows them."""

import io
import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import _Screen, complain, say, tell
from fedrel.cli.extract import _show
from fedrel.corpus import NA, Instance, Mention
from fedrel.corpus.documents import Documents
from fedrel.extraction.facts import Fact, Support
from fedrel.feedback.store import RIGHT, Store
from fedrel.privacy import Field, Ledger
from fedrel.util.escaping import json_escaped, shown, shown_lines
from fedrel.util.templates import environment
from tests.instances import write
from tests.review.browser.small_platform import Visitor, queue_of, save, serving

NASTY = [
    "\x1b[2J\x1b]0;taken\x07",
    "\x9b31mred",
    "[/x]",
    "[bold]loud[/bold]",
    "[link=https://example.org]here[/]",
    "<script>alert(1)</script>",
    '</script><img src=x onerror="alert(1)">',
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "safe\u202etxt.exe",
    "a\u2066b\u2069",
    "pay\u200bpal",
    "all is well\rall is lost",
    "one\ntwo",
    "nul\0nul",
    "line\u2028line\u2029",
    "$x^$ {{ 7 * 7 }} {% raw %} %s {0} \\",
    "e" * 5_000,
]


def hidden(text: str) -> set[str]:
    """What no terminal may get from us, and no page, but line ends."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"}


# ---------------------------------------------------------------------------------------------- what is made of it


@pytest.mark.parametrize("text", NASTY)
def test_what_is_shown_is_one_line_that_does_nothing(text):
    line = shown(text, 100)
    assert not hidden(line)
    assert "\n" not in line
    assert len(line) <= 100


def test_it_is_spelt_so_that_one_sees_what_it_is():
    assert shown("a\x1b[2J\r\n\0") == r"a\x1b[2J\r\n\x00"
    assert shown("txt\u202eexe\ud800\U000e0041") == r"txt\u202eexe\ud800\U000e0041"
    assert shown("abcdef", 4) == "abc…"
    assert shown_lines("a\nb\r") == "a\nb\\r"


@pytest.mark.parametrize(
    "text",
    [
        "Zürich, naïve – “quoted” …",
        "Ελληνικά Русский Հայերեն",
        "می\u200cخواهم",  # Persian needs the joiner
        "क्\u200dष हिन्दी",
        "עברית\u200f (1)",
        "العربية ٣",
        "日本語 한국어 ไทย",
        "e\u0301",
        "👩\u200d🚀 🇩🇪",
        "a\u00a0b\u3000c",
    ],
)
def test_letters_of_all_languages_stay(text):
    assert shown(text) == shown_lines(text) == text


def test_joiners_and_marks_where_no_script_needs_them_are_spelt_out():
    assert shown("pay\u200dpal \u200fabc") == r"pay\u200dpal \u200fabc"


@given(st.text())
def test_whatever_comes_nothing_hidden_is_left(text):
    joined = {"\u200c", "\u200d", "\u200e", "\u200f", "\u061c"}
    signs = {c for c in text if unicodedata.category(c) == "Cf" and shown(c) == c}
    for made in (shown(text), shown_lines(text), json_escaped(json.dumps(text, ensure_ascii=False))):
        assert hidden(made) <= joined | signs


@given(st.recursive(st.text() | st.none() | st.integers(), lambda it: st.lists(it) | st.dictionaries(st.text(), it)))
def test_json_stays_the_same_json(value):
    for indent in (None, 1):
        assert json.loads(json_escaped(json.dumps(value, indent=indent, ensure_ascii=False))) == value


# ---------------------------------------------------------------------------------------------- terminal


@given(st.text(st.characters(categories=["L", "Cc", "Cf", "Cs", "P", "Zl"])), st.booleans())
def test_a_console_takes_no_orders_wherever_a_text_stands(text, as_text):
    file = io.StringIO()
    table = Table(title=text, caption=text)
    table.add_column(Text(text) if as_text else text)
    table.add_row(Text(text) if as_text else text)
    console = _Screen(file=file, width=80, highlight=False, emoji=False, markup=False)
    console.print(table)
    console.print(text, soft_wrap=True)
    assert not hidden(file.getvalue()) - {"\u200c", "\u200d", "\u200e", "\u200f", "\u061c"} - set("\u0600\u06dd\u070f")


def test_styles_of_our_own_still_reach_a_terminal():
    file = io.StringIO()
    _Screen(file=file, force_terminal=True, color_system="standard", markup=False).print(Text("a\x1b[2J", "bold red"))
    assert file.getvalue() == "\x1b[1;31ma\\x1b[2J\x1b[0m\n"


@pytest.mark.parametrize("text", NASTY)
def test_lines_stay_one_line(text, capsys):
    for show in (tell, say, complain):
        show(f"about {text}")
    found = capsys.readouterr()
    assert not hidden(found.out + found.err)
    assert found.out.count("\n") == 1
    assert found.err.count("\n") == 2


def calm(outcome, code=0):
    assert outcome.code == code, outcome
    assert not hidden(outcome.out + outcome.err)
    return outcome.out


def test_show(fedrel, tmp_path):
    scores = {"ap": 0.5, **dict.fromkeys(NASTY[:4], 0.5)}
    for number, text in enumerate(NASTY):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = {
            **{"method": text, "seed": 7, "rounds": 3, "best_round": 2, "dev": scores, "test": scores},
            **{"selection": None, "bytes": {"up": 1, "down": 1}, "seconds": {"total": 6.0, "by_phase": {}}},
            **{"sentences_per_second": 1.0, "held_out": {"dev": {"without": [text]}}},
        }
        (folder / "result.json").write_text(json.dumps(result))
        calm(fedrel("show", folder))
        assert json.loads(calm(fedrel("show", folder, "--json"))) == result


def test_show_of_a_comparison(fedrel, tmp_path):
    entries = [
        {
            **{"row": row, "column": column, "n": 1, "runs": 1, "mean": 0.5, "std": None, "reference_ahead": None},
            **{"paper": {}, "metrics": {"ap": {"n": 1, "runs": 1, "mean": 0.5, "std": None}, row: {"n": 0, "runs": 0}}},
        }
        for row in NASTY
        for column in NASTY[:3]
    ]
    report = {"metric": "ap", "reference": NASTY[0], "summary": entries, "cells": [], "paper": NASTY[3]}
    (tmp_path / "compare.json").write_text(json.dumps(report))
    told = calm(fedrel("show", tmp_path))
    assert "[/x]" in told
    assert json.loads(calm(fedrel("show", tmp_path, "--json"))) == report


def test_ledger_show(fedrel, tmp_path):
    with Ledger.open(tmp_path / "ledger.jsonl") as ledger:
        for text in NASTY:
            ledger.refuse(run=text, round=1, task=text, why=text, to=text)
            ledger.write(run=text, round=1, task=text, payload=b"x", fields=[Field(text, "U8", (1,), 1)])
    for by in ("round", "task", "field"):
        calm(fedrel("ledger", "show", tmp_path / "ledger.jsonl", "--by", by))
        assert json.loads(calm(fedrel("ledger", "show", tmp_path / "ledger.jsonl", "--by", by, "--json")))["runs"]


def test_ledger_of_a_simulated_run(fedrel, tmp_path):
    lines = [
        {"round": 1, "platform": text, "task": text, "field": text, "shape": [1], "bytes": 4, "dtype": "F32"}
        for text in NASTY
    ]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for by in ("round", "task", "field"):
        calm(fedrel("ledger", "show", tmp_path / "ledger.jsonl", "--by", by))


def test_facts(capsys, tmp_path):
    """What `fedrel extract` prints."""
    (tmp_path / "a.txt").write_text("Text.")
    facts = [
        Fact(text, text, text, text, text, 0.5, False, 1, (Support(text, 0, text, (0, 1), (1, 2), 0.5),))
        for text in NASTY
    ]
    summary = {
        **{"calibration": {"ece_before": None, "ece_after": None}, "new": 1, "facts": 1, "sentences": 1},
        **{"documents": 1, "sentences_per_second": 1.0, "left_out": dict.fromkeys(NASTY, 1)},
        **{"out": NASTY[0], "confidences": NASTY[1]},
    }
    _show(summary, Documents(tmp_path, "text"), facts)
    found = capsys.readouterr()
    assert not hidden(found.out + found.err)
    assert "[/x]" in found.out


# ---------------------------------------------------------------------------------------------- data, runs and pages

# Names that a data set may have; of a relation and of a token, what its format can hold.
NAMES = [text for text in NASTY if len(text) < 100]


def nasty_data(folder):
    for split in ("train", "dev", "test"):
        made = [
            Instance(
                [name.replace("\n", " ") or "x", "met", f"{name}{n}", "."],
                Mention(f"{split}{name}{n}", 0, 1),
                Mention(f"{split}{n}{name}", 2, 3),
                NA if n % 3 == 2 else name,
                name,
            )
            for name in NAMES
            for n in range(3)
        ]
        write(folder / f"{split}.jsonl", made)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return nasty_data(tmp_path_factory.mktemp("data") / "with [bold]names\x1b[2J")


def test_data_check(fedrel, data):
    calm(fedrel("data", "check", data))
    labels = json.loads(calm(fedrel("data", "check", data, "--json")))["splits"]["train"]["sentences_per_relation"]
    assert set(labels) == {NA, *NAMES}
    calm(fedrel("data", "check", data / "\x1b[2J[/x]"), code=2)


class Tags(HTMLParser):
    """Every tag of a page, and what stands beside it."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.handlers = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.handlers |= {name for name, _ in attributes if name.startswith("on")}


def harmless(page: str, scripts: int = 0) -> None:
    found = Tags(page)
    assert not {"img", "iframe", "object", "base"} & found.tags
    assert not found.handlers
    assert len(re.findall("<script", page, re.IGNORECASE)) == scripts
    assert not hidden(page)


def test_a_run_its_report_and_its_partition(fedrel, data, tmp_path):
    small = ["training.rounds=2", "partition.platforms=2", "extractor.filters=4", "extractor.min_count=1"]
    chosen = ["data.source=opennre", f"data.path={data}", "method.name=one", "data.allow_overlap=true"]
    settings = [part for setting in (*small, *chosen) for part in ("--set", setting)]
    out = tmp_path / "run [/x]\x1b[2J"
    calm(fedrel("run", *settings, "--out", out))
    page = (out / "report.html").read_text(encoding="utf-8")
    harmless(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert r"\u202e" in page.replace("<wbr>", "")
    calm(fedrel("data", "partition", *settings, "--show"))
    calm(fedrel("data", "partition", *settings, "--set", "partition.kind=relation", "--png", tmp_path / "map.svg"))
    harmless((tmp_path / "map.svg").read_text(encoding="utf-8"))


def test_the_page_of_a_review(data, tmp_path):
    queue = queue_of(data, save(data, tmp_path / "model"))
    with Store.open(tmp_path / "verdicts.sqlite") as store, serving(queue, store) as address:
        visitor = Visitor(address)
        page = visitor.get()
        for _ in range(12):
            harmless(page.text, scripts=1)
            page = visitor.judge(page, RIGHT)


def test_every_template_escapes(tmp_path):
    for package in ("fedrel.report", "fedrel.review", "fedrel.explore", "fedrel.pages", "fedrel.watch"):
        pages = environment(package)
        assert pages.autoescape is True
        for name in pages.list_templates(extensions=["j2"]):
            source = pages.loader.get_source(pages, name)[0]
            assert not re.search(r"\|\s*safe\b|autoescape\s+false|\btojson\b", source), name
            assert not re.search(r"=\{\{", source), f"{name}: an attribute without quotes"
        made = pages.from_string('<p title="{{ x }}">{{ x }}</p>')
        for text in NASTY:
            harmless(made.render(x=text))
