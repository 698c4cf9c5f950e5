"""BioCreative VI ChemProt: for each split a file of abstracts, one of entities and one of gold relations.

    chemprot_training_abstracts.tsv       document, title, abstract
    chemprot_training_entities.tsv        document, T1, CHEMICAL or GENE-Y or GENE-N, start, end, mention
    chemprot_training_gold_standard.tsv   document, CPR:3, Arg1:T13, Arg2:T55

The fourth file, of relations, also holds those that the task leaves out; it is not read. Offsets count the characters
of the title, one blank and the abstract. The head of a relation is the chemical, Arg1. Entities have no ids.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedrel.corpus.checks import LEFT_OUT, check_span
from fedrel.corpus.columns import shortened, split_columns, whole_number
from fedrel.corpus.format import Format
from fedrel.corpus.lines import each_row
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

_TYPES = {"GENE-Y": "GENE", "GENE-N": "GENE"}  # a name that can be found in a database, and one that cannot
_ARGUMENT = re.compile(r"Arg[12]:(\S+)")

Relation = tuple[str, str, str]


@dataclass
class _Split:
    """The documents of a split while its files are read, and the names of what was left out of them."""

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)  # by document: its text, and its place
    annotations: defaultdict[str, dict[str, Annotation]] = field(default_factory=lambda: defaultdict(dict))
    relations: defaultdict[str, list[Relation]] = field(default_factory=lambda: defaultdict(list))
    lost_documents: set[str] = field(default_factory=set)
    lost_entities: set[tuple[str, str]] = field(default_factory=set)

    def is_lost(self, document: str, key: str) -> bool:
        return document in self.lost_documents or (document, key) in self.lost_entities


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """`path` names the abstracts; the other files lie beside it. Broken rows, and rows that need what a broken one
    holds, are counted.
    """
    _, entities_file, gold_file = files(path)
    split = _Split()
    _read_texts(path, split, skip)
    _read_annotations(entities_file, split, path, skip)
    _read_relations(gold_file, split, entities_file, skip)
    for document, (text, where) in split.texts.items():
        annotations, relations = split.annotations[document].values(), split.relations[document]
        yield Document(document, text, tuple(annotations), tuple(relations), where)


def files(path: Path) -> tuple[Path, Path, Path]:
    """Abstracts, entities and gold relations of a split, by the name of its abstracts file."""
    if "abstracts" not in path.name:
        raise UserError(f"{path}: not the abstracts of ChemProt; name the file that ends in _abstracts.tsv")
    beside = path, path.with_name(path.name.replace("abstracts", "entities")), _gold_standard(path)
    for file in beside:
        if not file.is_file():
            raise UserError(f"{file}: no such file; ChemProt needs it beside {path.name}")
    return beside


def _gold_standard(abstracts: Path) -> Path:
    gold = abstracts.with_name(abstracts.name.replace("abstracts", "gold_standard"))
    if gold.exists():
        return gold
    # as published: chemprot_test_abstracts_gs.tsv and chemprot_test_gold_standard.tsv
    return gold.with_name(gold.name.replace("_gs.", "."))


def _is_unlabelled(abstracts: Path) -> bool:
    return not _gold_standard(abstracts).is_file()


def _read_texts(path: Path, split: _Split, skip: Skipped) -> None:
    def parse(line: str, where: str) -> tuple[str, str]:
        try:
            document, title, abstract = split_columns(line, ("document", "title", "abstract"), where)
        except UserError:
            split.lost_documents.add(line.split("\t")[0])
            raise
        return document, f"{title} {abstract}"

    for where, (document, text) in each_row(path, skip, parse):
        if document in split.texts:
            raise UserError(f"{where}: document {shortened(document)} is there twice; remove one")
        split.texts[document] = text, where
    split.lost_documents -= split.texts.keys()


def _read_annotations(path: Path, split: _Split, abstracts: Path, skip: Skipped) -> None:
    def parse(line: str, where: str) -> tuple[str, Annotation | None]:
        columns = split_columns(line, ("document", "entity", "type", "start", "end", "mention"), where)
        document, key = columns[:2]
        if document in split.lost_documents:
            return document, None
        if document not in split.texts:
            raise UserError(f"{where}: document {shortened(document)} is not in {abstracts.name}; are both whole?")
        try:
            if key in split.annotations[document]:
                raise UserError(f"{where}: entity {shortened(key)} of document {shortened(document)} is there twice")
            return document, _annotation(columns, split.texts[document][0], where)
        except UserError:
            split.lost_entities.add((document, key))
            raise

    for where, (document, annotation) in each_row(path, skip, parse):
        if annotation:
            split.annotations[document][annotation.key] = annotation
        else:
            skip(where, "the entity needs a document that was left out")


def _annotation(columns: list[str], text: str, where: str) -> Annotation:
    _, key, type_, *span, mention = columns
    start, end = (whole_number(number, name, where) for number, name in zip(span, ("start", "end"), strict=True))
    check_span(text, start, end, where)
    if text[start:end] != mention:
        raise UserError(
            f'{where}: the text at {start}..{end} is "{shortened(text[start:end])}", not "{shortened(mention)}"; '
            "offsets must count the characters of the title, one blank and the abstract"
        )
    return Annotation(key, start, end, _TYPES.get(type_, type_))


def _read_relations(path: Path, split: _Split, entities: Path, skip: Skipped) -> None:
    def parse(line: str, where: str) -> tuple[str, Relation]:
        document, relation, *arguments = split_columns(line, ("document", "relation", "Arg1", "Arg2"), where)
        if not relation.strip():
            raise UserError(f"{where}: the relation has no name")
        keys = [match[1] for argument in arguments if (match := _ARGUMENT.fullmatch(argument.strip()))]
        if len(keys) != 2:
            raise UserError(f"{where}: a relation needs Arg1:T… and Arg2:T…, the entities that it joins")
        for key in keys:
            if key not in split.annotations.get(document, {}) and not split.is_lost(document, key):
                raise UserError(
                    f"{where}: entity {shortened(key)} of document {shortened(document)} is not in {entities.name}"
                )
        return document, (keys[0], relation.strip(), keys[1])

    for where, (document, (head, relation, tail)) in each_row(path, skip, parse):
        if split.is_lost(document, head) or split.is_lost(document, tail):
            skip(where, LEFT_OUT)
        else:
            split.relations[document].append((head, relation, tail))


def _by_name(path: Path) -> bool:
    return "_abstracts" in path.name and path.with_name(path.name.replace("abstracts", "entities")).is_file()


def _candidates(folder: Path) -> list[Path]:
    """Abstracts of splits, which lie side by side, or each in a folder of its own as published."""
    return sorted([*folder.glob("*_abstracts*.tsv"), *folder.glob("*/*_abstracts*.tsv")])


FORMAT = Format(
    what="files …_abstracts.tsv, …_entities.tsv and …_gold_standard.tsv",
    documents=read,
    gold=True,
    by_name=_by_name,
    extensions=(".tsv",),
    infixes=("_abstracts",),
    candidates=_candidates,
    training_file="chemprot_training_abstracts.tsv",
    files=files,
    unlabelled=_is_unlabelled,
)
