"""What is said about a data set: counts of file and of what was loaded, shared pairs, rows to look at, what next."""

import json
from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus import FORMATS, NA
from fedrel.corpus.detection import detect
from fedrel.corpus.reading import Reading
from fedrel.corpus.rules import LOCAL
from fedrel.corpus.splits import find_splits
from fedrel.data.inspection import inspect
from fedrel.errors import UserError
from tests.instances import row, sentence, sentences, write
from tests.labelled_examples import WRITERS, biobert, classification, pgr_row, tab

COUNTS = ("sentences", "pairs", "facts", "facts_in_several_sentences")


def counts(report, *names):
    return {split: tuple(part.counts.get(name) for name in names) for split, part in report.parts.items()}


@pytest.mark.parametrize("source", WRITERS)
def test_every_format_with_labels(tmp_path, source):
    WRITERS[source](tmp_path, 4)
    report = inspect(tmp_path)
    assert (report.kind, report.format) == ("labelled sentences", source)
    assert report.advice[-1] == f"fedrel run --set data.source={source} --set data.path={tmp_path}"
    assert "it runs, and the warnings say what not to trust" in report.advice[0]
    assert report.too_little
    rows = "rows" if FORMATS[source].sentences else "documents"
    expected = {"train": (40,), "dev": (0,), "test": (4,)} if source == "biobert" else dict.fromkeys(report.parts, (4,))
    assert counts(report, rows) == expected
    told = inspect(tmp_path, source)
    assert {**vars(told), "why": "", "suspicious": 0} == {**vars(report), "why": "", "suspicious": 0}
    assert json.loads(json.dumps(report.as_json()))["format"] == source


def test_counts_labels_and_bags(tmp_path):
    made = sentences(6, prefix="a", each=3) + sentences(3, prefix="b", each=1) + sentences(1, prefix="c", each=11)
    write(tmp_path / "train.jsonl", made)
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.jsonl", sentences(2, prefix=split, each=2))
    report = inspect(tmp_path)
    assert counts(report, "rows", "left_out", *COUNTS) == {
        "train": (32, 0, 32, 10, 6, 4),
        "dev": (4, 0, 4, 2, 1, 1),
        "test": (4, 0, 4, 2, 1, 1),
    }
    assert report.parts["train"].labels == {NA: 10, "r0": 18, "r2": 4}
    assert report.parts["train"].bag_sizes == {"1": 3, "2": 0, "3-5": 6, "6-10": 0, "11+": 1}
    assert not report.suspicious.totals
    assert not report.skipped.total


def test_rows_of_the_file_and_what_was_carved_from_it_are_told_apart(tmp_path):
    write(tmp_path / "train.jsonl", sentences(60, each=1))
    write(tmp_path / "test.jsonl", sentences(4, prefix="t", each=1))
    report = inspect(tmp_path)
    [(rows, train), (none, dev), _] = counts(report, "rows", "sentences").values()
    assert (rows, none, train + dev) == (60, None, 60)
    assert report.parts["dev"].path is None
    assert "carved from train for dev" in report.notes[0]


def test_pairs_in_two_splits_are_counted_and_not_refused(tmp_path):
    for split, parts in {"train": "abc", "dev": "bd", "test": "aed"}.items():
        write(tmp_path / f"{split}.jsonl", [it for part in parts for it in sentences(2, prefix=part, each=1)])
    report = inspect(tmp_path)
    assert report.shared_pairs == {"train-dev": 2, "train-test": 2, "dev-test": 2}
    assert report.shared_rows == {"train-dev": 2, "train-test": 2, "dev-test": 2}
    assert report.overlap == 2
    assert "2 pairs are in both train and test" in report.advice[0]
    assert report.advice[1] == "2 of the 6 sentences of test (33%) are in train too."
    assert report.advice[2].endswith(" --set data.allow_overlap=true")


