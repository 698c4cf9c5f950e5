"""Every format of files by name, and a pass over one of them that knows what it left out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from fedrel.corpus import (
    SHOWN,
    Document,
    Instance,
    LabelledText,
    Mention,
    Skipped,
    biobert,
    classification,
    nyt10,
    opennre,
    pgr,
)
from fedrel.errors import UserError

Placed = Iterator[tuple[str, Instance]]  # each with its place, file:line
Documents = Callable[[Path, Skipped], Iterator[Document]]


@dataclass(frozen=True)
class Format:
    """A format gives labelled sentences, documents, or labelled texts: one of the three functions."""

    what: str  # for a person who looks for theirs
    rows: Callable[[Path, Skipped], Placed] | None = None
    documents: Documents | None = None
    texts: Callable[[Path, Skipped], Iterator[tuple[str, LabelledText]]] | None = None
    gold: bool = False  # its documents may have relations marked in them
    blinded: bool = False  # nobody can tell which rows speak of the same pair
    extensions: tuple[str, ...] = (".jsonl", ".json", ".txt", ".tsv")  # of a split's file


def _later(module: str, *suffixes: str) -> Documents:
    """A reader of documents, imported when first used: it needs packages that a machine which only trains may lack.
    One that reads single files is given those of a folder, with these suffixes, one by one.
    """

    def read(path: Path, skip: Skipped) -> Iterator[Document]:
        reader: Documents = import_module(f"fedrel.corpus.{module}").read
        if not suffixes or not path.is_dir():
            yield from reader(path, skip)
            return
        from fedrel.corpus.checks import files

        found = {name: file for suffix in suffixes for name, file in files(path, suffix).items()}
        if not found:
            raise UserError(f"{path}: no {' or '.join(suffixes)} file in this folder")
        for _, file in sorted(found.items()):
            yield from reader(file, skip)

    return read


FORMATS = {
    "opennre": Format('JSON lines with "text" or "token", "h", "t" and "relation"', lambda path, _: opennre.rows(path)),
    "nyt10": Format("six columns between tabs, and ###END###", lambda path, _: nyt10.rows(path)),
    "biobert": Format(
        "sentence and label between tabs, with @GENE$ and @DISEASE$", lambda path, _: biobert.rows(path), blinded=True
    ),
    "pgr": Format("columns between tabs that begin with FILE_ID, SENTENCE, GENE, PHENOTYPE", pgr.rows),
    "chemprot": Format(
        "files …_abstracts.tsv, …_entities.tsv and …_gold_standard.tsv", documents=_later("chemprot"), gold=True
    ),
    "brat": Format("a text and its .ann file", documents=_later("brat"), gold=True, extensions=(".txt",)),
    "bioc": Format("BioC XML", documents=_later("bioc_xml", ".xml"), gold=True, extensions=(".xml",)),
    "pubtator": Format(
        "PubTator: lines such as 123|t|Title",
        documents=_later("pubtator", ".txt", ".pubtator"),
        gold=True,
        extensions=(".txt", ".pubtator"),
    ),
    "i2b2": Format(
        "i2b2 2010: a text, its .con and .rel files", documents=_later("i2b2"), gold=True, extensions=(".txt",)
    ),
    "text": Format("plain text, a file or a folder", documents=_later("plain_text")),
    "jsonl": Format(
        'JSON lines with "text", perhaps "entities" and "relations"',
        documents=_later("jsonl_documents", ".jsonl"),
        gold=True,
        extensions=(".jsonl", ".json"),
    ),
    "table": Format("CSV or TSV with a headline and a column of texts", documents=_later("tables", ".csv", ".tsv")),
    "classification": Format(
        "text and label between tabs, or a .tab file", texts=classification.rows, extensions=(".tsv", ".txt", ".tab")
    ),
}
# What can be trained on
LABELLED = {name: form for name, form in FORMATS.items() if form.rows or form.gold or form.texts}
# What a reader of documents left out, by how its reason begins: one of it, and more.
_SUBJECTS = {
    ("the relation", "the two entities"): ("relation", "relations"),
    ("the concept", "the annotation", "the entity"): ("entity", "entities"),
}
_DOCUMENTS = ("document", "documents")


class Reading:
    """One file or folder of labelled sentences, read anew on every pass. What it tells of documents, relations and
    rows left out is of the latest pass, and complete when that pass is.
    """

    def __init__(self, source: str, path: Path) -> None:
        self.form, self.path = LABELLED[source], path
        self._start()

    def _start(self) -> None:
        self.documents = self.gold_relations = 0
        self._left_out: list[Skipped] = [Skipped(), Skipped()]  # by the reader of documents, and after it
        self._where = str(self.path)

    @property
    def skipped(self) -> Skipped:
        reader, rest = self._left_out
        return Skipped(reader.reasons + rest.reasons, [*reader.examples, *rest.examples][:SHOWN])

    def left_out(self) -> list[str]:
        """`12 relations left out: the two entities stand in different sentences`, a line for each reason."""
        return [
            f"{count:,} {self._noun(why, count)} left out: {why}" for why, count in self.skipped.reasons.most_common()
        ]

    def _noun(self, why: str, count: int) -> str:
        if self.form.rows or self.form.texts:
            return "row" if count == 1 else "rows"
        found = next((nouns for subjects, nouns in _SUBJECTS.items() if why.startswith(subjects)), _DOCUMENTS)
        return found[count != 1]

    def instances(self) -> Iterator[Instance]:
        return (instance for _, instance in self.rows())

    def rows(self) -> Placed:
        """Every sentence with its place: file:line, or what its document calls its place."""
        self._start()
        if self.form.rows:
            yield from self.form.rows(self.path, self._left_out[1])
            return
        if self.form.texts:
            for where, text in self.form.texts(self.path, self._left_out[1]):
                yield where, _without_pair(text)
            return
        from fedrel.corpus import pairs  # needs the sentence splitter

        for instance in pairs.instances(self._read_documents, self._left_out[1]):
            yield self._where, instance

    def _read_documents(self) -> Iterable[Document]:
        """Pairs are made from two passes over the documents; what the first one counted is counted again."""
        assert self.form.documents
        self.documents = self.gold_relations = 0
        self._left_out[0] = Skipped()
        for document in self.form.documents(self.path, self._left_out[0]):
            self.documents += 1
            self.gold_relations += len(document.relations or ())
            self._where = document.where or document.id
            yield document


def _without_pair(text: LabelledText) -> Instance:
    """A text as a sentence with nothing in it to look for. Equal texts are one "pair", so that a text which is in both
    train and test is found out.
    """
    identity = hashlib.blake2b("\n".join(text.tokens).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    nowhere = Mention(identity, 0, 0)
    return Instance(text.tokens, nowhere, nowhere, text.label, text.source)
