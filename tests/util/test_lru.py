"""The least recently used are evicted; platforms whose text was evicted are made again, and remember."""

import torch

from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.util.lru import _OVERHEAD, LruCache
from tests.algorithms.tiny import experiment


def test_the_least_recently_used_are_evicted():
    made = []

    def get(name):
        return recent.get(name, lambda: made.append(name) or name, lambda thing: 100)

    recent = LruCache(3 * (100 + _OVERHEAD))
    for name in "abcad":  # b is the longest unused when d comes
        assert get(name) == name
    assert made == ["a", "b", "c", "d"] and len(recent) == 3
    get("a")
    assert made == ["a", "b", "c", "d"]
    get("b")
    assert made == ["a", "b", "c", "d", "b"]


def test_one_that_is_too_large_stays_while_it_is_the_last():
    recent = LruCache(10)
    assert recent.get("a", lambda: "a", lambda thing: 100) == "a"
    assert recent.get("b", lambda: "b", lambda thing: 100) == "b"
    assert len(recent) == 1


def test_memory_and_scratch_survive_when_the_text_is_evicted(tmp_path):
    """Lazy MIL keeps its choice until the platform trains, SCAFFOLD its control variate for good."""
    for method, *settings in (("lazy-mil", "method.warmup=0"), ("scaffold",)):
        ended = []
        for limit in (2**30, 0):
            setup = prepare(experiment(method, "pcnn", *settings))
            setup.sites._made.limit = limit
            execution = Execution(setup, tmp_path / f"{method}-{limit}")
            lines = [progress.line for progress in execution.rounds()]
            memories = execution._engine.memories()
            ended.append((execution.state["weights"], [line["selection"] for line in lines], sorted(memories)))
            assert len(execution.setup.sites._made) == (1 if limit == 0 else len(execution.setup.sites))
        (kept, selections, names), (anew, selections_anew, names_anew) = ended
        assert all(torch.equal(kept[name], anew[name]) for name in kept)
        assert selections == selections_anew and names == names_anew
        assert len(names) == (0 if method == "lazy-mil" else len(execution.setup.sites))
