"""Labelled files that went wrong: refused with the name of a file, or read with every row accounted for: what is broken
in them is counted, and raised where no broken row is tolerated.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.corpus import (
    Document,
    Instance,
    LabelledText,
    Skipped,
    bere,
    biobert,
    chemprot,
    classification,
    fewrel,
    nyt10,
    opennre,
    semeval,
    tacred,
)
from fedrel.corpus import pgr as pgr_reader
from fedrel.data.inspection import inspect
from fedrel.errors import UserError
from tests import labelled_examples as made
from tests.instances import items, row

Found = Instance | LabelledText | Document


@dataclass(frozen=True)
class Example:
    files: dict[str, bytes]  # the first is the one to read
    read: Callable[[Path, Skipped], Iterable[Found]]
    header_rows: Callable[[list[str]], int] = lambda lines: 0  # among the lines that are not blank
    # How many rows there are in the lines that are not blank, of which each is read or counted; None: unknown.
    rows: Callable[[list[str]], int | None] = len


def _biobert_header(lines: list[str]) -> int:
    return int([it.strip().lower() for line in lines[:1] for it in line.split("\t")] == ["index", "sentence", "label"])


def _json_rows(lines: list[str]) -> int | None:
    """Of an array, its items; of an object, the sentences of its relations."""
    try:
        value = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return sum(len(it) if isinstance(it, list) else 1 for it in value.values())
    return len(value) if isinstance(value, list) else None


def _semeval_rows(lines: list[str]) -> int | None:
    """Known only if the file is whole: a numbered sentence with its tags, a relation, a comment."""
    sentences, labels, comments = lines[::3], lines[1::3], lines[2::3]
    whole = all(re.match(r"\d+\t.*<e1>", it) for it in sentences) and all(it.startswith("Comment") for it in comments)
    labelled = all(re.fullmatch(r"\s*[A-Z]\S*\s*", it) and not it.startswith("Comment") for it in labels)
    decoded = not any("\ufffd" in it for it in lines)  # else the line counts as broken, and what is left of its row too
    return len(sentences) if whole and labelled and decoded and not len(lines) % 3 else None


OPENNRE = (
    row() + "\n" + row(text=None, token=["é", "b", "c"], h={"id": "x", "pos": [0, 1]}, t={"id": "y", "pos": [2, 3]})
)
EXAMPLES = {
    "opennre": Example({"train.jsonl": f"{OPENNRE}\n{row(relation='ré')}\n".encode()}, partial(items, opennre.read)),
    "nyt10": Example({"train.txt": made.nyt10("x", 3).encode()}, partial(items, nyt10.read)),
    "biobert": Example({"train.tsv": made.biobert("x", 3).encode()}, partial(items, biobert.read), _biobert_header),
    "biobert-test": Example(
        {"test.tsv": made.biobert("x", 3, header=True).encode()}, partial(items, biobert.read), _biobert_header
    ),
    "pgr": Example(
        {"train.tsv": made.pgr("x", 3).encode()}, partial(items, pgr_reader.read), lambda lines: min(len(lines), 1)
    ),
    "tacred": Example({"train.json": made.tacred("x", 3).encode()}, partial(items, tacred.read), rows=_json_rows),
    "tacred-lines": Example(
        {"train.json": "".join(json.dumps(it) + "\n" for it in json.loads(made.tacred("x", 3))).encode()},
        partial(items, tacred.read),
        rows=lambda lines: None if lines[:1] and lines[0].lstrip().startswith("[") else len(lines),
    ),
    "semeval": Example({"train.txt": made.semeval("x", 3).encode()}, partial(items, semeval.read), rows=_semeval_rows),
    "bere": Example({"train.json": made.bere("x", 3).encode()}, partial(items, bere.read), rows=_json_rows),
    "fewrel": Example({"train.json": made.fewrel("x", 3).encode()}, partial(items, fewrel.read), rows=_json_rows),
    "chemprot": Example(
        {f"c_training_{kind}.tsv": text.encode() for kind, text in made.chemprot("x", 2).items()}, chemprot.read
    ),
    "classification": Example({"train.tsv": made.classification("x", 3).encode()}, partial(items, classification.read)),
    "tab": Example(
        {"train.tab": made.tab("x", 3).encode()}, partial(items, classification.read), lambda lines: min(len(lines), 3)
    ),
}
each_format = pytest.mark.parametrize("name", EXAMPLES)
fast = settings(max_examples=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def outcome(name: str, folder: Path, **changes: bytes) -> list[Found] | str:
    """What is read, or the refusal. Any other exception, or a row that is neither read nor counted, fails the test."""
    example = EXAMPLES[name]
    files = example.files | {file: changes[key] for key, file in keys(name).items() if key in changes}
    for file, content in files.items():
        (folder / file).write_bytes(content)
    skip = Skipped()
    path = folder / next(iter(files))
    try:
        found = list(example.read(path, skip))
    except UserError as error:
        _check_sentence(str(error), folder, files)
        return str(error)
    strict = _read_strictly(example, path)
    if skip.broken:
        _check_sentence(skip.broken_examples[0], folder, files)
        assert strict == skip.broken_examples[0]
    else:
        assert strict == found
    lines = {file: _lines(content) for file, content in files.items()}
    if name == "chemprot":
        documents = [it for it in found if isinstance(it, Document)]
        parts = sum(len(it.annotations or ()) + len(it.relations or ()) for it in documents)
        assert len(found) + parts + skip.total == sum(len(decoded) + lost for decoded, lost in lines.values())
    else:
        decoded, lost = lines[path.name]
        rows = example.rows(decoded)
        counted_apart = rows is not None and not (lost and example.rows is not len)
        assert not counted_apart or len(found) + skip.total == (rows or 0) + lost - example.header_rows(decoded)
    for it in found:
        _check(it)
    return found


def _read_strictly(example: Example, path: Path) -> list[Found] | str:
    try:
        return list(example.read(path, Skipped(strict=True)))
    except UserError as error:
        return str(error)


def _check_sentence(sentence: str, folder: Path, files: Iterable[str]) -> None:
    assert any(sentence.startswith(str(folder / file)) for file in files), sentence
    assert "\n" not in sentence
    assert len(sentence) < 1_000


def keys(name: str) -> dict[str, str]:
    """File names as keyword arguments."""
    return {f"file{number}": file for number, file in enumerate(EXAMPLES[name].files)}


def _lines(content: bytes) -> tuple[list[str], int]:
    """Those that are not blank, and how many are not UTF-8. Written anew, and not with the reader's own."""
    lines, undecoded = [], 0
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            lines.append(line.decode().rstrip("\r"))
        except UnicodeDecodeError:
            undecoded += 1
    return [line for line in lines if line.strip()], undecoded


