"""The rules notice parts that break them, and nothing of our own breaks one."""

from dataclasses import dataclass

import pytest
import torch
import typer

from fedrel.algorithms import METHODS, FedAvg, Method
from fedrel.cli.check_plugin import check_plugin
from fedrel.conformance import GROUPS, Problem, checks_of, find
from fedrel.conformance.runs import Runs
from fedrel.denoisers import DENOISERS, Denoiser
from fedrel.errors import UserError
from fedrel.extractors import EXTRACTORS
from fedrel.extractors.bag_of_words import Bag
from fedrel.protocol import task


@dataclass(frozen=True)
class Undeclared(FedAvg):
    @task
    def train(self, site, message):
        return super().train(site, message)


@dataclass(frozen=True)
class Random(FedAvg):
    """Its platforms do not depend on the seed alone."""

    @task(weights="whole model", sentences="sentences", loss="loss", trains=True)
    def train(self, site, message):
        noisy = {name: value + torch.rand(()) for name, value in message["weights"].items()}
        return {"weights": type(message["weights"])(noisy), "sentences": len(site.shard), "loss": 1.0}


@dataclass(frozen=True)
class Forgetful(FedAvg):
    """It keeps what it needs outside of the server's state."""

    @task(weights="whole model", sentences="sentences", loss="loss", trains=True)
    def train(self, site, message):
        site.notes.memory  # noqa: B018
        count = COUNTER.setdefault(site.name, 0)
        COUNTER[site.name] += 1
        moved = {name: value + count for name, value in message["weights"].items()}
        return {"weights": type(message["weights"])(moved), "sentences": len(site.shard), "loss": 1.0}


COUNTER: dict[str, int] = {}


@dataclass(frozen=True)
class Divides(FedAvg):
    def round(self, hub, state, cohort):
        averaged = yield from super().round(hub, state, cohort)
        weights = averaged["weights"]
        moved = sum(float((weights[name] - value).abs().sum()) for name, value in state["weights"].items())
        return {"weights": weights / (moved / moved if moved else float("nan"))}


@dataclass(frozen=True)
class Fails(FedAvg):
    def round(self, hub, state, cohort):
        raise UserError("as asked")


class First(Denoiser):
    """It takes a bag's first sentence."""

    def score(self, vectors, bag, bags, classifier):
        places = torch.stack([(bag == it).float().argmax() for it in range(bags)])
        return torch.softmax(classifier(vectors), 1)[places]


class Centred(Bag):
    """Its vectors depend on the batch."""

    def encode(self, batch):
        vectors = super().encode(batch)
        return vectors - vectors.mean(0)


def broken(kind, name, key, *settings):
    """The rules that a part breaks, as (rule, what is said)."""
    found = []
    with Runs.of([f"{key}={name}", *settings]) as runs:
        for check in checks_of(kind, name, runs):
            try:
                check.test()
            except Exception as error:
                found.append((check.what, str(error)))
    return found


@pytest.fixture
def parts(monkeypatch):
    for algorithm in (Undeclared, Random, Forgetful, Divides, Fails):
        monkeypatch.setitem(METHODS.own, algorithm.__name__, Method(algorithm, "none", "", ""))
    monkeypatch.setitem(DENOISERS.own, "First", First)
    monkeypatch.setitem(EXTRACTORS.own, "Centred", Centred)
    COUNTER.clear()


@pytest.mark.parametrize(
    ("kind", "name", "rule"),
    [
        ("method", "Undeclared", "its tasks declare what they reply"),
        ("method", "Random", "the same seed gives the same weights"),
        pytest.param("method", "Forgetful", "the same seed gives the same weights", marks=pytest.mark.slow),
        ("method", "Divides", "a round in which nobody answers"),
        ("denoiser", "First", "scores do not depend on the order"),
        ("extractor", "Centred", "one vector a sentence, whatever else"),
    ],
)
def test_a_part_that_breaks_a_rule_is_noticed(parts, kind, name, rule):
    key = "extractor.kind" if kind == "extractor" else "method.name"
    settings = ["method.name=fedavg"] if kind == "extractor" else []
    assert rule in "; ".join(what for what, _ in broken(kind, name, key, *settings))


def test_a_run_that_fails_is_told_once_and_the_other_rules_are_still_checked(parts, capsys):
    with pytest.raises(typer.Exit):
        check_plugin("Fails")
    told = capsys.readouterr().out
    assert told.count("as asked") == 4  # a run, its replies, separate parties, and nobody answers
    assert told.count("not checked, since a plain run fails") == 4  # again, side by side, resumed, stacked
    assert "is not empty" not in told
    assert told.endswith("4 rules are broken\n")


@pytest.mark.parametrize("name", ["lazy-mil"])
def test_our_own_methods_keep_to_all_rules(name):
    assert broken("method", name, "method.name") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("method", it) for it in METHODS.own if it not in DENOISERS and it != "centralised"),
        *(("denoiser", it) for it in DENOISERS.own),
        *(("extractor", it) for it in EXTRACTORS.own),
    ],
)
def test_all_of_our_own_parts_keep_to_all_rules(kind, name):
    key = "extractor.kind" if kind == "extractor" else "method.name"
    assert broken(kind, name, key, *(["method.name=fedavg"] if kind == "extractor" else [])) == []


def test_parts_are_found_by_name():
    assert [find(name) for name in ("fedavg", "att", "pcnn", "opennre")] == [
        "method",
        "denoiser",
        "extractor",
        "format",
    ]
    with pytest.raises(UserError, match=r'is called "fedavgg"; did you mean "fedavg"'):
        find("fedavgg")
    assert set(GROUPS) == {"method", "extractor", "denoiser", "format"}
    assert issubclass(Problem, Exception)
