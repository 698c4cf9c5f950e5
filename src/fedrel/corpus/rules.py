"""What the [data] section of an experiment asks of readers: who is one entity, which label means no relation, which
pairs count, and how many broken rows are tolerated.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

from fedrel.corpus.types import NA, Instance, Mention
from fedrel.errors import UserError

LOCAL = "local:"  # begins the id of an entity that is known in its document alone
UNDIRECTED, DIRECTED, EVERY = "undirected", "directed", "*"
_TYPED = re.compile(r"\s*(\S.*?)\s*->\s*(\S.*?)\s*")
# How public data sets call a pair without a relation; compared without case, blanks, hyphens and underscores
_USUAL = frozenset(
    ("na", "n/a", "none", "null", "nil", "other", "others", "norelation", "norel", "notrelated", "unrelated", "false")
)
# A label of such words alone, which nobody recognised, may mean "none of them"; but not Negative_Correlation
_SUSPECT = frozenset(("no", "non", "none", "not", "other", "others", "negative", "neg", "false", "unknown", "0"))
_NEUTRAL = frozenset(
    (
        *("rel", "relation", "relations", "related", "label", "class", "type", "interaction", "effect", "sure", "pair"),
        *("association", "associated", "link", "connection", "a", "an", "any", "of", "the", "above", "these", "them"),
    )
)
_WORDS = re.compile(r"[a-z0-9]+")
_FILLERS = re.compile(r"[\s_-]+")
_BLANKS = re.compile(r"[\s_]+")


@dataclass(frozen=True)
class Rules:
    """How labelled data are read. The defaults are those of `config.Data`."""

    identity: Literal["id", "name", "document"] = "id"
    na_label: str = ""  # the label that means no relation; empty: the usual names for it
    labels: Mapping[str, str] = field(default_factory=dict)  # new names for labels
    directions: Mapping[str, str] = field(default_factory=dict)  # of relations: undirected, directed, or "A -> B"
    max_pairs: int = 5_000  # without a relation, of one sentence
    max_distance: int = 0  # tokens between the entities of a pair without a relation; 0: any number
    bad_rows: float = 0.01  # the share of broken rows that is tolerated

    def __post_init__(self) -> None:
        for relation, direction in self.directions.items():
            if direction not in (UNDIRECTED, DIRECTED) and not _TYPED.fullmatch(direction):
                raise UserError(
                    f'data.directions: "{direction}" of "{relation}" is no direction; write undirected, directed, or '
                    'the types of head and tail as "Drug -> Disease"'
                )

    def direction(self, relation: str) -> str:
        """`undirected`, `directed`, or the types of head and tail as `A -> B`."""
        return self.directions.get(relation) or self.directions.get(EVERY) or DIRECTED

    def types(self, relation: str) -> tuple[str, str] | None:
        """The declared types of head and tail, if there are such."""
        match = _TYPED.fullmatch(self.direction(relation))
        return (match[1], match[2]) if match else None


# ------------------------------------------------------------------------------------------------ labels


class Labels:
    """Labels as the experiment wants them: mapped to their new names, and NA for those that mean no relation."""

    def __init__(self, rules: Rules, relations: frozenset[str] = frozenset()) -> None:
        """`relations`, agreed beforehand, are relations whatever they are called."""
        self._rules, self._relations = rules, relations
        self.became: dict[str, str] = {}  # labels as they are in the file, and what was made of each
        self.as_na: Counter[str] = Counter()  # sentences by a label, other than NA itself, that was taken for it
        self.suspects: Counter[str] = Counter()  # by a label that looks as if it meant no relation, and counts as one

    def __call__(self, label: str) -> str:
        found = self.became[label] = self._meant(self._rules.labels.get(label, label))
        return found

    def of_text(self, label: str) -> str:
        """The label of a whole text, of which none means no relation."""
        found = self.became[label] = self._rules.labels.get(label, label)
        return found

    def _meant(self, name: str) -> str:
        if name == NA or name in self._relations:
            return name
        if self._means_none(name):
            self.as_na[name] += 1
            return NA
        words = set(_WORDS.findall(name.casefold()))
        if words & _SUSPECT and words <= _SUSPECT | _NEUTRAL:
            self.suspects[name] += 1
        return name

    def _means_none(self, name: str) -> bool:
        if self._rules.na_label:
            return name == self._rules.na_label
        return _FILLERS.sub("", name).casefold() in _USUAL

    def notes(self) -> list[str]:
        """What was taken for NA, and what looks like it."""
        told = [
            f'{_sentences(count)} labelled "{name}", which is taken to mean no relation (data.na_label)'
            for name, count in self.as_na.most_common()
        ]
        hints = [
            f'the label "{name}" ({_sentences(count)}) counts as a relation; if it means no relation, set '
            f'data.na_label="{name}"'
            for name, count in self.suspects.most_common(3)
        ]
        return told + hints


def _sentences(count: int) -> str:
    return f"{count:,} sentence{'s' if count != 1 else ''}"


# ---------------------------------------------------------------------------------------------- identity


class Identities:
    """Ids for the entities of one split of one platform, which decide what is one fact.

    `id`: an entity is known everywhere by its id; without one, it belongs to its platform, split and document. `name`:
    by its name (`normal_name`), whatever its id. `document`: an entity belongs to its document, id or not.
    """

    def __init__(self, identity: str, platform: str, split: str) -> None:
        self._identity, self._scope = identity, (platform, split)
        self.without_id = 0  # sentences with an entity that is known in its document alone
        self.spellings: dict[str, set[str]] = {}  # by name: how it is written; only for `name`
        self._first: dict[str, str] = {}  # by name: the first document, or sentence, that has it
        self.merged: set[str] = set()  # names that several documents, or sentences, have

    def __call__(self, instance: Instance) -> Instance:
        head, tail = instance.head, instance.tail
        if self._identity == "id" and head.id and tail.id:
            return instance
        place = instance.document or tokens_key(instance)
        if self._identity != "name":
            self.without_id += 1
        return replace(instance, head=self._known(head, instance, place), tail=self._known(tail, instance, place))

    def _known(self, mention: Mention, instance: Instance, place: str) -> Mention:
        if self._identity == "name":
            words = " ".join(instance.tokens[mention.start : mention.end])
            name = f"name:{normal_name(words)}"
            self.spellings.setdefault(name, set()).add(words)
            if self._first.setdefault(name, place) != place:
                self.merged.add(name)
            return replace(mention, id=name)
        if mention.id and self._identity == "id":
            return mention
        within = mention.id or mention.local
        own = within or f"{tokens_key(instance)} {mention.start} {mention.end}"
        return replace(mention, id=f"{LOCAL}{digest(*self._scope, place, own)}")

    def notes(self, *, gold: bool) -> list[str]:
        """What was merged, or kept apart. With gold labels, entities that are kept apart are nothing to speak of."""
        if self._identity == "name":
            several = sum(len(found) > 1 for found in self.spellings.values())
            return [
                f"{len(self.spellings):,} entities by name, {len(self.merged):,} of them in several documents or "
                f"sentences and {several:,} in several spellings (data.identity)"
            ]
        if not self.without_id or (gold and self._identity == "id"):
            return []
        why = "data.identity" if self._identity == "document" else "it has no id; data.identity=name goes by names"
        return [f"{_sentences(self.without_id)} with an entity that is known in its own document alone ({why})"]


def normal_name(words: str) -> str:
    """The form in which names are compared: NFKC, without case, white space and underscores."""
    return _BLANKS.sub("", unicodedata.normalize("NFKC", words)).casefold()


def tokens_key(instance: Instance) -> str:
    """The same for equal tokens, and different for others."""
    return digest(*instance.tokens)


def digest(*parts: str) -> str:
    """64 bits of a hash of some texts, in hexadecimal digits."""
    return blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
