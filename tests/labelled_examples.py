"""A small good data set in every format with labels, all of it invented."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.instances import sentences, write

GENES, SICKNESSES = ("abcé1", "xyz2", "klm3", "pqr4"), ("gout", "ague", "croup", "scurvy")
PGR_COLUMNS = (
    *("FILE_ID", "SENTENCE", "GENE", "PHENOTYPE", "GENE_ID", "PHENOTYPE_ID"),
    *("GENE_START_POSITION", "GENE_END_POSITION", "PHENOTYPE_START_POSITION", "PHENOTYPE_END_POSITION", "RELATION"),
)
_TEXT = "We saw that {gene} is {tie} {sickness} &lt; 5 ."


def nyt10(mark: str, count: int = 4) -> str:
    return "".join(
        f"m.{mark}{n}\tm.x{n}\tanné_b\tbonn\t{'NA' if n % 2 else '/born'}\tanné_b met {mark} {n} in bonn .\t###END###\n"
        for n in range(count)
    )


def biobert(mark: str, count: int = 4, *, header: bool = False) -> str:
    rows = [f"In {mark} {n} @GENE$ goes with café @DISEASE$, it seems.\t{n % 2}" for n in range(count)]
    if not header:
        return "".join(f"{row}\n" for row in rows)
    return "index\tsentence\tlabel\n" + "".join(f"{n}\t{row}\n" for n, row in enumerate(rows))


def pgr_row(sentence: str, gene: str, sickness: str, **changes: object) -> str:
    values: dict[str, object] = {
        "FILE_ID": 1,
        "SENTENCE": sentence,
        "GENE": gene,
        "PHENOTYPE": sickness,
        "GENE_ID": f"g-{gene}",
        "PHENOTYPE_ID": f"HP-{sickness}",
        "GENE_START_POSITION": sentence.find(gene),
        "GENE_END_POSITION": sentence.find(gene) + len(gene),
        "PHENOTYPE_START_POSITION": sentence.find(sickness),
        "PHENOTYPE_END_POSITION": sentence.find(sickness) + len(sickness),
        "RELATION": "True",
    } | changes
    return "\t".join(str(value) for value in values.values()) + "\n"


def pgr(mark: str, count: int = 4) -> str:
    rows = ["\t".join(PGR_COLUMNS) + "\n"]
    for n in range(count):
        gene, sickness = f"{GENES[n % 4]}{mark}", SICKNESSES[n % 4]
        text = _TEXT.format(gene=gene, sickness=sickness, tie="tied to" if n % 2 else "free of")
        rows.append(pgr_row(text, gene, sickness, RELATION=("FALSE", "True")[n % 2]))
    return "".join(rows)


def chemprot(mark: str, count: int = 4) -> dict[str, str]:
    """Three files by kind; each document has a relation in its abstract and a pair without one in its title."""
    abstracts, entities, gold = [], [], []
    for n in range(count):
        document, title, abstract = f"{mark}{n}", f"On zincé and {mark}ase.", f"It seems that copper stops {mark}ine."
        text = f"{title} {abstract}"
        abstracts.append(f"{document}\t{title}\t{abstract}\n")
        for number, (type_, name) in enumerate(
            (("CHEMICAL", "zincé"), ("GENE-N", f"{mark}ase"), ("CHEMICAL", "copper"), ("GENE-Y", f"{mark}ine")), 1
        ):
            start = text.index(name)
            entities.append(f"{document}\tT{number}\t{type_}\t{start}\t{start + len(name)}\t{name}\n")
        gold.append(f"{document}\tCPR:{3 + n % 2}\tArg1:T3\tArg2:T4\n")
    return {"abstracts": "".join(abstracts), "entities": "".join(entities), "gold_standard": "".join(gold)}


def classification(mark: str, count: int = 4) -> str:
    return "".join(f"a fine café {mark} {n} , truly\t{n % 2}\n" for n in range(count))


def tab(mark: str, count: int = 4) -> str:
    rows = "".join(f"{'rec' if n % 2 else 'sci'}.{mark}\ta fine café {mark} {n} of it\n" for n in range(count))
    return f"Category\tText\nd\tstring\nclass\t\n\n{rows}"


def pubtator(mark: str, count: int = 4) -> str:
    blocks = []
    for n in range(count):
        document, title, abstract = f"{mark}{n}", "On zinc.", f"Zinc stops {mark}ine."
        text = f"{title} {abstract}"
        rows = [f"{document}|t|{title}", f"{document}|a|{abstract}"]
        for name, type_, concept in (("Zinc", "Chemical", "D1"), (f"{mark}ine", "Gene", f"{mark}{n}")):
            start = text.index(name)
            rows.append(f"{document}\t{start}\t{start + len(name)}\t{name}\t{type_}\t{concept}")
        rows += [f"{document}\tstops\tD1\t{mark}{n}"] if n % 2 else []
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks)


def bioc(mark: str, count: int = 4) -> str:
    documents = []
    for n in range(count):
        text = f"Zinc stops {mark}ine."
        marked = "".join(
            f'<annotation id="T{number}"><infon key="type">{type_}</infon>'
            f'<location offset="{text.index(name)}" length="{len(name)}"/><text>{name}</text></annotation>'
            for number, (type_, name) in enumerate((("Chemical", "Zinc"), ("Gene", f"{mark}ine")), 1)
        )
        relation = (
            '<relation id="R1"><infon key="type">stops</infon><node refid="T1" role="Arg1"/>'
            '<node refid="T2" role="Arg2"/></relation>'
        )
        documents.append(
            f"<document><id>{mark}{n}</id><passage><offset>0</offset><text>{text}</text>{marked}</passage>"
            f"{relation if n % 2 else ''}</document>"
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<collection><source/><date/><key/>'
        + "\n".join(documents)
        + "</collection>\n"
    )


def bioc_json(mark: str, count: int = 4) -> str:
    """The same as `bioc`."""
    documents = []
    for n in range(count):
        text = f"Zinc stops {mark}ine."
        marks = [
            {
                "id": f"T{number}",
                "infons": {"type": type_},
                "text": name,
                "locations": [{"offset": text.index(name), "length": len(name)}],
            }
            for number, (type_, name) in enumerate((("Chemical", "Zinc"), ("Gene", f"{mark}ine")), 1)
        ]
        nodes = [{"refid": "T1", "role": "Arg1"}, {"refid": "T2", "role": "Arg2"}]
        relations = [{"id": "R1", "infons": {"type": "stops"}, "nodes": nodes}] if n % 2 else []
        passages = [{"infons": {}, "offset": 0, "text": text, "annotations": marks}]
        documents.append({"id": f"{mark}{n}", "infons": {}, "passages": passages, "relations": relations})
    return json.dumps({"source": "x", "date": "", "key": "", "infons": {}, "documents": documents}) + "\n"


def ddi(name: str, *, interacts: bool) -> str:
    """A document of one sentence."""
    drugs = ((0, "zinc"), (9, f"{name}ine"))
    marks = "".join(
        f'<entity id="{name}.s0.e{n}" charOffset="{start}-{start + len(drug) - 1}" type="drug" text="{drug}"/>\n'
        for n, (start, drug) in enumerate(drugs)
    )
    told = 'ddi="true" type="effect"' if interacts else 'ddi="false"'
    pair = f'<pair id="{name}.s0.p0" e1="{name}.s0.e0" e2="{name}.s0.e1" {told}/>\n'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<document id="{name}">\n'
        f'<sentence id="{name}.s0" text="zinc and {name}ine mix">\n{marks}{pair}</sentence></document>\n'
    )


def json_documents(mark: str, count: int = 4) -> str:
    rows = []
    for n in range(count):
        text = f"Zinc stops {mark}ine. So it is."
        ends = [{"start": text.index(it), "end": text.index(it) + len(it)} for it in ("Zinc", f"{mark}ine")]
        entities = [it | {"type": type_} for it, type_ in zip(ends, ("drug", "gene"), strict=True)]
        relations = [{"head": "T1", "relation": "stops", "tail": "T2"}] if n % 2 else []
        rows.append({"id": f"{mark}{n}", "text": text, "entities": entities, "relations": relations})
    return "".join(json.dumps(row) + "\n" for row in rows)


def tacred(mark: str, count: int = 4) -> str:
    rows = [
        {
            "id": f"{mark}{n}",
            "docid": f"{mark}-{n // 2}",
            "relation": "per:city_of_birth" if n % 2 else "no_relation",
            "token": [f"Anné{mark}{n}", "-LRB-", "b.", "-RRB-", "left", "New", "Bonn", "."],
            **{"subj_start": 0, "subj_end": 0, "obj_start": 5, "obj_end": 6},
            **{"subj_type": "PERSON", "obj_type": "CITY", "stanford_head": [0]},
        }
        for n in range(count)
    ]
    return json.dumps(rows, ensure_ascii=False)


def semeval(mark: str, count: int = 4) -> str:
    return "".join(
        f'{n}\t"The <e1>café {mark}</e1> of "{n}" made a <e2>din{n}</e2>."\n'
        f"{'Cause-Effect(e1,e2)' if n % 2 else 'Other'}\nComment: {n} dins\n\n"
        for n in range(count)
    )


def bere(mark: str, count: int = 4) -> str:
    rows = [
        {
            "pmid": f"{mark}{n}",
            "tail": {"word": f"{mark}ase", "id": f"P{mark}{n}"},
            "sentence": f"So zincé-{n} stops {mark}ase , and {mark}ases .",
            "head": {"word": f"zincé-{n}", "id": f"DB{mark}{n}"},
            "relation": "inhibitor" if n % 2 else "NA",
        }
        for n in range(count)
    ]
    return json.dumps(rows, ensure_ascii=False)


def fewrel(mark: str, count: int = 4) -> str:
    """Every other sentence has a relation. (As published, all have.)"""
    found: dict[str, list[object]] = {"NA": [], "P19": []}
    for n in range(count):
        tokens = [f"Anné{mark}{n}", "left" if n % 2 else "saw", "New", "Bonn", "and", f"Anné{mark}{n}", "."]
        entities = {"h": [f"anné{mark}{n}", f"Q{mark}{n}", [[0], [5]]], "t": ["new bonn", f"Q{n}", [[2, 3]]]}
        found["P19" if n % 2 else "NA"].append({"tokens": tokens, **entities})
    return json.dumps(found, ensure_ascii=False)


def spert(mark: str, count: int = 4) -> str:
    rows = [
        {
            "tokens": ["Zinc", "stops", f"{mark}ine", "."],
            "entities": [{"type": "drug", "start": 0, "end": 1}, {"type": "gene", "start": 2, "end": 3}],
            "relations": [{"type": "stops", "head": 0, "tail": 1}] if n % 2 else [],
            "orig_id": f"{mark}{n}",
        }
        for n in range(count)
    ]
    return json.dumps(rows)


def dygie(mark: str, count: int = 4) -> str:
    rows = [
        {
            "doc_key": f"{mark}{n}",
            "sentences": [["So", "it", "is", "."], ["Zinc", "stops", f"{mark}ine", "."]],
            "ner": [[], [[4, 4, "drug"], [6, 6, "gene"]]],
            "relations": [[], [[4, 4, 6, 6, "stops"]] if n % 2 else []],
        }
        for n in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def triples(mark: str, count: int = 4) -> str:
    rows = [
        {
            "sentText": f"Zinc stops {mark}ine .",
            "articleId": f"{mark}{n}",
            "relationMentions": [{"em1Text": "Zinc", "em2Text": f"{mark}ine", "label": "stops"}] if n % 2 else [],
            "entityMentions": [{"text": "Zinc", "label": "drug"}, {"text": f"{mark}ine", "label": "gene"}],
        }
        for n in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_opennre(folder: Path, count: int) -> None:
    for split in ("train", "dev", "test"):
        write(folder / f"{split}.jsonl", sentences(count, prefix=split, each=1))


def _write_each(name: str, make: Callable[[str, int], str]) -> Callable[[Path, int], None]:
    def write_all(folder: Path, count: int) -> None:
        for split in ("train", "dev", "test"):
            (folder / name.format(split=split)).write_text(make(split, count), encoding="utf-8")

    return write_all


def write_semeval(folder: Path, count: int) -> None:
    """As published, with the files that are no splits, and a development file, which SemEval lacks."""
    for name, mark in (("TRAIN_FILE", "train"), ("DEV_FILE", "dev"), ("TEST_FILE_FULL", "test")):
        (folder / f"{name}.TXT").write_text(semeval(mark, count), encoding="utf-8", newline="\r\n")
    bare = "".join(line + "\n" for line in semeval("test", count).split("\n") if "<e1>" in line)
    for name in ("TEST_FILE", "TEST_FILE_CLEAN"):
        (folder / f"{name}.TXT").write_text(bare, encoding="utf-8")
    (folder / "TEST_FILE_KEY.TXT").write_text("".join(f"{n}\tOther\n" for n in range(count)))
    (folder / "TRAIN_DISTRIB.TXT").write_text("TRAINING DATA\n8 (100.00%)\tOther\n")
    (folder / "README.txt").write_bytes("By Ó Séaghdha.\n".encode("latin-1"))
    (folder / "scorer.pl").write_text("print 1;\n")


def write_fewrel(folder: Path, count: int) -> None:
    """As published, with the names of relations, and a test file, which FewRel lacks."""
    for split in ("train", "val", "test"):
        (folder / f"{split}_wiki.json").write_text(fewrel(split, count), encoding="utf-8")
    (folder / "val_nyt.json").write_text(fewrel("nyt", count), encoding="utf-8")
    (folder / "pid2name.json").write_text(json.dumps({"P19": ["place of birth", "where somebody was born"]}))


def write_biobert(folder: Path, count: int) -> None:
    """As published: an empty dev file, and a header row in test."""
    (folder / "train.tsv").write_text(biobert("train", count * 10), encoding="utf-8")
    (folder / "dev.tsv").write_text("")
    (folder / "test.tsv").write_text(biobert("test", count, header=True), encoding="utf-8")


def write_chemprot(folder: Path, count: int) -> None:
    for split, name in (("train", "training"), ("dev", "development"), ("test", "test_gs")):
        for kind, content in chemprot(split, count).items():
            (folder / f"chemprot_{name}_{kind}.tsv").write_text(content, encoding="utf-8")


def write_brat(folder: Path, count: int) -> None:
    for split in ("train", "dev", "test"):
        (folder / split).mkdir()
        for n in range(count):
            text = f"Zinc stops {split}ine in {n} days."
            rows = ["T1\tDrug 0 4\tZinc\n", f"T2\tGene 11 {text.index(' in ')}\t{split}ine\n"]
            rows += ["R1\tStops Arg1:T1 Arg2:T2\n"] if n % 2 else []
            (folder / split / f"{split}{n}.txt").write_text(text)
            (folder / split / f"{split}{n}.ann").write_text("".join(rows))


def write_bionlp(folder: Path, count: int) -> None:
    for split in ("train", "dev", "test"):
        (folder / split).mkdir()
        for n in range(count):
            text = f"Zinc stops {split}ine."
            for suffix, rows in (
                ("txt", text),
                ("a1", f"T1\tProtein 0 4\tZinc\nT2\tProtein 11 {len(text) - 1}\t{split}ine\n"),
                ("a2", "T3\tStop 5 10\tstops\nE1\tStop:T3 Theme:T2 Cause:T1\n" if n % 2 else ""),
            ):
                (folder / split / f"{split}{n}.{suffix}").write_text(rows)


def write_ddi(folder: Path, count: int) -> None:
    for split in ("Train", "Dev", "Test"):
        for kind in ("DrugBank", "MedLine"):
            (folder / split / kind).mkdir(parents=True)
        for n in range(count):
            path = folder / split / ("MedLine", "DrugBank")[n % 2] / f"{n}.xml"
            path.write_text(ddi(f"{split}.d{n}", interacts=n % 2 == 1), encoding="utf-8")


def write_i2b2(folder: Path, count: int) -> None:
    for split in ("train", "dev", "test"):
        for kind in ("txt", "concept", "rel"):
            (folder / split / kind).mkdir(parents=True)
        for n in range(count):
            name, gout = f"{split}{n}", 'c="gout" 1:2 1:2'
            (folder / split / "txt" / f"{name}.txt").write_text("Aspirin against gout .\n")
            (folder / split / "concept" / f"{name}.con").write_text(
                f'c="aspirin" 1:0 1:0||t="treatment"\n{gout}||t="problem"\n'
            )
            relation = f'c="aspirin" 1:0 1:0||r="TrAP"||{gout}\n' if n % 2 else ""
            (folder / split / "rel" / f"{name}.rel").write_text(relation)


# For each format, what writes train, dev and test of `count` rows or documents into a folder.
WRITERS: dict[str, Callable[[Path, int], None]] = {
    "opennre": write_opennre,
    "tacred": _write_each("{split}.json", tacred),
    "semeval": write_semeval,
    "bere": _write_each("{split}.json", bere),
    "fewrel": write_fewrel,
    "nyt10": _write_each("{split}.txt", nyt10),
    "biobert": write_biobert,
    "pgr": _write_each("{split}.tsv", pgr),
    "chemprot": write_chemprot,
    "brat": write_brat,
    "bioc": _write_each("{split}.xml", bioc),
    "bioc-json": _write_each("{split}.json", bioc_json),
    "bionlp": write_bionlp,
    "ddi": write_ddi,
    "pubtator": _write_each("{split}.pubtator", pubtator),
    "i2b2": write_i2b2,
    "jsonl": _write_each("{split}.jsonl", json_documents),
    "spert": _write_each("made_{split}.json", spert),
    "dygie": _write_each("{split}.json", dygie),
    "triples": _write_each("{split}_triples.json", triples),
}
