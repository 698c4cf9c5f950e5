"""Data sets of labelled sentences in the shape in which their publishers ship them, in small and invented, with the
counts that the publisher's own rule gives for them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]  # of JSON
SIZES = {"train": 30, "dev": 4, "test": 3}  # units of each split; of 30 some are drawn where a split is carved


@dataclass(frozen=True)
class Counts:
    """What one unit of a split holds. A published count of rows is one of sentences; documents say more."""

    rows: int = 0  # of a file with a sentence a row
    documents: int = 0
    sentences: int = 0  # in documents
    mentions: int = 0
    gold: int = 0  # relations that are stated in documents
    apart: int = 0  # of these, those whose entities never stand in one sentence
    positive: int = 0  # rows with a relation
    facts: int = 0
    na: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Shape:
    """A data set: what writes it, and what it holds."""

    source: str
    unit: Counts
    write: Callable[[Path], None]
    splits: tuple[str, ...] = ("train", "dev", "test")  # that are published
    path: str = ""  # what is checked, within the folder; empty: the folder
    passed_over: tuple[str, ...] = ()  # files that are not read; others may be there
    notes: tuple[str, ...] = ()  # what is told of splits that are not used
    extra: dict[str, Counts] = field(default_factory=dict)  # what a split holds once, beside its units


def put(folder: Path, name: str, content: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")


def clutter(folder: Path, *names: str) -> None:
    """What lies beside data."""
    for name in names:
        put(folder, name, '{"a": 1}\n')


def units(split: str) -> list[str]:
    return [f"{split}{n}" for n in range(SIZES[split])]


def as_array(rows: list[Row]) -> str:
    return json.dumps(rows, ensure_ascii=False)


def as_lines(rows: list[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_tacred(folder: Path) -> None:
    for split in SIZES:
        rows = []
        for mark in units(split):
            tokens = ["Ann", mark, "runs", "the", "Bonn", "Mill", "-LRB-", "1920", "-RRB-", "."]
            for number, (relation, subject, object_) in enumerate(
                (("per:employee_of", (0, 1), (4, 5)), ("no_relation", (4, 5), (0, 1)), ("no_relation", (0, 1), (7, 7)))
            ):
                places = {"subj_start": subject[0], "subj_end": subject[1], "obj_start": object_[0]}
                row: Row = {"id": f"{mark}-{number}", "docid": f"NEWS_{mark}", "relation": relation, "token": tokens}
                row |= {**places, "obj_end": object_[1], "subj_type": "PERSON", "obj_type": "ORGANIZATION"}
                rows.append(row | {"stanford_pos": ["NN"] * 10, "stanford_head": [0] * 10})
        put(folder, f"{split}.json", as_array(rows))
    clutter(folder, "README.md", "._train.json", "scorer.py", "label2id.json")


def semeval_rows(split: str, labels: tuple[str, ...], *, comment: str, blanks: str = "") -> str:
    rows = [(mark, label) for mark in units(split) for label in labels]
    return "".join(
        f'{n}\t"The <e1>{blanks}spark {mark}{blanks}</e1> of {n} met a <e2>{blanks}fire{blanks}</e2>."\n'
        f"{label}\n{comment}\n"
        for n, (mark, label) in enumerate(rows, 1)
    )


def write_semeval(folder: Path) -> None:
    home = folder / "SemEval2010_task8_all_data"
    labels = ("Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other")
    texts = {split: semeval_rows(split, labels, comment="Comment: none\n") for split in ("train", "test")}
    bare = "".join(line + "\n" for line in texts["test"].split("\n") if "<e1>" in line)
    put(home, "SemEval2010_task8_training/TRAIN_FILE.TXT", texts["train"])
    put(home, "SemEval2010_task8_training/TRAIN_DISTRIB.TXT", "TRAINING DATA\n30 (33.33%)\tOther\n")
    put(home, "SemEval2010_task8_testing/TEST_FILE.TXT", bare)
    put(home, "SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT", texts["test"])
    put(home, "SemEval2010_task8_testing_keys/TEST_FILE_CLEAN.TXT", bare)
    put(home, "SemEval2010_task8_testing_keys/TEST_FILE_KEY.TXT", "1\tOther\n2\tOther\n")
    put(home, "SemEval2010_task8_scorer-v1.2/semeval2010_task8_scorer-v1.2.pl", "print 1;\n")
    clutter(home, "README.txt")


def write_kbp37(folder: Path) -> None:
    for split in SIZES:
        rows = semeval_rows(split, ("per:title(e1,e2)", "no_relation"), comment="\n", blanks=" ")
        put(folder, f"{split}.txt", rows)
    clutter(folder, "README.md", "relations.txt")


def write_fewrel(folder: Path) -> None:
    found: dict[str, list[object]] = {"P19": [], "P26": []}
    for mark in units("train"):
        tokens = ["Ann", mark, "wed", "Bo", "in", "Bonn", ",", "and", "Bo", "sang", "."]
        ann = [f"ann {mark}", f"Q1{mark}", [[0, 1]]]
        found["P19"].append({"tokens": tokens, "h": ann, "t": ["bonn", f"Q2{mark}", [[5]]]})
        found["P26"].append({"tokens": tokens, "h": ann, "t": ["bo", f"Q3{mark}", [[3], [8]]]})
    put(folder, "train_wiki.json", json.dumps(found))
    put(folder, "val_wiki.json", json.dumps({"P57": found["P19"][:2]}))
    clutter(folder, "pid2name.json", "pubmed_unsupervised.json")


def write_bere(folder: Path) -> None:
    for split in SIZES:
        rows = []
        for mark in units(split):
            zinc, xase = {"word": "zinc", "id": f"DB1{mark}"}, {"word": "xase 2", "id": f"P1{mark}"}
            iron = {"word": "iron", "id": f"DB2{mark}"}
            rows += [
                {
                    "sentence": f"So zinc (5 mg) stops xase 2 in {mark} .",
                    "head": zinc,
                    "tail": xase,
                    "relation": "inhibitor",
                },
                {
                    "sentence": f"Again zinc stops xase 2 in {mark} .",
                    "head": zinc,
                    "tail": xase,
                    "relation": "inhibitor",
                },
                {"sentence": f"No iron stops xase 2 in {mark} .", "head": iron, "tail": xase, "relation": "NA"},
            ]
        put(folder, f"{split}.json", as_array([{"pmid": str(n), **row} for n, row in enumerate(rows)]))
    clutter(folder, "label2id.json", "word2id.json", "README.md")


def tsv_rows(split: str, end: str) -> str:
    rows = []
    for mark in units(split):
        for relation, tail, text in (
            ("/people/person/place_of_birth", "bonn", f"ann_lee was born in bonn , {mark} says"),
            ("/people/person/place_of_birth", "bonn", f"of {mark} , ann_lee left bonn"),
            ("NA", "kiel", f"ann_lee saw kiel and {mark}"),
        ):
            rows.append(f"m.a{mark}\tm.{tail}{mark}\tann_lee\t{tail}\t{relation}\t{text} .{end}\n")
    return "".join(rows)


def write_nyt10(folder: Path) -> None:
    for split in ("train", "test"):
        put(folder, f"{split}.txt", tsv_rows(split, " ###END###"))
    put(folder, "relation2id.txt", "2\nNA 0\n/people/person/place_of_birth 1\n")
    clutter(folder, "README.md", ".DS_Store")


def write_gids(folder: Path) -> None:
    for split in SIZES:
        put(folder, f"gids_{split}.tsv", tsv_rows(split, "\t###END###"))
    clutter(folder, "README.txt")


TWICE_ONE_FACT = Counts(rows=3, positive=2, facts=1, na=1)
ROWS = {
    "TACRED": Shape(
        "tacred", Counts(rows=3, positive=1, facts=1, na=2), write_tacred, passed_over=("._train.json", "label2id.json")
    ),
    "SemEval-2010 task 8": Shape(
        "semeval",
        Counts(rows=3, positive=2, facts=2, na=1),
        write_semeval,
        ("train", "test"),
        "SemEval2010_task8_all_data",
        ("README.txt", "SemEval2010_task8_testing/TEST_FILE.TXT"),
    ),
    "KBP37": Shape("semeval", Counts(rows=2, positive=1, facts=1, na=1), write_kbp37, passed_over=("relations.txt",)),
    "FewRel": Shape(
        "fewrel",
        Counts(rows=2, positive=2, facts=2),
        write_fewrel,
        ("train",),
        passed_over=("pid2name.json", "val_wiki.json"),
        notes=("none of the relations of dev is in train: no model can find them", "dev was passed over for that"),
    ),
    "BERE": Shape("bere", TWICE_ONE_FACT, write_bere, passed_over=("label2id.json", "word2id.json")),
    "NYT10": Shape("nyt10", TWICE_ONE_FACT, write_nyt10, ("train", "test"), passed_over=("relation2id.txt",)),
    "GIDS": Shape("nyt10", TWICE_ONE_FACT, write_gids, passed_over=("README.txt",)),
}