def test_rows_to_look_at_are_counted_by_kind_and_the_first_named(tmp_path):
    odd = [
        sentence("a", "b", words=("x", "in", "y", "1")),
        sentence("a", "b", words=("x", "in", "y", "1")),  # again
        sentence("a", "b", NA, words=("x", "in", "y", "1")),  # with another label
        sentence("c", "c", words=("x", "in", "y", "2")),
        sentence("d", "e", words=["x"] * 301),
    ]
    write(tmp_path / "train.jsonl", odd)
    with (tmp_path / "train.jsonl").open("a") as file:
        ends = {"h": {"id": "f", "pos": [0, 1]}, "t": {"id": "g", "pos": [0, 2]}}
        file.write("\n" + row(text=None, token=["x", "y"], **ends) + "\n")
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.jsonl", sentences(2, prefix=split))
    found = inspect(tmp_path).suspicious
    file = tmp_path / "train.jsonl"
    assert dict(found.first) == {
        "duplicate rows": [f"{file}:2: the same as {file}:1"],
        "one sentence and pair, two labels": [f'{file}:3: "NA" here, "r" in {file}:1'],
        "head and tail are one entity": [f"{file}:4: c stands for both"],
        "more than 300 tokens": [f"{file}:5: 301 tokens"],
        "head and tail overlap": [f"{file}:7: tokens 0..1 and 0..2"],
        "fewer than 3 tokens": [f"{file}:7: 2 tokens"],
    }
    assert set(found.totals.values()) == {1}


def test_no_more_than_five_rows_of_a_kind_are_named(tmp_path):
    write(tmp_path / "train.jsonl", sentences(2, each=1) * 10)
    write(tmp_path / "dev.jsonl", sentences(2, prefix="d"))
    write(tmp_path / "test.jsonl", sentences(2, prefix="t"))
    found = inspect(tmp_path).suspicious
    assert (found.totals["duplicate rows"], len(found.first["duplicate rows"])) == (18, 5)


def test_blinded_rows_are_compared_by_their_sentences(tmp_path):
    (tmp_path / "train.tsv").write_text(biobert("x", 40) + "In x 1 @GENE$ goes with café @DISEASE$, it seems.\t0\n")
    (tmp_path / "test.tsv").write_text(biobert("x", 2, header=True))
    report = inspect(tmp_path)
    assert dict(report.suspicious.totals) == {"one sentence and pair, two labels": 1, "duplicate rows": 2}
    assert report.shared_rows == {"train-test": 2}
    assert report.overlap == 0
    assert "blinded" in report.advice[0]


@pytest.mark.parametrize("source", WRITERS)
def test_rows_are_compared_by_tokens_and_places_where_entities_have_no_ids(tmp_path, source):
    WRITERS[source](tmp_path, 3)
    names = (("training", "test_gs"), ("TRAIN_FILE", "TEST_FILE_FULL"), ("Train", "Test"), ("train", "test"))
    for file in [it for it in tmp_path.rglob("*") if it.is_file()]:
        inside = str(file.relative_to(tmp_path))
        if found := next((it for it in names if it[0] in inside), None):
            (tmp_path / inside.replace(*found)).write_bytes(file.read_bytes())

    def content(it):
        ids = [end.id for end in (it.head, it.tail) if not end.id.startswith(LOCAL)]
        return tuple(it.tokens), it.head.start, it.head.end, it.tail.start, it.tail.end, *ids, it.relation

    rows = {
        split: [content(it) for it in Reading(source, path).instances()]
        for split, path in find_splits(tmp_path, source).items()
    }
    report = inspect(tmp_path, source)
    distinct = {it for found in rows.values() for it in found}
    assert report.suspicious.totals["duplicate rows"] == sum(map(len, rows.values())) - len(distinct) > 0
    both = {it[:-1] for it in rows["train"]} & {it[:-1] for it in rows["test"]}
    assert report.shared_rows["train-test"] == len(both) > 0
    assert len(report.suspicious.first_in_two_splits()["train-test"]) == min(5, len(both))


def test_mentions_at_one_place_differ_by_their_types(tmp_path):
    spans = [{"start": 0, "end": 4, "type": "drug"}, {"start": 0, "end": 4, "type": "metal"}]
    entities = [*spans, {"start": 11, "end": 15, "type": "gene"}]
    joined = [{"head": head, "relation": "stops", "tail": "T3"} for head in ("T1", "T2")]
    row = {"text": "Zinc stops ABC1.", "entities": entities, "relations": joined}
    for split, text in (("train", "Zinc stops ABC1."), ("test", "Zinc beats ABC1.")):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({**row, "text": text}) + "\n")
    (tmp_path / "dev.jsonl").write_text(json.dumps({**row, "text": "Zinc binds ABC1 ."}) + "\n")
    report = inspect(tmp_path)
    assert counts(report, "sentences") == {"train": (2,), "dev": (2,), "test": (2,)}
    assert not report.suspicious.totals


