"""Data sets of documents in the shape in which their publishers ship them, in small and invented: tokens and JSON."""

import json
from pathlib import Path

from tests.corpus.published_rows import SIZES, Counts, Row, Shape, as_array, as_lines, clutter, put, units


def write_conll04(folder: Path) -> None:
    """SpERT's. Who works for whom and lives where; a second town is no home."""
    spans = (("Peop", 0, 2), ("Org", 3, 4), ("Loc", 6, 7), ("Loc", 8, 9))
    rows = {
        split: [
            {
                "tokens": ["Ann", mark, "of", "Acme", "lives", "in", "Bonn", "near", "Graz", "."],
                "entities": [{"type": kind, "start": start, "end": end} for kind, start, end in spans],
                "relations": [{"type": "Live_In", "head": 0, "tail": 2}, {"type": "Work_For", "head": 0, "tail": 1}],
                "orig_id": number,
            }
            for number, mark in enumerate(units(split))
        ]
        for split in SIZES
    }
    for split, found in rows.items():
        put(folder, f"conll04_{split}.json", as_array(found))
    put(folder, "conll04_train_dev.json", as_array(rows["train"] + rows["dev"]))
    put(folder, "conll04_types.json", json.dumps({"entities": {"Peop": {"short": "Peop"}}, "relations": {}}))
    put(folder, "conll04_prediction_example.json", json.dumps(["Ann left.", ["Bo", "left", "."]]))


def write_scierc(folder: Path) -> None:
    """DyGIE's, with a mention within another: of "text" and "text trees" only the longer one is used for anything."""
    for split in SIZES:
        rows = [
            {
                "clusters": [[[0, 1], [7, 7]]],
                "sentences": [["Deep", mark, "nets", "parse", "text", "trees", "."], ["They", "help", "us", "."]],
                "ner": [[[0, 2, "Method"], [4, 4, "Material"], [4, 5, "Material"]], [[7, 7, "Generic"]]],
                "relations": [[[0, 2, 4, 5, "USED-FOR"]], []],
                "doc_key": f"X{mark}",
            }
            for mark in units(split)
        ]
        put(folder, f"processed_data/json/{split}.json", as_lines(rows))
    clutter(folder, "processed_data/json/._train.json")


def docred_rows(split: str, *, labelled: bool = True) -> list[Row]:
    """Born in Bonn (one sentence), sings in Graz (through "She"), Bonn near Graz (two sentences); Kiel has nothing."""
    found = []
    for mark in units(split):
        sentences = [["Ann", mark, "left", "Bonn", "for", "Kiel", "."], ["She", "sings", "in", "Graz", mark, "."]]
        places = (("PER", (0, 0, 2), (1, 0, 1)), ("LOC", (0, 3, 4)), ("LOC", (1, 3, 4)), ("LOC", (0, 5, 6)))
        vertices = [
            [
                {"name": " ".join(sentences[at][start:end]), "sent_id": at, "pos": [start, end], "type": kind}
                for at, start, end in mentions
            ]
            for kind, *mentions in places
        ]
        row = {"title": f"Ann {mark}", "sents": sentences, "vertexSet": vertices}
        joined = ((0, 1, "P19"), (0, 2, "P551"), (1, 2, "P131"))
        labels = [{"h": head, "t": tail, "r": relation, "evidence": [0]} for head, tail, relation in joined]
        found.append(row | {"labels": labels} if labelled else row)
    return found


def write_docred(folder: Path) -> None:
    """With the labels of test kept back."""
    for name, split in (("train_annotated", "train"), ("train_distant", "dev"), ("dev", "dev"), ("test", "test")):
        put(folder, f"{name}.json", as_array(docred_rows(split, labelled=split != "test")))
    clutter(folder, "rel_info.json")


def write_redocred(folder: Path) -> None:
    for split in SIZES:
        put(folder, f"{split}_revised.json", as_array(docred_rows(split)))
    clutter(folder, "rel_info.json", "README.md")


