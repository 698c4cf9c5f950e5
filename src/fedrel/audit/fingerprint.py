"""Scores of facts as fingerprints of sentences, and facts that are followed from round to round.

Of a sentence that it has, the coordinator computes the score under the weights that it sent. A platform whose list of
facts has that very number, under one key, round after round, holds the sentence. Where scores are rounded down, an
entry is compatible if the sentence's score lies in its step, and what many rounds say adds up: an entry is followed by
its key, or by its place in the list if keys are new but places are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from fedrel.algorithms.evidence_sums import EvidenceFromSums
from fedrel.algorithms.lazy_mil_sums import LazyMILFromSums
from fedrel.audit.finding import Attack, Finding
from fedrel.audit.statistics import mean_of, threshold, told_apart
from fedrel.audit.target import Target, facts_of
from fedrel.data.store import Ints
from fedrel.encoding.packed import PackedShard
from fedrel.encoding.shard import Shard
from fedrel.learning.model import HIDDEN
from fedrel.learning.named import Named
from fedrel.protocol.form import Form
from fedrel.protocol.records import named_in
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.summed import Summed
from fedrel.protocol.tasks import form_of, tasks

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
_EXACT = 1e-5  # log-odds: what the order of sums may change
_SLACK = 1e-5  # log-odds, of a rounded score
_IMPOSSIBLE = -5.0  # log-likelihood ratio: the best of a fact cannot be below one of its sentences
_SURE = 1 - 1e-9  # probability; the logarithm of the rest must be finite
_FOLLOWED = 0.5  # a list whose scores correlate more than this, place by place, keeps its order
SLOTTED = (EvidenceFromSums, LazyMILFromSums)  # methods whose sums list slots
NO_SCORES = "no scores of facts are sent"


@dataclass(frozen=True)
class Listed:
    """A platform's list of facts in one round: n keys and scores, and the truth that they hide."""

    keys: Ints
    scores: Floats
    facts: Ints


def scored_field(form: Form | None) -> tuple[str, str] | None:
    """The field of a reply that lists facts by key, and which part of it are their log-odds."""
    for field, declared in form.fields.items() if form else ():
        if isinstance(declared, Mapping) and "key" in declared:
            for part, kind in declared.items():
                if kind.endswith("logodds"):
                    return field, part
    return None


def sends_scores(target: Target) -> bool:
    algorithm = target.setup.algorithm
    listed = any(scored_field(form_of(algorithm, name)) for name in tasks(algorithm))
    return listed or isinstance(algorithm, SLOTTED)


