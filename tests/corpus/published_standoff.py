"""Biomedical data sets in the shape in which their publishers ship them, in small and invented: XML, BioC, standoff."""

import json
from pathlib import Path
from xml.sax.saxutils import escape

from tests.corpus.published_rows import SIZES, Counts, Shape, clutter, put, units

LONG = {"train": "Training", "dev": "Development", "test": "Test"}


def ddi_document(mark: str) -> str:
    """Three drugs in one sentence, one of them in pieces, and one in another; a pair is listed against its order."""
    text = f"Aspirin, {mark} and zinc or iron salts may mix."
    zinc, iron, salts = (text.index(it) for it in ("zinc", "iron", "salts"))
    places = ("0-6", f"{zinc}-{zinc + 3};{salts}-{salts + 4}", f"{iron}-{salts + 4}")
    words = ("Aspirin", "zinc salts", "iron salts")
    entities = "".join(
        f'<entity id="{mark}.s0.e{n}" charOffset="{place}" type="drug" text="{word}"/>\n'
        for n, (place, word) in enumerate(zip(places, words, strict=True))
    )
    told = ((0, 1, 'ddi="true" type="effect"'), (2, 0, 'ddi="true" type="mechanism"'), (1, 2, 'ddi="false"'))
    pairs = "".join(
        f'<pair id="{mark}.s0.p{n}" e1="{mark}.s0.e{one}" e2="{mark}.s0.e{other}" {how}/>\n'
        for n, (one, other, how) in enumerate(told)
    )
    alone = f'<entity id="{mark}.s1.e0" charOffset="0-3" type="drug" text="Zinc"/>'
    return (
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<document id="{mark}">\n'
        f'<sentence id="{mark}.s0" text="{text}">\n{entities}{pairs}</sentence>\n'
        f'<sentence id="{mark}.s1" text="Zinc is &lt; 5 mg.">\n{alone}</sentence>\n</document>\n'
    )


def write_ddi(folder: Path) -> None:
    for split, home in (("train", "Train"), ("test", "Test/Test for DDI Extraction task")):
        for number, mark in enumerate(units(split)):
            place = ("DrugBank", "MedLine")[number % 2]
            put(folder, f"DDICorpus/{home}/{place}/{mark}_ddi.xml", ddi_document(f"DDI.{mark}"))
    put(folder, "DDICorpus/Test/Test for DrugNER task/MedLine/x.xml", ddi_document("DDI.ner"))
    clutter(folder, "DDICorpus/README.txt", "DDICorpus/Train/DrugBank/._a.xml")


def abstract(mark: str) -> tuple[str, str, list[tuple[str, str, int, str]]]:
    """Title, abstract, and mentions with their concept: type, id, start, words. One mention lies within another."""
    title, body = f"Zincol {mark} caused gout.", f"Copper led to chronic ague after zincol {mark}. So {mark} says."
    text = f"{title} {body}"
    found = (
        *(("Chemical", f"D1{mark}", "Zincol"), ("Disease", f"D2{mark}", "gout"), ("Chemical", f"D3{mark}", "Copper")),
        *(
            ("Disease", f"D4{mark}", "chronic ague"),
            ("Disease", f"D5{mark}", "ague"),
            ("Chemical", f"D1{mark}", "zincol"),
        ),
    )
    return title, body, [(kind, concept, text.index(words), words) for kind, concept, words in found]


# Zincol and gout stand in the title; copper and gout nowhere together. In the abstract two chemicals, each with "ague"
# and with "chronic ague", have nothing.
ABSTRACT = Counts(documents=1, sentences=3, mentions=6, gold=2, apart=1, positive=1, facts=1, na=4, left_out=1)


def joined(mark: str) -> list[tuple[str, str]]:
    return [(f"D1{mark}", f"D2{mark}"), (f"D3{mark}", f"D2{mark}")]


def bioc_xml(split: str) -> str:
    documents = []
    for number, mark in enumerate(units(split)):
        title, body, mentions = abstract(mark)
        passages = []
        for offset, words in ((0, title), (len(title) + 1, body)):
            marks = "".join(
                f'<annotation id="{n}"><infon key="type">{kind}</infon><infon key="MESH">{concept}</infon>'
                f'<location offset="{start}" length="{len(name)}"/><text>{name}</text></annotation>'
                for n, (kind, concept, start, name) in enumerate(mentions)
                if offset <= start < offset + len(words)
            )
            kind = "abstract" if offset else "title"
            passages.append(
                f'<passage><infon key="type">{kind}</infon><offset>{offset}</offset>'
                f"<text>{escape(words)}</text>{marks}</passage>"
            )
        relations = "".join(
            f'<relation id="R{n}"><infon key="relation">CID</infon><infon key="Chemical">{head}</infon>'
            f'<infon key="Disease">{tail}</infon></relation>'
            for n, (head, tail) in enumerate(joined(mark))
        )
        documents.append(f"<document><id>{1000 + number}</id>{''.join(passages)}{relations}</document>")
    return (
        "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE collection SYSTEM 'BioC.dtd'><collection><source></source>"
        f"<date></date><key></key>{''.join(documents)}</collection>"
    )


