"""brat standoff."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.corpus import Annotation, Document, brat
from tests.documents import broken, covered, everything, place, refusal, words

TEXT = "Aspirin eases pain in the\nhead and neck.\n"
NOTES = (
    "T1\tDrug 0 7\tAspirin\n"
    "T2\tPain 14 30\tpain in the head\n"
    "T3\tPain 14 18;35 39\tpain neck\n"
    "*\tEquiv T2 T3\n"
    "E1\tEasing:T2 Agent:T1\n"
    "A1\tNegated T1\n"
    "M1\tNegated T2\n"
    "#1\tAnnotatorNotes T1\tso they say\n"
    "N1\tReference T1 MESH:D001241\tAspirin\n"
    "N2\tReference T1 DB:2\n"
    "N3\tReference E1 DB:3\tno entity\n"
    "R1\tEases Arg1:T1 Arg2:T2\t\n"
    "R2\tEasedBy Object:T1 Subject:T3\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return place(tmp_path_factory.mktemp("brat"), {"a.txt": TEXT})


def test_a_text_and_its_annotations(folder):
    place(folder, {"a.ann": NOTES})
    [found], skipped = everything(brat.read, folder)
    assert found == Document(
        "a",
        TEXT,
        (
            Annotation("T1", 0, 7, "Drug", "MESH:D001241"),
            Annotation("T2", 14, 30, "Pain"),
            Annotation("T3", 14, 39, "Pain"),
        ),
        (("T1", "Eases", "T2"), ("T3", "EasedBy", "T1")),
        str(folder / "a.txt"),
    )
    assert covered(found) == {"T1": "Aspirin", "T2": "pain in the\nhead", "T3": "pain in the\nhead and neck"}
    assert skipped.total == 0
    assert everything(brat.read, folder / "a.txt")[0] == [found]


def test_folders_are_read_in_order_and_a_text_may_have_no_annotations(tmp_path):
    place(tmp_path, {"b.txt": "B", "a/c.v1.txt": "C", "a/c.v1.ann": "", "annotation.conf": "[entities]"})
    found, skipped = everything(brat.read, tmp_path)
    assert [(it.id, it.annotations, it.relations) for it in found] == [("a/c.v1", (), ()), ("b", None, None)]
    assert skipped.total == 0


def test_an_empty_text_and_a_relation_of_an_event_are_counted(tmp_path):
    notes = "R1\tCauses Arg1:T1 Arg2:E1\nE1\tE:T1\nT1\tX 0 1\tA\n"
    place(tmp_path, {"a.txt": "A", "a.ann": notes, "b.txt": "\n", "b.ann": ""})
    [found], skipped = everything(brat.read, tmp_path)
    assert found.relations == ()
    assert skipped.reasons == {"the relation joins an event, not two entities": 1, "there is no text in it": 1}


@pytest.mark.parametrize("counted", [False, True], ids=["lines turned later", "returns counted"])
def test_windows_line_ends_are_read_whichever_way_they_were_counted(tmp_path, counted):
    text = "One\r\ntwo\r\nthree"
    start = (text if counted else text.replace("\r\n", "\n")).index("three")
    place(tmp_path, {"a.txt": "\ufeff" + text, "a.ann": f"T1\tX {start} {start + 5}\tthree\r\nT2\tX 0 3\tOne\r\n"})
    [found], _ = everything(brat.read, tmp_path)
    assert covered(found) == {"T1": "three", "T2": "One"}
    assert ("\r" in found.text) is counted


@given(st.data())
def test_what_is_written_is_read_back(folder, data):
    tokens = data.draw(st.lists(words, min_size=1, max_size=6))
    gaps = data.draw(st.lists(st.sampled_from([" ", "\n", "  ", "\t"]), min_size=len(tokens), max_size=len(tokens)))
    text, starts = "", []
    for token, gap in zip(tokens, gaps, strict=True):
        starts.append(len(text))
        text += token + gap
    spans = [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)]
    marked = data.draw(st.lists(st.lists(st.sampled_from(spans), min_size=1, max_size=3), max_size=4))
    keys = [f"T{n}" for n in range(len(marked))]
    joined = data.draw(st.lists(st.tuples(*[st.sampled_from(keys)] * 2), max_size=3)) if keys else []
    lines = [f"R{n}\tr Arg1:{one} Arg2:{other}" for n, (one, other) in enumerate(joined)]
    for key, pieces in zip(keys, marked, strict=True):
        places = ";".join(f"{start} {end}" for start, end in pieces)
        lines.append(f"{key}\tX {places}\t{' '.join(text[start:end] for start, end in pieces)}")
    place(folder, {"a.txt": text, "a.ann": "\n".join(lines)})
    [found], skipped = everything(brat.read, folder)
    assert found.text == text
    assert [(it.start, it.end) for it in found.annotations] == [
        (min(start for start, _ in pieces), max(end for _, end in pieces)) for pieces in marked
    ]
    assert list(found.relations) == [(one, "r", other) for one, other in joined]
    assert skipped.total == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("T4\tX 0 7\tAspirine", 'the text at 0..7 is "Aspirin", not "Aspirine"; the offsets do not match'),
        ("T4\tX 0 7\t", 'the text at 0..7 is "Aspirin", not ""'),
        ("T4\tX 0 99\tAspirin", "position 0..99 lies outside the 41 characters of the text"),
        ("T4\tX 7 8\t ", "position 7..8 covers white space alone"),
        ("T4\tX 7 0\tAspirin", "position 7..0 lies outside"),
        ("T4\tX 0 7;40 50\tAspirin", "position 40..50 lies outside"),
        ("T4\tX 0 7", 'not a line of brat: "T4 X 0 7"'),
        ("T4 X 0 7 Aspirin", "not a line of brat"),
        ("T4\tX 0 " + "9" * 5_000 + "\tAspirin", "not a line of brat"),
        ("T1\tX 0 7\tAspirin", '"T1" is there twice'),
        ("R3\tEases Arg1:T1 Arg2:T9", 'the relation names "T9", which no T line marks'),
        ("R3\tEases Arg1:T1", "not a line of brat"),
        ("R3\tEases T1 T2", "not a line of brat"),
        ("N4\tReference T9 DB:1\tx", 'the reference is for "T9", which no T line marks'),
        ("N4\tReference T1", "not a line of brat"),
        ("Z1\tsomething", "not a line of brat"),
        ("x" * 1_000_000, 'not a line of brat: "xxx'),
        (b"T4\tX 0 7\tAspir\xefn", "not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_bad_line_is_counted_with_its_file_and_number_and_the_rest_is_read(tmp_path, line, says):
    place(tmp_path, {"a.txt": TEXT, "a.ann": NOTES})
    clean, _ = everything(brat.read, tmp_path)
    notes = NOTES.encode() + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n"
    found, sentence = broken(brat.read, place(tmp_path, {"a.txt": TEXT, "a.ann": notes}))
    assert found == clean
    assert sentence.startswith(f"{tmp_path / 'a.ann'}:15: ")
    assert says in sentence
    assert len(sentence) < 400


def test_bad_lines_of_a_kind_are_counted_together_and_their_relations_apart(tmp_path):
    notes = "T1\tX 0 7\tAspirine\nT2\tX 0 99\tAspirin\nT3\tX 0\tAspirin\nT4\tX 8 13\teases\n"
    notes += "R1\tr Arg1:T1 Arg2:T4\nR2\tr Arg1:T4 Arg2:T3\nR3\tr Arg1:T4 Arg2:T8\nR4\tr Arg1:T9 Arg2:T4\n"
    notes += "N1\tReference T1 DB:1\tx\n"
    [found], skipped = everything(brat.read, place(tmp_path, {"a.txt": TEXT, "a.ann": notes}))
    assert (covered(found), found.relations) == ({"T4": "eases"}, ())
    assert sorted(skipped.broken.values()) == [1, 1, 1, 2]
    assert skipped.broken['the relation names "…", which no T line marks; add it, or remove this'] == 2
    assert skipped.reasons["the relation needs an entity that was left out"] == 2
    assert skipped.total == 7


def test_the_line_ends_are_those_that_fit_most_offsets(tmp_path):
    notes = "T1\tX 5 8\ttwo\nT2\tX 10 15\tthree\nT3\tX 0 2\tXX\n"
    [found], skipped = everything(brat.read, place(tmp_path, {"a.txt": "One\r\ntwo\r\nthree", "a.ann": notes}))
    assert covered(found) == {"T1": "two", "T2": "three"}
    assert skipped.broken.total() == 1


def test_annotations_without_their_text_are_refused(tmp_path):
    place(tmp_path, {"a.txt": TEXT, "b/a.ann": NOTES})
    says = f"{tmp_path / 'b' / 'a.ann'}: there is no a.txt beside it; add the text"
    assert refusal(brat.read, tmp_path) == says


def test_two_texts_of_one_name_are_refused(tmp_path):
    place(tmp_path, {"a.txt": TEXT, "a.TXT": TEXT})
    if len(list(tmp_path.iterdir())) == 2:
        assert "goes by the same name as" in refusal(brat.read, tmp_path)


def test_a_folder_without_texts_is_refused(tmp_path):
    assert refusal(brat.read, tmp_path).startswith(f"{tmp_path}: no .txt file here")