class Lists:
    """Every list of facts that a watched platform sent, by platform and round."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.of: dict[str, dict[int, Listed]] = {name: {} for name in target.watched}

    def see(self, ask: Ask, replies: Replies) -> bool:
        """Whether this was a list of facts."""
        if isinstance(replies, Summed):
            return self._see_sum(ask, replies)
        found = scored_field(form_of(self.target.setup.algorithm, ask.task))
        if found is None:
            return False
        for platform, reply in replies.items():
            if platform in self.of and found[0] in reply:
                sent = named_in(reply, found[0])
                keys, scores = sent["key"].cpu().numpy(), sent[found[1]].double().cpu().numpy()
                self.of[platform][ask.round] = Listed(keys, scores, self._facts(platform, keys))
        return True

    def _see_sum(self, ask: Ask, replies: Summed) -> bool:
        """Of a table of slots, what the sum tells: the best score in every slot that somebody has a fact in. It is the
        same list for every platform, and what its facts are nobody here can tell.
        """
        method = self.target.setup.algorithm
        if not isinstance(method, SLOTTED) or "reached" not in replies.layout.form.fields:
            return False
        keys, scores = method.table.readable(replies.total("reached"), method.turn(ask.round))
        listed = Listed(keys.numpy(), scores.double().numpy(), -2 - keys.numpy())
        for platform in self.of.keys() & set(replies):
            self.of[platform][ask.round] = listed
        return True

    def _facts(self, platform: str, keys: Ints) -> Ints:
        """What the keys hide: for scoring the attack alone."""
        site = self.target.setup.sites[platform]
        firsts = site.shard.rows[site.shard.bag_starts[:-1].numpy()]
        facts = facts_of(self.target.setup.dataset, firsts)
        known = {
            key: fact
            for blinded in (site.fact_keys(), site.lasting_keys())
            for key, fact in zip(blinded.tolist(), facts.tolist(), strict=True)
        }
        return np.array([known.get(key, -1) for key in keys.tolist()], np.int64)


class Fingerprint(Attack):
    """Whether a platform holds a sentence, by its exact score."""

    name = "fingerprint"
    wants = "whether a platform holds a given sentence, by its score"
    how = "The sentence's score under the weights that were sent is looked for in the lists of all platforms."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.lists = Lists(target)
        self.own: dict[int, Floats] = {}  # by round, the scores of the sentences that are asked about

    def objection(self) -> str:
        return "" if sends_scores(self.target) else NO_SCORES

    def see(self, ask: Ask, replies: Replies) -> None:
        if self.lists.see(ask, replies):
            self.own[ask.round] = self.target.log_odds(ask.model, self.target.setup.algorithm.view)

    def finding(self, weights: Named) -> Finding:
        target = self.target
        first = int(target.setup.dataset.has_na)
        asked = target.setup.dataset.train.labels[target.rows] >= first  # of other sentences nothing is sent
        if not self.own:
            return self.nothing(f"no scores were sent in these {self.rounds} rounds")
        if not (asked & target.member).any() or not (asked & ~target.member).any():
            return self.nothing("no sentence that states a fact was held out")
        step, how = self._step(), self._followed_by()
        best = np.full(len(target.rows), -np.inf)  # (N,) the log-likelihood ratio of the likeliest entry
        whose, fact = np.full(len(best), -1), np.full(len(best), -1)
        for place, platform in enumerate(target.watched):
            ratio, facts = self._ratios(self.lists.of[platform], step, how)
            better = ratio > best
            best[better], whose[better], fact[better] = ratio[better], place, facts[better]
        alike = asked & self._alike()
        members, others = asked & target.member & ~alike, asked & ~target.member & ~alike
        if not members.any():
            return self.nothing("every sentence is like another one, but for its names")
        if not others.any():
            return self.nothing("every sentence that was held out is like one that was not, but for its names")
        measures = told_apart(best[members], best[others])
        found = members & (best > threshold(best[others]))
        right = (whose == target.owner) & (fact == facts_of(target.setup.dataset, target.rows))
        details = {"sentences": int(members.sum()), "non-members": int(others.sum()), "rounds": len(self.own)}
        details |= {"left out, since a platform holds another with the same words around its names": int(alike.sum())}
        details |= {"found": int(found.sum()), "found with the right platform and fact": int((found & right).sum())}
        return self.found(*measures, details=details | {"followed by": how, "rounded to": step})

    def _alike(self) -> Bools:
        """(N,) whether a watched platform holds another sentence that the model cannot tell from this one, since it
        scores sentences with their names hidden: whether it holds this one, no score can tell.
        """
        target = self.target
        shard = target.shard
        if target.setup.algorithm.view != HIDDEN or not isinstance(shard, PackedShard) or shard.hidden is None:
            return np.zeros(len(target.rows), np.bool_)
        held = Counter(it for name in target.watched for it in self._as_read(target.setup.sites[name].shard))
        times = np.array([held[it] for it in self._as_read(shard)])
        return np.asarray(times > target.member, np.bool_)

    def _as_read(self, shard: Shard) -> Iterator[tuple[bytes, bytes, int]]:
        """Of every sentence, its words with names hidden, where its entities are, and its label."""
        if not isinstance(shard, PackedShard) or shard.hidden is None:
            return
        words, spans = shard.vocabulary[shard.hidden.numpy()], self.target.setup.dataset.train.spans[shard.rows]
        for place, (begin, end) in enumerate(pairwise(shard.starts.tolist())):
            yield words[begin:end].tobytes(), spans[place].tobytes(), int(shard.labels[place])

    def _step(self) -> float:
        """The step that scores are rounded to, as anybody sees who looks at them; 0: none."""
        sent = [it.scores for of in self.lists.of.values() for it in of.values()]
        values = np.unique(np.concatenate(sent)) if sent else np.zeros(0)
        if len(values) < 2:
            return 0.0
        step = float(np.diff(values).min())
        wholes = values / step if step > 0.01 else values + 0.5
        return step if np.abs(wholes - np.round(wholes)).max() < 1e-3 else 0.0

    def _followed_by(self) -> str:
        """key, place or nothing: what lets the coordinator follow an entry from round to round."""
        again, alike = [], []
        for of in self.lists.of.values():
            for one, two in pairwise(sorted(of)):
                before, after = of[one], of[two]
                again.append(float(np.isin(after.keys, before.keys).mean()) if len(after.keys) else 0.0)
                if len(before.scores) == len(after.scores) > 2 and before.scores.std() and after.scores.std():
                    alike.append(float(np.corrcoef(before.scores, after.scores)[0, 1]))
        if again and np.mean(again) > _FOLLOWED:
            return "key"
        return "place" if alike and np.mean(alike) > _FOLLOWED else "nothing"

    def _ratios(self, of: Mapping[int, Listed], step: float, how: str) -> tuple[Floats, Ints]:
        """(N,) over all rounds, how much likelier the platform's lists are if it holds the sentence, as log-likelihood
        ratio of the entry that speaks for it most; and the fact of that entry, for scoring.
        """
        count = len(self.target.rows)
        if not any(len(it.keys) for it in of.values()):
            return np.full(count, -np.inf), np.full(count, -1)
        names = {
            number: np.zeros(1, np.int64) if how == "nothing" else it.keys if how == "key" else np.arange(len(it.keys))
            for number, it in of.items()
        }  # of every list, what its entries are followed by; where nothing is, the list is one entry
        every = np.unique(np.concatenate(list(names.values())))  # (n,)
        hits, over, log_chance = (np.zeros((count, len(every))) for _ in range(3))
        rounds, facts = np.zeros(len(every)), np.full(len(every), -1)
        for number, it in of.items():
            same, above, chance = self._compatible(it, step, number)
            if how == "nothing":
                same, above = np.any(same, axis=1)[:, None], np.zeros((count, 1), np.bool_)
                chance = 1 - (1 - chance) ** len(it.keys)
            places = np.searchsorted(every, names[number])
            rounds[places] += 1
            facts[places] = it.facts if how != "nothing" else -1
            hits[:, places] += same
            over[:, places] += above
            log_chance[:, places] += np.where(same, np.log(chance), np.log1p(-np.minimum(chance, _SURE)))
        ratios = _log_hits(hits, rounds) - log_chance + _IMPOSSIBLE * over
        best = ratios.argmax(1)
        return ratios[np.arange(count), best], facts[best]

    def _compatible(self, it: Listed, step: float, number: int) -> tuple[Bools, Bools, Floats]:
        """(N, n) whether an entry can be the sentence's score; (N, n) whether the score is above the entry, which the
        best of a fact never is; (N, 1) the share of all entries of the round that the score would fit by chance.
        """
        z, sent = self.own[number][:, None], it.scores[None, :]
        up, down = (step, _SLACK) if step else (_EXACT, _EXACT)  # rounded down: the score may be a step higher
        everybody = np.sort(np.concatenate([of[number].scores for of in self.lists.of.values() if number in of]))
        fits = np.searchsorted(everybody, z + down, "right") - np.searchsorted(everybody, z - up, "right")
        chance = (fits + 1) / (len(everybody) + 2)
        return (z >= sent - down) & (z < sent + up), z >= sent + up, chance


def _log_hits(hits: Floats, rounds: Floats) -> Floats:
    """(N, n) the log-probability of so many hits in (n,) rounds in this order, if their rate may be anything from 0 to
    1: a sentence may be the best of its fact, and so what is sent, always, at times or never.
    """
    hit, all_ = torch.from_numpy(hits), torch.from_numpy(rounds)
    return np.asarray(torch.lgamma(hit + 1) + torch.lgamma(all_ - hit + 1) - torch.lgamma(all_ + 2), np.float64)


class Linkage(Attack):
    """Which entry is which in the next round."""

    name = "linkage"
    wants = "which entry of a list is which in the next round"
    how = "Entries of one platform's lists in two rounds, taken for one fact by their place, or by their key."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.lists = Lists(target)

    def objection(self) -> str:
        return "" if sends_scores(self.target) else NO_SCORES

    def see(self, ask: Ask, replies: Replies) -> None:
        self.lists.see(ask, replies)

    def finding(self, weights: Named) -> Finding:
        by_place, by_key, chance = [], [], []
        for of in self.lists.of.values():
            places, keys = [], []
            for one, two in pairwise(sorted(of)):
                before, after = of[one], of[two]
                if not len(before.keys) or not len(after.keys):
                    continue
                shorter = min(len(before.keys), len(after.keys))
                places.append((before.facts[:shorter] == after.facts[:shorter]).mean())
                keys.append(np.isin(before.keys, after.keys).mean())
                chance.append(1 / len(after.keys))
            if places:
                by_place.append(float(np.mean(places)))
                by_key.append(float(np.mean(keys)))
        if not by_place:
            return self.nothing("no platform sent a list of facts in two rounds")
        guess = float(np.mean(chance))
        return self.found(mean_of("place", by_place, guess), mean_of("key", by_key, guess))
