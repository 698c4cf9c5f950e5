"""Which format a file or folder is in, and what is said where nobody can tell."""

from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.corpus.samples import sample_of
from fedrel.corpus.splits import passed_over
from fedrel.data.loading import load
from fedrel.errors import UserError
from tests import labelled_examples as made
from tests.instances import row

FILES = {
    "a.jsonl": (row() + "\n", "opennre"),
    "cut.jsonl": (row()[:-9], "opennre"),
    "b.jsonl": ('{"text": "We met."}\n', "jsonl"),
    "c.txt": (made.nyt10("x"), "nyt10"),
    "d.tsv": (made.biobert("x"), "biobert"),
    "e.tsv": (made.biobert("x", header=True), "biobert"),
    "f.tsv": (made.pgr("x"), "pgr"),
    "g.xml": (made.bioc("x"), "bioc"),
    "g.json": (made.bioc_json("x"), "bioc-json"),
    "g_ddi.xml": (made.ddi("x", interacts=True), "ddi"),
    "h.txt": (made.pubtator("x"), "pubtator"),
    "h.pubtator": (made.pubtator("x"), "pubtator"),
    "i.tsv": (made.classification("x"), "classification"),
    "j.tsv": ("text\tlabel\nsome more words here\tno\n", "classification"),
    "k.tab": (made.tab("x"), "classification"),
    "l.csv": ("id,text\n1,We met.\n", "table"),
    "m.tsv": ("id\tabstract\tyear\n1\tWe met.\t1999\n", "table"),
    "n.txt": ("We met. It was late.\n", "text"),
    "o.ann": ("", "brat"),
    "p.con": ("", "i2b2"),
    "q.a1": ("", "bionlp"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_extension_and_first_lines(tmp_path, name):
    content, source = FILES[name]
    (tmp_path / name).write_text(content)
    found = detect(tmp_path / name)
    assert found.source == source
    assert found.why


@pytest.mark.parametrize("source", made.WRITERS)
def test_a_folder_is_known_by_what_it_holds(tmp_path, source):
    made.WRITERS[source](tmp_path, 3)
    (tmp_path / ".hidden.ann").write_text("")
    found = detect(tmp_path)
    assert found.source == source
    assert found.why


@pytest.mark.parametrize(
    ("files", "source"),
    [
        (["a.txt", "b.txt", "below/c.txt"], "text"),
        (["a.txt", "readme.md"], "text"),
        (["only.txt"], "text"),
        (["train.txt", "train.ann"], "brat"),
    ],
)
def test_a_folder_of_texts(tmp_path, files, source):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("We met. It was late.\n")
    assert detect(tmp_path).source == source


def test_the_words_of_the_built_in_world_do_not_mislead(tmp_path):
    (tmp_path / "train.jsonl").write_text(row() + "\n")
    (tmp_path / "entities.tsv").write_text("Q1\tperson\tAnn\n")
    assert detect(tmp_path).source == "opennre"


def test_the_first_split_that_is_not_empty_decides(tmp_path):
    (tmp_path / "train.tsv").write_text("")
    (tmp_path / "test.tsv").write_text(made.biobert("x", header=True))
    assert detect(tmp_path).source == "biobert"


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        detect(path)
    assert str(caught.value).startswith(f"{path}")
    assert "\n" not in str(caught.value)
    return str(caught.value)


NEAREST = {
    "a.tsv": (
        "x\ty\tz\n",
        "x y z",
        'table, which needs a first line with the names of the columns, one of them "text"',
    ),
    "b.json": ("[1]\n", "[1]", 'jsonl, which needs an object with "text" in each line'),
    "c.xml": ("<html/>\n", "<html/>", "bioc, which needs a <collection>"),
    "d.bin": ("We met.\n", "We met.", "text, which needs the extension .txt"),
    "e.json": (
        '{"token": ["x"], "h": 1}\n',
        '{"token": ["x"], "h": 1}',
        'opennre, which needs "relation" and "t" as well',
    ),
    "f.jsonl": (
        '[\n {\n  "sent": "x",\n  "n": {"h": 1}\n }\n]\n',
        '{"sent": "x", "n": {"h": 1}}',
        'jsonl, which needs "text"',
    ),
    "g.jsonl": (
        '{"text": "x", "relation": "r"}\n',
        '{"text": "x", "relation": "r"}',
        'jsonl, which would leave out "relation" (--source jsonl reads it so)',
    ),
    "h.csv": (
        "id,text,label\n1,We met.,good\n",
        "id,text,label",
        "classification, which is text and label between tabs, or a .tab file",
    ),
    "i.tsv": (
        "FILE_ID\tSENTENCE\tRELATION\nx\ty z\tr\n",
        "FILE_ID SENTENCE RELATION",
        'table, which would leave out "RELATION" (--source table reads it so)',
    ),
    "j.tsv": (
        "NUMBER\tGENE\tGENE_ID\tPHENOTYPE_ID\tRELATION\n1\tx\ty\tz\tr\n",
        "NUMBER GENE GENE_ID PHENOTYPE_ID RELATION",
        'pgr, which needs "GENE_END_POSITION", "GENE_START_POSITION", "PHENOTYPE", "PHENOTYPE_END_POSITION", '
        '"PHENOTYPE_START_POSITION" and "SENTENCE" as well',
    ),
    "k.txt": (
        "SENTENCE : Ann met Bo .\nENTITY1 : Ann\nENTITY2 : Bo\nREL TYPE : met\n",
        "SENTENCE : Ann met Bo . / ENTITY1 : Ann / ENTITY2 : Bo / REL TYPE : met",
        "jsonl, which needs a JSON object in a line for each record",
    ),
    "l.txt": (
        "Satz: Ann traf Bo in Bonn.\nEntität 1: Ann\nEntität 2: Bo\n\nSatz: Eve ging.\nEntität 1: Eve\nEntität 2: –\n",
        "Satz: Ann traf Bo in Bonn. / Entität 1: Ann / Entität 2: Bo",
        "jsonl, which needs a JSON object in a line for each record",
    ),
    "m.tsv": (
        "We met in the note\ta good day\nIt was late by then\ta bad one\n",
        "We met in the note a good day",
        "classification, which needs a text and one word, its label, in every line",
    ),
    "n.csv": (
        "We met in the note,good\nIt was late by then,bad\n",
        "We met in the note,good",
        'table, which needs a .csv file with a first line of names of columns, one of them "text"',
    ),
    "o.csv": (
        'text,Kopf,Fuß\n"Ann traf Bo, es war spät.",Ann,Bo\n',
        "text,Kopf,Fuß",
        'table, which would leave out "Kopf" and "Fuß" (--source table reads it so)',
    ),
    "p.jsonl": (
        '{"text": "Ann traf Bo in Bonn.", "kopf": {"name": "Ann"}, "rest": {"name": "Bo"}}\n',
        '{"text": "Ann traf Bo in Bonn.", "kopf": {"name": "Ann"}, "rest": {"name": "Bo"}}',
        'jsonl, which would leave out "kopf" and "rest" (--source jsonl reads it so)',
    ),
    "q.txt": (
        "We met in the rain|good\nIt was late by then|bad\n",
        "We met in the rain|good",
        'table, which needs a .csv file with a first line of names of columns, one of them "text"',
    ),
}


@pytest.mark.parametrize("name", NEAREST)
def test_an_unknown_file_is_told_its_first_record_and_the_nearest_format(tmp_path, name):
    content, first, nearest = NEAREST[name]
    path = tmp_path / name
    path.write_text(content)
    assert refusal(path) == (
        f"{path}: in no format that is known here; its first record is {first}; nearest is {nearest}; "
        "see docs/formats.md"
    )


def test_a_long_or_odd_record_is_shortened_and_shown_harmless(tmp_path):
    (tmp_path / "a.json").write_text('{"x": "\x1b[2J' + "y" * 9_000 + '"}')
    assert len(refusal(tmp_path / "a.json")) < 600
    assert "\x1b" not in refusal(tmp_path / "a.json")
    (tmp_path / "b.json").write_text('{"x": "\\ud800"}')
    refusal(tmp_path / "b.json").encode()


def test_what_cannot_be_looked_at_is_refused(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: no file in this folder"
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file or folder"
    (tmp_path / "train.tsv").write_text("")
    assert refusal(tmp_path) == f"{tmp_path}: train.tsv: every file is empty"
    assert refusal(tmp_path / "train.tsv") == f"{tmp_path}/train.tsv: the file is empty"
    (tmp_path / "train.tsv").write_bytes(b"caf\xe9\t1\n")
    assert refusal(tmp_path) == f"{tmp_path}/train.tsv:1: not UTF-8 text; convert the file to UTF-8"


def test_a_folder_of_data_sets_is_none_itself(tmp_path):
    for source in ("opennre", "chemprot", "i2b2"):
        (tmp_path / source).mkdir()
        made.WRITERS[source](tmp_path / source, 3)
    assert refusal(tmp_path) == (
        f"{tmp_path}: several data sets are in this folder; name one of them: "
        "chemprot (chemprot), i2b2 (i2b2), opennre (opennre)"
    )


def test_files_of_different_kinds_are_no_data_set(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,We met.\n")
    (tmp_path / "b.tsv").write_text("x\ty\n1\t2\n")
    assert "files of different kinds (a.csv, b.tsv); name one of them" in refusal(tmp_path)


def test_old_line_ends_and_links_that_lead_in_a_circle_do_no_harm(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,text\r1,We met.\r")
    assert detect(tmp_path / "a.csv").source == "table"
    for name in ("one", "other"):
        (tmp_path / name).symlink_to(tmp_path)
    assert detect(tmp_path).source == "table"


def test_an_empty_document_among_others_does_not_matter(tmp_path):
    (tmp_path / "a.txt").write_text(" \n\n")
    (tmp_path / "b.txt").write_text("Ann was born in Bonn.\n")
    assert detect(tmp_path).source == "text"


# ------------------------------------------------------------------------------------- what is no plain text

PROSE = {
    "prose": "We met. It was late.\nThe rain fell on the roof, and nobody spoke.\n",
    "a less-than sign": "It was < 5 degrees and > 3.\nThe p value was p<0.05 in both.\nSo it was.\n",
    "a tab": "We met in this note\tand it was late.\nNobody spoke.\nThe end.\n",
    "tabs before lines": "\tRoses are red,\n\tviolets are blue.\n\tSugar is sweet,\n\tand so are you.\n",
    "a note": "Note: we met.\nText: nothing of note was said, and it rained.\nThe roof leaked.\nNobody spoke.\n",
    "speakers": "ANN: Hello, who is there?\nBO: It is me.\nANN: Come in.\nBO: I will.\n",
    "a reference": "[1] A. Lee, On rain.\n[2] B. Fox, On roofs.\n",
    "a bracket": "[Enter Ann]\nAnn: hello.\n",
    "a brace": "{as if}\nWe met.\n",
    "one bold word": "<b>Title</b>\nWe met.\nIt was late.\nNobody spoke.\nSo it was.\n",
    "chat": "<ann> hello\n<bo> hi there\n<ann> come in\n",
    "a numbered list": "1\tWe met.\n2\tIt was late.\n3\tNobody spoke.\n",
    "mail": "From: ann\nTo: bo\nSubject: rain\n\nIt rained.\nThe roof leaked.\nNobody spoke.\nThe end.\n",
    "short lines": "We met\nIt rained\nThey left\nThe end\n",
    "a handle": "We met @ANN$ once.\n" + "It was late.\n" * 20,
    "one line": "Hello\tworld, it is late",
    "bullets": "-\tWe met.\n-\tIt was late.\n-\tNobody spoke.\n",
    "items": "a)\tWe met.\nb)\tIt was late.\nc)\tNobody spoke.\n",
    "two who talk": "ANN: Is anybody there at all?\n\nBO: Me.\n\nANN: Come in then, it is late.\n\nBO: Yes.\n",
    "a form": "Diagnosis: gout\nMedication: zinc\nPlan: rest in bed for a week\n",
    "a form that names a finding again": "Diagnosis: gout\nMedication: zinc\nPlan: rest in bed while gout lasts\n",
    "entries of a diary": "Monday: it rained all day.\nTuesday: it rained.\nWednesday: the roof leaked.\n",
    "figures": "It was 1,000 in May.\nIt was 2,000 in June.\nIt was 3,000 in July.\n",
    "commas": "We met, it was late.\nIt rained, nobody spoke.\nThe roof leaked, we left.\n",
    "semicolons": "We met; it was late.\nIt rained; nobody spoke.\nThe roof leaked; we left.\n",
    "quotes in brackets": '("So it is.")\nWe met.\n',
    "times": "10:30 we met\n11:30 we left\n12:30 it rained\n",
}
MARKUP = {
    "tagged": '1\t"The <e1>rain</e1> fell on the <e2>roof</e2> ."\nfall(e1,e2)\nComment:\n\n' * 3,
    "tags of types": "The <drug>zinc</drug> stops <gene>abc</gene> .\nThe <drug>zinc</drug> is late .\n",
    "brackets": "The [E1] rain [/E1] fell on the [E2] roof [/E2] .\n",
    "blinded": "We saw @GENE$ with @DISEASE$ .\n" * 3,
    "xml": '<?xml version="1.0"?>\n<doc>\nWe met.\n</doc>\n',
    "sgml": "<DOC>\n<TEXT>\n" + "We met. It was late.\n" * 300 + "</TEXT>\n</DOC>\n",
    "html": "<!DOCTYPE html>\n<p>We met.\n",
    "xml in a line": "<doc><s>We met.</s><s>It was late.</s></doc>\n",
    "json": '{"sent": "We met."}\n{"sent": "It was late."}\n',
    "json over lines": '{\n "sent": "We met."\n}\n',
    "an array": '[["We", "met"], ["It"]]\n',
    "an array over lines": '[\n  "We met."\n]\n',
    "labels": "We met in the rain today\tgood day\nIt was late by then\tbad day\nNobody spoke to us\tgood day\n",
    "three columns": "Ann\tBo\tWe met in rain\nBo\tCy\tIt was late\nCy\tAnn\tNobody spoke\n",
    "records": "SENTENCE : We met .\nMANUALLY CHECKED : TRUE\nENTITY1 : Ann\nTYPE1 : PER\nREL TYPE : met\n\n" * 3,
    "conll": "Ann B-PER\nmet O\nBo B-PER\n. O\n\nIt O\nrained O\n. O\n",
    "conll between tabs": "Ann\tNNP\tB-PER\nmet\tVB\tO\nBo\tNNP\tB-PER\n.\t.\tO\n",
    "conll-u": "1 Ann Ann NOUN _ 2\n2 met meet VERB _ 0\n3 Bo Bo NOUN _ 2\n4 . . PUNCT _ 2\n",
    "nul": "W\0e\0 \0m\0e\0t\0",
    "german records": "Satz: Ann traf Bo in Bonn.\nEntität 1: Ann\nEntität 2: Bo\nBeziehung: traf\n\n" * 2,
    "one german record": "Satz: Ann traf Bo in Bonn.\nEntität 1: Ann\nEntität 2: Bo\nBeziehung: traf\n",
    "german texts with labels": "Aussage: Es regnete den ganzen Tag.\nUrteil: gut\n\n"
    "Aussage: Niemand sagte ein Wort.\nUrteil: schlecht\n",
    "chinese records": "句子：张三 在 北京 工作 很久 了\n头：张三\n尾：北京\n关系：工作\n\n" * 2,
    "french records": "- phrase = Anne aime Bonn et Kiel\n  tête = Anne\n  queue = Bonn\n  lien = aime\n" * 2,
    "two columns": "Ann\tBonn\nBo\tKiel\nEve\tGraz\n",
    "a label first": "1\tWe met in the rain.\n0\tIt was late by then.\n1\tNobody spoke to us.\n",
    "words first": "gut\tEs regnete den ganzen Tag.\nschlecht\tNiemand sagte ein Wort.\n",
    "long labels": "We met in the rain.\ta very good day\nIt was late by then.\ta bad one\n",
    "bars": "We met in the rain|good\nIt was late by then|bad\n",
    "bars between": "We met in the rain ||| good\nIt was late by then ||| bad\n",
    "commas without blanks": "We met in the rain,good\nIt was late by then,bad\n",
    "semicolons without blanks": "Ann;Bonn;born in\nBo;Kiel;died in\n",
    "one row": "m.1\tm.2\tann\tbonn\tborn in\tann was born in bonn\n",
    "fasttext": "__label__good We met in the rain.\n__label__bad It was late by then.\n",
    "python": "{'sent': 'We met.', 'label': 1}\n{'sent': 'It was late.', 'label': 0}\n",
    "tuples": "('We met.', 'good')\n('It was late.', 'bad')\n",
}


@pytest.mark.parametrize("kind", PROSE)
def test_prose_with_odd_lines_is_plain_text(tmp_path, kind):
    (tmp_path / "a.txt").write_text(PROSE[kind])
    assert detect(tmp_path / "a.txt").source == "text"


@pytest.mark.parametrize("kind", MARKUP)
def test_what_is_marked_or_labelled_is_no_plain_text(tmp_path, kind):
    (tmp_path / "a.txt").write_text(MARKUP[kind])
    try:
        found = detect(tmp_path / "a.txt").source
    except UserError as error:
        assert "in no format that is known here" in str(error)
    else:
        assert found != "text"


def test_most_of_the_first_texts_decide(tmp_path):
    for number, content in enumerate(("<a>\n<b/>\n</a>\n", "We met.\n", "It was late.\n")):
        (tmp_path / f"{number}.txt").write_text(content)
    assert detect(tmp_path).source == "text"
    (tmp_path / "1.txt").write_text("<a>\n</a>\n")
    assert refusal(tmp_path).startswith(f"{tmp_path}/0.txt: in no format that is known here")


@pytest.mark.parametrize(
    ("name", "line", "source"),
    [
        ("a.tsv", "rel2id\t0\n", None),
        ("a.tsv", "/people/born\t1\n/people/died\t2\n", None),
        ("a.tsv", "sentence\thead\ttail\trelation\nWe met\tx\ty\tr\n", None),
        ("a.csv", "sentence,e1,e2\nWe met,x,y\n", None),
        ("a.csv", "text,subject\nWe met,mail\n", "table"),
        ("a.jsonl", '{"text": "We met.", "subject": "mail"}\n', "jsonl"),
        ("a.jsonl", '{"text": "We met.", "spans": []}\n', None),
        ("a.jsonl", '{"text": "We met.", "entities": [{"begin": 0}]}\n', None),
        ("a.jsonl", '{"sentence": "We met."}\n', None),
        ("a.json", '[{"words": ["We"], "from": 0, "relation": "r"}]\n', None),
        ("a.txt", "id\ttext\n1\tWe met.\n", "table"),
    ],
)
def test_labelled_rows_are_no_unlabelled_ones(tmp_path, name, line, source):
    (tmp_path / name).write_text(line)
    if source:
        assert detect(tmp_path / name).source == source
    else:
        assert "in no format" in refusal(tmp_path / name)


# ----------------------------------------------------------------------------------------- the first record


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1, "b": {"c": [{"d": 2}]}, "e": "x: {"}',
        '  [ {"a": 1, "b": {"c": [{"d": 2}]}, "e": "\\"x"}, {"f": 1}]',
        '[\n\n  {\n "a": [1, 2],\n "b":\n {"c": 3},\n "e": ":"\n}\n]',
        '\ufeff[{"a": 1, "b": 2, "e": 3',
        '{"a": 1, "b": "x", "e": "' + "y" * 5_000_000,
        '[\n{\n"a": 1,\n"b": {"c": 1},\n"e": {"x": [',
    ],
)
def test_keys_of_the_first_object_wherever_it_ends(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    found = sample_of(tmp_path / "a.json")
    assert found.keys == {"a", "b", "e"}
    assert found.record is None or set(found.record) == {"a", "b", "e"}
    assert found.is_array == ("[" in content[:5])


@pytest.mark.parametrize("content", ["[1]", "[[{", "x {", '"a": 1', "[", "{", '{"a', "[" * 100_000, '{"a":' * 100_000])
def test_what_is_no_object_has_no_keys_and_harms_nobody(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    found = sample_of(tmp_path / "a.json")
    assert found.keys <= {"a"}
    assert found.record is None
    refusal(tmp_path / "a.json")


def test_only_the_beginning_of_a_file_is_looked_at(tmp_path):
    with (tmp_path / "a.json").open("w") as file:
        file.write('[{"token": ["é"], "h": 1, "t": 2, "relation": "r"}')
        file.write(', {"token": ["é"]}' * 2_000_000)
    found = sample_of(tmp_path / "a.json")
    assert len(found.lines) == 1
    assert len(found.text) <= 4 * 2**20
    assert "\ufffd" not in found.lines[0]
    assert detect(tmp_path / "a.json").source == "opennre"


# ------------------------------------------------------------------------------------ files that are not data


def test_files_beside_the_data_are_passed_over_and_listed(tmp_path):
    for name in ("b.txt", "sub/e.txt", "README.txt", "LICENSE", "d.md", "a.pdf", "c.docx", ".DS_Store", "sub/._e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("We met.\n")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "._b.txt").write_text("x")
    found = detect(tmp_path)
    assert (found.source, found.why) == ("text", "2 .txt, 1 .pdf, 1 .docx, 1 .md files")
    assert found.passed_over == (".DS_Store", "LICENSE", "README.txt", "__MACOSX/", "sub/._e.txt")
    documents = Documents(tmp_path)
    assert [it.id for it in documents] == ["b.txt", "d.md", "sub/e.txt"]
    assert list(documents.files.broken) == ["a.pdf", "c.docx"]


@pytest.mark.parametrize("source", made.WRITERS)
def test_what_is_no_data_misleads_no_format(tmp_path, source):
    made.WRITERS[source](tmp_path, 3)
    others = (
        *("README", "readme.txt", "LICENSE.txt", "rel2id.json", "label2id.json", "types.json", "conll04_types.json"),
        *("pid2name.json", "relations.txt", "score.py", "score.pl", "run.sh", "paper.pdf", "._train.txt", "Thumbs.db"),
    )
    for name in others:
        (tmp_path / name).write_text('{"a": 1}\n')
    found = detect(tmp_path)
    assert found.source == source
    assert set(others) <= set(found.passed_over)
    assert load(Data(source=source, path=str(tmp_path), allow_overlap=True))


def test_what_is_named_after_no_split_is_listed(tmp_path):
    made.WRITERS["opennre"](tmp_path, 3)
    (tmp_path / "entities.tsv").write_text("Q1\tperson\tAnn\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.jsonl").write_text("{}")
    assert detect(tmp_path).passed_over == ("entities.tsv", "more/x.jsonl")


def test_folds_are_read_and_what_lies_beside_them_is_listed(tmp_path):
    for fold in ("1", "2"):
        (tmp_path / fold).mkdir()
        made.WRITERS["biobert"](tmp_path / fold, 3)
    (tmp_path / "all.tsv").write_text("x\n")
    assert passed_over(tmp_path, "biobert") == ("all.tsv",)


def test_a_folder_without_data_is_refused(tmp_path):
    for name in ("README.md", "a.py"):
        (tmp_path / name).write_text("x")
    assert refusal(tmp_path) == f"{tmp_path}: no data in this folder, only README.md, a.py"
