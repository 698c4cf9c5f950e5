"""BioCreative VI ChemProt: for each split a file of abstracts, one of entities and one of gold relations.

    chemprot_training_abstracts.tsv       document, title, abstract
    chemprot_training_entities.tsv        document, T1, CHEMICAL or GENE-Y or GENE-N, start, end, mention
    chemprot_training_gold_standard.tsv   document, CPR:3, Arg1:T13, Arg2:T55

The fourth file, of relations, also holds those that the task leaves out; it is not read. Offsets count the characters
of the title, one blank and the abstract. The head of a relation is the chemical, Arg1.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import check_span
from fedrel.corpus.columns import shortened, split_columns, whole_number
from fedrel.corpus.format import Format
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

_TYPES = {"GENE-Y": "GENE", "GENE-N": "GENE"}  # a name that can be found in a database, and one that cannot
_ARGUMENT = re.compile(r"Arg[12]:(\S+)")

Relation = tuple[str, str, str]


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """`path` names the abstracts; the other files lie beside it. Nothing is skipped: what does not fit is refused."""
    _, entities_file, gold_file = files(path)
    texts = _texts(path)
    annotations = _annotations(entities_file, texts, path)
    relations = _relations(gold_file, annotations, entities_file)
    for document, (text, where) in texts.items():
        yield Document(document, text, tuple(annotations[document].values()), tuple(relations[document]), where)


def files(path: Path) -> tuple[Path, Path, Path]:
    """Abstracts, entities and gold relations of a split, by the name of its abstracts file."""
    if "abstracts" not in path.name:
        raise UserError(f"{path}: not the abstracts of ChemProt; name the file that ends in _abstracts.tsv")
    beside = [path, *(path.with_name(path.name.replace("abstracts", kind)) for kind in ("entities", "gold_standard"))]
    if not beside[2].exists():  # as published: chemprot_test_abstracts_gs.tsv and chemprot_test_gold_standard.tsv
        beside[2] = beside[2].with_name(beside[2].name.replace("_gs.", "."))
    for file in beside:
        if not file.is_file():
            raise UserError(f"{file}: no such file; ChemProt needs it beside {path.name}")
    return beside[0], beside[1], beside[2]


def _texts(path: Path) -> dict[str, tuple[str, str]]:
    texts: dict[str, tuple[str, str]] = {}
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        document, title, abstract = split_columns(line, ("document", "title", "abstract"), where)
        if document in texts:
            raise UserError(f"{where}: document {shortened(document)} is there twice; remove one")
        texts[document] = f"{title} {abstract}", where
    return texts


def _annotations(
    path: Path, texts: dict[str, tuple[str, str]], abstracts: Path
) -> defaultdict[str, dict[str, Annotation]]:
    found: defaultdict[str, dict[str, Annotation]] = defaultdict(dict)
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        document, key, type_, *span, mention = split_columns(
            line, ("document", "entity", "type", "start", "end", "mention"), where
        )
        if document not in texts:
            raise UserError(f"{where}: document {shortened(document)} is not in {abstracts.name}; are both whole?")
        if key in found[document]:
            raise UserError(f"{where}: entity {shortened(key)} of document {shortened(document)} is there twice")
        start, end = (whole_number(text, name, where) for text, name in zip(span, ("start", "end"), strict=True))
        text = texts[document][0]
        check_span(text, start, end, where)
        if text[start:end] != mention:
            raise UserError(
                f'{where}: the text at {start}..{end} is "{shortened(text[start:end])}", not "{shortened(mention)}"; '
                "offsets must count the characters of the title, one blank and the abstract"
            )
        found[document][key] = Annotation(key, start, end, _TYPES.get(type_, type_))
    return found


def _relations(
    path: Path, annotations: dict[str, dict[str, Annotation]], entities: Path
) -> defaultdict[str, list[Relation]]:
    found: defaultdict[str, list[Relation]] = defaultdict(list)
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        document, relation, *arguments = split_columns(line, ("document", "relation", "Arg1", "Arg2"), where)
        if not relation.strip():
            raise UserError(f"{where}: the relation has no name")
        keys = [match[1] for argument in arguments if (match := _ARGUMENT.fullmatch(argument.strip()))]
        if len(keys) != 2:
            raise UserError(f"{where}: a relation needs Arg1:T… and Arg2:T…, the entities that it joins")
        for key in keys:
            if key not in annotations.get(document, {}):
                raise UserError(
                    f"{where}: entity {shortened(key)} of document {shortened(document)} is not in {entities.name}"
                )
        found[document].append((keys[0], relation.strip(), keys[1]))
    return found


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
)
