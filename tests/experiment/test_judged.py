"""Runs on data that carry people's labels beside those of a knowledge base."""

import json
from dataclasses import replace

import pytest

from fedrel import config
from fedrel.cli.show import human_note
from fedrel.config import Data
from fedrel.corpus import world
from fedrel.data.loading import load
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.on_ray import rebuild
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, WRONG, Store
from fedrel.sweeps import comparison
from fedrel.sweeps.tables import scores
from tests.instances import write

SMALL = ["partition.platforms=2", "extractor.filters=8", "extractor.vectors=random", "training.rounds=3"]


def data(folder, keep=lambda split, number: True):
    """The built-in world as files; what `keep` says is judged, the rest not."""
    made = world.World(size=600, seed=1, noise=0.6, evidence=7.0)
    for split in ("train", "dev", "test"):
        rows = list(made.instances(split))
        write(
            folder / f"{split}.jsonl",
            [it if keep(split, n) else replace(it, expressed=None) for n, it in enumerate(rows)],
        )
    return folder


def told(row):
    """What makes a sentence one: its words and its pair."""
    return tuple(row["token"]), tuple(row["h"]["pos"]), tuple(row["t"]["pos"])


def result_of(folder, *settings):
    told = ["data.source=opennre", f"data.path={folder / 'data'}", *SMALL, *settings]
    run = Execution(prepare(config.read(None, told)), folder / "run")
    for _ in run.rounds():
        pass
    return run.finish()


def test_judged_sentences_of_test_give_a_second_score(tmp_path):
    data(tmp_path / "data", lambda split, number: number % 3 == 0)
    result = result_of(tmp_path)
    human, test = result["human"], result["test"]
    rows = [json.loads(line) for line in (tmp_path / "data" / "test.jsonl").read_text().splitlines()]
    assert human["sentences"] == len({told(row) for row in rows if "expressed" in row})
    stating = {told(row) for row in rows if row.get("expressed", False) and row["relation"] != "NA"}
    assert human["stating"] == len(stating)
    assert test["ap_human"] == human["ap_human"] != test["ap"] and human["of"] == "test, as far as it is judged"
    train = [json.loads(line) for line in (tmp_path / "data" / "train.jsonl").read_text().splitlines()]
    judged = [row for row in train if "expressed" in row and row["relation"] != "NA"]
    assert result["selection"]["judged"] == len(judged)
    assert result["selection"]["base_rate"] == sum(row["expressed"] for row in judged) / len(judged)


def test_people_may_have_labelled_test_or_another_file(tmp_path):
    data(tmp_path / "data", lambda split, number: False)
    assert result_of(tmp_path)["human"] is None
    whole = replace_run(tmp_path, "data.human=test")
    rows = [json.loads(line) for line in (tmp_path / "data" / "test.jsonl").read_text().splitlines()]
    assert whole["human"]["sentences"] == len({told(row) for row in rows})
    other = tmp_path / "people.jsonl"
    other.write_bytes((tmp_path / "data" / "test.jsonl").read_bytes())
    beside = replace_run(tmp_path, f"data.human={other}")
    assert beside["human"] == {**whole["human"], "of": str(other)}
    assert whole["human"]["trained"] == 0
    assert str(other) in human_note(beside["human"], "ap")
    assert "people chose the labels of test" in human_note(whole["human"], "ap")


def replace_run(folder, *settings):
    (folder / "run").rename(folder / f"run-{len(list(folder.iterdir()))}")
    return result_of(folder, *settings)


def test_what_cannot_be_is_told_in_a_sentence(tmp_path):
    data(tmp_path / "data")
    with pytest.raises(UserError, match=r"data\.human = .*no such file"):
        result_of(tmp_path, "data.human=nowhere.jsonl")
    with pytest.raises(UserError, match=r"data\.human changes nothing here"):
        prepare(config.read(None, ["data.human=test"]))


def test_verdicts_of_reviewers_become_a_score(fedrel, tmp_path):
    folder = data(tmp_path / "data", lambda split, number: False)
    dataset = load(Data(source="opennre", path=str(folder)))
    rows = [row for row in range(len(dataset.train)) if dataset.train.labels[row]][:40]
    with Store.open(tmp_path / "verdicts.sqlite") as store:
        for number, row in enumerate(rows):
            key = sentence_key(dataset.sentence(dataset.train, row), dataset.train.spans[row].tolist())
            relation = dataset.relations[dataset.train.labels[row]]
            shown = store.show(key, relation, 0.5, "model")
            store.give(shown, "ann", RIGHT if number % 2 else WRONG)
    said = fedrel("feedback", "judged", tmp_path / "verdicts.sqlite", folder, tmp_path / "judged.jsonl", "--json")
    assert said.code == 0
    written = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
    assert json.loads(said.out)["sentences"] == len(written) == len({told(row) for row in written}) > 30
    assert {row["expressed"] for row in written} == {True, False}
    result = result_of(tmp_path, f"data.human={tmp_path / 'judged.jsonl'}")
    human = result["human"]
    assert (human["sentences"], human["stating"]) == (len(written), sum(row["expressed"] for row in written))
    assert human["trained"] == len(written) and "in train as well" in human_note(human, "ap")
    nothing = fedrel("feedback", "judged", tmp_path / "verdicts.sqlite", folder / "nowhere", tmp_path / "x")
    assert nothing.code == 2 and not (tmp_path / "x").exists()


