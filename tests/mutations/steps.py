"""Mistakes in what servers compute, and in what platforms compute and remember."""

from tests.mutations.mutation import Mutation

_SERVER = "tests/algorithms/test_server_steps.py::"
_PLATFORM = "tests/algorithms/test_platform_steps.py::"
_ROBUST = "tests/learning/test_robust.py::"

SERVER_STEPS = [
    Mutation(
        "FedAdam divides by v instead of its root",
        "algorithms/server_optimizers.py",
        "value.sqrt() + self.tau",
        "value + self.tau",
        _SERVER + "test_fedadam",
    ),
    Mutation(
        "FedAvgM ignores its lr",
        "algorithms/server_optimizers.py",
        "x + self.lr * v",
        "x + v",
        _SERVER + "test_fedavgm",
    ),
    Mutation(
        "FedDyn adds h/α instead of subtracting it",
        "algorithms/feddyn.py",
        "average - h / self.alpha",
        "average + h / self.alpha",
        _SERVER + "test_feddyn",
    ),
    Mutation(
        "FedDyn counts all platforms as active",
        "algorithms/feddyn.py",
        "self.alpha * len(replies) / hub.platforms",
        "self.alpha",
        _SERVER + "test_feddyn",
    ),
    Mutation(
        "SCAFFOLD without the factor |A|/K",
        "algorithms/scaffold.py",
        "len(replies) / hub.platforms * change",
        "change",
        _SERVER + "test_scaffold",
    ),
    Mutation(
        "FedAvg weighs all platforms alike",
        "algorithms/fedavg.py",
        'by="sentences"',
        "by=None",
        _SERVER + "test_a_mean_weighted_by_sentences",
    ),
    Mutation(
        "Lazy MIL weighs all platforms alike",
        "algorithms/lazy_mil.py",
        'by="sentences"',
        "by=None",
        _SERVER + "test_the_election_of_lazy_mil",
    ),
    Mutation(
        "Lazy MIL's ties go to the last platform",
        "algorithms/lazy_mil.py",
        "for platform, reply in ballots.items()",
        "for platform, reply in reversed(ballots.items())",
        _SERVER + "test_the_election_of_lazy_mil",
    ),
    Mutation(
        "Evidence forgets platforms that are away",
        "algorithms/best_evidence.py",
        "& remember",
        "& False",
        _SERVER + "test_evidence",
    ),
    Mutation(
        "Evidence remembers without being told to",
        "algorithms/best_evidence.py",
        "& remember",
        "& True",
        _SERVER + "test_evidence",
    ),
    Mutation(
        "Evidence keeps what a platform said before",
        "algorithms/best_evidence.py",
        '~torch.isin(heard["platform"], torch.tensor(list(said)))',
        'torch.ones_like(heard["platform"], dtype=torch.bool)',
        _SERVER + "test_evidence",
    ),
    Mutation(
        "FedAtt attends to the nearest platform",
        "algorithms/fedatt.py",
        "far.flatten(1).norm(dim=1)",
        "-far.flatten(1).norm(dim=1)",
        _SERVER + "test_fedatt",
    ),
    Mutation(
        "FedCMC takes minor vectors for major ones",
        "algorithms/fedcmc.py",
        "distance.argmin(0)",
        "distance.argmax(0)",
        _SERVER + "test_fedcmc",
    ),
    Mutation(
        "FedED ignores its temperature",
        "algorithms/feded.py",
        "stacked.mean(0) / temperature",
        "stacked.mean(0)",
        _SERVER + "test_feded",
    ),
    Mutation(
        "FedED's server trains as long as a platform",
        "algorithms/feded.py",
        "replace(hub.training, epochs=1)",
        "replace(hub.training)",
        _SERVER + "test_feded",
    ),
    Mutation(
        "Feedback collects verdicts from the cohort alone",
        "algorithms/feedback.py",
        '"collect", hub.everyone',
        '"collect", cohort',
        _SERVER + "test_feedback",
    ),
    Mutation(
        "the server takes plain means whatever the experiment says",
        "protocol",
        "how=self.robust",
        "how=None",
        _SERVER + "test_the_server_aggregates_as_the_experiment_says",
    ),
    Mutation(
        "a patch's factor is not averaged",
        "learning/named.py",
        "sum(factor * share for",
        "sum(share for",
        _SERVER + "test_a_mean_weighted_by_sentences",
    ),
    Mutation(
        "every platform takes part in every round",
        "protocol/sampling.py",
        "round(self.fraction * len(self.platforms))",
        "len(self.platforms)",
        "tests/engines/test_simulator.py::test_a_cohort_depends_on_seed_and_round_alone",
    ),
    Mutation(
        "every round has the same cohort",
        "protocol/sampling.py",
        '"cohort", round_',
        '"cohort"',
        "tests/engines/test_simulator.py::test_a_cohort_depends_on_seed_and_round_alone",
    ),
]

ROBUST_MEANS = [
    Mutation(
        "clipping by the longest update instead of the median",
        "learning/robust.py",
        "clip * median(lengths)",
        "clip * max(lengths)",
        _ROBUST + "test_a_clipped_mean_by_hand",
    ),
    Mutation(
        "the trimmed mean trims nothing",
        "learning/robust.py",
        "math.floor(trim * len(values))",
        "0",
        _ROBUST + "test_the_trimmed_mean_by_hand",
    ),
    Mutation(
        "Krum takes the farthest model",
        "learning/robust.py",
        "score.argmin()",
        "score.argmax()",
        _ROBUST + "test_krum_by_hand",
    ),
]

PLATFORM_STEPS = [
    Mutation(
        "SCAFFOLD divides by the first round's learning rate",
        "algorithms/scaffold.py",
        "fitted.steps * site.lr",
        "fitted.steps * site.training.lr",
        _PLATFORM + "test_scaffold",
    ),
    Mutation(
        "FedDyn's gradient memory has the wrong sign",
        "algorithms/feddyn.py",
        "h_k - self.alpha * (w_k - x)",
        "h_k + self.alpha * (w_k - x)",
        _PLATFORM + "test_feddyn",
    ),
    Mutation(
        "MOON's previous model is the one that was sent",
        "algorithms/moon.py",
        'named_in(reply, "weights")',
        'named_in(message, "weights")',
        _PLATFORM + "test_moon",
    ),
    Mutation(
        "the learning rate never decays",
        "protocol",
        "self.training.lr_at(self.round)",
        "self.training.lr_at(0)",
        _PLATFORM + "test_fedavg",
    ),
    Mutation(
        "Feedback counts its rounds from the seed model's",
        "algorithms/feedback.py",
        "schedule(self.p, site.round - 1)",
        "schedule(self.p, site.round)",
        _PLATFORM + "test_feedback",
    ),
    Mutation(
        "notes of one round are there in the next",
        "protocol",
        "notes.round != ask.round",
        "False",
        "tests/protocol/test_tasks.py::test_scratch_ends_with_its_round_and_memory_does_not",
    ),
]
