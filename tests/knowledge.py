"""Small knowledge bases for tests."""

from pathlib import Path

from fedrel.alignment.draft import Draft
from fedrel.alignment.kb import KB


def knowledge(entities: dict[str, str], triples: list[str]) -> KB:
    """`knowledge({"Q1": "person: Ann Lee|Lee", "Q2": "city: Bonn"}, ["Q1 born_in Q2"])`"""
    draft = Draft()
    place = draft.begin(Path("kb"))
    for id_, described in entities.items():
        type_, names = described.split(": ")
        draft.add_names(draft.add_entity(id_, type_), names, place)
    for triple in triples:
        head, relation, tail = triple.split()
        draft.add_triple(head, relation, tail, place)
    return KB(draft)


def write(folder: Path, entities: dict[str, str], triples: list[str]) -> Path:
    """The same as files."""
    folder.mkdir(parents=True)
    rows = ["\t".join((id_, *described.split(": "))) for id_, described in entities.items()]
    (folder / "entities.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    (folder / "triples.tsv").write_text("".join("\t".join(it.split()) + "\n" for it in triples), encoding="utf-8")
    return folder
