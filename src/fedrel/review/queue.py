"""What to show a reviewer, and in which order: questions, as far as somebody has answered them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fedrel.feedback.agreement import Dispute, disputes
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Verdict
from fedrel.pages.queries import share_in
from fedrel.pages.wording import readable
from fedrel.review.questions import Item, Questions

DISPUTED = "disputed"  # the order in which an adjudicator decides
ORDERS = {
    "uncertain": "least certain first",
    "confident": "most certain first",
    "random": "at random",
    "new": "facts new to the knowledge base",
    "changed": "predictions changed by a newer model",
    DISPUTED: "where reviewers disagree: I decide",
}
_SEARCHED = 200  # characters of what is searched for
_Asked = tuple[str, str]


@dataclass(frozen=True)
class Wanted:
    """Which questions are wanted: those for which all of it holds. An empty field asks for nothing."""

    words: str = ""  # all are in the sentence, or in the relation
    relation: str = ""
    least: float = 0.0  # confidence
    most: float = 1.0
    document: str = ""
    entity: str = ""  # id of the head or the tail

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wanted:
        """As the fields of an address or a form say; what makes no sense in them is ignored."""
        return cls(
            words=" ".join(query.get("q", "").split())[:_SEARCHED],
            relation=query.get("relation", ""),
            least=share_in(query, "least", 0.0),
            most=share_in(query, "most", 1.0),
            document=query.get("document", ""),
            entity=query.get("entity", ""),
        )

    def fields(self) -> dict[str, str]:
        """As the fields of an address or a form, without those that ask for nothing."""
        found = {"q": self.words, "relation": self.relation, "document": self.document, "entity": self.entity}
        found |= {
            "least": f"{self.least:g}" if self.least > 0 else "",
            "most": f"{self.most:g}" if self.most < 1 else "",
        }
        return {name: value for name, value in found.items() if value}


NOTHING_WANTED = Wanted()


@dataclass(frozen=True)
class Change:
    """What an older model predicted for a sentence, and the user's verdict on that."""

    relation: str
    verdict: str


@dataclass(frozen=True)
class Progress:
    """How far a user has come in one order."""

    judged: int
    of: int
    counts: Mapping[str, int]  # the user's verdicts, by kind
    changed: int  # judged sentences for which this model predicts something else than the one that was judged

    @property
    def agreement(self) -> float | None:
        """The share of "right" among the user's verdicts other than "don't know"; None if there are none."""
        known = self.counts[RIGHT] + self.counts[WRONG]
        return self.counts[RIGHT] / known if known else None


class Standing:
    """The standing verdicts from one user's point of view: their own, and what others have judged."""

    def __init__(self, verdicts: Iterable[Verdict], user: str) -> None:
        self.verdicts, self.user = list(verdicts), user
        self.mine: dict[_Asked, Verdict] = {}
        self.earlier: dict[str, Verdict] = {}  # by sentence, the user's latest
        self.others: set[_Asked] = set()
        self.decided: set[_Asked] = set()
        self.my_decisions = 0
        for verdict in self.verdicts:
            asked = verdict.key, verdict.relation
            if verdict.decides:
                self.decided.add(asked)
                self.my_decisions += verdict.user == user
            elif verdict.user == user:
                self.mine[asked] = self.earlier[verdict.key] = verdict
            else:
                self.others.add(asked)

    @cached_property
    def disputes(self) -> dict[_Asked, Dispute]:
        """Where reviewers disagree, decided or not."""
        return {(it.key, it.relation): it for it in disputes(self.verdicts)}

    def answered(self, order: str) -> Collection[_Asked]:
        """What need not be asked again in this order."""
        return self.decided if order == DISPUTED else self.mine