def pubtator(split: str) -> str:
    blocks = []
    for number, mark in enumerate(units(split)):
        (title, body, mentions), name = abstract(mark), 1000 + number
        rows = [f"{name}|t|{title}", f"{name}|a|{body}"]
        rows += [f"{name}\t{start}\t{start + len(it)}\t{it}\t{kind}\t{own}" for kind, own, start, it in mentions]
        rows += [f"{name}\tCID\t{head}\t{tail}" for head, tail in joined(mark)]
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks) + "\n"


def bioc_json(split: str) -> str:
    documents = []
    for number, mark in enumerate(units(split)):
        title, body, mentions = abstract(mark)
        passages = [
            {
                "infons": {"type": "title" if offset == 0 else "abstract"},
                "offset": offset,
                "text": words,
                "sentences": [],
                "annotations": [
                    {
                        "id": str(n),
                        "infons": {"identifier": concept, "type": f"{kind}Entity"},
                        "text": name,
                        "locations": [{"offset": start, "length": len(name)}],
                    }
                    for n, (kind, concept, start, name) in enumerate(mentions)
                    if offset <= start < offset + len(words)
                ],
                "relations": [],
            }
            for offset, words in ((0, title), (len(title) + 1, body))
        ]
        relations = [
            {
                "id": f"R{n}",
                "infons": {"entity1": head, "entity2": tail, "type": "Association", "novel": "No"},
                "nodes": [],
            }
            for n, (head, tail) in enumerate(joined(mark))
        ]
        documents.append({"id": str(1000 + number), "infons": {}, "passages": passages, "relations": relations})
    return json.dumps({"source": "PubTator", "date": "", "key": "BioC.key", "infons": {}, "documents": documents})


def write_bc5cdr(folder: Path) -> None:
    for split, name in LONG.items():
        put(folder, f"CDR_Data/CDR.Corpus.v010516/CDR_{name}Set.BioC.xml", bioc_xml(split))
        put(folder, f"CDR_Data/CDR.Corpus.v010516/CDR_{name}Set.PubTator.txt", pubtator(split))
    clutter(folder, "CDR_Data/CDR.Corpus.v010516/README.txt", "CDR_Data/DNorm.TestSet/._x.xml")


def write_biored(folder: Path) -> None:
    for split in SIZES:
        put(folder, f"BioRED/{split.title()}.BioC.JSON", bioc_json(split))
        put(folder, f"BioRED/{split.title()}.BioC.XML", bioc_xml(split))
        put(folder, f"BioRED/{split.title()}.PubTator", pubtator(split))
    clutter(folder, "BioRED/README.txt")


def write_pubtator(folder: Path) -> None:
    for split, name in LONG.items():
        put(folder, f"CDR_{name}Set.PubTator.txt", pubtator(split))
    clutter(folder, "README.txt")


def write_pubtator3(folder: Path) -> None:
    documents = json.loads(bioc_json("train"))["documents"]
    for document in documents:
        for it in document["relations"]:
            ends = {f"role{n}": {"identifier": it["infons"].pop(f"entity{n}"), "type": "x"} for n in (1, 2)}
            it["infons"] |= ends
    put(folder, "export.json", json.dumps({"PubTator3": documents}))


