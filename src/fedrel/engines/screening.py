"""Replies are looked at before they are used: what is out of line is left out, and its platform named.

The server knows no text, so it compares platforms with each other. What it finds:

- `length`: the update's, as a multiple of the median of all platforms. Honest training goes wrong now and then: with
  the default learning rate up to one update in a hundred is more than 7 times as long as the median, and some are 30
  times. But then the platform's own loss is out of line too, and it says so. A long update is forgiven if its loss
  explains it: always up to twice the limit, two times in five replies up to ten times. Who was left out comes back
  with half of the limit.
- `direction`: the cosine with the sum of the others. In the first rounds all honest updates agree; later they need not
  (cosines down to -.8 where labels lie unevenly), and nobody is judged by it.
- `claim`: more sentences than the platform itself said that it holds.
- `weight`: of what platforms say they hold, a multiple of the median. It is not left out, but counts for no more.
- `evidence`: by how much the log-odds that it gives its facts exceed the median of all who hold the same fact; honest
  platforms came to 2.7 at most. Its evidence counts for nothing then, like that of a platform whose last update was
  left out; its update may still be used.

Docs, and what remains possible: docs/robust.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median, median_low
from typing import Any, Literal

import torch
from torch import Tensor

from fedrel.config import Robust
from fedrel.learning.named import Named
from fedrel.learning.robust import agreement, norms
from fedrel.protocol.form import Form
from fedrel.protocol.records import named_in
from fedrel.protocol.replies import LOG_ODDS, claims, trained
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.tasks import form_of

What = Literal["length", "direction", "claim", "weight", "evidence"]
# By field and platform, of its last replies: the round, the length, its multiple of the median, whether it was left out
Past = dict[str, dict[str, list[list[float]]]]

_WRONG = 3.0  # times the median loss: training went wrong
_REPLIES, _FORGIVEN, _LONG = 5, 2, 2  # of its last replies, those that may be longer than so many times the limit
_RECENT = 10  # rounds that a length of a platform which is away now still says something about the others
_ENOUGH = 3  # platforms that a median needs
_ENDLESS = 1e30  # instead of infinity and NaN, which JSON has no word for
_NEVER = 10  # times the limit: nobody's training slips that far
_EARLY = 3  # rounds in which honest updates point the same way
_ENOUGH_TO_AGREE = 4  # updates
_AGREED, _AGAINST = 0.2, -0.5  # the median cosine at least; of that, a cosine that is suspicious
_SHARED = 20  # facts that evidence is judged by
_LEAD = 8.0  # of log-odds

_SENTENCES: dict[What, str] = {
    "length": "its update is {value:.3g} times as long as the median",
    "direction": "its update points against the others' (cosine {value:.2f})",
    "claim": "it says it trained on {value:.10g} sentences, and that it holds {limit:.10g}",
    "weight": "it says it holds {value:.3g} times the median",
    "evidence": "the log-odds of its facts are {value:.3g} above the median of all who hold them",
}


@dataclass(frozen=True)
class Suspicion:
    """Something about a platform's reply that does not fit the others'."""

    platform: str
    round: int  # from 1
    task: str
    what: What
    value: float
    limit: float
    left_out: bool  # or else it was used; of `weight`, with no more than the limit

    @property
    def why(self) -> str:
        limit = "" if self.what == "claim" else f"; the limit is {self.limit:.3g}"
        return _SENTENCES[self.what].format(value=self.value, limit=self.limit) + limit

    def __str__(self) -> str:
        did = "left out" if self.left_out else "reported"
        return f"{did}: {self.platform}, round {self.round}: {self.why}"


def summary(suspicions: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By platform: in how many rounds it was left out, in how many only reported, and what was wrong first. Of
    suspicions as they stand in metrics.jsonl.
    """
    found: dict[str, dict[str, Any]] = {}
    rounds: dict[tuple[str, bool], set[int]] = {}
    for it in (Suspicion(**entry) for entry in suspicions):
        found.setdefault(it.platform, {"first": str(it)})
        rounds.setdefault((it.platform, it.left_out), set()).add(it.round)
    for platform, told in found.items():
        out, seen = rounds.get((platform, True), set()), rounds.get((platform, False), set())
        told |= {"left_out": len(out), "reported": len(seen - out)}
    return found


