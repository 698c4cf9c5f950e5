"""Plain texts with one label each, from files to a report; and labelled pairs where "no relation" is no class."""

import json
import random
from pathlib import Path

import pytest

import fedrel as package
from fedrel.algorithms import LazyMIL
from fedrel.config import read
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare
from fedrel.learning.named import Named
from tests.algorithms.tiny import tiny_bert
from tests.corpus.test_chemprot import write as write_chemprot
from tests.labelled_examples import chemprot

SST2 = Path(__file__).parents[3] / "shared" / "data" / "sst2"
LABELS = ("NA", "good", "bad")
TELLING = {"NA": ("so", "thus"), "good": ("fine", "great"), "bad": ("poor", "dull")}


def texts(count: int, seed: int) -> list[str]:
    """Lines of text and label; one word of each tells the label."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        label = LABELS[number % 3]
        words = [f"w{draw.randrange(40)}" for _ in range(draw.randrange(3, 9))]
        words.insert(draw.randrange(len(words)), draw.choice(TELLING[label]))
        lines.append(f"{' '.join(words)} {seed}x{number}\t{label}\n")
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("texts")
    for seed, (split, count) in enumerate({"train": 240, "dev": 30, "test": 60}.items()):
        (path / f"{split}.tsv").write_text("".join(texts(count, seed)))
    return path


def settings(folder: Path, kind: str) -> list[str]:
    chosen = [
        *("data.source=classification", f"data.path={folder}", "partition.platforms=3", "training.rounds=8"),
        *("method.name=fedavg", f"extractor.kind={kind}", "extractor.min_count=2", "training.batch=8"),
        *("training.dropout=0.1", "extractor.filters=30", "engine.workers=1", "training.epochs=2"),
    ]
    if kind == "bert":
        return [*chosen, f"extractor.weights={tiny_bert()}", "extractor.max_length=48", "training.lr=0.003"]
    return [*chosen, "training.optimizer=adamw", "training.lr=0.02", "training.lr_decay=0.0"]


def options(chosen: list[str]) -> list[str]:
    return [part for setting in chosen for part in ("--set", setting)]


# ---------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(("kind", "least"), [("text", 0.9), ("bag", 0.9), ("bert", 0.5)])
def test_texts_are_learnt_judged_and_reported(fedrel, folder, tmp_path, kind, least):
    out = tmp_path / "run"
    outcome = fedrel("run", *options(settings(folder, kind)), "--out", out, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads((out / "result.json").read_text())
    assert set(result["test"]) == {"micro_f1", "micro_precision", "micro_recall", "macro_f1", "accuracy"}
    assert result["test"]["accuracy"] == result["test"]["micro_f1"]  # every label counts
    assert result["test"]["accuracy"] >= least
    details = json.loads((out / "details.json").read_text())
    assert {row["relation"] for row in details["classes"]} == set(LABELS), "NA is a label like others"
    assert details["confusion"]["relations"] == sorted(LABELS)
    report = (out / "report.html").read_text()
    assert "</html>" in report
    assert "accuracy" in report.lower()
    assert fedrel("show", out).code == 0
    with pytest.raises(UserError, match="plain texts") as caught:
        package.load(out)
    assert "\n" not in str(caught.value)


def test_a_model_of_texts_is_refused_by_extract(fedrel, refused, folder, tmp_path_factory, tmp_path):
    out = tmp_path_factory.mktemp("model") / "run"
    assert fedrel("run", *options([*settings(folder, "bag"), "training.rounds=1"]), "--out", out).code == 0
    (tmp_path / "text.txt").write_text("Ann was born in Bonn.")
    told = refused("extract", "--model", out, "--text", "text.txt", "--out", "facts.jsonl")
    assert "plain texts" in told


def test_texts_in_both_train_and_test_are_refused_as_texts(refused, folder, tmp_path_factory):
    both = tmp_path_factory.mktemp("both")
    for split in ("train", "dev", "test"):
        (both / f"{split}.tsv").write_text((folder / f"{split}.tsv").read_text())
    with (both / "test.tsv").open("a") as file:
        file.write(texts(240, 0)[7])
    told = refused("run", *options(settings(both, "bag")))
    assert told.startswith("1 text")
    assert "in both train and test" in told
    assert "pair" not in told


@pytest.mark.parametrize("kind", ["pcnn", "cnn"])
def test_extractors_that_look_for_a_pair_are_refused(refused, folder, kind):
    told = refused("run", *options([*settings(folder, "bag"), f"extractor.kind={kind}"]))
    assert told.startswith(f'extractor.kind = "{kind}" looks for a pair')


def test_metrics_that_rank_facts_are_refused(refused, folder):
    told = refused("run", *options([*settings(folder, "bag"), "training.metric=ap"]))
    assert 'training.metric = "ap" ranks facts' in told
    assert "pairs of entities" in told


def test_texts_without_a_dev_file_have_one_carved_from_train(folder, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "test"):
        (data / f"{split}.tsv").write_text((folder / f"{split}.tsv").read_text())
    setup = prepare(read(None, settings(data, "bag")))
    assert 5 <= len(setup.dataset.dev) <= 60
    assert len(setup.dataset.dev) + len(setup.dataset.train) == 240


@pytest.mark.slow
@pytest.mark.skipif(not SST2.is_dir(), reason="needs the SST-2 sentences in shared/data")
@pytest.mark.parametrize(("kind", "least"), [("bag", 0.78), ("text", 0.77)])
def test_film_reviews_are_told_apart(fedrel, tmp_path, kind, least):
    chosen = [
        *("data.source=classification", f"data.path={SST2}", "data.allow_overlap=true", "method.name=centralised"),
        *(f"extractor.kind={kind}", "extractor.min_count=2", "extractor.filters=100", "training.optimizer=adamw"),
        *("training.lr=0.003", "training.epochs=1", "training.rounds=12", "training.patience=3"),
    ]
    out = tmp_path / "run"
    assert fedrel("run", *options(chosen), "--out", out).code == 0
    assert json.loads((out / "result.json").read_text())["test"]["accuracy"] >= least


# ---------------------------------------------------------------------------------------------- pairs without NA


@pytest.fixture(scope="module")
def chemistry(tmp_path_factory) -> Path:
    """ChemProt-like files; every document has a pair with a relation, of five classes, and one without."""
    path: Path = tmp_path_factory.mktemp("chemprot")
    for mark, split, count in (("x", "training", 40), ("y", "development", 15), ("z", "test_gs", 15)):
        files = chemprot(mark, count)
        rows = [line.split("\t") for line in files["gold_standard"].splitlines()]
        classes = ("CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9")
        for number, row in enumerate(rows):
            row[1] = classes[number % 5]
        gold = "".join("\t".join(row) + "\n" for row in rows)
        write_chemprot(path, files | {"gold_standard": gold}, f"chemprot_{split}_{{kind}}.tsv")
    return path


def chemical(path: Path, *more: str) -> list[str]:
    return [
        *("data.source=chemprot", f"data.path={path}", "data.na=drop", "partition.platforms=2", "training.rounds=2"),
        *("extractor.filters=8", "extractor.min_count=1", "engine.workers=1", *more),
    ]


@pytest.mark.parametrize("kind", ["pcnn", "bert"])
def test_without_na_every_class_is_judged(fedrel, chemistry, tmp_path, kind):
    more = [f"extractor.weights={tiny_bert()}", "extractor.max_length=48"] if kind == "bert" else []
    chosen = chemical(chemistry, "method.name=fedavg", f"extractor.kind={kind}", *more)
    out = tmp_path / "run"
    outcome = fedrel("run", *options(chosen), "--out", out)
    assert outcome.code == 0, outcome.err
    details = json.loads((out / "details.json").read_text())
    assert details["confusion"]["relations"] == ["CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"]
    assert sum(map(sum, details["confusion"]["counts"])) == 15  # pairs without a relation are left out
    result = json.loads((out / "result.json").read_text())
    assert result["test"]["micro_f1"] == result["test"]["accuracy"]
    extractor = package.load(out)
    prediction = extractor.predict("copper stops xine.", head=(0, 6), tail=(13, 17))
    assert set(prediction.confidences) == set(extractor.relations)
    assert len(extractor.relations) == 5


def test_with_na_it_is_a_class_that_scores_leave_out(chemistry):
    setup = prepare(read(None, [*chemical(chemistry), "data.na=keep"]))
    assert setup.dataset.relations == ["NA", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"]
    assert setup.sites.hub.first_relation == 1


@pytest.mark.parametrize("metric", ["ap", "auc"])
def test_without_na_facts_cannot_be_ranked(refused, chemistry, metric):
    told = refused("run", *options(chemical(chemistry, f"training.metric={metric}")))
    assert told.startswith(f'training.metric = "{metric}" ranks facts')
    assert "without a relation" in told


def test_lazy_mil_elects_the_first_label_where_there_is_no_na(chemistry):
    setup = prepare(read(None, chemical(chemistry, "method.name=lazy-mil", "method.warmup=0")))
    assert isinstance(setup.algorithm, LazyMIL)
    for name in setup.sites:
        site = setup.sites[name]
        ballot = setup.algorithm.score(site, {"weights": setup.weights})["ballot"]
        assert isinstance(ballot, Named)
        assert int((site.shard.labels == 0).sum()) > 0
        assert len(ballot["key"]) == site.shard.bags, "a fact of label 0 has no vote"


def test_a_run_of_lazy_mil_without_na_goes_through(fedrel, chemistry, tmp_path):
    out = tmp_path / "run"
    chosen = chemical(chemistry, "method.name=lazy-mil", "method.warmup=0")
    assert fedrel("run", *options(chosen), "--out", out).code == 0


def test_the_built_in_world_needs_its_na_pairs(refused):
    told = refused("run", "--set", "data.na=drop", "--set", "data.size=500")
    assert told.startswith('data.na = "drop": the built-in world')
