"""docs/formats.md: every format is on the page, and every sample on it is recognised and read as the page says."""

import re
from pathlib import Path

import pytest

from fedrel.corpus import FORMATS, NA
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.corpus.reading import Reading
from fedrel.corpus.splits import find_splits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^### |\Z)", PAGE, re.DOTALL | re.MULTILINE))
_FILE = re.compile(r"^`([^`\n]+)`\n\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_format_has_its_section_and_is_in_the_table():
    assert set(SECTIONS) == set(FORMATS.own)
    for name in FORMATS.own:
        assert f"[`{name}`](#{name})" in PAGE


def test_the_readme_and_the_changelog_count_them():
    for page, words in (("README.md", "any of {} [formats]"), ("CHANGELOG.md", "- {} formats of data")):
        assert words.format(len(FORMATS.own)) in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SECTIONS)
def test_the_sample_is_read_as_the_page_says(tmp_path, name):
    files = _FILE.findall(SECTIONS[name])
    assert files
    for file, content in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content, encoding="utf-8", newline="")
    assert detect(tmp_path).source == name
    if said := re.search(r"^Documents: (\d+)\.", SECTIONS[name], re.MULTILINE):
        assert len(list(Documents(tmp_path))) == int(said[1])
        return
    said = re.search(r"^Rows: (\d+), with a relation: (\d+)\.", SECTIONS[name], re.MULTILINE)
    assert said, "the page says how many rows there are"
    readings = [Reading(name, file) for file in find_splits(tmp_path, name).values()]
    relations = [it.relation for reading in readings for it in reading.instances()]
    assert (len(relations), sum(it != NA for it in relations)) == (int(said[1]), int(said[2]))
    assert not any(reading.skipped.broken for reading in readings)