def write_nyt24(folder: Path) -> None:
    """One pair with two relations, of which one is there twice; and a pair that has none."""
    entities = [{"start": 0, "text": "Ann Lee", "label": "PERSON"}, {"start": 1, "text": "Bonn", "label": "LOCATION"}]
    for split in SIZES:
        rows: list[Row] = []
        for mark in units(split):
            labels = ("/people/person/place_lived", "/people/person/place_of_birth", "/people/person/place_lived")
            for text, given in (("Ann Lee left Bonn in {} .", labels), ("Ann Lee of {} met Bonn .", ("None",))):
                mentions = [{"em1Text": "Ann Lee", "em2Text": "Bonn", "label": label} for label in given]
                row = {"sentText": text.format(mark), "articleId": f"/m/{mark}.xml.gz", "relationMentions": mentions}
                rows.append(row | {"entityMentions": entities, "sentId": str(len(rows))})
        put(folder, f"{split}.json", as_lines(rows))
    clutter(folder, "relations2id.json")


def write_webnlg(folder: Path) -> None:
    """CasRel's, with names within names."""
    for split in SIZES:
        triples = [["Bob", "birthPlace", "Graz"], ["Bob", "team", "Graz Lions"]]
        text = "Bob of Graz plays for Graz Lions in {} ."
        rows = [{"text": text.format(mark), "triple_list": triples} for mark in units(split)]
        put(folder, f"{split}_triples.json", as_array(rows))
        if split == "test":
            put(folder, "test_split_by_num/test_triples_2.json", as_array(rows))
    clutter(folder, "rel2id.json")


def annotated_text(mark: str) -> tuple[str, dict[str, tuple[str, int, int]]]:
    """A text of two sentences, and in it a company within a name of a town, for tools that people annotate with."""
    text = f"Ann of {mark} runs Bonn Mill. It is in Graz, not in Kiel, {mark}."
    kinds = {"Ann": "PER", "Bonn Mill": "ORG", "Bonn": "LOC", "Graz": "LOC", "Kiel": "LOC", "It": "ORG"}
    return text, {name: (kind, text.index(name), text.index(name) + len(name)) for name, kind in kinds.items()}


JOINED = (("Ann", "runs", "Bonn Mill"), ("It", "seat", "Graz"), ("Bonn Mill", "seat", "Graz"))
# A row: Ann runs the mill, and it is in Graz. None: the mill, or it, with the other towns in its sentence.
ANNOTATED = Counts(documents=1, sentences=2, mentions=6, gold=3, apart=1, positive=2, facts=2, na=2, left_out=1)


def write_doccano(folder: Path) -> None:
    rows = []
    for number, mark in enumerate(units("train")):
        text, spans = annotated_text(mark)
        ids = {name: 10 * number + place for place, name in enumerate(spans)}
        entities = [
            {"id": ids[name], "label": kind, "start_offset": start, "end_offset": end}
            for name, (kind, start, end) in spans.items()
        ]
        relations = [
            {"id": place, "from_id": ids[head], "to_id": ids[tail], "type": relation}
            for place, (head, relation, tail) in enumerate(JOINED)
        ]
        rows.append({"id": number, "text": text, "entities": entities, "relations": relations, "Comments": []})
    put(folder, "all.jsonl", as_lines(rows))


def write_label_studio(folder: Path) -> None:
    """Two annotators, of whom the second is the later; and one task that was skipped."""
    rows = []
    for number, mark in enumerate(units("train")):
        text, spans = annotated_text(mark)
        result: list[Row] = []
        for name, (kind, start, end) in spans.items():
            value = {"start": start, "end": end, "text": name, "labels": [kind]}
            result.append({"id": name, "from_name": "label", "to_name": "text", "type": "labels", "value": value})
        for head, relation, tail in JOINED:
            joined = {"from_id": head, "to_id": tail, "type": "relation", "direction": "right", "labels": [relation]}
            result.append(joined)
        runs: list[Row] = [
            {"id": 2 * number + later, "was_cancelled": False, "ground_truth": False} for later in (0, 1)
        ]
        runs = [{**runs[0], "result": result[:1]}, {**runs[1], "result": result}]
        rows.append({"id": number, "annotations": runs, "data": {"text": text}, "predictions": [], "drafts": []})
    cancelled = {"id": 99_999, "was_cancelled": True, "result": []}
    rows.append({"id": 999, "annotations": [cancelled], "data": {"text": "We met."}, "predictions": []})
    put(folder, "project-1-at-2024-05-02-10-00-00000000.json", as_array(rows))