def write_bionlp(folder: Path) -> None:
    """Two proteins of one event; an event with a theme alone; an event of an event; an entity in pieces. Of test,
    the answers are kept back.
    """
    for split, home in (("train", "train"), ("dev", "devel"), ("test", "test")):
        for mark in units(split):
            text = f"Zinx stops ab{mark} and its b and c sites. Up goes ab{mark}."
            name, late = f"ab{mark}", text.rindex(f"ab{mark}")
            c, b, sites = text.index(" c ") + 1, text.index(" b ") + 1, text.index("sites")
            entities = [
                "T1\tProtein 0 4\tZinx",
                f"T2\tProtein 11 {11 + len(name)}\t{name}",
                f"T3\tProtein {late} {late + len(name)}\t{name}",
            ]
            up = text.index("Up")
            events = [
                "T4\tNegative_regulation 5 10\tstops",
                f"T5\tGene_expression {up} {up + 2}\tUp",
                f"T6\tEntity {b} {b + 1};{sites} {sites + 5}\tb sites",
                f"T7\tEntity {c} {sites + 5}\tc sites",
                "E1\tNegative_regulation:T4 Theme:T2 Cause:T1 Site:T6",
                "E2\tGene_expression:T5 Theme:T3",
                "E3\tNegative_regulation:T4 Theme:E2 Cause:T1",
                "M1\tNegation E1",
                "*\tEquiv T2 T3",
            ]
            put(folder, f"{home}/PMID-{mark}.txt", text)
            put(folder, f"{home}/PMID-{mark}.a1", "\n".join(entities) + "\n")
            if split != "test":
                put(folder, f"{home}/PMID-{mark}.a2", "\n".join(events) + "\n")
                put(folder, f"{home}/PMID-{mark}.rel", "R1\tProtein-Component Arg1:T2 Arg2:T7\n")
    clutter(folder, "README", "LICENSE", "train/._PMID-1.a1")


def write_chemprot(folder: Path) -> None:
    """In folders of their own; of test, the names are in another order. The fifth group is for the whole file alone."""
    for split, name in (("train", "training"), ("dev", "development"), ("test", "test_gs")):
        abstracts, entities, gold, every = [], [], [], []
        for number, mark in enumerate(units(split)):
            title, body = f"On zinc and {mark}ase.", f"It seems that copper stops {mark}ine, or iron {mark}ine."
            text = f"{title} {body}"
            abstracts.append(f"{number}\t{title}\t{body}\n")
            places = (("CHEMICAL", "zinc"), ("GENE-N", f"{mark}ase"), ("CHEMICAL", "copper"), ("GENE-Y", f"{mark}ine"))
            for n, (kind, words) in enumerate((*places, ("CHEMICAL", "iron")), 1):
                start = text.index(words)
                entities.append(f"{number}\tT{n}\t{kind}\t{start}\t{start + len(words)}\t{words}\n")
            gold += [f"{number}\tCPR:4\tArg1:T3\tArg2:T4\n", f"{number}\tCPR:3\tArg1:T3\tArg2:T4\n"]
            every.append(f"{number}\tCPR:4\tY \tINHIBITOR\tArg1:T3\tArg2:T4\n")
        home, end = f"ChemProt_Corpus/chemprot_{name}", "_gs" if split == "test" else ""
        stem = f"{home}/chemprot_{name.removesuffix('_gs')}"
        put(folder, f"{stem}_abstracts{end}.tsv", "".join(abstracts))
        put(folder, f"{stem}_entities{end}.tsv", "".join(entities))
        put(folder, f"{stem}_gold_standard.tsv", "".join(gold))
        put(folder, f"{stem}_relations{end}.tsv", "".join(every))
        clutter(folder, f"{home}/Readme.pdf")


STANDOFF = {
    "DDI 2013": Shape(
        "ddi",
        Counts(documents=1, sentences=2, mentions=4, gold=2, positive=2, facts=2, na=1),
        write_ddi,
        ("train", "test"),
        "DDICorpus",
        ("README.txt",),
        extra={"test": Counts(left_out=1)},
    ),
    "BC5CDR (BioC XML)": Shape("bioc", ABSTRACT, write_bc5cdr, path="CDR_Data/CDR.Corpus.v010516"),
    "BC5CDR (PubTator)": Shape("pubtator", ABSTRACT, write_pubtator),
    "BioRED": Shape("bioc-json", ABSTRACT, write_biored, path="BioRED"),
    "PubTator 3": Shape("bioc-json", ABSTRACT, write_pubtator3, ("train",), "export.json"),
    "BioNLP": Shape(
        "bionlp",
        Counts(documents=1, sentences=2, mentions=5, gold=2, positive=2, facts=2, na=3, left_out=2),
        write_bionlp,
        ("train", "dev"),
        passed_over=("LICENSE", "README", "test/PMID-test0.a1", "test/PMID-test0.txt"),
        notes=("test was passed over for test: it has no labels",),
    ),
    "ChemProt": Shape(
        "chemprot",
        Counts(documents=1, sentences=2, mentions=5, gold=2, positive=2, facts=2, na=2),
        write_chemprot,
        path="ChemProt_Corpus",
        passed_over=("chemprot_training/Readme.pdf", "chemprot_training/chemprot_training_relations.tsv"),
    ),
}
