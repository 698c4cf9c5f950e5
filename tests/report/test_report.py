"""The report page and the figure of a comparison, from small folders made by hand."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fedrel.errors import UserError
from fedrel.report.figures import pr_figure
from fedrel.report.heatmap_svg import confusion_chart
from fedrel.report.page import write_report

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}
SCORES = {
    "auc": 0.5,
    "auc_2000": 0.4,
    "ap": 0.6123,
    "p@100": 0.9,
    "p@200": 0.8,
    "p@300": 0.7,
    "p@mean": 0.8,
    "max_f1": 0.55,
}
TOML = """seed = 7

[data]
source = "{source}"
path = "{path}"
allow_overlap = false

[method]
name = "{method}"

[training]
rounds = 3
metric = "{metric}"
"""


class Page(HTMLParser):
    """What a test asks of a page: its elements, and that each one opened is closed in its place."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def headings(self) -> list[str | None]:
        return [attributes.get("id") for attributes in self.all("h2")]


def sentence(expressed: bool | None, *tokens: str) -> dict[str, Any]:
    return {
        "tokens": list(tokens),
        "head": [0, 1],
        "tail": [2, 3],
        "score": 0.25,
        "platform": "p0",
        "expressed": expressed,
    }


def example() -> dict[str, Any]:
    return {
        "head": "Q1",
        "relation": "born_in",
        "tail": "Q2",
        "selected": [sentence(True, "Ada", "saw", "Oslo", "first", ".")],
        "rejected": [sentence(False, "Ada", "left", "Oslo", "."), sentence(None, "Ada", "likes", "Oslo")],
    }


def round_line(number: int, selection: dict[str, float] | None, loss: float | None = 1.0) -> dict[str, Any]:
    bytes_ = {"up": 2_000_000, "down": 5_000_000}
    return {"round": number, "loss": loss, "dev": SCORES, "selection": selection, "cohort": ["p0"], "bytes": bytes_}


def make_run(folder: Path, *, selecting: bool = True, platforms: int = 3, relations: int = 2) -> Path:
    """A finished run of lazy-mil on the built-in world, or of a plain method on a data set of one's own."""
    quality = {"precision": 0.75, "recall": 0.2, "facts": 0.6, "base_rate": 0.4} if selecting else None
    held = {f"p{number}": 100 + number % 7 for number in range(platforms)}
    metric = "ap" if selecting else "p@mean"
    result = {
        "method": "lazy-mil" if selecting else "none",
        "seed": 7,
        "rounds": 3,
        "best_round": 2,
        "dev": SCORES,
        "test": SCORES,
        "selection": quality,
        "bytes": {"up": 6_000_000, "down": 15_000_000},
        "seconds": {"total": 200.0, "by_phase": {"train": 150.0, "dev": 20.0}},
        "sentences_per_second": 1234.5,
        "version": "1.0",
    }
    details = {
        "pr": {"precision": [1.0, 0.8, 0.5], "recall": [0.1, 0.5, 0.9]},
        "relations": [{"relation": f"r{n}", "ap": 1 - n / relations, "facts": 10 + n} for n in range(relations)],
        "participation": {name: number % 4 for number, name in enumerate(held)},
        "held": held,
        "examples": [example()] * 6 if selecting else [],
        "data": {
            "relations": ["NA", *(f"r{n}" for n in range(relations))],
            "sentences": {"train": 3000, "dev": 100, "test": 200},
            "pairs": {"train": 900, "dev": 50, "test": 80},
            "notes": [] if selecting else ["one pair in ten was carved from train"],
        },
    }
    source, path = ("world", "") if selecting else ("opennre", "some/where/news")
    # The first round of lazy-mil selects nothing; a round in which no platform answered has no loss.
    lines = [round_line(1, None, None), round_line(2, quality), round_line(3, quality)]
    folder.mkdir()
    dump(folder, "result.json", result)
    dump(folder, "details.json", details)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    toml = TOML.format(source=source, path=path, method=result["method"], metric=metric)
    (folder / "experiment.toml").write_text(toml, encoding="utf-8")
    return folder


