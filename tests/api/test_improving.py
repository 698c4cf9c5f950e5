"""Verdicts make the reviewed model better, or it stays: from a store of the page to the model to use."""

import json
import shlex
import shutil
from types import SimpleNamespace

import pytest

import fedrel as api
from fedrel import Experiment, config
from fedrel.api.improving import COMPARISON, beside
from fedrel.api.reviewed import Reviewed
from fedrel.cli.improve import KEPT
from fedrel.corpus import NA, world
from fedrel.data import loading
from fedrel.errors import UserError
from fedrel.experiment.improvement import Judged, settings_of
from fedrel.experiment.saved import load_model
from fedrel.extraction.facts import Fact, Support, read_facts, to_json
from fedrel.extraction.general import FOLDER
from fedrel.feedback.store import RIGHT, WRONG, Store
from fedrel.feedback.stored_verdicts import StoredVerdicts
from fedrel.review import questions
from fedrel.review.ending import improving
from tests.instances import write

SMALL = {"partition.platforms": 2, "extractor.filters": 16, "training.rounds": 4, "training.lr": 0.3}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model of a third of the text, and the rest, which is reviewed."""
    folder = tmp_path_factory.mktemp("improving")
    made = world.World(size=1_500, noise=0.3)
    splits = {split: list(made.instances(split)) for split in ("train", "dev", "test")}
    for name, train in (("first", splits["train"][::3]), ("new", splits["train"][1::3])):
        for split, rows in {**splits, "train": train}.items():
            write(folder / name / f"{split}.jsonl", rows)
    experiment = Experiment().with_({"data.source": "opennre", "data.path": folder / "first", **SMALL})
    model = api.run(experiment, out=folder / "model").folder
    return SimpleNamespace(folder=folder, model=model, new=folder / "new", first=folder / "first")


def review(place, store, says, *, users=("anna",), count=120, data=None):
    """What people say of the predictions; `says` is told whether one is what the sentence was written to say."""
    dataset = loading.load(config.Data(source="opennre", path=str(data or place.new)))
    shown = questions.of_dataset(dataset, load_model(place.model), questions.digest_of(place.model))
    with Store.open(store) as verdicts:
        for number, it in enumerate(sorted(shown.items, key=lambda it: it.key)[:count]):
            label = dataset.relations[dataset.train.labels[it.row]]
            correct = label == it.relation and bool(dataset.train.expressed[it.row])
            prediction = verdicts.show(it.key, it.relation, it.confidence, shown.digest)
            verdicts.give(prediction, users[number % len(users)], RIGHT if says(correct) else WRONG)
    return store


def test_the_new_model_is_compared_with_the_old_one_and_both_are_kept(place, tmp_path):
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct)
    done = api.improve(place.model, store, data=place.new, out=tmp_path / "next")
    assert done.dev is not None and done.held_out is not None
    assert done.accepted == (not done.why)
    assert done.use == str(tmp_path / "next" if done.accepted else place.model)
    assert done.people["anna"].verdicts == 120 and not done.without
    assert done.dev.new == pytest.approx(api.Run(tmp_path / "next").dev_scores["ap"])
    assert json.loads((tmp_path / "next" / COMPARISON).read_text()) == json.loads(json.dumps(done.as_json()))
    settings = api.Run(tmp_path / "next").experiment.settings
    assert (settings.method["name"], settings.data.more) == ("verdicts", (str(place.new),))
    assert settings.data.path == str(place.first)
    load_model(place.model)


@pytest.mark.parametrize(
    ("says", "why"),
    [(lambda correct: not correct, "contradict"), (lambda correct: True, "do not depend")],
    ids=["the opposite", "always right"],
)
def test_people_who_mislead_are_noticed_and_nothing_is_trained(place, tmp_path, fedrel, says, why):
    store = review(place, tmp_path / "verdicts.sqlite", says, count=300)
    done = fedrel("improve", place.model, "--verdicts", store, "--data", place.new, "--out", tmp_path / "next")
    assert done.code == KEPT and why in done.out
    last = done.out.splitlines()[-1]
    assert last == f"the old model is kept; use {place.model}; no new one was trained"
    assert not (tmp_path / "next").exists()


def test_who_misleads_does_not_count_and_others_do(place, tmp_path):
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct, count=150)
    with Store.open(store) as opened:
        for number, it in enumerate(list(opened.standing())):
            opened.give(number + 1, "bert", WRONG if it.verdict == RIGHT else RIGHT)
    settings = Experiment(settings_of(place.model, store, place.new, {})).settings
    judged = Judged.of(settings, lambda line: None)
    assert judged.without == ("bert",)
    assert judged.objection() == ()


def test_a_worse_model_is_refused(place, tmp_path, fedrel):
    """A learning rate that spoils the model: it is trained and kept, and the old one is the one to use."""
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct)
    rate = ("--set", "training.lr=5", "--set", "training.restarts=0", "--set", "training.rounds=1")
    done = fedrel("improve", place.model, "--verdicts", store, "--data", place.new, "--out", tmp_path / "x", *rate)
    assert done.code == KEPT
    assert "not better: on dev its ap is 0." in done.out
    assert done.out.splitlines()[-1].startswith(f"the old model is kept; use {place.model}; the new one is in")


def test_verdicts_are_held_out_by_pair_and_always_the_same(place, tmp_path):
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct)
    dataset = loading.load(config.Data(source="opennre", path=str(place.new)))
    train = dataset.train
    found = StoredVerdicts.read(store, dataset, train)
    learnt, apart = found.divided(0.3, dataset, train)
    assert {*learnt.decided, *apart.decided} == {*found.decided} and not {*learnt.decided} & {*apart.decided}
    assert not {train.pairs[row] for row in learnt.decided} & {train.pairs[row] for row in apart.decided}
    assert 0.15 < len(apart.decided) / len(found.decided) < 0.45
    assert found.divided(0.3, dataset, train)[1] == apart
    assert found.divided(0.0, dataset, train)[0] == found


def test_without_the_models_text_the_reviewed_text_is_enough(place, tmp_path):
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct)
    model = shutil.copytree(place.model / "model", tmp_path / "alone")
    settings = Experiment(settings_of(model, store, place.new, {})).settings
    assert (settings.data.path, settings.data.more) == (str(place.new), ())
    with pytest.raises(UserError, match="say with --data where the judged text is"):
        settings_of(model, store, None, {})


def facts_of(place, file, *, known=True):
    """What the model says of the new text as facts; the knowledge base has those that its sentences are labelled with,
    or there was none.
    """
    dataset = loading.load(config.Data(source="opennre", path=str(place.new)))
    shown = questions.of_dataset(dataset, load_model(place.model), questions.digest_of(place.model))
    lines = []
    for it in sorted(shown.items, key=lambda it: it.key):
        tokens, spans = shown.texts.sentence(it.row)
        begins = [sum(len(token) + 1 for token in tokens[:place]) for place in range(len(tokens) + 1)]
        head, tail = (begins[spans[0]], begins[spans[1]] - 1), (begins[spans[2]], begins[spans[3]] - 1)
        support = Support(f"{it.row % 9}.txt", 0, " ".join(tokens), head, tail, it.confidence)
        one, other = shown.texts.entities(it.row)
        labelled = dataset.relations[dataset.train.labels[it.row]] == it.relation
        lines.append(
            to_json(Fact(one, one, it.relation, other, other, it.log_odds, labelled if known else None, 1, (support,)))
        )
    file.write_text("".join(lines))
    return file


def review_facts(facts, model, store, says, count=120):
    """What anna says of facts; `says` is told whether the knowledge base has it."""
    shown = questions.of_facts(read_facts(facts), questions.digest_of(model))
    with Store.open(store) as verdicts:
        for it in sorted(shown.items, key=lambda it: it.key)[:count]:
            prediction = verdicts.show(it.key, it.relation, it.confidence, shown.digest)
            verdicts.give(prediction, "anna", RIGHT if says(not it.new) else WRONG)
    return store


def test_facts_improve_the_model_that_found_them_again_and_again(place, tmp_path, fedrel):
    """By the command that the page prints, which loses no model."""
    model = shutil.copytree(place.model, tmp_path / "mine")
    facts = facts_of(place, tmp_path / "facts.jsonl")
    store = review_facts(facts, model, tmp_path / "facts.jsonl.verdicts.sqlite", lambda known: known)
    command = shlex.split(improving(model, store, facts))
    made = []
    for name in ("mine-improved", "mine-improved-2"):
        done = fedrel(*command[1:], "--set", "training.rounds=1", "--json")
        told = json.loads(done.out)
        made.append(tmp_path / name)
        assert told["new"] == str(made[-1]) and done.code == (0 if told["accepted"] else KEPT)
        assert told["people"]["anna"]["verdicts"] > 90, "those on pairs of dev and test do not count"
    sentences = tmp_path / "facts.sentences.jsonl"
    first = api.Run(made[0]).experiment.settings
    assert first.data.more == (str(sentences),) and first.training.rounds == 1
    labels = {json.loads(line)["relation"] for line in sentences.read_text().splitlines()}
    assert NA in labels and len(labels) > 3
    # An improved model is improved further, at the same rate, with no sentence twice
    said: list[str] = []
    done = api.improve(made[0], store, data=facts, changes={"training.rounds": 1}, say=said.append)
    assert done.new == str(tmp_path / "mine-improved-3") and done.old == str(made[0])
    second = api.Run(done.new).experiment.settings
    assert (second.training.lr, second.data.more) == (first.training.lr, first.data.more)
    assert sorted(it.name for it in tmp_path.iterdir() if it.is_dir()) == [
        "mine",
        *(it.name for it in made),
        "mine-improved-3",
    ]


def test_where_no_knowledge_base_labels_facts_only_the_model_tells_who_misleads(place, tmp_path):
    facts = facts_of(place, tmp_path / "facts.jsonl", known=False)
    known = {it.support[0].text: it.known for it in read_facts(facts_of(place, tmp_path / "known.jsonl"))}
    shown = questions.of_facts(read_facts(facts), questions.digest_of(place.model))
    with Store.open(tmp_path / "store.sqlite") as verdicts:
        for it in sorted(shown.items, key=lambda it: it.key)[:200]:
            text = "".join(part for _, part in shown.texts.parts(it.row))
            number = verdicts.show(it.key, it.relation, it.confidence, shown.digest)
            for user, says in (("anna", known[text]), ("bert", True)):
                verdicts.give(number, user, RIGHT if says else WRONG)
    reviewed = Reviewed.of(facts, tmp_path / "store.sqlite")
    settings = Experiment(settings_of(place.model, tmp_path / "store.sqlite", reviewed.data, {})).settings
    judged = Judged.of(settings, lambda line: None, unlabelled=reviewed.unlabelled)
    assert judged.without == ("bert",)


@pytest.mark.parametrize(
    ("path", "name"),
    [("m", "m-improved"), ("m-improved", "m-improved"), ("m-improved-7", "m-improved"), ("runs/x/model", "x-improved")],
)
def test_what_is_made_of_a_model_lies_beside_it(tmp_path, path, name):
    model = tmp_path / path
    model.mkdir(parents=True)
    if model.name == "model":
        (model.parent / "experiment.toml").touch()
        model = model.parent / "model"
    found = beside(model)
    assert found.name == (name if found.parent / name == found else f"{name}-2")
    assert not found.exists() and found.parent == (model.parents[1] if model.name == "model" else model.parent)
    found.mkdir()
    assert beside(model).name == (f"{name}-2" if found.name == name else f"{name}-3")


def test_the_general_model_stays_as_it_is(tmp_path, refused):
    said = refused("improve", FOLDER, "--verdicts", tmp_path / "x.sqlite", "--out", tmp_path / "x")
    assert "the general model stays as it is" in said


def test_too_few_verdicts_are_refused(place, tmp_path, fedrel):
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct, count=5)
    done = fedrel("improve", place.model, "--verdicts", store, "--data", place.new, "--out", tmp_path / "x")
    assert done.code == KEPT
    assert "5 verdicts that count are too few to learn from; 10 are the least" in done.out


def test_a_store_of_other_text_is_refused(place, tmp_path, refused):
    store = review(place, tmp_path / "verdicts.sqlite", lambda correct: correct, count=5)
    said = refused("improve", place.model, "--verdicts", store, "--data", place.first, "--out", tmp_path / "x")
    assert "none of its 5 verdicts is about a sentence of this data" in said