@dataclass
class Screen:
    """Between an engine and a round. What it remembers of a round counts once the round does: `settle`, or `forget`.
    With `screening = "report"` it says what it would do, and does nothing.
    """

    settings: Robust
    algorithm: object
    announced: Mapping[str, int]  # sentences that platforms say they hold; 0: not said yet
    on_suspicion: Callable[[Suspicion], None] = lambda suspicion: None
    past: Past = field(default_factory=dict)
    _draft: Past = field(default_factory=dict)

    def __call__(self, ask: Ask, replies: Replies) -> Replies:
        """The replies that may be used; the very same, if nothing is wrong with any."""
        if self.settings.screening == "off" or len(self.announced) < 2:
            return replies
        form = form_of(self.algorithm, ask.task)
        out, lighter, mute = set(), set(), self._distrusted()
        for suspicion in self._suspicions(ask, form, replies):
            self.on_suspicion(suspicion)
            if suspicion.what == "weight" and self._acts:
                lighter.add(suspicion.platform)
            elif suspicion.what == "evidence" and suspicion.left_out:
                mute.add(suspicion.platform)
            elif suspicion.left_out:
                out.add(suspicion.platform)
        self._note(out)
        instead: dict[str, dict[str, Named | float]] = {platform: {} for platform in replies}
        for platform in lighter:
            instead[platform] |= self._most_claims(form, replies[platform])
        for platform in mute & replies.keys():
            instead[platform] |= _nothing_to_show(form, replies[platform])
        if not out and not any(instead.values()):
            return replies
        return {
            platform: _Instead(reply, instead[platform]) if instead[platform] else reply
            for platform, reply in replies.items()
            if platform not in out
        }

    def settle(self) -> None:
        """The round is over, and counts."""
        for name, said in self._draft.items():
            past = self.past.setdefault(name, {})
            for platform, entries in said.items():
                past[platform] = [*past.get(platform, []), *entries][-_REPLIES:]
        self._draft = {}

    def forget(self) -> None:
        """The round came to nothing."""
        self._draft = {}

    @property
    def _acts(self) -> bool:
        return self.settings.screening == "leave-out"

    def _distrusted(self) -> set[str]:
        """Whose last update was left out: its evidence would keep others from training, and train nobody."""
        return {who for said in self.past.values() for who, entries in said.items() if entries[-1][3]}

    def _note(self, out: set[str]) -> None:
        for said in self._draft.values():
            for platform in said.keys() & out:
                said[platform][-1][3] = 1.0

    def _suspicions(self, ask: Ask, form: Form | None, replies: Replies) -> Iterator[Suspicion]:
        found = [*self._claims(form, replies)]
        if form is None:
            form = Form({})
        for name, declared in form.fields.items():
            spoken = _Field({who: reply for who, reply in replies.items() if name in reply}, name)
            if declared in ("model", "whole model", "difference"):
                base = ask.model.zeros() if declared == "difference" else ask.model
                lengths = [length if math.isfinite(length) else _ENDLESS for length in norms(base, spoken)]
                found += self._lengths(ask.round, lengths, spoken, _went_wrong(form, replies))
                if ask.round < _EARLY and len(lengths) >= _ENOUGH_TO_AGREE and max(lengths) < _ENDLESS:
                    found += _directions(agreement(base, spoken, lengths), spoken)
            elif not isinstance(declared, str) and (score := _score(declared)):
                found += _leads(spoken, score, odds=declared[score].endswith("prob"))
        for it in found:
            out = self._acts and it.decided
            yield Suspicion(it.platform, ask.round + 1, ask.task, it.what, it.value, it.limit, out)

    def _claims(self, form: Form | None, replies: Replies) -> Iterator[_Finding]:
        typical = self._typical()
        for platform, reply in replies.items():
            held, claimed = self.announced.get(platform, 0), max(claims(form, reply).values(), default=0.0)
            if held and claimed > held:
                yield _Finding(platform, "claim", claimed, float(held))
            elif typical and claimed > self._most():
                yield _Finding(platform, "weight", claimed / typical, self.settings.heaviest, decided=False)

    def _typical(self) -> int:
        """The lower of two in the middle: of two platforms, one alone could otherwise say what is usual."""
        return median_low([held for held in self.announced.values() if held] or [0])

    def _most(self) -> float:
        return self.settings.heaviest * self._typical()

    def _most_claims(self, form: Form | None, reply: Mapping[str, Named | float]) -> dict[str, Named | float]:
        return {field: min(claimed, self._most()) for field, claimed in claims(form, reply).items()}

    def _lengths(self, round_: int, lengths: list[float], models: _Field, explained: set[str]) -> Iterator[_Finding]:
        past, far = self.past.get(models.name, {}), self.settings.far
        known = [*lengths, *self._lengths_of_others(past, models, round_)]
        usual, distrusted = median(known or [0.0]), self._distrusted()
        for platform, length in zip(models.replies, lengths, strict=True):
            times = length / usual if usual else 1.0
            before = [multiple for _, _, multiple, _ in past.get(platform, [])[1 - _REPLIES :]]
            self._draft.setdefault(models.name, {})[platform] = [[round_, length, times, 0.0]]
            limit = far / 2 if platform in distrusted else far
            slips = sum(multiple > _LONG * far for multiple in [*before, times])
            forgiven = limit == far and platform in explained and slips <= _FORGIVEN and times <= _NEVER * far
            if times > limit and not forgiven:
                yield _Finding(platform, "length", times, limit, decided=len(known) >= _ENOUGH)

    def _lengths_of_others(self, past: Mapping[str, list[list[float]]], now: _Field, round_: int) -> Iterator[float]:
        """Of platforms that did not answer now, the last length, if it is of late and was not out of line."""
        for platform, entries in past.items():
            when, length, times, _ = entries[-1]
            if platform not in now.replies and when >= round_ - _RECENT and times <= self.settings.far:
                yield length


