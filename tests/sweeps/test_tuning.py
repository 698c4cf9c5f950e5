import json

import pytest

from fedrel import config
from fedrel.errors import UserError
from fedrel.sweeps import tuning

SPACE = '\n[tune.space]\n"training.lr" = [0.1, 0.5]\ntraining.dropout = [0.0, 0.2, 0.5]\n'


def read(tmp_path, text, **options):
    path = tmp_path / "t.toml"
    path.write_text(text)
    return tuning.read(path, **{"settings": [], **options})


def test_a_grid_is_every_combination(tmp_path):
    asked = read(tmp_path, "[tune]" + SPACE)
    assert asked.metric == "ap"
    assert [dict(trial.settings) for trial in asked.trials] == [
        {"training.lr": lr, "training.dropout": dropout} for lr in (0.1, 0.5) for dropout in (0.0, 0.2, 0.5)
    ]
    assert asked.trials[1].experiment.training.dropout == 0.2
    assert asked.trials[1].flags == ["training.lr=0.1", "training.dropout=0.2"]
    assert len({trial.name for trial in asked.trials}) == 6


def test_a_random_search_draws_what_differs_and_repeats(tmp_path):
    text = """
    [tune]
    search = "random"
    trials = 30
    [tune.space]
    "training.lr" = {low = 0.001, high = 1.0, log = true}
    "training.batch" = {low = 8, high = 16}
    "method.name" = ["one", "none"]
    """
    asked = read(tmp_path, text)
    assert len(asked.trials) == 30
    lr = [trial.experiment.training.lr for trial in asked.trials]
    assert all(0.001 <= value <= 1.0 for value in lr)
    assert 8 <= sum(value < 0.0316 for value in lr) <= 22  # half of the orders of magnitude
    assert {type(trial.settings["training.batch"]) for trial in asked.trials} == {int}
    assert {trial.experiment.method["name"] for trial in asked.trials} == {"one", "none"}
    assert [trial.settings for trial in read(tmp_path, text).trials] == [trial.settings for trial in asked.trials]
    assert read(tmp_path, text.replace("trials = 30", "trials = 30\nseed = 2")).trials != asked.trials


def test_a_small_space_is_drawn_empty_and_no_more(tmp_path):
    assert len(read(tmp_path, '[tune]\nsearch = "random"' + SPACE).trials) == 6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tune = 3", "t.toml: tune must be a section"),
        ("[tune]", "t.toml: [tune.space] is empty; say what to try"),
        ("[tune]\nspaces = {}", 't.toml:2: unknown key "tune.spaces"; did you mean "space"?'),
        ('[tune]\nsearch = "gird"' + SPACE, 't.toml:2: tune.search = "gird" is none of grid, random'),
        ("[tune]\ntrials = 0" + SPACE, "t.toml:2: tune.trials = 0: must be at least 1"),
        ("[tune]\nspace = 3", "t.toml: tune.space must be a section"),
        ('[tune.space]\n"training.lr" = 0.5', "tune.space: training.lr must be a list of values, or {low"),
        ('[tune.space]\n"training.lr" = []', "tune.space: training.lr must be a list of values, or {low"),
        ('[tune.space]\n"training.lr" = {low = 1, high = 2}', 'is a range, which needs search = "random"'),
        ('[tune.space]\n"training.lr" = {low = 1, high = 2, step = 1}', 'training.lr: unknown key "step"; there is'),
        ('[tune.space]\n"training.lr" = {low = 2, high = 1}', "training.lr: low must be below high"),
        ('[tune.space]\n"training.lr" = {low = 0, high = 1, log = true}', "low must be below high and above 0"),
        ('[tune.space]\n"training.lr" = {low = "a", high = 1}', "low and high must be numbers"),
        ('[tune.space]\n"training.lrs" = [1]', 'unknown key "training.lrs"; did you mean "lr"?'),
        ('[tune.space]\n"training.lr" = [-1]', "training.lr = -1.0: must be above 0"),
        ('[tune.space]\n"method.name" = ["on"]', 'method.name = "on" is no method; did you mean "one"?'),
        ('[training]\nmetric = "acu"\n[tune]' + SPACE, 'training.metric = "acu" is not a metric; did you mean "auc"?'),
    ],
)
def test_a_bad_search_is_refused(tmp_path, text, says):
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_quick_scale_and_the_data(tmp_path):
    text = '[data]\nsource = "opennre"\n[tune]\ndata = "the set from the library"' + SPACE
    with pytest.raises(UserError, match=r"^no data given; get the set from the library; then name the folder"):
        read(tmp_path, text)
    with pytest.raises(UserError, match=r"no quick scale; define one in a section \[tune.quick\]"):
        read(tmp_path, text, quick=True)
    text += '[tune.quick]\nset = ["data.source=world", "training.rounds=3"]\nspace = {training.lr = [0.1]}\n'
    [trial] = read(tmp_path, text, quick=True).trials
    assert (trial.experiment.data.source, trial.experiment.training.rounds) == ("world", 3)
    assert read(tmp_path, text, quick=True, settings=["training.rounds=4"]).trials[0].experiment.training.rounds == 4
    (tmp_path / "train.jsonl").write_text("")
    [trial] = read(tmp_path, text, quick=True, data=tmp_path).trials
    assert (trial.experiment.data.source, trial.experiment.data.path) == ("opennre", str(tmp_path))


def test_ranking_looks_at_dev_and_puts_what_diverged_last(tmp_path):
    asked = read(tmp_path, '[tune.space]\n"training.lr" = [0.1, 0.2, 0.3, 0.4]')
    found = [{"dev": {"ap": ap}, "best_round": 1, "rounds": 2, "seconds": 1.0} for ap in (0.2, 0.5, 0.2)]
    results = dict(zip([trial.name for trial in asked.trials], [None, *found], strict=True))
    ranking = tuning.ranked(asked, results)
    assert [row["settings"]["training.lr"] for row in ranking] == [0.3, 0.2, 0.4, 0.1]
    assert [row["score"] for row in ranking] == [0.5, 0.2, 0.2, None]
    json.dumps(ranking)


def test_a_trial_can_be_written_as_an_experiment(tmp_path):
    trial = read(tmp_path, '[tune.space]\n"training.lr" = [0.3]').trials[0]
    path = tmp_path / "best.toml"
    path.write_text(config.to_toml(config.to_table(trial.experiment)))
    assert config.read(path) == trial.experiment
