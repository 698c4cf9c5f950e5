"""A pass over one split of labelled data in any format, which knows what was left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedrel.corpus import pairs
from fedrel.corpus.formats import labelled_format
from fedrel.corpus.types import SHOWN, Document, Instance, LabelledText, Mention, Skipped

# What a reader of documents left out, by how its reason begins: one of it, and more.
_SUBJECTS = {
    ("the relation", "the two entities"): ("relation", "relations"),
    ("the concept", "the annotation", "the entity"): ("entity", "entities"),
}
_DOCUMENTS = ("document", "documents")


class Reading:
    """One file or folder of labelled sentences, read anew on every pass. Its counts of documents, relations and rows
    left out are those of the latest pass, and complete when that pass is.
    """

    def __init__(self, source: str, path: Path) -> None:
        self.form, self.path = labelled_format(source), path
        self._start()

    def _start(self) -> None:
        self.documents = self.gold_relations = 0
        self._left_out: list[Skipped] = [Skipped(), Skipped()]  # by the reader of documents, and after it
        self._where = str(self.path)

    @property
    def skipped(self) -> Skipped:
        """What the latest pass left out."""
        reader, rest = self._left_out
        return Skipped(reader.reasons + rest.reasons, [*reader.examples, *rest.examples][:SHOWN])

    def left_out(self) -> list[str]:
        """`12 relations left out: the two entities stand in different sentences`, a line for each reason."""
        return [
            f"{count:,} {self._noun(why, count)} left out: {why}" for why, count in self.skipped.reasons.most_common()
        ]

    def _noun(self, why: str, count: int) -> str:
        if self.form.documents is None:
            return "row" if count == 1 else "rows"
        found = next((nouns for subjects, nouns in _SUBJECTS.items() if why.startswith(subjects)), _DOCUMENTS)
        return found[count != 1]

    def instances(self) -> Iterator[Instance]:
        """Every sentence; labelled texts as sentences without a pair."""
        return (instance for _, instance in self.rows())

    def rows(self) -> Iterator[tuple[str, Instance]]:
        """Every sentence with its place: file:line, or what its document calls its place."""
        self._start()
        if self.form.sentences:
            yield from self.form.sentences(self.path, self._left_out[1])
        elif self.form.texts:
            for where, text in self.form.texts(self.path, self._left_out[1]):
                yield where, _without_pair(text)
        else:
            for instance in pairs.instances(self._read_documents, self._left_out[1]):
                yield self._where, instance

    def _read_documents(self) -> Iterable[Document]:
        """Pairs are made from two passes over the documents; each pass counts from zero."""
        assert self.form.documents
        self.documents = self.gold_relations = 0
        self._left_out[0] = Skipped()
        for document in self.form.documents(self.path, self._left_out[0]):
            self.documents += 1
            self.gold_relations += len(document.relations or ())
            self._where = document.where or document.id
            yield document


def _without_pair(text: LabelledText) -> Instance:
    """A text as a sentence without mentions. Equal texts are one "pair", so that a text which is in both train and test
    is noticed.
    """
    identity = hashlib.blake2b("\n".join(text.tokens).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    nowhere = Mention(identity, 0, 0)
    return Instance(text.tokens, nowhere, nowhere, text.label, text.source)
