"""Every field that a method sends is explained, and what the documentation says of word embeddings is so."""

import re
from pathlib import Path

import pytest

from fedrel.algorithms import METHODS
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.privacy.ledger import read_simulated
from fedrel.privacy.meaning import MEANINGS, meaning
from fedrel.privacy.policy import Fields, Policy
from tests.algorithms.tiny import experiment

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
NO_WORDS = Policy(fields=Fields(forbid=("*/words",)))
ASKS_NOBODY = {"server-only"}
SENDS_NO_WEIGHTS = {"feded"}


def sent(method: str, folder: Path, *settings: str):
    execution = Execution(prepare(experiment(method, "pcnn", *settings)), folder / "run")
    list(execution.rounds())
    return list(read_simulated(folder / "run" / "ledger.jsonl"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embeddings", ["trainable", "frozen"])
def test_what_every_method_sends(method, embeddings, tmp_path):
    replies = sent(method, tmp_path, f"extractor.embeddings={embeddings}")
    assert bool(replies) == (method not in ASKS_NOBODY)
    names = {(it.task, field.name) for it in replies for field in it.fields}
    explained = [said.fields for said in MEANINGS]
    assert all(meaning(name).fields in explained for _, name in names), names
    documented = PAGE.read_text(encoding="utf-8")
    assert all(f"`{task}`" in documented for task, _ in names)
    objections = [NO_WORDS.objection_to_reply(it.fields, sent_this_round=0, sent_this_run=0) for it in replies]
    words_leave = embeddings == "trainable" and method not in ASKS_NOBODY | SENDS_NO_WEIGHTS
    assert any(objections) == words_leave


def test_a_field_that_nobody_explained_is_said_to_be_one():
    assert meaning("surprise/x").what == "not known to this version of fedrel"
    assert meaning("weights/words#rows").reveals == "which words your text uses"
    assert meaning("weights/words.bias").what == "trained weights"


def test_the_page_names_every_method_and_every_kind_of_field():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in METHODS if f"`{name}`" not in text] == []
    assert [said.fields for said in MEANINGS if f"`{re.sub('^[*]', 'weights', said.fields)}`" not in text] == []
