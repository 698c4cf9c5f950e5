"""Real data, where it is at hand: FEDREL_REAL_DATA, or a folder `shared/data` beside the checkout."""

import os
from pathlib import Path

import pytest

from fedrel import config
from fedrel.corpus import Skipped, chemprot
from fedrel.data import loading
from fedrel.data.inspection import inspect
from fedrel.data.reports import Report
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution

DATA = Path(os.environ.get("FEDREL_REAL_DATA") or Path(__file__).parents[3] / "shared" / "data")


def folder(name):
    path = DATA / name
    if not path.is_dir():
        pytest.skip(f"{name} is not at hand; set FEDREL_REAL_DATA to the folder that holds it")
    return path


def test_nyt10_rows_are_read_and_shared_pairs_refused():
    experiment = config.read(None, ["data.source=nyt10", f"data.path={folder('nyt10-part')}"])
    dataset = loading.load(experiment.data)
    assert (len(dataset.train) + len(dataset.dev), len(dataset.test)) == (10_230 - 19, 6_944)
    assert "carved from train" in dataset.notes[0]
    assert dataset.notes[1] == "19 rows left out: of their sentence and their pair, one is in dev"
    with pytest.raises(UserError, match="93 entity pairs are in both train and test"):
        prepare(experiment)
    assert prepare(
        config.read(None, ["data.source=nyt10", f"data.path={DATA / 'nyt10-part'}", "data.allow_overlap=true"])
    )


def test_wiki_ds_is_read_as_described():
    dataset = loading.load(config.read(None, ["data.source=opennre", f"data.path={folder('wiki-ds')}"]).data)
    assert (len(dataset.train), len(dataset.dev), len(dataset.test)) == (60_463, 7_737, 7_342)
    assert (len(dataset.train.facts), len(dataset.test.facts)) == (15_962, 2_015)
    assert len(dataset.test.pair_entities) == 4_703
    dataset.require_no_overlap(allowed=False)


def counted(report: Report, *names: str) -> dict[str, tuple[int | None, ...]]:
    return {split: tuple(part.counts.get(name) for name in names) for split, part in report.parts.items()}


def test_wiki_ds_is_inspected_as_described():
    report = inspect(folder("wiki-ds"))
    names = ("rows", "left_out", "sentences", "pairs", "facts", "facts_in_several_sentences")
    assert report.format == "opennre"
    assert counted(report, *names) == {
        "train": (60_463, 0, 60_463, 38_497, 15_962, 6_036),
        "dev": (7_737, 0, 7_737, 4_937, 2_046, 754),
        "test": (7_342, 0, 7_342, 4_703, 2_015, 756),
    }
    assert all(len(part.labels) == 5 for part in report.parts.values()), "four relations and NA"
    assert report.shared_pairs == {"train-dev": 0, "train-test": 0, "dev-test": 0}


def test_nyt10_is_inspected_with_its_shared_pairs():
    report = inspect(folder("nyt10-part"))
    assert report.format == "nyt10"
    found = counted(report, "rows", "left_out", "sentences")
    assert (found["train"][:2], found["test"]) == ((10_230, 0), (6_944, 0, 6_944))
    assert (report.parts["dev"].path, found["dev"][0]) == (None, None)
    assert found["train"][2] + found["dev"][2] == 10_230 - 19, "their sentences and their pairs are in different splits"
    assert report.overlap == 93 == report.shared_pairs["train-test"] + report.shared_pairs["dev-test"]
    assert report.advice[-1].endswith("--set data.allow_overlap=true")


@pytest.mark.parametrize(("name", "rows", "train", "test"), [("gad", 5_330, 4_796, 534), ("euadr", 355, 318, 37)])
def test_folds_of_blinded_rows(name, rows, train, test):
    folds = inspect(folder(name))
    assert list(folds.parts) == [str(number) for number in range(1, 11)]
    assert all(sum(part.counts.values()) == rows for part in folds.parts.values())
    assert folds.parts["1"].counts == {"train_rows": train, "dev_rows": 0, "test_rows": test}
    first = inspect(folder(name) / "1")
    assert first.format == "biobert"
    found = counted(first, "rows", "left_out", "sentences")
    assert (found["train"][:2], found["dev"][:2], found["test"]) == ((train, 0), (0, 0), (test, 0, test))
    assert found["train"][2] + found["dev"][2] == train, "dev is carved from train, since its file is empty"
    assert first.notes == ["no dev sentences given: one sentence in 10 was carved from train for dev"]
    assert set(first.parts["test"].labels) == {"NA", "related"}


def test_chemprot_is_inspected_and_every_gold_relation_accounted_for():
    report = inspect(folder("chemprot"))
    assert counted(report, "documents", "gold_relations", "left_out") == {
        "train": (1_020, 4_157, 5),
        "dev": (612, 2_416, 0),
        "test": (800, 3_458, 0),
    }
    for part in report.parts.values():
        related = sum(count for label, count in part.labels.items() if label != "NA")
        assert related == part.counts["gold_relations"] - part.counts["left_out"]
        assert set(part.labels) == {"NA", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"}
    assert report.notes == ["train: 5 relations left out: the two entities stand in different sentences"]


def test_chemprot_holds_what_its_files_hold():
    for name in ("training", "development", "test_gs"):
        skip = Skipped()
        path = folder("chemprot") / f"chemprot_{name}_abstracts.tsv"
        documents = list(chemprot.read(path, skip))
        assert not skip.total
        for kind, count in (
            ("abstracts", len(documents)),
            ("entities", sum(len(it.annotations or ()) for it in documents)),
            ("gold_standard", sum(len(it.relations or ()) for it in documents)),
        ):
            assert count == len(path.with_name(f"chemprot_{name}_{kind}.tsv").read_text().splitlines())


def test_pgr_is_inspected_and_two_rows_name_a_gene_that_is_not_there():
    report = inspect(folder("pgr"))
    found = counted(report, "rows", "left_out", "sentences")
    assert (found["train"][:2], found["test"]) == ((4_083, 2), (219, 0, 219))
    assert found["train"][2] + found["dev"][2] == 4_081
    assert report.skipped.reasons == {"the gene is not in the sentence": 2}
    assert report.parts["test"].labels == {"NA": 142, "related": 77}
    assert report.overlap == 141


@pytest.mark.parametrize(
    ("name", "labels", "rows"),
    [("sst2", 2, {"train": 6_920, "dev": 872, "test": 1_821}), ("20news", 20, {"train": 11_293, "test": 7_528})],
)
def test_labelled_texts_are_inspected(name, labels, rows):
    report = inspect(folder(name))
    assert report.kind == "classification"
    assert counted(report, "rows", "left_out", "texts") == {split: (count, 0, count) for split, count in rows.items()}
    assert all(len(part.labels) == labels for part in report.parts.values())


def test_sentences_of_a_table_are_documents():
    file = folder("crowdtruth-medical") / "ground_truth_cause.csv"
    with pytest.raises(UserError, match='nearest is table, which would leave out "relation"'):
        inspect(file)
    report = inspect(file, "table")
    assert (report.kind, report.format) == ("documents", "table")
    assert report.parts["all"].counts["documents"] == 3_984


def test_a_folder_of_many_data_sets_is_refused_by_name():
    folder("wiki-ds")
    with pytest.raises(UserError, match="several data sets are in this folder; name one of them"):
        inspect(DATA)


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