def test_what_was_left_out_is_counted_with_its_reasons(tmp_path):
    WRITERS["pgr"](tmp_path, 4)
    with (tmp_path / "train.tsv").open("a") as file:
        file.write(pgr_row("It is in gout .", "GHOST", "gout", GENE_START_POSITION=0, GENE_END_POSITION=5))
    report = inspect(tmp_path)
    assert counts(report, "rows", "left_out", "sentences")["train"] == (5, 1, 4)
    assert report.as_json()["skipped"] == {
        "reasons": {"the gene is not in the sentence": 1},
        "first": [f"{tmp_path}/train.tsv:6: the gene is not in the sentence"],
    }


def test_gold_relations_and_what_became_of_them(tmp_path):
    WRITERS["chemprot"](tmp_path, 4)
    report = inspect(tmp_path)
    assert counts(report, "documents", "gold_relations", "left_out", "sentences", "facts")["train"] == (4, 4, 0, 8, 4)


# ---------------------------------------------------------------------------------------- other kinds of data


@pytest.mark.parametrize(
    ("files", "source", "documents"),
    [
        ({"a.txt": "We met. It was late.", "b.txt": "So it was.", "c.txt": " "}, "text", 2),
        ({"a.jsonl": '{"text": "We met. It was late."}\n{"text": "So it was."}\n{"text": " "}\n'}, "jsonl", 2),
        ({"a.csv": "id,text\n1,We met. It was late.\n2,So it was.\n3, \n"}, "table", 2),
        ({"a.tsv": "id\ttext\tn\n1\tWe met. It was late.\t1\n2\tSo it was.\t1\n3\t\t1\n"}, "table", 2),
        ({"a.txt": "1|t|We met.\n1|a|It was late.\n\n2|t|So it was.\n\n3|t| \n"}, "pubtator", 2),
    ],
)
def test_documents_without_relations(tmp_path, files, source, documents):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    for path in (tmp_path, *([tmp_path / name for name in files] if len(files) == 1 else [])):
        report = inspect(path)
        assert (report.kind, report.format) == ("documents", source)
        assert counts(report, "documents", "sentences", "characters", "left_out")["all"] == (documents, 3, 30, 1)
        assert report.notes == ["1 left out: there is no text in it"]
        assert report.advice[-1] == f"fedrel label --kb KB --text {path} --out FOLDER"


def test_files_that_were_not_read_are_listed(tmp_path):
    for name in ("b.txt", "a.pdf", "c.csv", "d.md", "README.md"):
        (tmp_path / name).write_text("We met. It was late.")
    for source in (None, "text"):
        report = inspect(tmp_path, source)
        assert (report.format, report.parts["all"].counts["documents"]) == ("text", 2)
        assert report.passed_over == ["README.md", "c.csv"]
        files = report.as_json()["files"]
        assert (files["files"], files["read"]["by_extension"]) == (5, {".md": 1, ".txt": 1})
        assert [it["file"] for it in files["broken"]["files"]] == ["a.pdf"]
        assert files["skipped"]["by_extension"][".csv"]["first"] == ["c.csv"]
    assert inspect(tmp_path / "b.txt").passed_over == []
    with pytest.raises(UserError, match=r"a\.pdf: not a PDF"):
        inspect(tmp_path, settings=Data(bad_rows=0))


def test_documents_in_all_folders_are_read_where_there_is_no_relation(tmp_path):
    for name in ("train/a", "other/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.txt").write_text("We met Ann.")
        (tmp_path / f"{name}.ann").write_text("T1\tPerson 7 10\tAnn\n")
    report = inspect(tmp_path)
    assert (report.parts["all"].counts["documents"], report.passed_over) == (2, [])
    (tmp_path / "train" / "a.txt").write_text("We met Ann and Bo.")
    (tmp_path / "train" / "a.ann").write_text("T1\tP 7 10\tAnn\nT2\tP 15 17\tBo\nR1\tmet Arg1:T1 Arg2:T2\n")
    (tmp_path / "test").mkdir()
    for suffix in ("txt", "ann"):
        (tmp_path / "test" / f"c.{suffix}").write_bytes((tmp_path / "train" / f"a.{suffix}").read_bytes())
    assert detect(tmp_path).passed_over == ("other/b.ann", "other/b.txt")


def test_marked_entities_without_relations_are_documents(tmp_path):
    (tmp_path / "a.txt").write_text("We met Ann.")
    (tmp_path / "a.ann").write_text("T1\tPerson 7 10\tAnn\n")
    report = inspect(tmp_path)
    assert (report.kind, report.format) == ("documents", "brat")
    assert report.parts["all"].counts["entities"] == 1