def trusted_file(folder):
    """Sentences of dev that people judged, every other relation accepted."""
    rows = [json.loads(line) for line in (folder / "data" / "dev.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["relation"] != "NA"]
    file = folder / "trusted.jsonl"
    file.write_text("".join(json.dumps({**row, "expressed": n % 2 == 0}) + "\n" for n, row in enumerate(rows)))
    return file


def test_rounds_can_be_chosen_by_held_out_sentences_that_people_judged(tmp_path):
    data(tmp_path / "data", lambda split, number: False)
    file = trusted_file(tmp_path)
    result = result_of(tmp_path, f"data.trusted={file}", "training.rounds=8", "training.lr=0.5")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = [line["trusted"] for line in lines]
    assert len(set(scores)) > 3
    assert result["best_round"] == max(range(1, len(scores) + 1), key=lambda number: (scores[number - 1], number))
    assert result["trusted"]["ap_human"] == pytest.approx(max(scores))
    assert result["trusted"]["of"] == str(file) and result["trusted"]["trained"] == 0
    low, high = result["trusted"]["interval"]
    assert low <= result["trusted"]["ap_human"] <= high
    assert result["dev"] == lines[result["best_round"] - 1]["dev"]  # by the knowledge base, as ever
    assert replace_run(tmp_path)["trusted"] is None


def test_trusted_sentences_are_held_out_and_say_something(tmp_path):
    data(tmp_path / "data", lambda split, number: False)
    file = trusted_file(tmp_path)
    rows = [{**json.loads(line), "expressed": False} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match="none of its sentences states its relation"):
        result_of(tmp_path, f"data.trusted={file}")
    train = (tmp_path / "data" / "train.jsonl").read_text().splitlines()
    file.write_text("".join(line + "\n" for line in train if json.loads(line)["relation"] != "NA"))
    with pytest.raises(UserError, match=r"are in train as well; judge held-out ones: fedrel review --purpose dev"):
        result_of(tmp_path, f"data.trusted={file}")
    with pytest.raises(UserError, match=r"data\.trusted = .*no such file; name one of labelled sentences$"):
        result_of(tmp_path, "data.trusted=nowhere.jsonl")


def test_a_sentence_with_two_relations_counts_once_and_states_both(tmp_path):
    data(tmp_path / "data", lambda split, number: False)
    rows = [json.loads(line) for line in (tmp_path / "data" / "test.jsonl").read_text().splitlines()]
    first = next(row for row in rows if row["relation"] != "NA")
    other = next(row["relation"] for row in rows if row["relation"] not in ("NA", first["relation"]))
    people = tmp_path / "people.jsonl"
    people.write_text("".join(json.dumps(row) + "\n" for row in (first, {**first, "relation": other}, first)))
    human = result_of(tmp_path, f"data.human={people}")["human"]
    assert (human["sentences"], human["stating"]) == (1, 1)
    people.write_text(json.dumps({**first, "relation": "unheard of"}) + "\n")
    with pytest.raises(UserError, match="none of its sentences has a relation that train has"):
        replace_run(tmp_path, f"data.human={people}")


def test_judged_sentences_of_other_relations_are_counted(tmp_path):
    folder = data(tmp_path / "data", lambda split, number: False)
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    people = tmp_path / "people.jsonl"
    people.write_text("".join(json.dumps(row) + "\n" for row in (*rows, *({**rows[0], "relation": "new"},) * 2)))
    settings = ["data.source=opennre", f"data.path={folder}", *SMALL, f"data.human={people}"]
    said: list[str] = []
    prepare(config.read(None, settings), say=said.append)
    assert "people.jsonl: 2 sentences left out: relation not in train" in said


def test_other_machines_of_a_run_need_no_judged_sentences(tmp_path):
    folder = data(tmp_path / "data", lambda split, number: False)
    settings = ["data.source=opennre", f"data.path={folder}", *SMALL, "data.human=nowhere.jsonl"]
    digest, simulator = rebuild(config.read(None, settings), b"secret")
    assert digest == load(Data(source="opennre", path=str(folder))).folder.name and len(simulator.sites) == 2


def test_a_table_has_a_gap_where_nobody_judged(tmp_path):
    asked = comparison.read(None, settings=[], methods=["none"], vary=[], seeds=1, metric="ap_human")
    assert scores(asked, {"test": {"ap": 0.5}}, [], {}, "ap") == {"ap_human": None}
