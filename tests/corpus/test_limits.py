"""Files that would fill the memory: a limit, and a sentence that names it."""

import json
import resource
import subprocess
import sys

import pytest

from fedrel.corpus import FORMATS, Skipped, checks, i2b2, xml_elements
from fedrel.corpus.detection import detect
from fedrel.errors import UserError

MARKS = "\n".join(f"T{number}\tDrug 0 4\tZinc" for number in range(1, 12))


def refusal(source: str, path) -> str:
    """That of a file, or of its only document."""
    skipped, read = Skipped(), FORMATS[source].documents
    assert read
    try:
        assert not list(read(path, skipped))
    except UserError as error:
        return str(error)
    [sentence] = skipped.broken_examples
    return sentence


@pytest.mark.parametrize(
    ("source", "files", "says"),
    [
        ("brat", {"a.txt": "Zinc helps.", "a.ann": MARKS}, "/a.ann:7: more than 5 entities and relations"),
        ("bionlp", {"a.txt": "Zinc helps.", "a.a1": MARKS}, "/a.a1:7: more than 5 entities and relations"),
        (
            "pubtator",
            {"a.pubtator": "7|t|Zinc helps.\n" + "7\t0\t4\tZinc\tDrug\tD1\n" * 9},
            "/a.pubtator:7: more than 5 entities and relations",
        ),
    ],
)
def test_a_document_has_a_limited_number_of_marks(tmp_path, monkeypatch, source, files, says):
    monkeypatch.setattr(checks, "MOST_MARKS", 5)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert says in refusal(source, tmp_path)


def test_an_xml_document_has_a_limited_number_of_elements(tmp_path, monkeypatch):
    monkeypatch.setattr(xml_elements, "_MOST_ELEMENTS", 20)
    small, large = ("<document><id>1</id>" + "<infon key='a'/>" * count + "</document>" for count in (15, 25))
    (tmp_path / "a.xml").write_text(f"<collection>{small * 5}{large}</collection>")
    assert refusal("bioc", tmp_path / "a.xml").endswith("more than 20 elements in one <document>; cut it into several")


def test_a_text_of_xml_that_is_too_long_is_not_called_damaged(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(f"<collection><document><id>{'x' * 11_000_000}</id></document></collection>")
    assert refusal("bioc", path).startswith(f"{path}:1: too long a text")


def test_a_record_of_i2b2_has_a_limited_size(tmp_path, monkeypatch):
    monkeypatch.setattr(i2b2, "_LARGEST", 3 * 2**20)
    (tmp_path / "a.txt").write_text("a " * 2 * 2**20)
    assert refusal("i2b2", tmp_path).endswith("a.txt: a text of 4 MB; at most 3 MB are read: cut it into parts")


def test_one_text_of_many_that_is_not_utf8_is_counted(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"Zinc helps {number}.")
        (tmp_path / f"{number}.ann").write_text("T1\tDrug 0 4\tZinc\n")
    (tmp_path / "3.txt").write_bytes(b"Zinc \xe9")
    skipped, read = Skipped(), FORMATS["brat"].documents
    assert read
    assert [it.id for it in read(tmp_path, skipped)] == ["0", "1", "2", "4"]
    assert skipped.broken == {"not UTF-8 text; convert the file to UTF-8": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.txt", "train.jsonl", "notes.csv", "train.json", "train.xml", "i2b2", "fewrel"])
def test_a_hundred_megabytes_in_a_line_take_less_than_a_gigabyte(tmp_path, name):
    words = "word " * (20 * 2**20)
    content = {
        "a.txt": words,
        "train.jsonl": f'{{"text": "{words}", "entities": [], "relations": []}}',
        "notes.csv": f'id,text\n1,"{words}"\n',
        "train.json": f'[{{"tokens": ["{words}"], "entities": [], "relations": []}}]',
        "train.xml": f"<collection><document><id>{words}</id></document></collection>",
        "i2b2": words,
        "fewrel": f'{{"P1": [{{"tokens": ["{words}"], "h": [], "t": []}}]}}',
    }[name]
    file = {"i2b2": "a.txt", "fewrel": "train_wiki.json"}.get(name, name)
    (tmp_path / file).write_text(content)
    if name == "i2b2":
        (tmp_path / "a.con").write_text('c="word" 1:0 1:0||t="problem"\n')
    del words, content
    done = subprocess.run(
        [sys.executable, "-c", "from fedrel.cli.app import app; app()", "data", "check", str(tmp_path)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30)),
        check=False,
    )
    assert done.returncode == (0 if name == "a.txt" else 2), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("source", "row"),
    [
        ("triples", {"text": "ab " * 4_000, "triple_list": [["ab", "r", "ab"]]}),
        ("bere", {"sentence": "ab " * 4_000, "head": {"word": "ab"}, "tail": {"word": "ab"}, "relation": "r"}),
    ],
)
def test_the_tokens_of_too_long_a_sentence_are_never_in_memory(tmp_path, monkeypatch, source, row):
    monkeypatch.setattr(checks, "LONGEST_SENTENCE", 1_000)
    monkeypatch.setattr(checks, "tokenize", None)
    (tmp_path / "train.json").write_text(json.dumps([row]))
    skipped, form = Skipped(), FORMATS[source]
    read = form.documents or form.sentences
    assert read
    assert not list(read(tmp_path / "train.json", skipped))
    assert "a sentence of 4,000 tokens; at most 1,000 are read" in skipped.broken_examples[0]


def test_a_long_first_record_is_recognised_as_far_as_a_record_may_go(tmp_path):
    path = tmp_path / "train.json"
    path.write_text(json.dumps([{"text": "ab " * 2_000_000, "triple_list": [["ab", "r", "ab"]]}]))
    assert detect(path).source == "triples"
    path.write_text(json.dumps({"text": "ab " * 6_000_000, "triple_list": [["ab", "r", "ab"]]}))
    with pytest.raises(UserError, match=r"the first record is too long to tell the format by, more than 16 MB"):
        detect(path)
