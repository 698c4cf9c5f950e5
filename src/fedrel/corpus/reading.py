"""A pass over one split of labelled data in any format, which knows what was left out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from fedrel.corpus import pairs
from fedrel.corpus.checks import check_length
from fedrel.corpus.format import Format
from fedrel.corpus.formats import labelled_format
from fedrel.corpus.rules import EVERY, UNDIRECTED, Identities, Labels, Rules
from fedrel.corpus.types import NA, Document, Instance, LabelledText, Mention, Skipped
from fedrel.errors import UserError

# What a reader of documents left out, by how its reason begins: one of it, and more.
_SUBJECTS = {
    ("the relation", "the two entities", "relation"): ("relation", "relations"),
    ("the concept", "the annotation", "the entity", "the mention", "entity", "two entities"): ("entity", "entities"),
    ("the pair",): ("pair", "pairs"),
    ("the sentence",): ("sentence", "sentences"),
    ("another annotation", "cancelled by"): ("annotation", "annotations"),
}
_DOCUMENTS = ("document", "documents")
_HOPELESS = 1_000  # broken rows, if they are the larger part, after which the rest is not tried


class Reading:
    """One file or folder of labelled sentences, read anew on every pass, as the rules say. Its counts of documents,
    their sentences, mentions and relations, and of rows left out, are those of the latest pass, and complete when that
    pass is.
    """

    def __init__(
        self,
        source: str,
        path: Path,
        rules: Rules | None = None,
        *,
        platform: str = "",
        split: str = "",
        relations: frozenset[str] = frozenset(),
    ) -> None:
        """`platform` and `split` tell entities without ids apart; `relations` are those agreed beforehand."""
        self.form, self.path = labelled_format(source), path
        self.rules = _with_directions(rules or Rules(), self.form)
        self._scope, self._relations = (platform, split), relations
        self._start()

    def _start(self) -> None:
        self.documents = self.gold_relations = self.marked = self.sentences = self.mentions = 0
        strict = self.rules.bad_rows == 0
        # by the reader of documents, and after it
        self._left_out: list[Skipped] = [Skipped(strict=strict), Skipped(strict=strict)]
        self._where = str(self.path)
        self._labels = Labels(self.rules, self._relations)
        self._identities = Identities(self.rules.identity, *self._scope)

    @property
    def skipped(self) -> Skipped:
        """What the latest pass left out."""
        found = Skipped()
        for part in self._left_out:
            found.add(part)
        return found

    def left_out(self) -> list[str]:
        """`12 relations left out: the two entities stand in different sentences`, a line for each reason."""
        skipped = self.skipped
        return [f"{count:,} {self._noun(why, count)} left out: {why}" for why, count in skipped.reasons.most_common()]

    def notes(self) -> list[str]:
        """What was left out, then what labels and entities were taken for, a line each."""
        told = self._labels.notes() + (self._identities.notes(gold=self.form.gold) if self.form.texts is None else [])
        return [*self.left_out(), *told]

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that the latest pass saw, as they are in the file, and what became of each: a new name, or NA."""
        return self._labels.became

    def _noun(self, why: str, count: int) -> str:
        if self.form.documents is None:
            return "row" if count == 1 else "rows"
        found = next((nouns for subjects, nouns in _SUBJECTS.items() if why.startswith(subjects)), None)
        if found is None:
            found = ("row", "rows") if why in self.skipped.broken else _DOCUMENTS
        return found[count != 1]

    def instances(self) -> Iterator[Instance]:
        """Every sentence; labelled texts as sentences without a pair."""
        return (instance for _, instance in self.rows())

    def rows(self) -> Iterator[tuple[str, Instance]]:
        """Every sentence with its place: file:line, or what its document calls its place. UserError at the end if more
        rows were broken than the rules tolerate.
        """
        self._start()
        count = 0
        for where, instance in self._raw_rows():
            count += 1
            if self.form.texts is None:
                instance = self._identities(instance)
            if self.form.sentences and (relation := self._labels(instance.relation)) != instance.relation:
                instance = replace(instance, relation=relation)
            yield where, instance
            if count % _HOPELESS == 0:
                self._require_few_broken(count + self.marked, hopeless=True)
        self._require_few_broken(count + self.marked if self.form.documents is None else self.marked)

    def _raw_rows(self) -> Iterator[tuple[str, Instance]]:
        after = self._left_out[1]
        if self.form.sentences:
            for where, instance in self.form.sentences(self.path, after):
                try:
                    check_length(len(instance.tokens), where)
                except UserError as error:
                    after.bad(error, where)
                else:
                    yield where, instance
        elif self.form.texts:
            for where, text in self.form.texts(self.path, after):
                yield where, _without_pair(replace(text, label=self._labels.of_text(text.label)))
        else:
            for instance in pairs.instances(self._read_documents, after, self.rules, self._saw):
                yield self._where, instance

    def _read_documents(self) -> Iterable[Document]:
        """Pairs are made from two passes over the documents; each pass counts from zero."""
        assert self.form.documents
        self.documents = self.gold_relations = self.marked = 0
        self._left_out[0] = Skipped(strict=self.rules.bad_rows == 0)
        self._labels = Labels(self.rules, self._relations)
        for found in self.form.documents(self.path, self._left_out[0]):
            stated = found.relations or ()
            document = self._relabelled(found)
            self.documents += 1
            self.gold_relations += sum(relation != NA for _, relation, _ in stated) if document.listed else len(stated)
            self.marked += 1 + len(document.annotations or ()) + len(stated)
            self._where = document.where or document.id
            yield document

    def _saw(self, document: Document, sentences: int) -> None:
        self.sentences += sentences
        self.mentions += len(document.annotations or ())

    def _relabelled(self, document: Document) -> Document:
        """A document with labels as they are wanted, before pairs are formed: what means no relation is none."""
        if document.relations is None:
            return document
        named = ((head, self._labels(relation), tail) for head, relation, tail in document.relations)
        kept = tuple(it for it in named if document.listed or it[1] != NA)
        return document if kept == document.relations else replace(document, relations=kept)

    def _require_few_broken(self, good: int, *, hopeless: bool = False) -> None:
        share = 0.5 if hopeless else self.rules.bad_rows
        skipped = self.skipped
        require_few_broken(self.path, skipped, good, share)
        if self.form.documents is not None and not hopeless:  # a lost document weighs more than a lost entity
            parts = tuple(word for subjects in _SUBJECTS for word in subjects)
            whole = Counter({why: count for why, count in skipped.broken.items() if not why.startswith(parts)})
            require_few_broken(self.path, replace(skipped, broken=whole), self.documents, share)