def write_brat(folder: Path) -> None:
    """With an entity in pieces, an event, a note, and the settings of brat."""
    for split in SIZES:
        for mark in units(split):
            text, spans = annotated_text(mark)
            keys = {name: f"T{number}" for number, name in enumerate(spans, 1)}
            lines = [f"{keys[name]}\t{kind} {start} {end}\t{name}" for name, (kind, start, end) in spans.items()]
            lines += [f"R{n}\t{it[1]} Arg1:{keys[it[0]]} Arg2:{keys[it[2]]}" for n, it in enumerate(JOINED, 1)]
            run, mill = text.index("runs"), text.index("Mill")
            lines += [
                f"T7\tDeal {run} {run + 4};{mill} {mill + 4}\truns Mill",
                "E1\tDeal:T7 Who:T1",
                "#1\tNote T1\thm",
            ]
            put(folder, f"{split}/{mark}.txt", text)
            put(folder, f"{split}/{mark}.ann", "\n".join(lines) + "\n")
    clutter(folder, "annotation.conf", "visual.conf", "train/._train0.ann", "README")


ARTICLE = Counts(documents=1, sentences=2, mentions=5, gold=3, apart=1, positive=2, facts=2, na=2, left_out=1)
DOCUMENTS = {
    "CoNLL04 (SpERT)": Shape(
        "spert",
        Counts(documents=1, sentences=1, mentions=4, gold=2, positive=2, facts=2, na=1),
        write_conll04,
        passed_over=("conll04_prediction_example.json", "conll04_train_dev.json", "conll04_types.json"),
    ),
    "SciERC (DyGIE)": Shape(
        "dygie",
        Counts(documents=1, sentences=2, mentions=4, gold=1, positive=1, facts=1, na=1),
        write_scierc,
        path="processed_data/json",
        passed_over=("._train.json",),
    ),
    "DocRED": Shape(
        "docred",
        ARTICLE,
        write_docred,
        ("train", "dev"),
        passed_over=("rel_info.json", "test.json", "train_distant.json"),
        notes=("test.json was passed over for test: it has no labels",),
    ),
    "Re-DocRED": Shape("docred", ARTICLE, write_redocred, passed_over=("rel_info.json",)),
    "NYT24": Shape(
        "triples",
        Counts(documents=2, sentences=2, mentions=4, gold=2, positive=2, facts=2, na=1, left_out=1),
        write_nyt24,
        passed_over=("relations2id.json",),
    ),
    "WebNLG (CasRel)": Shape(
        "triples",
        Counts(documents=1, sentences=1, mentions=3, gold=2, positive=2, facts=2, na=1),
        write_webnlg,
        passed_over=("rel2id.json", "test_split_by_num/test_triples_2.json"),
    ),
    "doccano": Shape("doccano", ANNOTATED, write_doccano, ("train",), "all.jsonl"),
    "Label Studio": Shape(
        "label-studio",
        Counts(documents=1, sentences=2, mentions=6, gold=3, apart=1, positive=2, facts=2, na=2, left_out=2),
        write_label_studio,
        ("train",),
        "project-1-at-2024-05-02-10-00-00000000.json",
        extra={"train": Counts(left_out=1)},
    ),
    "brat": Shape(
        "brat",
        Counts(documents=1, sentences=2, mentions=7, gold=3, apart=1, positive=2, facts=2, na=2, left_out=1),
        write_brat,
        passed_over=("annotation.conf", "visual.conf", "README"),
    ),
}
