"""Facts to review: a sentence each, in documents, with two that share a pair and one that its types forbid."""

from collections.abc import Iterable
from pathlib import Path

from fedrel.corpus import Document
from fedrel.extraction.facts import Fact, Support, to_json
from fedrel.review.questions import of_facts
from fedrel.review.queue import Queue

BEFORE, AFTER = "The parish kept its records. ", " Nothing <b>else</b> is known."
SAID = [
    ("Ann Lee", "Lyon", "born_in", "Ann Lee was born in Lyon, a locksmith's daughter.", 0.93),
    ("Mary Poole", "Harbour Gazette", "works_for", "Mary Poole joined the Harbour Gazette in spring.", 0.55),
    ("Tom Reed", "Kiel", "lives_in", "Since the war, Tom Reed has lived in Kiel.", 0.84),
    ("Ann Lee", "Lyon", "lives_in", "Ann Lee left Lyon.", 0.30),
    ("Otto Berg", "Acme Works", "founder_of", "Acme Works, which Otto Berg founded, closed.", 0.48),
    ("Kiel", "Tom Reed", "born_in", "Kiel is dear to Tom Reed.", 0.70),
]
RELATIONS = ("NA", "born_in", "died_in", "lives_in", "works_for", "founder_of")


def facts() -> list[Fact]:
    """One of each."""
    found = []
    for number, (head, tail, relation, text, score) in enumerate(SAID):
        one, other = ((text.index(name), text.index(name) + len(name)) for name in (head, tail))
        support = Support(f"archive {number % 3}.txt", len(BEFORE) + 200 * (number // 3), text, one, other, score)
        found.append(Fact(head, head, relation, tail, tail, 1.0, None, 1, (support,)))
    return found


def documents() -> list[Document]:
    """The texts of the facts."""
    texts: dict[str, str] = {}
    for fact in facts():
        it = fact.support[0]
        before = texts.get(it.document, "").ljust(it.start - len(BEFORE)) + BEFORE
        texts[it.document] = before + it.text + AFTER
    return [Document(name, text) for name, text in texts.items()]


def write_facts(path: Path) -> Path:
    path.write_text("".join(map(to_json, facts())), encoding="utf-8")
    return path


def write_text(folder: Path) -> Path:
    folder.mkdir()
    for it in documents():
        (folder / it.id).write_text(it.text, encoding="utf-8")
    return folder


def write_kb(folder: Path) -> Path:
    """People and places; Acme Works and the Harbour Gazette are not in it."""
    folder.mkdir()
    people, places = ("Ann Lee", "Tom Reed", "Otto Berg", "Mary Poole"), ("Lyon", "Kiel")
    entities = [f"{it}\t{kind}\t{it}\n" for kind, names in (("person", people), ("place", places)) for it in names]
    (folder / "entities.tsv").write_text("".join(entities))
    (folder / "triples.tsv").write_text(
        "Ann Lee\tborn_in\tLyon\nTom Reed\tlives_in\tKiel\nAnn Lee\tspouse_of\tTom Reed\n"
    )
    return folder


def queue_of_facts(relations: Iterable[str] = RELATIONS, **options) -> Queue:
    return Queue(of_facts(facts(), "m1", relations=relations, documents=documents(), **options))
