"""Whether a sentence is in one platform's training text, from its updates or from the finished model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedrel.audit.finding import Attack, Finding, looks
from fedrel.audit.statistics import told_apart
from fedrel.audit.target import Target
from fedrel.learning.model import SHOWN
from fedrel.learning.named import Named
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.summed import Summed

_LOOKS = 10  # rounds in which every update is scored
_SPREAD = 4  # other platforms from which a spread of scores is told
Floats = npt.NDArray[np.float64]


class _FromUpdates(Attack):
    """What platforms' updates tell of a sentence, or their sums where only these are known."""

    alone = ""  # why it does not apply to a single platform

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.looks = looks(rounds, _LOOKS)

    def objection(self) -> str:
        if not self.target.sends_weights:
            return "no weights are sent"
        return "" if len(self.target.watched) > 1 else self.alone

    def see(self, ask: Ask, replies: Replies) -> None:
        if ask.round not in self.looks:
            return
        if isinstance(replies, Summed):
            gain = self.target.gain(ask, replies)
            if gain is not None:
                self.see_sum(gain, set(replies))
            return
        fits = self.target.fits(ask, replies)
        for place, platform in enumerate(self.target.watched if len(fits) > 1 else ()):
            if platform in fits:
                self.see_update(place, _above_others(fits, platform))

    @abstractmethod
    def see_update(self, place: int, above: Floats) -> None:
        """(N,) by how much the sentences fit the update of the platform at this place better than those of others."""

    @abstractmethod
    def see_sum(self, gain: Floats, platforms: set[str]) -> None:
        """(N,) by how much the sentences fit the mean of these platforms' updates better than the model before it."""


class Membership(_FromUpdates):
    """A sentence in one platform's text, from its updates.

    A likelihood-ratio attack (Carlini et al. 2022, LiRA) whose shadow models cost nothing: the updates of the other
    platforms, which do not hold the sentence. In every round that is looked at, the sentence's log-odds under the
    platform's update are compared with those under the others' by their mean and spread; the rounds are averaged.

    Where only sums are known, there are no others to compare with: what is left is how much better the sentence fits
    the mean of all updates than the model before them, which tells whether anybody trained on it, and not who.
    """

    name = "membership"
    wants = "whether a platform trained on a given sentence, by its updates"
    how = "The sentence fits this platform's trained weights better than those of the other platforms."
    alone = "there is one platform, and none to compare it with"

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.score = np.zeros(len(target.rows))
        self.times = np.zeros(len(target.rows))

    def see_update(self, place: int, above: Floats) -> None:
        asked = self.target.owner == place
        self.score[asked] += above[asked]
        self.times[asked] += 1

    def see_sum(self, gain: Floats, platforms: set[str]) -> None:
        self.score += gain
        self.times += 1

    def finding(self, weights: Named) -> Finding:
        seen, member = self.times > 0, self.target.member
        if not (seen & member).any() or not (seen & ~member).any():
            return self.nothing("no round had updates of two platforms that were watched")
        score = self.score / np.maximum(self.times, 1)
        counts = {
            "rounds": len(self.looks),
            "members": int((seen & member).sum()),
            "non-members": int((seen & ~member).sum()),
        }
        return self.found(*told_apart(score[seen & member], score[seen & ~member]), details=counts)


def _above_others(fits: Mapping[str, Floats], platform: str) -> Floats:
    """(N,) by how much the sentences fit this platform's update better than those of the others, in their spread."""
    others = np.stack([fit for name, fit in fits.items() if name != platform])
    spread = others.std(0) + 0.1 if len(others) >= _SPREAD else np.ones(others.shape[1])
    found: Floats = (fits[platform] - others.mean(0)) / spread
    return found


class Attribution(_FromUpdates):
    """Whose text a sentence is in, of a sentence that somebody trained on.

    Every sentence is asked of every platform that is watched, its own and the others: does it fit this one's updates
    better than those of the rest? Where only sums are known, all that tells platforms apart is who was in which sum: a
    sentence gains more in rounds that its platform takes part in than in those without it. Where all take part in all
    rounds, nothing is left, and every platform has the same score.
    """

    name = "attribution"
    wants = "which platform's text a given sentence is in"
    how = "The sentence fits its platform's updates better than others', or gains in sums that the platform is in."
    alone = "there is one platform: it is clear whose a sentence is"

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        watched, asked = len(target.watched), len(target.rows)
        self.score, self.times = np.zeros((watched, asked)), np.zeros(watched)
        self.without, self.absent = np.zeros((watched, asked)), np.zeros(watched)  # of sums it was not in

    def see_update(self, place: int, above: Floats) -> None:
        self.score[place] += above
        self.times[place] += 1

    def see_sum(self, gain: Floats, platforms: set[str]) -> None:
        gain = (gain - gain.mean()) / (gain.std() + 1e-9)  # early rounds gain more than late ones, whoever takes part
        inside = np.array([platform in platforms for platform in self.target.watched])
        self.score[inside] += gain
        self.times += inside
        self.without[~inside] += gain
        self.absent += ~inside

    def finding(self, weights: Named) -> Finding:
        if not self.times.any():
            return self.nothing("no round had updates of two platforms that were watched")
        score = self.score / np.maximum(self.times, 1)[:, None]
        told_of = self.times > 0
        if self.target.only_sums:
            told_of = told_of & (self.absent > 0)
            score = np.where(told_of[:, None], score - self.without / np.maximum(self.absent, 1)[:, None], 0.0)
        member, owner = self.target.member, self.target.owner
        its_own = owner[None, member] == np.arange(len(score))[:, None]  # (watched, members)
        counts = {"rounds": len(self.looks), "members": int(member.sum()), "platforms": len(score)}
        counts |= {"platforms that some round tells from others": int(told_of.sum())}
        return self.found(*told_apart(score[:, member][its_own], score[:, member][~its_own]), details=counts)


class FinalModel(Attack):
    """A sentence in anybody's text, from the finished model alone.

    The sentence's log-odds under the model, less their mean under shadow models: further federations of the same
    settings, each trained on a random half of the sentences that are asked about, and on all other text. So the
    attacker knows everything but the answer, which is the worst case. `shadows` holds their log-odds, (N,) each.
    """

    name = "model"
    wants = "whether anybody trained on a given sentence, by the finished model"
    how = "The sentence fits the model better than models that were trained without it."

    def __init__(self, target: Target, rounds: int) -> None:
        super().__init__(target, rounds)
        self.shadows: list[Floats] = []
        self.asked = False  # whether any platform was

    def see(self, ask: Ask, replies: Replies) -> None:
        self.asked = True

    def fit(self, weights: Named) -> Floats:
        """(N,) how well a model fits the sentences: their log-odds, with names shown."""
        return self.target.log_odds(weights, SHOWN)

    def finding(self, weights: Named) -> Finding:
        if not self.asked:
            return self.nothing("no platform takes part in the training")
        fit = self.fit(weights)
        if self.shadows:
            fit = fit - np.mean(self.shadows, axis=0)
        member = self.target.member
        return self.found(*told_apart(fit[member], fit[~member]), details={"shadows": len(self.shadows)})