def require_few_broken(path: Path, skipped: Skipped, good: int, share: float) -> None:
    """Raises UserError, which begins with the first broken row, if their share is larger than this one."""
    broken = skipped.broken.total()
    if not broken or broken <= share * (broken + good):
        return
    first = skipped.broken_examples[0]
    if broken == 1:
        more = f" (1 of {broken + good:,} rows"
    else:
        kinds = "; ".join(f"{count:,} × {why}" for why, count in skipped.broken.most_common(3))
        more = f" ({broken:,} of {broken + good:,} rows of {path} cannot be read: {kinds}"
    raise UserError(f"{first}{more}; up to {share:.3g} of them may be left out, see data.bad_rows)")


def _with_directions(rules: Rules, form: Format) -> Rules:
    """The rules, with the directions that a format declares where the experiment says nothing."""
    if not form.undirected or EVERY in rules.directions:
        return rules
    return replace(rules, directions={**rules.directions, EVERY: UNDIRECTED})


def _without_pair(text: LabelledText) -> Instance:
    """A text as a sentence without mentions. Equal texts are one "pair", so that a text which is in both train and test
    is noticed.
    """
    identity = hashlib.blake2b("\n".join(text.tokens).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    nowhere = Mention(identity, 0, 0)
    return Instance(text.tokens, nowhere, nowhere, text.label, text.source)
