"""SemEval-2010 Task 8 and KBP37: four lines a sentence, labels with their direction, and files that are no splits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Instance, Mention, Skipped, semeval
from fedrel.corpus.detection import detect
from fedrel.corpus.splits import find_splits
from fedrel.errors import UserError
from tests.instances import items

SEMEVAL = (
    '1\t"The <e1>spark</e1> started a "<e2>forest fire</e2>"."\nCause-Effect(e1,e2)\nComment: of 1 kind\n\n'
    '2\t"A <e2>mill</e2> grinds <e1>corn</e1>."\nOther\nComment:\n\n'
)
KBP37 = (
    '0\t"<e1> Ann Lee </e1> runs the <e2> Bonn Mill </e2> \'s shop .."\nper:employee_of(e1,e2)\n \n\n'
    '1\t"The <e1> mill </e1> of <e2> Bonn </e2> .."\nno_relation\n\n\n'
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("semeval") / "train.txt"


def read(path: Path, content: str) -> tuple[list[Instance], Skipped]:
    path.write_text(content, encoding="utf-8")
    skip = Skipped()
    return list(items(semeval.read, path, skip)), skip


def test_a_sentence_of_semeval_is_read_with_all_that_it_says(path):
    found, skip = read(path, SEMEVAL)
    words = ["The", "spark", "started", "a", '"', "forest", "fire", '"', "."]
    assert found == [
        Instance(words, Mention("", 1, 2), Mention("", 5, 7), "Cause-Effect(e1,e2)"),
        Instance(["A", "mill", "grinds", "corn", "."], Mention("", 3, 4), Mention("", 1, 2), "Other"),
    ]
    assert skip.total == 0
    assert [where for where, _ in semeval.read(path, Skipped())] == [f"{path}:1", f"{path}:5"]


def test_kbp37_has_blanks_inside_its_tags_and_no_comments(path):
    found, skip = read(path, KBP37)
    words = ["Ann", "Lee", "runs", "the", "Bonn", "Mill", "'", "s", "shop", ".", "."]
    assert found[0] == Instance(words, Mention("", 0, 2), Mention("", 4, 6), "per:employee_of(e1,e2)")
    assert [(it.relation, it.head, it.tail) for it in found[1:]] == [
        ("no_relation", Mention("", 1, 2), Mention("", 3, 4))
    ]
    assert skip.total == 0


@pytest.mark.parametrize(
    ("sentence", "tokens", "head", "tail"),
    [
        ("7\tA <e1>b</e1> <e2>c</e2>", "A b c", (1, 2), (2, 3)),
        ('7 "<e1>b <e2>c</e2></e1>d"', "b cd", (0, 2), (1, 2)),
        ('7\t"non-<e1>stick</e1> <e2>pan</e2>"', "non - stick pan", (2, 3), (3, 4)),
        ('"A <e1>b</e1> <e2>c</e2>"', "A b c", (1, 2), (2, 3)),
        ('7\t"<e1>b</e1>\t<e2>c</e2>', '" b c', (1, 2), (2, 3)),
    ],
)
def test_what_is_odd_in_a_sentence_does_no_harm(path, sentence, tokens, head, tail):
    [found, last], skip = read(path, f"{sentence}\nOther\n{KBP37.partition('..')[2].split(chr(10), 4)[4]}")
    assert (found.tokens, found.relation) == (tokens.split(), "Other")
    assert ((found.head.start, found.head.end), (found.tail.start, found.tail.end)) == (head, tail)
    assert last.relation == "no_relation"
    assert skip.total == 0


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('7\t"A <e1>b</e1> <e2>c</e2>"', "no relation below the sentence"),
        ('7\t"A <e1>b</e1> <e2>c</e2>"\nComment: hm', "TEST_FILE.TXT has none; take TEST_FILE_FULL.TXT"),
        ('7\t"A <e1>b</e1> <e2>c</e2>"\nThe next words', '"The next words" below the sentence is no relation'),
        ('7\t"A <e1>b</e1> c"\nOther', "a tag is missing; mark one <e1>…</e1> and one <e2>…</e2>"),
        ('7\t"A <e1>b</e1> <e2>c</e2> <e2>"\nOther', "<e2> is there twice"),
        ('7\t"A <e1>  </e1> <e2>c</e2>"\nOther', "<e1> marks no word; put its tags around the entity"),
        ('7\t"A <e1>b</e1> </e2>c<e2>"\nOther', "<e2> marks no word"),
        ("7\t\nOther", "a tag is missing"),
        ("Cause-Effect(e1,e2)", "no sentence before this line; a sentence begins with a number"),
    ],
)
def test_a_broken_row_is_counted_with_its_line_and_the_rest_is_read(path, bad, says):
    for content, line in ((f"{SEMEVAL}{bad}\n\n{KBP37}", 9), (f"{SEMEVAL}{bad}", 9), (f"{bad}\n{KBP37}", 1)):
        found, skip = read(path, content)
        assert len(found) == content.count("<e1>") - bad.count("<e1>")
        [said] = skip.broken_examples
        assert said.startswith(f"{path}:{line}: ") and says in said


def test_a_line_that_is_not_utf_8_is_broken_and_the_rest_is_read(path):
    path.write_bytes(SEMEVAL.encode() + '3\t"A <e1>café</e1> <e2>c</e2>"\n'.encode("latin-1"))
    skip = Skipped()
    assert len(list(semeval.read(path, skip))) == 2
    assert skip.broken_examples == [f"{path}:9: not UTF-8 text; convert the file to UTF-8"]


_piece = st.sampled_from(["<e1>", "</e1>", "<e2>", "</e2>", "1\t", '"', "\n", "Comment:", "Other", "a b", " ", "\0"])


@given(st.lists(_piece | st.text(max_size=3), max_size=30))
def test_whatever_the_lines_mentions_are_whole(path, pieces):
    found, _ = read(path, "".join(pieces).encode(errors="replace").decode())
    for it in found:
        assert all(0 <= mention.start < mention.end <= len(it.tokens) for mention in (it.head, it.tail))
        assert it.relation.strip()


@pytest.mark.parametrize("content", [SEMEVAL, KBP37, SEMEVAL.partition("\n")[0]])
def test_it_is_known_by_its_content(path, content):
    path.write_text(content)
    assert detect(path).source == "semeval"


@pytest.mark.parametrize(
    "content",
    [
        '1\t"A mill."\nOther\n',  # no entities
        "1\tA <e1>b</e1> <e2>c</e2>\tOther\n",  # three columns
        "The <e1> and <e2> tags are explained here.\n",
        "8001\tOther\n",
    ],
)
def test_what_is_something_else_is_not_taken_for_it(path, content):
    path.write_text(content)
    try:
        assert detect(path).source != "semeval"
    except UserError as error:
        assert "nearest is semeval" not in str(error)


def test_semeval_as_published_has_a_folder_for_each_split(tmp_path):
    bare = SEMEVAL.partition("\n")[0]
    files = {
        "training/TRAIN_FILE.TXT": SEMEVAL,
        "training/README.txt": "Training data.\n",
        "training/TRAIN_DISTRIB.TXT": "TRAINING DATA\n",
        "testing/TEST_FILE.txt": f"{bare}\n{bare}\n",
        "testing_keys/TEST_FILE_FULL.TXT": SEMEVAL,
        "testing_keys/TEST_FILE_CLEAN.TXT": f"{bare}\n{bare}\n",
        "testing_keys/TEST_FILE_KEY.TXT": "1\tOther\n",
        "scorer-v1.2/answer_key1.txt": "1\tOther\n",
        "scorer-v1.2/proposed_answer1.txt": "1\tOther\n",
        "scorer-v1.2/scorer.pl": "print 1;\n",
    }
    for name, content in files.items():
        file = tmp_path / f"SemEval2010_task8_{name}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    assert detect(tmp_path).source == "semeval"
    found = find_splits(tmp_path, "semeval")
    assert {split: str(file.relative_to(tmp_path)) for split, file in found.items()} == {
        "train": "SemEval2010_task8_training/TRAIN_FILE.TXT",
        "test": "SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT",
    }


def test_splits_side_by_side_and_other_files_beside_them(tmp_path):
    bare = SEMEVAL.partition("\n")[0]
    for name in ("TRAIN_FILE.TXT", "TEST_FILE_FULL.TXT"):
        (tmp_path / name).write_text(SEMEVAL)
    for name in ("TEST_FILE.TXT", "TEST_FILE_CLEAN.TXT"):
        (tmp_path / name).write_text(f"{bare}\n{bare}\n")
    (tmp_path / "TEST_FILE_KEY.TXT").write_text("1\tOther\n")
    (tmp_path / "README.TXT").write_bytes(b"caf\xe9\n")
    assert detect(tmp_path).source == "semeval"
    assert {split: file.name for split, file in find_splits(tmp_path, "semeval").items()} == {
        "train": "TRAIN_FILE.TXT",
        "test": "TEST_FILE_FULL.TXT",
    }


def test_a_folder_of_kbp37_as_published(tmp_path):
    for name in ("train.txt", "dev.txt", "test.txt"):
        (tmp_path / name).write_text(KBP37)
    assert detect(tmp_path).source == "semeval"
    assert sorted(find_splits(tmp_path, "semeval")) == ["dev", "test", "train"]