def _check(it: Found) -> None:
    if isinstance(it, Instance):
        for mention in (it.head, it.tail):
            assert 0 <= mention.start < mention.end <= len(it.tokens)
            assert mention.id.strip() or mention.id == ""
        assert len(it.tokens) <= 10_000
        assert it.relation
    if isinstance(it, LabelledText):
        assert it.tokens
        assert it.label
    if isinstance(it, Document):
        assert all(it.text[a.start : a.end].strip() for a in it.annotations or ())
    else:
        "".join(it.tokens).encode()


def each_file(name: str) -> list[tuple[str, bytes]]:
    return [(key, EXAMPLES[name].files[file]) for key, file in keys(name).items()]


@each_format
def test_the_example_is_good(name, folder):
    assert len(outcome(name, folder)) in (2, 3)


@each_format
def test_cut_off_anywhere(name, folder):
    for key, content in each_file(name):
        for end in range(len(content)):
            outcome(name, folder, **{key: content[:end]})


@each_format
def test_an_empty_file(name, folder):
    for key, _ in each_file(name):
        for content in (b"", b"\n\n", b" \t \r\n", b"\xef\xbb\xbf"):
            assert outcome(name, folder, **{key: content}) is not None


@each_format
@given(data=st.data())
@fast
def test_shuffled_lines(name, folder, data):
    key, content = data.draw(st.sampled_from(each_file(name)))
    lines = data.draw(st.permutations(content.splitlines(keepends=True)))
    outcome(name, folder, **{key: b"".join(lines)})


