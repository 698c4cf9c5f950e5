"""What is checked of each kind of part, and where parts are found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fedrel.algorithms import METHODS
from fedrel.conformance.formats import format_checks
from fedrel.conformance.runs import Problem, Runs
from fedrel.corpus.formats import FORMATS
from fedrel.denoisers import DENOISERS
from fedrel.errors import UserError, suggest
from fedrel.extractors import EXTRACTORS
from fedrel.protocol.replies import forms
from fedrel.util.plugins import Registry

GROUPS: dict[str, Registry[Any]] = {
    "method": METHODS,
    "extractor": EXTRACTORS,
    "denoiser": DENOISERS,
    "format": FORMATS,
}


@dataclass(frozen=True)
class Check:
    """One rule. Calling it raises Problem, or anything else that the part raises, if the part breaks the rule."""

    what: str
    test: Callable[[], None]


def find(name: str) -> str:
    """The kind of the part with this name. A denoiser is a method too, but counts as a denoiser."""
    kinds = [kind for kind, registry in GROUPS.items() if name in registry]
    if not kinds:
        known = [it for registry in GROUPS.values() for it in registry]
        raise UserError(f'no method, extractor, denoiser or format is called "{name}"{suggest(name, known)}')
    return "denoiser" if "denoiser" in kinds else kinds[0]


def checks_of(kind: str, name: str, runs: Runs, data: Path | None = None) -> Iterator[Check]:
    """All rules for a part. `runs` must be of an experiment that uses it; `data` is an example of a format."""
    if kind == "format":
        for what, test in format_checks(name, data):
            yield Check(what, test)
        return
    if kind == "method":
        yield Check("its tasks declare what they reply", lambda: _declared(name))
        yield Check("its settings are a frozen dataclass with defaults", lambda: _settings(name))
    if kind == "extractor":
        yield Check("one vector a sentence, whatever else is in the batch", lambda: _vectors(runs))
    if kind == "denoiser":
        yield Check("one row of finite logits a bag", lambda: _logits(name))
        yield Check("scores do not depend on the order of sentences", lambda: _order(name))
    for rule in _RUNS if kind == "method" else _RUNS_WITHOUT_ABSENCE:
        yield Check(_first_line(rule), partial(rule, runs))


_RUNS_WITHOUT_ABSENCE: Sequence[Callable[[Runs], None]] = (
    *(Runs.learns, Runs.declares, Runs.repeats, Runs.side_by_side, Runs.resumes, Runs.stacks, Runs.federates),
)
_RUNS = (*_RUNS_WITHOUT_ABSENCE, Runs.survives_absence)


def _first_line(function: Callable[..., None]) -> str:
    sentence = " ".join((function.__doc__ or function.__name__).split())
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _declared(name: str) -> None:
    try:
        forms(METHODS[name].algorithm())
    except TypeError as error:
        raise Problem(str(error)) from None


def _settings(name: str) -> None:
    algorithm = METHODS[name].algorithm
    if not is_dataclass(algorithm) or not algorithm.__dataclass_params__.frozen:
        raise Problem(f"{algorithm.__name__} must be a @dataclass(frozen=True): its fields are the method's settings")
    algorithm()


def _vectors(runs: Runs) -> None:
    setup = runs.setup()
    site = next(iter(setup.sites.values()))
    model, shard = setup.model, site.shard
    model.load(setup.weights, shard)
    model.eval()
    with torch.no_grad():
        together = model.encoder.encode(shard.sentences(torch.arange(len(shard))))
        if together.shape != (len(shard), model.encoder.hidden):
            raise Problem(f"{tuple(together.shape)} vectors where {(len(shard), model.encoder.hidden)} was expected")
        for place in range(0, len(shard), max(1, len(shard) // 10)):
            alone = model.encoder.encode(shard.sentences(torch.tensor([place])))
            if not torch.allclose(alone[0], together[place], rtol=1e-4, atol=1e-5):
                raise Problem("the vector of a sentence depends on the other sentences of its batch")


def _bags(name: str) -> tuple[Any, torch.Tensor, torch.Tensor, torch.nn.Linear]:
    """A denoiser, ten sentence vectors, their bags (the third of four is empty), and a classifier of five relations."""
    draw = torch.Generator().manual_seed(1)
    vectors = torch.randn(10, 8, generator=draw)
    classifier = torch.nn.Linear(8, 5)
    with torch.no_grad():
        classifier.weight.copy_(torch.randn(5, 8, generator=draw))
    return DENOISERS[name](8, 5), vectors, torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 3, 3]), classifier


def _logits(name: str) -> None:
    denoiser, vectors, bag, classifier = _bags(name)
    if not denoiser.by_bag or denoiser.chooses:
        return  # a training step sees single sentences
    logits = denoiser.logits(vectors, bag, torch.tensor([1, 2, 0, 3]), classifier, lambda it: it)
    if logits.shape != (4, 5):
        raise Problem(f"logits {tuple(logits.shape)} where (bags, relations) = (4, 5) was expected")
    full = logits[torch.tensor([0, 1, 3])]
    if not bool(full.isfinite().all()):
        raise Problem("logits are not finite")


def _order(name: str) -> None:
    denoiser, vectors, bag, classifier = _bags(name)
    order = torch.tensor([2, 0, 1, 7, 5, 3, 4, 6, 9, 8])
    with torch.no_grad():
        one = denoiser.score(vectors, bag, 4, classifier)
        other = denoiser.score(vectors[order], bag[order], 4, classifier)
    there = torch.tensor([0, 1, 3])
    if one.shape != (4, 5):
        raise Problem(f"scores {tuple(one.shape)} where (bags, relations) = (4, 5) was expected")
    if not torch.allclose(one[there], other[there], rtol=1e-5, atol=1e-6):
        raise Problem("scores of a bag change with the order of its sentences")