@dataclass(frozen=True)
class _Finding:
    """What may be wrong with a platform; decided: surely enough to leave it out."""

    platform: str
    what: What
    value: float
    limit: float
    decided: bool = True


@dataclass(frozen=True)
class _Field:
    """One field of the replies that have it, each read when its turn comes."""

    replies: Mapping[str, Mapping[str, Named | float]]
    name: str

    def __iter__(self) -> Iterator[Named]:
        return (named_in(reply, self.name) for reply in self.replies.values())


@dataclass(frozen=True)
class _Instead(Mapping[str, Named | float]):
    """A reply with some of its fields replaced."""

    reply: Mapping[str, Named | float]
    instead: Mapping[str, Named | float]

    def __getitem__(self, field: str) -> Named | float:
        return self.instead[field] if field in self.instead else self.reply[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self.reply)

    def __len__(self) -> int:
        return len(self.reply)


def _nothing_to_show(form: Form | None, reply: Mapping[str, Named | float]) -> dict[str, Named | float]:
    """Its facts with the lowest score there is, so that it hears of the others' and decides nothing."""
    instead: dict[str, Named | float] = {}
    for name, declared in form.fields.items() if form else ():
        if name in reply and not isinstance(declared, str) and (score := _score(declared)):
            said, lowest = named_in(reply, name), 0.0 if declared[score].endswith("prob") else -LOG_ODDS
            instead[name] = Named({**said, score: torch.full_like(said[score], lowest)})
    return instead


def _went_wrong(form: Form, replies: Replies) -> set[str]:
    """Who says itself that it did not learn: its loss is far above the others'. Of two, the lower is the usual one."""
    reports = {who: trained(form, reply) for who, reply in replies.items()}
    losses = {who: report[0] for who, report in reports.items() if report}
    usual = median_low(losses.values() or [0.0])
    return {who for who, loss in losses.items() if loss > _WRONG * usual > 0}


def _directions(cosines: list[float], models: _Field) -> Iterator[_Finding]:
    usual = median(cosines)
    for platform, cosine in zip(models.replies, cosines, strict=True):
        if usual >= _AGREED and cosine < _AGAINST * usual:
            yield _Finding(platform, "direction", cosine, _AGAINST * usual)


def _score(declared: Mapping[str, str]) -> str:
    """The tensor that scores facts, of a field that holds one beside their keys; empty: it does not."""
    scores = (name for name, text in declared.items() if text.endswith((" prob", " logodds")))
    return next(scores, "") if "key" in declared else ""


def _leads(said: _Field, score: str, *, odds: bool) -> Iterator[_Finding]:
    """Who scores the facts that it shares with others far above what is usual for each: the same model scored them all.
    With `odds`, scores are probabilities.
    """
    entries = list(said)
    if len(entries) < 2:
        return
    key = torch.cat([entry["key"] for entry in entries])  # (n,) all entries, platform after platform
    z = torch.cat([entry[score] for entry in entries]).double()
    z = torch.logit(z, eps=1e-12) if odds else z
    usual, holders = usual_of_key(key, z)
    sizes = [len(entry["key"]) for entry in entries]
    leads, shared = torch.split(z - usual, sizes), torch.split(holders > 1, sizes)
    for platform, above, known in zip(said.replies, leads, shared, strict=True):
        lead = float(above[known].median()) if int(known.sum()) >= _SHARED else 0.0
        if lead > _LEAD:
            yield _Finding(platform, "evidence", lead, _LEAD)


def usual_of_key(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """For every entry (n,): the lower median of all values with its key, and how many there are."""
    _, place, count = torch.unique(key, return_inverse=True, return_counts=True)
    order = torch.argsort(value, stable=True)
    order = order[torch.argsort(place[order], stable=True)]  # by key, each from the lowest value up
    middle = count.cumsum(0) - count + (count - 1) // 2  # (keys,) where it is in that order
    return value[order][middle][place], count[place]