@each_format
@given(data=st.data())
@fast
def test_bytes_put_in_or_replaced(name, folder, data):
    key, content = data.draw(st.sampled_from(each_file(name)))
    place = data.draw(st.integers(0, len(content)))
    odd = st.sampled_from([b"\t", b"\n", b"\0", b"\r", b"\xff", b"\xc2\x85", b"\xe2\x80\xa8", b'"', b"@GENE$", b"-"])
    new = data.draw(st.binary(max_size=4) | odd)
    gone = data.draw(st.integers(0, 3))
    outcome(name, folder, **{key: content[:place] + new + content[place + gone :]})


@each_format
def test_a_column_is_missing(name, folder):
    for key, content in each_file(name):
        lines = content.decode().split("\n")
        for number, line in enumerate(lines):
            columns = line.split("\t")
            for missing in range(len(columns)):
                short = "\t".join(columns[:missing] + columns[missing + 1 :])
                changed = "\n".join([*lines[:number], short, *lines[number + 1 :]])
                outcome(name, folder, **{key: changed.encode()})


@each_format
@pytest.mark.parametrize("number", ["-1", "0", "1", "2", "99999", "1000000000000", "1.5", "x", "", "９"])
def test_another_number_in_place_of_each(name, folder, number):
    """Offsets outside the text, above all."""
    for key, content in each_file(name):
        text = content.decode()
        for match in re.finditer(r"\d+", text):
            changed = text[: match.start()] + number + text[match.end() :]
            outcome(name, folder, **{key: changed.encode()})


@each_format
def test_a_huge_line(name, folder):
    for key, content in each_file(name):
        for huge in (b"x" * 10**6, b"\t" * 10**6 + b"x", b"x\t" * 500_000, b"@A$ " * 250_000 + b"@B$\t1"):
            outcome(name, folder, **{key: content + huge + b"\n"})


@pytest.mark.parametrize("name", ["nyt10", "biobert", "classification", "tab", "pgr"])
def test_a_huge_text_is_read_and_a_huge_sentence_broken(name, folder):
    [(key, content)] = each_file(name)
    for words in ("café", "met", "saw"):
        content = content.replace(f" {words}".encode(), b" x" * 500_000 + f" {words}".encode(), 1)
    found = outcome(name, folder, **{key: content})
    assert not isinstance(found, str), found
    if name in ("classification", "tab"):
        assert max(len(it.tokens) for it in found if not isinstance(it, Document)) > 500_000
    else:
        assert len(found) == 2


@each_format
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_of_another_encoding_nothing_is_read(name, folder, encoding):
    for key, content in each_file(name):
        found = outcome(name, folder, **{key: content.decode().encode(encoding)})
        if key == "file0":
            assert isinstance(found, str) or not found
        else:  # the entities or relations of documents
            assert not any(it.relations for it in found if isinstance(it, Document))


@each_format
def test_of_another_alphabet_the_rows_that_need_it_are_lost(name, folder):
    clean = outcome(name, folder)
    for key, content in each_file(name):
        found = outcome(name, folder, **{key: content.decode().encode("latin-1")})
        if key == "file0" and not isinstance(found, str) and not content.isascii():
            assert all(it in clean for it in found)
            assert len(found) < len(clean)


@each_format
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(name, folder):
    clean = outcome(name, folder)
    for key, content in each_file(name):
        for other in (b"\xef\xbb\xbf" + content, content.replace(b"\n", b"\r\n"), content + b"\n \t\n"):
            assert outcome(name, folder, **{key: other}) == clean
        assert outcome(name, folder, **{key: content.rstrip(b"\n")}) == clean


@pytest.mark.parametrize("name", made.WRITERS)
@given(data=st.data())
@settings(max_examples=25)
def test_a_damaged_data_set_is_inspected_or_refused(name, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged")
    made.WRITERS[name](path, 4)
    file = data.draw(st.sampled_from(sorted(it for it in path.rglob("*") if it.is_file())))
    content = file.read_bytes()
    place = data.draw(st.integers(0, len(content)))
    new = data.draw(st.binary(max_size=3) | st.sampled_from([b"\t", b"\n", b"\0"]))
    gone = data.draw(st.sampled_from([0, 1, 5, len(content)]))
    file.write_bytes(content[:place] + new + content[place + gone :])
    for source in (None, name):
        try:
            assert inspect(path, source).as_json()
        except UserError as error:
            assert str(error).startswith((str(path), "no ", "the ")), error
            assert "\n" not in str(error)
