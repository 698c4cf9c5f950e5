"""PGR: offsets in the sentence as it is written, names that stand elsewhere, both spellings of true."""

from pathlib import Path

import pytest

from fedrel.corpus import NA, Mention, Skipped, pgr
from fedrel.errors import UserError
from tests.broken_rows import with_a_broken_row
from tests.instances import items
from tests.labelled_examples import PGR_COLUMNS, pgr_row

HEADER = "\t".join(PGR_COLUMNS) + "\n"
TEXT = "Loss of ABC1 (p &lt; 5) led to gout."


def read(folder: Path, *rows: str, header=HEADER):
    skip = Skipped()
    (folder / "train.tsv").write_text(header + "".join(rows), encoding="utf-8", newline="")
    return list(items(pgr.read, folder / "train.tsv", skip)), skip


def words(instance):
    return [instance.tokens[it.start : it.end] for it in (instance.head, instance.tail)]


def test_offsets_count_the_raw_sentence_and_tokens_are_what_is_meant(tmp_path):
    [found], skip = read(tmp_path, pgr_row(TEXT, "ABC1", "gout"))
    assert found.tokens == ["Loss", "of", "ABC1", "(", "p", "<", "5", ")", "led", "to", "gout", "."]
    assert words(found) == [["ABC1"], ["gout"]]
    assert (found.head, found.tail) == (Mention("g-ABC1", 2, 3, "GENE"), Mention("HP-gout", 10, 11, "PHENOTYPE"))
    assert (found.relation, found.document) == ("related", "1")
    assert not skip.total


@pytest.mark.parametrize(
    ("written", "relation"),
    [("True", "related"), ("TRUE", "related"), ("False", NA), ("FALSE", NA), ("true ", "related")],
)
def test_true_and_false_are_written_in_any_case(tmp_path, written, relation):
    [found], _ = read(tmp_path, pgr_row(TEXT, "ABC1", "gout", RELATION=written))
    assert found.relation == relation


@pytest.mark.parametrize("judged", ["C", "I", "U"])
def test_a_column_of_confirmation_changes_nothing(tmp_path, judged):
    plain, _ = read(tmp_path, pgr_row(TEXT, "ABC1", "gout"))
    row = pgr_row(TEXT, "ABC1", "gout").rstrip("\n") + f"\t{judged}\n"
    assert read(tmp_path, row, header=HEADER.rstrip("\n") + "\tCONFIRMATION (CORRECT(C) | …)\n")[0] == plain


@pytest.mark.parametrize(
    ("text", "gene", "place", "token"),
    [
        ("ABC1 or ABC1 or ABC1 in gout", "ABC1", 7, 2),  # the nearest
        ("ABC1 or ABC1 or ABC1 in gout", "ABC1", 99, 4),
        ("abc1 and XABC1X in gout", "ABC1", 8, 0),  # a word of another case before a part of a word
        ("one XABC1 in gout", "ABC1", 0, 1),
        ("A&amp;B is in gout", "A&B", 3, 0),  # written with the characters that are meant
        ("x &lt; A&amp;B is in gout", "A&amp;B", 0, 2),
    ],
)
def test_a_name_that_is_not_at_its_offsets_is_found_near_them(tmp_path, text, gene, place, token):
    row = pgr_row(text, gene, "gout", GENE_START_POSITION=place, GENE_END_POSITION=place + 4)
    [found], skip = read(tmp_path, row)
    assert found.head.start == token
    assert words(found)[1] == ["gout"]
    assert not skip.total


def test_a_name_that_is_nowhere_is_left_out_and_counted(tmp_path):
    rows = [
        pgr_row(TEXT, "ABC1", "gout"),
        pgr_row(TEXT, "AA", "gout", GENE_START_POSITION=1, GENE_END_POSITION=3),
        pgr_row(TEXT, "ABC1", "ague", PHENOTYPE_START_POSITION=1, PHENOTYPE_END_POSITION=3),
    ]
    found, skip = read(tmp_path, *rows)
    assert len(found) == 1
    assert dict(skip.reasons) == {"the gene is not in the sentence": 1, "the phenotype is not in the sentence": 1}
    assert skip.examples[0] == f"{tmp_path}/train.tsv:3: the gene is not in the sentence"


def test_an_entity_without_an_id_goes_by_its_name_within_its_document(tmp_path):
    [one, other], _ = read(
        tmp_path,
        pgr_row(TEXT, "ABC1", "gout", GENE_ID="", PHENOTYPE_ID=" "),
        pgr_row(TEXT, "ABC1", "gout", GENE_ID="", FILE_ID=" "),
    )
    assert (one.head, one.tail) == (Mention("", 2, 3, "GENE", "ABC1"), Mention("", 10, 11, "PHENOTYPE", "gout"))
    assert (other.head, other.document) == (Mention("", 2, 3, "GENE"), "")


def test_a_file_may_have_no_column_of_documents(tmp_path):
    row = pgr_row(TEXT, "ABC1", "gout").partition("\t")[2]
    [found], _ = read(tmp_path, row, header=HEADER.partition("\t")[2])
    assert found.document == ""


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (pgr_row(TEXT, "ABC1", "gout", RELATION="maybe"), 'RELATION is "maybe"; it must be True or False'),
        (pgr_row(TEXT, "ABC1", "gout", GENE_START_POSITION="x"), 'GENE_START_POSITION is "x"; it must be a whole'),
        (pgr_row(TEXT, "ABC1", "gout", PHENOTYPE_END_POSITION=-1), "PHENOTYPE_END_POSITION is"),
        (pgr_row(TEXT, "ABC1", "gout", GENE=" "), "GENE is empty"),
        (pgr_row(TEXT, "ABC1", "gout").replace("\tTrue", ""), "10 columns where 11 are needed"),
        (
            pgr_row(TEXT + " x" * 10_000, "ABC1", "gout"),
            "a sentence of 10,012 tokens; at most 10,000 are read: split it",
        ),
    ],
)
def test_a_bad_row_is_counted_with_its_place(tmp_path, row, says):
    good, path = pgr_row(TEXT, "ABC1", "gout"), tmp_path / "train.tsv"
    path.write_text(HEADER + good + row + good)
    sentence, found = with_a_broken_row(pgr.read, path)
    assert sentence.startswith(f"{path}:3: ")
    assert says in sentence
    assert [where for where, _ in found] == [f"{path}:2", f"{path}:4"]


def test_a_file_without_its_header_row_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"train\.tsv:1: no column SENTENCE"):
        read(tmp_path, pgr_row(TEXT, "ABC1", "gout"), header="")
    (tmp_path / "train.tsv").write_bytes(b"\xff\n" + HEADER.encode())
    with pytest.raises(UserError, match=r"train\.tsv:1: not UTF-8 text"):
        list(pgr.read(tmp_path / "train.tsv", Skipped()))
