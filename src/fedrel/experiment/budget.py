"""What a run with differential privacy may give away, and when it has to stop; see docs/dp.md.

The noise of a round follows from `dp.epsilon` and from how many rounds the platform that is drawn most often takes part
in, if all of them are trained: fewer give away less. Who is drawn is known to all, so nothing is gained from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedrel.config import Experiment
from fedrel.errors import UserError
from fedrel.privacy.accounting import SENTENCE, composed, epsilon_of, mu_of
from fedrel.privacy.noise import Mechanism
from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.form import Form
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.summed import MODELS
from fedrel.protocol.tasks import form_of, tasks

OFF = "off"  # of dp.unit
_ROUNDING = 1e-9  # of ε, that two ways to compute it may differ by


@dataclass(frozen=True)
class Budget:
    """Of a run whose platforms add noise to what they send."""

    experiment: Experiment
    noise: float
    most: int  # rounds that a platform can take part in

    @classmethod
    def of(cls, experiment: Experiment, platforms: Iterable[str]) -> Budget | None:
        """The same for everybody who has agreed on the experiment; None: there is no noise."""
        dp, training = experiment.dp, experiment.training
        if dp.unit == OFF:
            return None
        if dp.noise:
            return cls(experiment, dp.noise, _affordable(dp.noise, dp.epsilon, dp.delta, training.rounds))
        names = tuple(platforms)
        times = _most_often(Sampler(names, training.fraction, experiment.seed), training.rounds)
        return cls(experiment, times**0.5 / mu_of(dp.epsilon, dp.delta) * (1 + 1e-12), times)

    @property
    def mechanism(self) -> Mechanism:
        dp = self.experiment.dp
        return Mechanism(dp.unit, dp.clip, self.noise, dp.colluders, self.experiment.privacy.least)

    def epsilon(self, times: int) -> float:
        """What a platform that took part so often has given away."""
        return epsilon_of(composed([self.noise] * times), self.experiment.dp.delta)

    def allows(self, participation: Mapping[str, int], cohort: Iterable[str]) -> bool:
        """Whether one more round with this cohort stays within the budget."""
        return all(participation.get(name, 0) < self.most for name in cohort)

    def described(self, participation: Mapping[str, int]) -> dict[str, Any]:
        """For result.json."""
        dp, times = self.experiment.dp, max(participation.values(), default=0)
        return {
            "unit": dp.unit,
            "epsilon": self.epsilon(times),
            "delta": dp.delta,
            "budget": dp.epsilon,
            "noise": self.noise,
            "clip": dp.clip,
            "colluders": dp.colluders,
            "rounds": times,
            "public_noise": self.experiment.engine.public_seeds,
        }


def _affordable(noise: float, epsilon: float, delta: float, rounds: int) -> int:
    """How many rounds of this noise stay within ε; UserError if none does."""
    low, high = 0, rounds
    while low < high:
        middle = (low + high + 1) // 2
        within = epsilon_of(middle**0.5 / noise, delta) <= epsilon * (1 + _ROUNDING)
        low, high = (middle, high) if within else (low, middle - 1)
    if not low:
        raise UserError(
            f"dp.noise = {noise:g}: a single round gives away ε = {epsilon_of(1 / noise, delta):.3g}, more than "
            f"dp.epsilon = {epsilon:g}; leave dp.noise out, or raise one of them"
        )
    return low


def _most_often(sampler: Sampler, rounds: int) -> int:
    """In how many of the rounds the platform takes part that is drawn most often."""
    if sampler.fraction == 1 or len(sampler.platforms) == 1:
        return rounds
    drawn = Counter(name for number in range(rounds) for name in sampler.cohort(number))
    return max(drawn.values(), default=rounds)


def objection_to_noise(algorithm: Algorithm, denoiser: str, experiment: Experiment) -> str | None:
    """Why a run cannot have differential privacy, in one sentence; None: it can, or need not."""
    unit, method = experiment.dp.unit, experiment.method["name"]
    if unit == OFF:
        return None
    if experiment.privacy.sums != "secure":
        return f'dp.unit = "{unit}" adds noise to sums over platforms; set privacy.sums = "secure"'
    if experiment.training.start:
        return "what the model that training.start names tells of its text, no noise hides; with dp.unit leave it out"
    if experiment.training.restarts:
        return "what a run that diverged gave away cannot be taken back; with dp.unit set training.restarts = 0"
    if algorithm.pools_text:
        return f"{method} has all text in one place, where no platform adds noise; leave dp.unit out"
    summed = [(name, form_of(algorithm, name)) for name in tasks(algorithm) if not hasattr(Algorithm, name)]
    forms = [(name, form) for name, form in summed if form is None or form.fields]
    others = 'choose method.name = "none", "fedavgm" or "fedadam"'
    if len(forms) != 1 or not _only_weights(forms[0][1]):
        return f"{method} sends more than weights, which no noise would hide; with dp.unit {others}"
    if unit not in vars(type(algorithm)).get("noisy_units", ()):
        what = "each sentence counts by itself" if unit == SENTENCE else "noise hides a platform"
        return f'{method} does not say that it works where {what} (dp.unit = "{unit}"); {others}'
    if unit == SENTENCE and denoiser != "none":
        return f'{method} trains on bags, and dp.unit = "{SENTENCE}" counts single sentences; {others}'
    return None


def _only_weights(form: Form | None) -> bool:
    """Whether weights are all that a reply holds, beside numbers that are not sent."""
    if form is None or len(form.of_kind(*MODELS)) != 1:
        return False
    return all(declared in (*MODELS, "sentences", "weight", "loss") for declared in form.fields.values())


def objection_at_home(experiment: Experiment, at_home: Iterable[str]) -> str | None:
    """Why a run whose platforms hold out dev or test cannot have differential privacy."""
    held = " and ".join(at_home)
    if experiment.dp.unit == OFF or not held:
        return None
    return f"counts on the {held} that platforms hold out have no noise; with dp.unit, give the coordinator files of it"


def noise_notes(said: Mapping[str, Any] | None) -> list[str]:
    """What a reader of results should know, from `Budget.described`."""
    if said is None:
        return []
    what = "all that a platform holds" if said["unit"] == "platform" else "any single sentence"
    notes = [
        f"differential privacy: ε = {said['epsilon']:.3g} at δ = {said['delta']:g} for {what}, in {said['rounds']} "
        f"rounds (noise {said['noise']:.3g} times what one may change; up to {said['colluders']:.0%} of the platforms "
        "may tell their noise)"
    ]
    if said["public_noise"]:
        notes.append(
            "warning: the noise is drawn from the experiment's seed (engine.public_seeds), so it hides nothing"
        )
    return notes