class Queue:
    """Questions in the orders in which they can be asked, and filtered."""

    def __init__(self, questions: Questions) -> None:
        self.texts, self.digest, self.has_kb = questions.texts, questions.digest, questions.has_kb
        self.items = questions.items
        self.all_relations = questions.relations
        self.relations = dict(Counter(it.relation for it in self.items).most_common())
        self._by_asked = {item.asked: item for item in self.items}
        self._by_key = {item.key: item for item in self.items}
        self._random = lru_cache(maxsize=16)(self._shuffled)
        self._filtered = lru_cache(maxsize=16)(self._admitted)

    @property
    def orders(self) -> dict[str, str]:
        """The orders that can be chosen, by name, with their descriptions."""
        return {name: words for name, words in ORDERS.items() if name != "new" or self.has_kb}

    @cached_property
    def documents(self) -> list[str]:
        """The names of the documents that the sentences are from, in the order of the alphabet."""
        return sorted({name for item in self.items if (name := self.texts.document(item.row))})

    def find(self, asked: _Asked) -> Item | None:
        """The item for (key, relation), if this model predicts that."""
        return self._by_asked.get(asked)

    def wanted(self, order: str, user: str, standing: Standing, wanted: Wanted = NOTHING_WANTED) -> list[Item]:
        """The items of an order that a filter lets through."""
        items = self._ordered(order, user, standing)
        if wanted == NOTHING_WANTED:
            return items
        admitted = self._filtered(wanted)
        return [item for item in items if item.asked in admitted]

    def next(
        self,
        standing: Standing,
        user: str,
        order: str,
        wanted: Wanted = NOTHING_WANTED,
        skipped: Sequence[_Asked] = (),
    ) -> Item | None:
        """The first item in this order that the user has not judged, or None; those judged by a colleague come last,
        and after them those that were skipped, in the order in which that was done.
        """
        answered, later, last = standing.answered(order), None, dict[_Asked, Item]()
        aside = set(skipped)
        for item in self.wanted(order, user, standing, wanted):
            if item.asked in answered:
                continue
            if item.asked in aside:
                last[item.asked] = item
            elif order == DISPUTED or item.asked not in standing.others:
                return item
            else:
                later = later or item
        return later or next((last[it] for it in skipped if it in last), None)

    def progress(self, standing: Standing, user: str, order: str, wanted: Wanted = NOTHING_WANTED) -> Progress:
        """How many items of this order and filter the user has judged, and how."""
        counts = dict.fromkeys((RIGHT, WRONG, UNKNOWN), 0)
        for verdict in standing.mine.values():
            counts[verdict.verdict] += 1
        answered = standing.answered(order)
        items = self.wanted(order, user, standing, wanted)
        return Progress(
            judged=sum(item.asked in answered for item in items),
            of=len(items),
            counts=counts,
            changed=sum(self._has_changed(verdict) for verdict in standing.earlier.values()),
        )

    def change(self, item: Item, standing: Standing) -> Change | None:
        """What the user judged before, if an older model predicted something else for this sentence; else None."""
        before = standing.earlier.get(item.key)
        if before is None or before.model == self.digest or before.relation == item.relation:
            return None
        return Change(before.relation, before.verdict)

    def instead(self, item: Item) -> tuple[list[str], list[str]]:
        """The relations that could be stated instead: those that are possible for the types, and the others."""
        names = sorted((it for it in self.all_relations if it != item.relation), key=lambda it: readable(it).casefold())
        possible = [it for it in names if self.texts.allows(item.row, it)]
        return possible, [it for it in names if it not in possible]

    def _has_changed(self, before: Verdict) -> bool:
        item = self._by_key.get(before.key)
        return item is not None and before.model != self.digest and before.relation != item.relation

    def _ordered(self, order: str, user: str, standing: Standing) -> list[Item]:
        if order == "random":
            return self._random(user)
        if order == "changed":
            return sorted(self._changed(standing), key=_surest_first)
        if order == DISPUTED:
            return sorted((it for asked in standing.disputes if (it := self.find(asked))), key=_surest_first)
        return self._orders[order]

    def _changed(self, standing: Standing) -> list[Item]:
        """The items of sentences that the user judged when an older model predicted something else, whether or not they
        have judged them again since.
        """
        before = {it.key for it in standing.mine.values() if self._has_changed(it)}
        return [item for key in before if (item := self._by_key.get(key)) is not None]

    def _admitted(self, wanted: Wanted) -> frozenset[_Asked]:
        words = wanted.words.casefold().split()
        return frozenset(item.asked for item in self.items if self._admits(item, wanted, words))

    def _admits(self, item: Item, wanted: Wanted, words: Sequence[str]) -> bool:
        return (
            wanted.relation in ("", item.relation)
            and wanted.least <= item.confidence <= wanted.most
            and wanted.document in ("", self.texts.document(item.row))
            and (not wanted.entity or wanted.entity in self.texts.entities(item.row))
            and (not words or all(word in self._searched(item) for word in words))
        )

    def _searched(self, item: Item) -> str:
        text = "".join(part for _, part in self.texts.parts(item.row))
        return f"{text} {readable(item.relation)}".casefold()

    @cached_property
    def _orders(self) -> dict[str, list[Item]]:
        stated = [item for item in self.items if item.stated]
        surest = sorted(stated, key=_surest_first)
        return {
            "uncertain": sorted(self.items, key=lambda item: (item.margin, item.key)),
            "confident": surest,
            "new": [item for item in surest if item.new],
        }

    def _shuffled(self, user: str) -> list[Item]:
        """The items in an order of the user's own, which does not change between sessions."""

        def draw(item: Item) -> bytes:
            return hashlib.blake2b(f"{user}\n{item.key}".encode(), digest_size=8).digest()

        return sorted(self._orders["confident"], key=draw)


def _surest_first(item: Item) -> tuple[float, str]:
    """Sorts the most certain first; of equally certain ones, the key of the sentence, a hash, decides."""
    return -item.log_odds, item.key
