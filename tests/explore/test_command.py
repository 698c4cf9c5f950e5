"""`fedrel explore` refuses what makes no sense in one sentence, and tells where its page is."""

import json
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from fedrel.extraction.facts import to_json
from tests.explore.small_facts import fact
from tests.knowledge import write
from tests.processes import start


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a file of facts, or --text to extract them from"),
        (["nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
        (["empty.jsonl"], "empty.jsonl: no fact of this confidence"),
        (["broken.jsonl"], 'broken.jsonl:2: "head" is missing; give a file as fedrel extract'),
        (["facts.jsonl", "--min-confidence", 0.999], "facts.jsonl: no fact of this confidence"),
        (["facts.jsonl", "--model", "model"], "--model model: the facts of facts.jsonl are extracted already"),
        (["facts.jsonl", "--text", "nowhere"], "nowhere: no such file or folder"),
        (["facts.jsonl", "--kb", "nowhere"], "nowhere: no such file or folder"),
        (["facts.jsonl", "--truth", "broken.jsonl"], "broken.jsonl:1: write head, relation and tail"),
        (["facts.jsonl", "--token", "short"], "--token: at least 12 characters"),
        (["facts.jsonl", "--host", "0.0.0.0"], "--host 0.0.0.0: others could read your text"),
    ],
)
def test_a_mistake_is_one_sentence(refused, tmp_path, arguments, says):
    (tmp_path / "facts.jsonl").write_text("".join(to_json(fact(number)) for number in range(3)))
    (tmp_path / "broken.jsonl").write_text(f"{to_json(fact(0))}{{}}\n")
    (tmp_path / "empty.jsonl").write_text("")
    port = [] if "--host" in arguments else ["--port", 0]
    assert refused("explore", *arguments, *port).startswith(says)


def test_an_older_file_is_shown_with_the_names_of_the_knowledge_base(tmp_path):
    row = json.loads(to_json(replace(fact(1), head_name="A. Lee", known=None, instead=())))
    del row["instead"], row["head"]["text"], row["tail"]["text"]
    (tmp_path / "facts.jsonl").write_text(json.dumps(row) + "\n")
    people = {"P0": "person: Ann Katharina Lee|A. Lee", "T1": "town: Bonn 1"}
    kb = write(tmp_path / "kb", people, ["P0 person/lives_in T1"])
    process = start("explore", tmp_path / "facts.jsonl", "--kb", kb, "--port", 0)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        base, _, token = address.partition("?")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(base, timeout=60)
        assert len(token) > 20
        cookies = urllib.request.HTTPCookieProcessor()
        opener = urllib.request.build_opener(cookies)
        opener.open(address, timeout=60).close()
        with opener.open(f"{base}?fact=1", timeout=60) as page:
            shown = page.read().decode()
        assert "Ann Katharina Lee" in shown and 'class="tag known"' in shown
    finally:
        process.kill()
        process.communicate()


def test_the_general_model_needs_no_file_of_facts(tmp_path):
    example = Path(__file__).parents[2] / "docs" / "first"
    process = start("explore", "--text", example, "--port", 0)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        base = address.partition("?")[0]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(address, timeout=60).close()
        with opener.open(base, timeout=60) as page:
            assert "Marie Curie" in page.read().decode()
    finally:
        process.kill()
        process.communicate()