def test_the_same_document_twice_is_told(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("We met. It was late.")
    assert inspect(tmp_path).suspicious.first == {"duplicate rows": [f"{tmp_path}/b.txt: the same as {tmp_path}/a.txt"]}


@pytest.mark.parametrize(("make", "suffix"), [(classification, "tsv"), (tab, "tab")])
def test_texts_with_labels(tmp_path, make, suffix):
    (tmp_path / f"my-train.{suffix}").write_text(make("x", 6))
    (tmp_path / f"my-test.{suffix}").write_text(make("x", 2))
    report = inspect(tmp_path)
    assert report.kind == "classification"
    assert counts(report, "rows", "left_out", "texts") == {"train": (6, 0, 6), "test": (2, 0, 2)}
    assert sum(report.parts["train"].labels.values()) == 6
    assert report.shared_rows == {"train-test": 2}
    assert report.suspicious.totals == {"duplicate rows": 2}
    assert "texts with one label each" in report.advice[0]
    assert "extractor.kind=text" in report.advice[-1]


def test_one_text_with_two_labels_is_told(tmp_path):
    (tmp_path / "train.tsv").write_text("a fine film\t1\na fine film\t0\n")
    assert inspect(tmp_path).suspicious.totals == {"one text, two labels": 1}


def test_a_folder_of_folds_is_listed_in_the_order_of_numbers(tmp_path):
    for fold in ("10", "1", "2"):
        (tmp_path / fold).mkdir()
        WRITERS["biobert"](tmp_path / fold, 4)
    report = inspect(tmp_path)
    assert report.kind == "folds"
    assert list(report.parts) == ["1", "2", "10"]
    assert report.parts["2"].counts == {"train_rows": 40, "dev_rows": 0, "test_rows": 4}
    assert report.advice[-1] == f"fedrel data check {tmp_path}/1"


# --------------------------------------------------------------------------------------------------- mistakes


def refusal(path: Path, source: str | None = None) -> str:
    with pytest.raises(UserError) as caught:
        inspect(path, source)
    return str(caught.value)


def test_what_a_run_would_refuse_is_refused(tmp_path):
    WRITERS["opennre"](tmp_path, 4)
    (tmp_path / "test.jsonl").write_text("")
    assert refusal(tmp_path) == f"{tmp_path}/test.jsonl: no sentences; test needs at least one"


def test_a_wrong_format_or_path_is_refused(tmp_path):
    WRITERS["opennre"](tmp_path, 4)
    assert refusal(tmp_path / "train.jsonl", "pgr").startswith(f"{tmp_path}/train.jsonl:1: no column SENTENCE")
    assert refusal(tmp_path, "opennr") == '"opennr" is no format of files; did you mean "opennre"?'
    assert refusal(tmp_path / "none", "text") == f"{tmp_path}/none: no such file or folder"
    (tmp_path / "empty").mkdir()
    for source in WRITERS:
        assert str(tmp_path / "empty") in refusal(tmp_path / "empty", source)


def test_a_path_is_quoted_in_what_to_do_next(tmp_path):
    folder = tmp_path / "my data; it's"
    folder.mkdir()
    WRITERS["opennre"](folder, 4)
    assert inspect(folder).advice[-1].endswith(f"""--set 'data.path={tmp_path}/my data; it'"'"'s'""")


def test_relations_that_the_file_states_are_counted_whatever_became_of_them(tmp_path):
    """One has a row, one is of two sentences, and the concept of one is marked nowhere."""
    rows = [
        f"{place}|t|Zincol{place} caused gout.\n{place}|a|Ague came.\n"
        f"{place}\t0\t{6 + len(str(place))}\tZincol{place}\tChemical\tC{place}\n"
        f"{place}\t{14 + len(str(place))}\t{18 + len(str(place))}\tgout\tDisease\tD1\n"
        f"{place}\t{20 + len(str(place))}\t{24 + len(str(place))}\tAgue\tDisease\tD2\n"
        f"{place}\tCID\tC{place}\tD1\n{place}\tCID\tC{place}\tD2\n{place}\tCID\tC{place}\tD9\n"
        for place in range(10, 20)
    ]
    (tmp_path / "train.pubtator").write_text("\n".join(rows))
    train = inspect(tmp_path).parts["train"].counts
    assert (train["gold_relations"], train["relations_without_a_row"]) == (30, 20)


def test_texts_in_both_train_and_test_are_told_with_the_setting_that_run_wants(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(
            classification(split, 200) + "a film of two splits\tgood\n" * (split != "dev")
        )
    report = inspect(tmp_path)
    assert report.overlap == 1
    assert report.advice[1].startswith("1 texts are in both train and test: `fedrel run` wants data.allow_overlap=true")
    assert report.advice[-1].endswith("--set data.allow_overlap=true")