CLASS_SCORES = {"micro_f1": 0.7312, "micro_precision": 0.8, "micro_recall": 0.67, "macro_f1": 0.52, "accuracy": 0.9}
NAMES = ["NA", "/people/person/place_of_birth", "Cause-Effect(e1,e2)", "works_for", "INHIBITOR"]


def make_classification(folder: Path, *, classes: int = 5, platforms: int = 4, losses: bool = True) -> Path:
    """A finished run on gold data: the files of another run, with what such a run has in place of a ranking."""
    make_run(folder, selecting=False, platforms=platforms)
    names = [*NAMES, *(f"relation number {n}" for n in range(len(NAMES), classes))][:classes]
    result, details = load(folder, "result.json"), load(folder, "details.json")
    del details["pr"], details["relations"]
    counts = [
        [(7 * row + 3 * column) % 4 if row != column else 20 + row for column in range(classes)]
        for row in range(classes)
    ]
    rows = [
        {"relation": name, "precision": 0.9, "recall": 0.4, "f1": 0.95 - n / classes / 2, "support": 20 + n}
        for n, name in enumerate(names[1:])
    ]
    held = {
        f"p{n}": {name: n * 5 + m for m, name in enumerate(names) if (n + m) % 3} for n in range(min(platforms, 100))
    }
    details |= {"classes": rows, "confusion": {"relations": names, "counts": counts}, "labels": held, "examples": []}
    details["data"]["relations"] = names
    dump(folder, "details.json", details)
    scores = {"dev": CLASS_SCORES, "test": CLASS_SCORES, "selection": None, "calibration": None}
    dump(folder, "result.json", {**result, **scores, "method": "fedprox"})
    trace = {"trace": {"drift": [0.1, 0.2]}}
    lines = [{**round_line(n, None, 1 / n if losses else None), "dev": CLASS_SCORES, **trace} for n in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    toml = TOML.format(source="chemprot", path="some/where/gold", method="fedprox", metric="micro_f1")
    (folder / "experiment.toml").write_text(toml, encoding="utf-8")
    return folder


def load(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return content


def dump(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def page_of(folder: Path) -> tuple[str, Page]:
    html = write_report(folder).read_text(encoding="utf-8")
    return html, Page(html)


def test_page_of_a_run_that_selects(tmp_path: Path) -> None:
    html, page = page_of(make_run(tmp_path / "run"))
    order = ["pr", "relations", "cases", "rounds", "selection", "bytes", "platforms", "run", "time"]
    assert page.headings() == order
    assert [it["href"] for it in page.all("a")][: len(order)] == [f"#{id_}" for id_ in order], "a contents list"
    assert {str(it["href"])[1:] for it in page.all("a")} <= set(order), "links lead somewhere"
    assert "platforms elect one sentence" in page.text and "elect, for every fact" in page.text
    assert len(page.all("h1")) == 1 and len(page.all("main")) == 1
    assert "lazy-mil on the built-in world, seed 7" in page.text
    for shown in ("0.612", "75%", "base rate 40%", "6.0 MB", "15.0 MB", "3 min 20 s", "1,234 sentences/s"):
        assert shown in page.text, shown
    assert "✓ expresses the fact" in page.text and "✗ does not" in page.text
    assert html.count('<mark class="head">Ada</mark>') == 6 * 4  # three sentences and the title of each fact
    assert "2 more facts" in page.text


def test_page_of_a_run_that_does_not_select(tmp_path: Path) -> None:
    _, page = page_of(make_run(tmp_path / "run", selecting=False, platforms=130, relations=40))
    assert page.headings() == ["pr", "relations", "rounds", "bytes", "platforms", "run", "time"]
    assert "none on opennre news, seed 7" in page.text
    assert "selection precision" not in page.text
    assert "dev P@mean" in page.text  # the axis of the metric that chose the round
    assert "The best 8 of 40" in page.text and "The worst 8 of 40" in page.text
    assert "All 130 platforms in numbers" in page.text
    assert "carved from train" in page.text


@pytest.mark.parametrize("classes", [5, 30])
def test_page_of_a_run_on_gold_data(tmp_path: Path, classes: int) -> None:
    html, page = page_of(make_classification(tmp_path / "run", classes=classes, platforms=130))
    order = ["classes", "confusion", "rounds", "bytes", "platforms", "labels", "run", "time"]
    assert page.headings() == order
    assert "fedprox on chemprot gold, seed 7" in page.text
    for shown in ("test micro F1", "0.731", "test macro F1", "0.520", "test accuracy", "dev micro F1", "130 platforms"):
        assert shown in page.text, shown
    assert f"{classes} labels, one for each sentence" in page.text
    assert ("The worst 8 of 29" in page.text) == (classes == 30)
    assert "Shown are 100 of 130 platforms" in page.text
    visible = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    assert "fact" not in visible and "average precision" not in visible and "micro_f1 " not in visible


def test_each_method_is_told_as_it_is(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    toml = (folder / "experiment.toml").read_text()
    for name, settings, says, of in (
        ("evidence", "early = 3", "by an absolute bar", "selected as stating their fact"),
        ("evidence", "early = 0", "within a margin of the best evidence", "selected for training"),
        ("one", "", "Each platform takes, of its own sentences", "selected for training"),
        ("plugged-in", "", "that the method would select", "selected for training"),
    ):
        section = f'name = "{name}"\n{settings}'
        (folder / "experiment.toml").write_text(toml.replace('name = "lazy-mil"', section))
        text = " ".join(page_of(folder)[1].text.split())
        assert says in text and f"Of the sentences {of}" in text, name
        assert "most confident in" not in text


def test_answers_without_a_model_stand_beside_the_score(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    assert "need no model" not in page_of(folder)[1].text, "a run of an earlier version"
    dump(folder, "result.json", load(folder, "result.json") | {"trivial": {"constant": 0.0125, "frequency": 0.25}})
    text = " ".join(page_of(folder)[1].text.split())
    assert "lazy-mil0.612" in text.replace(" ", "") and "allcandidatesalike0.013" in text.replace(" ", "")
    assert "relations by frequency" in text


TENTHS = [
    {"low": 0.2, "count": 40, "right": 10, "confidence": 0.24},
    {"low": 0.9, "count": 10, "right": 9, "confidence": 0.93},
]


def test_confidences_are_drawn_against_what_is_right(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    calibration = {"test": {"ece_before": 0.5, "ece_after": 0.0625}, "dev": {}, "most": 0.97}
    dump(folder, "result.json", load(folder, "result.json") | {"calibration": calibration})
    dump(folder, "details.json", load(folder, "details.json") | {"reliability": TENTHS})
    html, page = page_of(folder)
    assert page.headings()[2] == "reliability"
    drawing(html, "Share of predictions that are right, by confidence. 0.24: 25%; 0.93: 90%.")
    text = " ".join(page.text.split())
    assert "0.062" in text and "above 0.970" in text and "0.9 to 1.0" in text
    dump(folder, "details.json", load(folder, "details.json") | {"reliability": [{"low": 1}]})
    with pytest.raises(UserError, match="reliability is not in fedrel's format"):
        write_report(folder)


def mistake(relation: str = "born_in", truth: tuple[str, ...] = ()) -> dict[str, Any]:
    quoted = {key: value for key, value in sentence(None, "Ada", "saw", "Oslo", HOSTILE).items() if key != "score"}
    return {"relation": relation, "confidence": 0.875, "truth": list(truth), "sentences": [quoted], "of": 3}


def test_mistakes_are_quoted_with_their_sentences(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    found = {"wrong": [mistake()] * 5, "missed": [mistake("lives_in", ("lives_in", "works_in"))]}
    dump(folder, "details.json", load(folder, "details.json") | {"mistakes": found})
    html, page = page_of(folder)
    assert page.headings()[2] == "mistakes"
    text = " ".join(page.text.split())
    assert "Predicted, but not in test" in text and "In test, but not predicted" in text and "2 more" in text
    assert "confidence 0.875; in test without a relation; 1 of 3 sentences" in text
    assert "in test lives_in, works_in" in text
    assert HOSTILE not in html
    none: dict[str, list[object]] = {"wrong": [], "missed": []}
    for nothing in (None, none):
        dump(folder, "details.json", load(folder, "details.json") | {"mistakes": nothing})
        assert "mistakes" not in page_of(folder)[1].headings()
    dump(folder, "details.json", load(folder, "details.json") | {"mistakes": {"wrong": [{}], "missed": []}})
    with pytest.raises(UserError, match="mistakes is not in fedrel's format"):
        write_report(folder)


def test_mistakes_of_a_gold_run_are_labels_taken_for_others(tmp_path: Path) -> None:
    folder = make_classification(tmp_path / "run")
    found = {"wrong": [mistake("works_for", ("NA",))], "missed": []}
    dump(folder, "details.json", load(folder, "details.json") | {"mistakes": found})
    html, page = page_of(folder)
    assert "another label than the one predicted" in " ".join(page.text.split())
    assert "Predicted, but not in test" not in page.text and "<script>" not in html


def test_a_table_of_all_relations(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", relations=40)
    details = load(folder, "details.json")
    rows = [{**row, "predicted": 13, "right": 10, "precision": 10 / 13, "recall": 0.3} for row in details["relations"]]
    rows[-1] |= {"predicted": 0, "right": 0, "precision": None, "recall": 0.0}
    dump(folder, "details.json", details | {"relations": rows})
    _, page = page_of(folder)
    assert "All 40 relations" in page.text
    assert page.text.count("0.769") == 8 + 7 + 39, "the best and worst eight, and all of them, but for the one without"


def test_people_s_labels_stand_beside_distant_ones(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r")
    human = {
        "ap_human": 0.3125,
        "interval": [0.25, 0.375],
        "sentences": 2_283,
        "stating": 337,
        "of": "test",
        "trained": 0,
    }
    judged = {"judged": 585, "stated": 0.36, "interval": [0.28, 0.361]}
    result = load(folder, "result.json")
    dump(folder, "result.json", result | {"human": human, "selection": result["selection"] | judged})
    text = page_of(folder)[1].text
    for said in ("test ap_human", "0.312", "0.250 to 0.375 (95 %)", "2,283 sentences, 337", "28% to 36% (95 %), 585"):
        assert said in text, said
    assert "ap_human" not in page_of(make_run(tmp_path / "whole"))[1].text


def test_what_not_to_trust_stands_at_the_top(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r")
    few = {"ties": 0, "facts": 7}
    doubts = {"too_little": [f"dev has 7 facts {HOSTILE}"], "intervals": {"dev": [0.25, 0.75], "test": [0.125, 0.875]}}
    result = load(folder, "result.json")
    dump(folder, "result.json", result | doubts | {name: result[name] | few for name in ("dev", "test")})
    html, page = page_of(folder)
    assert page.text.index("dev has 7 facts") < page.text.index("test ap")
    assert HOSTILE not in html
    assert "0.125 to 0.875 (95 %)" in page.text
    assert "0.250 to 0.750" in page.text
    assert "P@100" not in page.text, "of seven facts"
    assert "P@100" in page_of(make_run(tmp_path / "whole"))[1].text


def test_a_run_without_losses_has_no_panel_for_them(tmp_path: Path) -> None:
    _, with_losses = page_of(make_classification(tmp_path / "with"))
    _, without = page_of(make_classification(tmp_path / "without", losses=False))
    assert "training loss" in with_losses.text and "loss" not in without.text


def test_a_gold_run_that_found_nothing(tmp_path: Path) -> None:
    folder = make_classification(tmp_path / "run", classes=2, platforms=1)
    details = load(folder, "details.json")
    del details["data"]["pairs"]
    confusion = {"relations": ["NA", "born_in"], "counts": [[5, 0], [0, 0]]}
    dump(folder, "details.json", {**details, "classes": [], "confusion": confusion, "labels": {"p0": {"NA": 0}}})
    _, page = page_of(folder)
    assert page.headings() == ["classes", "confusion", "rounds", "bytes", "platforms", "run", "time"]
    assert "No sentence of the test split has a label to find" in page.text
    assert "most common mistake" not in page.text and "pairs" not in page.text


def test_data_without_na_and_without_pairs(tmp_path: Path) -> None:
    folder = make_classification(tmp_path / "run")
    assert "all labels but NA" in page_of(folder)[1].text
    details = load(folder, "details.json")
    details["data"] |= {"na": False, "has_pairs": False}
    dump(folder, "details.json", details)
    _, page = page_of(folder)
    assert "all labels but NA" not in page.text and "with NA" not in page.text and "pairs" not in page.text


def test_a_ranked_run_may_say_who_holds_what(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    assert "labels" not in page_of(folder)[1].headings()  # a run of an earlier version
    labels = {"p0": {"r1": 3, "odd": 1}, "p1": {"NA": 40}, "p2": {}}
    dump(folder, "details.json", {**load(folder, "details.json"), "labels": labels})
    html, page = page_of(folder)
    order = ["pr", "relations", "cases", "rounds", "selection", "bytes", "platforms", "labels", "run", "time"]
    assert page.headings() == order
    words = texts(drawing(html, "Sentences of each of 3 labels that each of 3 platforms holds."))
    assert [word for word in words if word in ("NA", "r0", "r1", "odd")] == ["NA", "r1", "odd"]  # as the data has them
    assert {"p0, r1: 3", "p1, NA: 40", "3", "40"} <= {*words}


def test_the_confusion_matrix_shows_every_count(tmp_path: Path) -> None:
    folder = make_classification(tmp_path / "run")
    counts = [[90, 1, 0, 0, 0], [7, 3, 0, 0, 0], [0] * 5, [0, 0, 0, 1234567, 0], [0, 0, 0, 0, 8]]
    dump(folder, "details.json", {**load(folder, "details.json"), "confusion": {"relations": NAMES, "counts": counts}})
    html, page = page_of(folder)
    svg = drawing(html, "Confusion matrix of 5 labels on test: 1,234,668 of 1,234,676 sentences are right.")
    words = texts(svg)
    assert {"90", "1", "7", "3", "1234567", "8", "/people/person/", "place_of_birth"} <= {*words}
    assert "0" not in words  # an empty cell says it better
    assert "/people/person/place_of_birth, NA: 7" in words
    assert svg.count("<rect") == 6 and "var(--second)" in svg
    assert "/people/person/place_of_birth taken for NA" in page.text


def test_many_classes_are_drawn_without_numbers(tmp_path: Path) -> None:
    html, _ = page_of(make_classification(tmp_path / "run", classes=30))
    words = texts(drawing(html, "Confusion matrix of 30 labels"))
    assert "20" not in words and "NA, NA: 20" in words
    assert words.count("relation number 29") == 2  # of the row and of the column


@pytest.mark.parametrize("classes", [1, 2, 7, 25, 26, 60, 150])
def test_heat_maps_stay_inside_their_drawing(classes: int) -> None:
    names = [f"/a/rather/long_name/of_relation_{number}" for number in range(classes)]
    svg = ET.fromstring(confusion_chart(names, [[*range(row, row + classes)] for row in range(classes)]))
    width, height = (float(value) for value in svg.attrib["viewBox"].split()[2:])
    assert (width == 400) == (svg.attrib["class"] == "beside")
    for cell in svg.iter("rect"):
        x, y, across, down = (float(cell.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x < x + across <= width and 0 <= y < y + down <= height


def drawing(html: str, label: str) -> str:
    drawings: list[str] = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    [found] = [svg for svg in drawings if f'aria-label="{label}' in svg]
    return found


def texts(svg: str) -> list[str]:
    return [element.text for element in ET.fromstring(svg).iter() if element.text and element.text.strip()]


BOTH = pytest.mark.parametrize("make", [make_run, make_classification])


@BOTH
def test_page_stands_alone_and_is_accessible(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    html, page = page_of(make(tmp_path / "run"))
    assert "http://" not in html and "https://" not in html
    assert not re.search(r"@import|url\((?!#)", html)
    for tag, attributes in page.elements:
        assert tag not in ("script", "link", "img", "iframe")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    drawings = page.all("svg")
    assert len(drawings) == 5 and all(svg["role"] == "img" and svg["aria-label"] for svg in drawings)
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))


@BOTH
def test_ids_are_unique_and_every_reference_is_met(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    html, page = page_of(make(tmp_path / "run"))
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    meant = re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', html)
    assert meant and set(meant) <= set(ids)


@BOTH
def test_charts_take_their_colours_and_font_from_the_page(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    html, _ = page_of(make(tmp_path / "run"))
    for drawing in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        assert "var(--first)" in drawing
        assert not re.search(r"(?:fill|stroke): ?#[0-9a-f]{3,6}", drawing)
        assert "DejaVu" not in drawing and "font-size: " in drawing


@pytest.mark.parametrize("platforms", [3, 130])
def test_hostile_text_is_escaped(tmp_path: Path, platforms: int) -> None:
    folder = make_run(tmp_path / "run", platforms=platforms)
    details = json.loads((folder / "details.json").read_text(encoding="utf-8"))
    shown = details["examples"][0]
    shown["head"] = shown["relation"] = shown["selected"][0]["platform"] = HOSTILE
    shown["selected"][0]["tokens"][:2] = [HOSTILE, HOSTILE]
    details["relations"][0]["relation"] = details["data"]["notes"] = HOSTILE
    for name in ("participation", "held"):
        details[name] |= {HOSTILE: 5, "$a_$": 5, 'x" onload="y': 5, "\x00\x1b": 5, "東京": 5}
    dump(folder, "details.json", details)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    dump(folder, "result.json", {**result, "method": HOSTILE, "version": HOSTILE})
    html, page = page_of(folder)
    assert "<script" not in html.lower()
    assert not page.all("script") and not any("onload" in attributes for _, attributes in page.elements)
    assert html.count("&lt;script&gt;") > 5 and HOSTILE in page.text


@pytest.mark.parametrize("classes", [5, 30])
def test_hostile_names_of_labels_are_escaped(tmp_path: Path, classes: int) -> None:
    folder = make_classification(tmp_path / "run", classes=classes)
    details = load(folder, "details.json")
    odd = [HOSTILE, 'x" onload="y', "\x00\x1b", "東京" * 20, "$a_$"]
    names = details["confusion"]["relations"] = [*odd, *details["data"]["relations"][5:]]
    details["data"]["relations"] = names
    details["labels"] = {name: {other: 3 for other in names} for name in names}
    details["classes"][0]["relation"] = HOSTILE
    dump(folder, "details.json", details)
    html, page = page_of(folder)
    assert "<script" not in html.lower()
    assert not page.all("script") and not any("onload" in attributes for _, attributes in page.elements)
    assert HOSTILE in page.text


def test_an_audit_is_shown_and_what_it_says_is_escaped(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    assert "curious coordinator" not in page_of(folder)[0]
    measure = {"value": 0.9123, "chance": 0.5, "interval": [0.8, 0.95]}
    found = {"wants": HOSTILE, "verdict": "succeeds", "measures": {"auc": measure}}
    silent = {"wants": "words", "verdict": "does not apply: none is sent", "measures": {}}
    report = {"rounds": 20, "members": 1000, "non_members": 990, "attacks": [found, silent]}
    dump(folder, "audit.json", report)
    html = page_of(folder)[0]
    assert "What a curious coordinator could find out" in html
    assert "0.912" in html and "0.800 to 0.950" in html and "does not apply: none is sent" in html
    assert HOSTILE not in html
    for broken in ({**report, "members": "many"}, {**report, "attacks": [{**found, "measures": {"auc": 1}}]}):
        dump(folder, "audit.json", broken)
        with pytest.raises(UserError, match=r"audit\.json: unreadable"):
            write_report(folder)


def test_entities_that_overlap_keep_every_word(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    details = json.loads((folder / "details.json").read_text(encoding="utf-8"))
    nested = {**sentence(True, "University", "of", "Oslo", "opened"), "head": [0, 3], "tail": [2, 3]}
    details["examples"] = [{**example(), "selected": [nested]}]
    dump(folder, "details.json", details)
    html, _ = page_of(folder)
    assert '<mark class="head">University of</mark> <mark class="head tail">Oslo</mark> opened' in html


def test_one_round_and_nothing_found(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", platforms=1, relations=0)
    details = json.loads((folder / "details.json").read_text(encoding="utf-8"))
    dump(folder, "details.json", {**details, "pr": {"precision": [], "recall": []}})
    nothing = {**round_line(1, None, None), "dev": dict.fromkeys(SCORES, 0.0), "bytes": {"up": 0, "down": 0}}
    dump(folder, "metrics.jsonl", nothing)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    dump(folder, "result.json", {**result, "rounds": 1, "best_round": 1})
    _, page = page_of(folder)
    assert "of 1 round" in page.text


def test_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "details.json").unlink()
    with pytest.raises(UserError, match=r"details\.json"):
        write_report(folder)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("result.json", "{", r"result\.json: unreadable"),
        ("result.json", "[]", r"result\.json: unreadable \(not in fedrel's format"),
        ("result.json", "{}", r"result\.json: unreadable \(method, seed, .* missing"),
        ("details.json", "[" * 100_000, r"details\.json: unreadable"),
        ("details.json", "{}", r"details\.json: unreadable \(participation"),
        ("metrics.jsonl", "{}\n", r"metrics\.jsonl:1: unreadable \(round"),
        ("metrics.jsonl", "", r"metrics\.jsonl: round 2, the best one, is missing"),
        ("experiment.toml", "=", r"experiment\.toml: unreadable"),
        ("experiment.toml", "", r"experiment\.toml: unreadable \(data\.source or training\.metric"),
    ],
)
def test_a_file_that_we_did_not_write_is_named(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    folder = make_classification(tmp_path / "run")
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=sentence):
        write_report(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("confusion", None),
        ("confusion", {"relations": ["a"]}),
        ("confusion", {"relations": ["a", "b"], "counts": [[1, 2], [3]]}),
        ("confusion", {"relations": ["a"], "counts": [["x"]]}),
        ("labels", []),
        ("labels", {"p0": 3}),
        ("labels", {"p0": {"a": -1}}),
        ("labels", {"p0": {"a": "many"}}),
    ],
)
def test_details_that_cannot_be_drawn_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    folder = make_classification(tmp_path / "run")
    dump(folder, "details.json", {**load(folder, "details.json"), key: value})
    with pytest.raises(UserError, match=rf"details\.json: unreadable \({key}"):
        write_report(folder)


def test_a_run_has_one_kind_of_test_and_the_score_that_chose(tmp_path: Path) -> None:
    folder = make_classification(tmp_path / "run")
    details = load(folder, "details.json")
    del details["classes"]
    dump(folder, "details.json", details)
    with pytest.raises(UserError, match=r"details\.json: unreadable \(pr, relations is missing\)"):
        write_report(folder)
    folder = make_classification(tmp_path / "other")
    toml = (folder / "experiment.toml").read_text(encoding="utf-8")
    (folder / "experiment.toml").write_text(toml.replace("micro_f1", "ap"), encoding="utf-8")
    with pytest.raises(UserError, match="lacks the dev score ap"):
        write_report(folder)


def curves() -> dict[str, list[tuple[list[float], list[float]]]]:
    low, high = ([0.6, 0.3, 0.1], [0.1, 0.5, 0.9]), ([1.0, 0.9, 0.5], [0.1, 0.5, 1.0])
    return {"low": [low], "high $x$ <b>": [high, ([0.9, 0.8, 0.6], [0.0, 0.4, 0.8])], "silent": [([], [])]}


def test_pr_figure_is_a_png_and_an_svg(tmp_path: Path) -> None:
    pr_figure(curves(), tmp_path / "pr.png", "two methods")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pr.png", "pr.svg"]
    content = (tmp_path / "pr.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82")
    assert int.from_bytes(content[16:20], "big") >= 1200  # wide enough to print
    words = [
        "".join(text.itertext()) for text in ET.parse(tmp_path / "pr.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "two methods" in words
    assert words.index("high $x$ <b>") < words.index("low")  # the legend begins with the larger area


def test_pr_figure_repeats(tmp_path: Path) -> None:
    pr_figure(curves(), tmp_path / "a" / "pr.png")
    pr_figure(curves(), tmp_path / "b" / "pr.png")
    for name in ("pr.png", "pr.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
