"""The whole loop as somebody with a folder of text goes through it: label, train, extract, review, improve, again."""

import re
import shlex
import shutil
import signal
from html import unescape
from pathlib import Path

import pytest

from fedrel.cli.improve import KEPT
from fedrel.feedback.store import RIGHT, WRONG
from tests.processes import start
from tests.review.browser.small_platform import Visitor

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
SMALL = ("training.rounds=15", "extractor.filters=32", "extractor.vectors=random")


def reviewed(*options: object) -> str:
    """The command that the page shows in the end, after up to 40 answers: what the knowledge base has is right."""
    process = start("review", *options, "--kb", EXAMPLE / "kb", "--model", "my-model", "--port", 0)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("open "), process.communicate()
    visitor = Visitor(line.split()[1].rstrip("/"))
    page = visitor.get("/?order=uncertain")
    for _ in range(40):
        if "<blockquote" not in page.text:
            break
        page = visitor.judge(page, WRONG if "not in the knowledge base" in page.words else RIGHT)
    [command] = re.findall(r"<pre><code>(.*?)</code></pre>", page.text, re.DOTALL)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.endswith(f"next: {unescape(command)}\n")
    return unescape(command)


@pytest.mark.slow
def test_facts_and_text_are_reviewed_and_the_printed_command_works_again_and_again(tmp_path, monkeypatch, fedrel):
    monkeypatch.chdir(tmp_path)
    texts = Path("texts")
    texts.mkdir()
    for it in sorted((EXAMPLE / "text").iterdir())[:25]:
        shutil.copy(it, texts)
    assert fedrel("label", "--kb", EXAMPLE / "kb", "--text", EXAMPLE / "new", "--out", "labelled").code == 0
    settings = [part for it in SMALL for part in ("--set", it)]
    data = ("--set", "data.source=opennre", "--set", "data.path=labelled")
    assert fedrel("run", *data, *settings, "--out", "my-model").code == 0
    options = ("--model", "my-model", "--kb", EXAMPLE / "kb", "--min-confidence", "0")
    said = fedrel("extract", *options, "--text", texts, "--out", "facts.jsonl").out
    next_ = f"fedrel review facts.jsonl --text texts --kb {EXAMPLE / 'kb'} --model my-model"
    assert said.splitlines()[-1] == f"next: fedrel explore facts.jsonl, or {next_}"
    made = []
    for number, what in enumerate((("facts.jsonl", "--text", texts), ("--text", texts)), 1):
        command = reviewed(*what)
        assert shlex.split(command)[:3] == ["fedrel", "improve", str(tmp_path / "my-model")]
        for again in (0, 1):
            done = fedrel(*shlex.split(command)[1:])
            made.append(tmp_path / "-".join(["my-model-improved", *([str(2 * number - 1 + again)] if made else [])]))
            assert done.code in (0, KEPT) and str(made[-1]) in done.out.splitlines()[-1], (done.out, done.err)
            assert (made[-1] / "improvement.json").is_file()
