"""i2b2/VA 2010. The records are invented."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Annotation, i2b2
from tests.broken_rows import with_a_broken_row
from tests.documents import covered, everything, place, refusal, words

TEXT = "Admission note\n\n She was given  Aspirin for her Headache .\nHer headache\twas worse\n"
CONCEPTS = (
    'c="aspirin" 3:3 3:3||t="treatment"\n'
    'c="her headache" 3:5 3:6||t="problem"\n'
    'c="her headache" 4:0 4:1||t="problem"\n'
    'c="headache . her" 3:6 4:0||t="problem"\n'
)
RELATIONS = (
    'c="aspirin" 3:3 3:3||r="TrAP"||c="her headache" 3:5 3:6\n'
    'c="her headache" 4:0 4:1||r="PIP"||c="her headache" 3:5 3:6\n'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("i2b2")


@pytest.mark.parametrize(
    "names",
    [
        ("txt/r-1.txt", "concept/r-1.con", "rel/r-1.rel", "ast/r-1.ast"),
        ("txt/r-1.txt", "concepts/r-1.con", "rel/r-1.rel", "ast/r-1.ast"),
        ("r-1.txt", "r-1.con", "r-1.rel", "r-1.ast"),
        ("test_data/r-1.txt", "reference/concepts/r-1.con", "reference/rel/r-1.rel", "reference/ast/r-1.ast"),
    ],
)
def test_places_become_characters(tmp_path, names):
    place(tmp_path, dict(zip(names, (TEXT, CONCEPTS, RELATIONS, "no matter"), strict=True)))
    [found], skipped = everything(i2b2.read, tmp_path)
    assert (found.id, found.text, found.where) == ("r-1", TEXT, str(tmp_path / names[0]))
    assert found.annotations[0] == Annotation("T1", 32, 39, "treatment")
    assert covered(found) == {
        "T1": "Aspirin",
        "T2": "her Headache",
        "T3": "Her headache",
        "T4": "Headache .\nHer",
    }
    assert found.relations == (("T1", "TrAP", "T2"), ("T3", "PIP", "T2"))
    assert [TEXT[start:end] for start, end in found.sentences] == [
        "Admission note",
        "She was given  Aspirin for her Headache .",
        "Her headache\twas worse",
    ]
    assert [TEXT[start:end] for start, end in found.tokens] == TEXT.split(), "as they are, not split again"
    assert all(it.id == "" for it in found.annotations)
    assert skipped.total == 0


def test_a_record_may_have_no_concepts_or_no_relations(tmp_path):
    place(tmp_path, {"a.txt": TEXT, "a.con": CONCEPTS, "b.txt": TEXT, "c.txt": " ", "c.con": ""})
    [first, second], skipped = everything(i2b2.read, tmp_path)
    assert len(first.annotations) == 4
    assert first.relations is None
    assert (second.annotations, second.relations) == (None, None)
    assert skipped.reasons == {"there is no text in it": 1}
    assert everything(i2b2.read, tmp_path / "a.txt")[0] == [first]


def test_a_concept_that_does_not_fit_the_text_is_counted_with_its_relations(tmp_path):
    concepts = CONCEPTS.replace("aspirin", "ibuprofen") + 'c="her headache" 3:5 3:6||t="problem"\n'
    place(tmp_path, {"a.txt": TEXT, "a.con": concepts, "a.rel": RELATIONS})
    [found], skipped = everything(i2b2.read, tmp_path)
    assert list(covered(found).values()) == ["her Headache", "Her headache", "Headache .\nHer"]
    assert found.relations == (("T2", "PIP", "T1"),)
    assert skipped.reasons == {
        "the words of the concept do not stand at its place": 1,
        "the concept is marked twice": 1,
        "the relation needs an entity that was left out": 1,
    }
    assert not skipped.broken


def test_a_relation_needs_a_concept_whose_line_is_broken(tmp_path):
    concepts = CONCEPTS.replace('||t="treatment"', "")
    place(tmp_path, {"a.txt": TEXT, "a.con": concepts, "a.rel": RELATIONS})
    [found], skipped = everything(i2b2.read, tmp_path)
    assert found.relations == (("T2", "PIP", "T1"),)
    assert skipped.broken_examples == [f'{tmp_path}/a.con:1: not a concept such as c="aspirin" 1:0 1:0||t="treatment"']
    assert skipped.reasons["the relation needs an entity that was left out"] == 1


def test_a_record_that_is_not_utf8_is_counted_and_the_others_read(tmp_path):
    place(tmp_path, {"a.txt": b"caf\xe9\n", "a.con": "", "b.txt": TEXT})
    sentence, [found] = with_a_broken_row(i2b2.read, tmp_path)
    assert sentence == f"{tmp_path}/a.txt:1: not UTF-8 text; convert the file to UTF-8"
    assert found.id == "b"


@given(st.lists(st.lists(words, max_size=4), min_size=1, max_size=4), st.data())
def test_what_is_written_is_read_back(folder, lines, data):
    gap = st.sampled_from([" ", "  ", "\t", "\u00a0"])
    text = "\n".join(data.draw(gap).join(line) for line in lines)
    tokens = [(row, at) for row, line in enumerate(lines, 1) for at in range(len(line))]
    spans = data.draw(st.lists(st.tuples(*[st.sampled_from(tokens)] * 2).map(sorted), max_size=4)) if tokens else []
    rows = []
    for first, last in spans:
        inside = [lines[row - 1][at] for row, at in tokens if first <= (row, at) <= last]
        rows.append((f'c="{" ".join(inside)}" {first[0]}:{first[1]} {last[0]}:{last[1]}', "".join(inside)))
    if any("||" in row for row, _ in rows):
        return  # the format has no way to write this
    place(folder, {"a.txt": text, "a.con": "".join(f'{row}||t="x{n}"\n' for n, (row, _) in enumerate(rows))})
    found, skipped = everything(i2b2.read, folder)
    if text.strip():
        assert ["".join(it.split()) for it in covered(found[0]).values()] == [inside for _, inside in rows]
        assert skipped.total == 0


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("a.con", 'c="x" 3:3 3:9||t="problem"', "there is no token 9 in line 3 of the text; it has 8 from 0"),
        ("a.con", 'c="x" 9:0 9:0||t="problem"', "there is no line 9 in the text; it has 5"),
        ("a.con", 'c="x" 0:0 1:0||t="problem"', "there is no line 0 in the text"),
        ("a.con", 'c="x" 2:0 3:0||t="problem"', "there is no token 0 in line 2"),
        ("a.con", 'c="x" 4:0 3:0||t="problem"', "the concept ends before it begins"),
        ("a.con", 'c="aspirin" 3:3||t="treatment"', "not a concept with its place"),
        ("a.con", f'c="aspirin" 3:3 3:{"3" * 5_000}||t="treatment"', "not a concept with its place"),
        ("a.con", 'c="aspirin" 3:3 3:3', 'not a concept such as c="aspirin" 1:0 1:0||t="treatment"'),
        ("a.con", 'c="aspirin" 3:3 3:3||t="treatment"||a="present"', "not a concept such as"),
        ("a.con", 'c="' + '" 1:1 1:1||c="' * 70_000, "not a concept such as"),
        ("a.rel", 'c="aspirin" 3:3 3:3||r="TrAP"', "not a relation such as"),
        ("a.rel", 'c="aspirin" 3:3 3:3||r=""||c="her headache" 3:5 3:6', "not a relation such as"),
        ("a.rel", 'c="given" 3:2 3:2||r="TrAP"||c="her headache" 3:5 3:6', 'the concept "given" is not in a.con'),
        ("a.rel", 'c="aspirin" 3:3 3:3||r="TrAP"||c="her headache" 3:5 5:6', "there is no token 6 in line 5"),
        ("a.rel", b"\xff", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_line_is_counted_with_its_file_and_number(tmp_path, name, line, says):
    files: dict[str, str | bytes] = {"a.con": CONCEPTS, "a.rel": RELATIONS}
    before = files[name]
    assert isinstance(before, str)
    files[name] = (line if isinstance(line, bytes) else line.encode()) + b"\n\n" + before.encode()
    sentence, [found] = with_a_broken_row(i2b2.read, place(tmp_path, {"a.txt": TEXT, **files}))
    assert sentence.startswith(f"{tmp_path / name}:1: ")
    assert says in sentence
    assert (len(found.annotations), len(found.relations)) == (4, 2)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a.con"], "a.con: there is no a.txt that it belongs to"),
        (["a.txt", "a.rel"], "a.rel: there is no a.con that it belongs to"),
        (["x/a.txt", "y/a.txt"], "goes by the same name as"),
        ([], "no .txt file here"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(tmp_path, names, says):
    place(tmp_path, dict.fromkeys(names, "x"))
    sentence = refusal(i2b2.read, tmp_path)
    assert sentence.startswith(str(tmp_path))
    assert says in sentence
