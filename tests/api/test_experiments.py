"""Experiments in Python: the same defaults, checks and sentences as files and --set have."""

from pathlib import Path

import pytest

import fedrel
from fedrel import config
from fedrel.experiment.assembly import read_experiment


def test_an_empty_one_is_the_demo():
    assert fedrel.Experiment().settings == read_experiment(None)
    assert repr(fedrel.Experiment()) == "Experiment(the built-in demo)"


@pytest.mark.parametrize(
    "changes",
    [
        {"training.lr": 0.1, "seed": 3},
        {"method.name": "one", "data.size": 600},
        {"extractor.kind": "bert"},  # brings another optimiser and learning rate
        {"extractor.kind": "minilm", "extractor.hidden": 64},
        {"training.fraction": 0.25},  # brings more rounds
        {"data.source": "opennre", "data.path": "here", "data.relations": ("a", "b")},
        {"data.labels": {"CPR:3": "activates"}},
    ],
    ids=str,
)
def test_changes_are_what_set_does(changes):
    said = [config.as_setting(key, value) for key, value in changes.items() if not isinstance(value, dict)]
    said += [f'{key}={{"CPR:3" = "activates"}}' for key, value in changes.items() if isinstance(value, dict)]
    assert fedrel.Experiment().with_(changes).settings == read_experiment(None, said)


def test_changes_in_steps_are_changes_at_once():
    steps = fedrel.Experiment().with_({"training.rounds": 4}).with_({"extractor.kind": "bert"}).with_({"seed": 2})
    assert steps.settings == read_experiment(None, ["training.rounds=4", "extractor.kind=bert", "seed=2"])


def test_another_method_takes_the_settings_of_the_first_away():
    first = fedrel.Experiment().with_({"method.name": "fedprox", "method.mu": 0.5})
    assert first.settings.method == {"name": "fedprox", "mu": 0.5}
    assert first.with_({"method.name": "one"}).settings.method == {"name": "one"}
    assert first.settings.method["mu"] == 0.5, "changed in place"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"training.round": 3}, 'experiment: unknown key "training.round"; did you mean "rounds"?'),
        ({"training.rounds": 0}, "experiment: training.rounds = 0: must be at least 1"),
        ({"training.rounds": "3"}, "experiment: training.rounds must be a whole number, not '3'"),
        ({"training.lr": None}, "experiment: training.lr must be a number, not None"),
        ({"method.name": "fedpro"}, 'experiment: method.name = "fedpro" is no method; did you mean "fedprox"?'),
        ({"extractor.kind": "pcn"}, 'experiment: extractor.kind = "pcn" is no extractor; did you mean "pcnn"?'),
        ({"seed": 1, "seed.more": 1}, "seed.more: seed is a value, not a section"),
    ],
    ids=str,
)
def test_a_mistake_is_told_where_it_is_made(changes, says):
    with pytest.raises(fedrel.UserError) as caught:
        fedrel.Experiment().with_(changes)
    assert str(caught.value).startswith(says)


def test_a_file_is_read_with_its_lines_and_written_whole(tmp_path):
    (tmp_path / "e.toml").write_text("seed = 3\n[training]\nround = 3\n")
    with pytest.raises(fedrel.UserError, match=r'e\.toml:3: unknown key "training\.round"'):
        fedrel.Experiment.load(tmp_path / "e.toml")
    made = fedrel.Experiment().with_({"method.name": "one", "data.path": Path("some") / "where"})
    made.save(tmp_path / "saved.toml")
    assert fedrel.Experiment.load(str(tmp_path / "saved.toml")).settings == made.settings
    with pytest.raises(fedrel.UserError, match="No such file or directory"):
        made.save(tmp_path / "nowhere" / "saved.toml")
