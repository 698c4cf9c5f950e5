"""Real data, where it is at hand: FEDREL_REAL_DATA, or a folder `shared/data` beside the checkout."""

import os
from pathlib import Path

import pytest

from fedrel import config, datasets
from fedrel.assembly import prepare
from fedrel.errors import UserError
from fedrel.execution import Execution

DATA = Path(os.environ.get("FEDREL_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data")


def folder(name):
    path = DATA / name
    if not path.is_dir():
        pytest.skip(f"{name} is not at hand; set FEDREL_REAL_DATA to the folder that holds it")
    return path


def test_nyt10_rows_are_read_and_shared_pairs_refused():
    experiment = config.read(None, ["data.source=nyt10", f"data.path={folder('nyt10-part')}"])
    dataset = datasets.load(experiment.data)
    assert (len(dataset.train) + len(dataset.dev), len(dataset.test)) == (10_230, 6_944)
    assert "carved from train" in dataset.notes[0]
    with pytest.raises(UserError, match="93 entity pairs are in both train and test"):
        prepare(experiment)
    assert prepare(
        config.read(None, ["data.source=nyt10", f"data.path={DATA / 'nyt10-part'}", "data.allow_overlap=true"])
    )


def test_wiki_ds_is_read_as_described():
    dataset = datasets.load(config.read(None, ["data.source=opennre", f"data.path={folder('wiki-ds')}"]).data)
    assert (len(dataset.train), len(dataset.dev), len(dataset.test)) == (60_463, 7_737, 7_342)
    assert (len(dataset.train.facts), len(dataset.test.facts)) == (15_962, 2_015)
    assert len(dataset.test.pair_entities) == 4_703
    dataset.require_no_overlap(allowed=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", ["none", "one", "lazy-mil"])
def test_forty_rounds_on_wiki_ds_reach_an_auc_of_89(method, tmp_path):
    settings = [
        "data.source=opennre",
        f"data.path={folder('wiki-ds')}",
        "partition.platforms=100",
        "extractor.vectors=glove",
        f"method.name={method}",
        "training.fraction=0.1",
        "training.rounds=40",
        "training.patience=40",
        "training.metric=auc",
        "training.lr=0.1",
        "training.lr_decay=0.01",
        "training.dropout=0.5",
    ]
    execution = Execution(prepare(config.read(None, settings)), tmp_path / "run")
    for _ in execution.rounds():
        pass
    assert execution.finish()["test"]["auc"] >= 0.89
