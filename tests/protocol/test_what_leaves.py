"""What does leave a platform: fact keys that are fresh each time, and, where words are trained, which words it uses."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from fedrel.data import loading
from fedrel.data.store import fact_name
from fedrel.encoding.words import WordEncoding
from fedrel.engines.remote import Failure
from fedrel.federation.signing import sha256
from fedrel.learning.named import Named
from fedrel.privacy.blind import blind, of_agreement, of_round
from fedrel.privacy.ledger import read as read_ledger
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.records import named_in
from tests.canary import Recorded, planted_world
from tests.parity.consortium import PLATFORMS, read

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return planted_world(tmp_path_factory.mktemp("canary") / "world")


# ------------------------------------------------------------------------------------------- fact keys


@pytest.fixture(scope="module")
def elections(world, tmp_path_factory):
    """Two runs of the same experiment under different names."""
    folder = tmp_path_factory.mktemp("elections")
    experiment = read(world, "method.name=lazy-mil", "method.warmup=0", "extractor.embeddings=trainable")
    made = {}
    for run in ("one", "two"):
        made[run] = Recorded(world, folder / run, experiment, run)
        made[run].train(folder / f"run-{run}")
    return made


def test_fact_keys_are_fresh_in_every_round_and_every_run(elections):
    keys: dict[tuple[str, int], set[int]] = {}
    for run, consortium in elections.items():
        for (_, round_), reply in consortium.records("score").items():
            keys.setdefault((run, round_), set()).update(named_in(reply, "ballot")["key"].tolist())
    assert len(keys) == 6
    assert len(set().union(*keys.values())) == sum(map(len, keys.values()))  # no key comes twice


def test_keys_of_a_method_that_remembers_last_for_a_run_and_no_longer(world, tmp_path):
    experiment = read(world, "method.name=evidence", "extractor.embeddings=trainable")
    keys: dict[tuple[str, int], set[int]] = {}
    for run in ("one", "two"):
        consortium = Recorded(world, tmp_path / run, experiment, run)
        consortium.train(tmp_path / f"run-{run}")
        for (_, round_), reply in consortium.records("show").items():
            keys.setdefault((run, round_), set()).update(named_in(reply, "evidence")["key"].tolist())
    assert len(keys) == 6
    one, two = ([it for (run, _), it in keys.items() if run == wanted] for wanted in ("one", "two"))
    assert all(it == one[0] for it in one) and all(it == two[0] for it in two)
    assert one[0].isdisjoint(two[0])


def test_keys_differ_between_two_runs_of_one_name_and_with_what_was_agreed(world, tmp_path):
    """A coordinator that runs the same again, or changes a word of the agreement, can compare nothing."""
    settings = ["method.name=evidence", "extractor.embeddings=trainable", "training.rounds=1"]
    found = []
    for number, (run_id, more) in enumerate([("a" * 32, []), ("b" * 32, []), ("a" * 32, ["training.lr=0.123"])]):
        consortium = Recorded(world, tmp_path / str(number), read(world, *settings, *more), "same")
        consortium.run_id = run_id
        consortium.train(tmp_path / f"run-{number}")
        shown = consortium.records("show").values()
        found.append(set().union(*(named_in(reply, "evidence")["key"].tolist() for reply in shown)))
    assert len(set().union(*found)) == sum(map(len, found)) > 0


def test_a_platform_remembers_each_run_by_itself(world, tmp_path):
    """Not by its name: the control variates of one run are nothing to the next."""
    experiment = read(world, "method.name=scaffold", "extractor.embeddings=trainable", "training.rounds=1")
    sent = []
    for run_id in ("a" * 32, "b" * 32):
        consortium = Recorded(world, tmp_path / "homes", experiment, "same")
        consortium.run_id = run_id
        consortium.train(tmp_path / f"run-{run_id[0]}")
        sent.append([content for _, task, _, content in consortium.answers if task == "train"])
    assert len(sent[0]) == 3 and sent[0] == sent[1]
    kept = {path.parent.name for path in (tmp_path / "homes" / "p0" / "memory").glob("*/round-0.safetensors")}
    assert kept == {"a" * 32, "b" * 32}


def test_elections_are_those_of_the_facts_themselves(elections):
    for consortium in elections.values():
        facts = {name: facts_of(consortium, name) for name in PLATFORMS}
        assert set.intersection(*map(set, facts.values())), "platforms share facts, or there is nothing to elect"
        ballots = consortium.records("score")
        told = {(name, round_): decode(it) for name, kind, round_, it in consortium.told if kind == "train"}
        for round_ in range(3):
            best: dict[str, tuple[float, str]] = {}  # of every fact: the highest score, and whose it is
            listed = {}
            in_turn = [*PLATFORMS[round_ % len(PLATFORMS) :], *PLATFORMS[: round_ % len(PLATFORMS)]]
            for name in in_turn:
                ballot = named_in(ballots[name, round_], "ballot")
                assert ballot["key"].tolist() == sorted(ballot["key"].tolist())
                listed[name] = in_order_of_keys(consortium, name, round_, facts[name])
                for fact, score in zip(listed[name], ballot["score"].tolist(), strict=True):
                    if fact not in best or score > best[fact][0]:
                        best[fact] = score, name
            for name in PLATFORMS:
                won = named_in(told[name, round_], "wins")["won"].tolist()
                assert won == [best[fact][1] == name for fact in listed[name]]


def facts_of(consortium, name):
    """The facts that the platform puts to the vote."""
    participant = consortium.workers[name].participant
    data = participant.experiment.data
    dataset = loading.load_part(data, consortium.world / name, relations=data.relations)
    firsts = participant.site.shard.rows[participant.site.shard.bag_starts[:-1]].tolist()
    elected = [row for row in firsts if dataset.train.labels[row] >= participant.site.first_relation]
    return [fact_name(dataset, dataset.train, row) for row in elected]


def in_order_of_keys(consortium, name, round_, facts):
    """The facts in the order of this round's ballot."""
    home, digest = consortium.home(name), bytes.fromhex(sha256(encode(consortium.coordination.agreement)))
    secret = of_agreement(home.blinding_key.read_bytes(), consortium.run_id, digest)
    keys = dict(zip(facts, blind(facts, of_round(secret, round_)).tolist(), strict=True))
    return sorted(facts, key=lambda fact: keys[fact])


# --------------------------------------------------------------------------- a coordinator that singles out


@pytest.mark.parametrize("rule", ["", "min_sentences = 20"])
def test_what_was_trained_on_two_sentences_stays_and_the_run_goes_on(world, tmp_path, rule):
    """A coordinator that names the winners of an election can leave a platform one fact to train on, and could read
    it off the change of the weights. The platform has nothing to say then, with no rule of its own too."""
    lazy = ["method.name=lazy-mil", "method.warmup=0", "method.na=elected"]
    consortium = Recorded(world, tmp_path / "homes", read(world, *lazy, "extractor.embeddings=trainable"))
    local = tmp_path / "homes" / "p0" / "local"
    local.mkdir(parents=True)
    (local / "policy.toml").write_text(f"[settings]\n{rule}\n")
    consortium.begin()
    weights = consortium.coordination.setup.weights
    ballot = consortium.ask("p0", "score", 0, encode({"weights": weights}))
    assert not isinstance(ballot, Failure)
    won = torch.zeros_like(named_in(decode(ballot), "ballot")["key"], dtype=torch.bool)

    def train(facts):
        won[:facts] = True
        return consortium.ask("p0", "train", 0, encode({"wins": Named(won=won)}))

    assert decode(train(2)) == {}
    assert set(decode(train(len(won)))) == {"weights", "sentences", "loss"}
    consortium.close()
    entries = list(read_ledger(tmp_path / "homes" / "p0" / "ledger" / "ledger.jsonl"))
    assert [(it.task, bool(it.refused)) for it in entries] == [
        ("begin", False),
        ("score", False),
        ("train", True),
        ("train", False),
        ("train", False),
    ]
    assert "its policy requires more sentences behind what it sends" in entries[2].refused


# ------------------------------------------------------------ what does leave, where words are trained


def words_sent(world: Path, folder: Path, *settings: str) -> dict[str, set[str]]:
    """The words whose vectors each platform sent."""
    consortium = Recorded(world, folder / "homes", read(world, "method.name=fedavg", *settings))
    consortium.train(folder / "run")
    encoding = consortium.coordination.setup.encoding
    assert isinstance(encoding, WordEncoding)
    sent: dict[str, set[str]] = {name: set() for name in PLATFORMS}
    for (name, _), reply in consortium.records("train").items():
        rows = named_in(reply, "weights").get("words#rows")
        sent[name] |= {encoding.vocabulary.words[row] for row in ([] if rows is None else rows.tolist())}
    return sent


def test_trained_word_vectors_tell_which_words_a_platform_uses_and_the_ledger_says_so(world, tmp_path, fedrel):
    """A public word that one platform alone uses is not in its bytes, but its number is; that is said, not hidden."""
    told = shutil.copytree(world, tmp_path / "world")
    for name, split in (("coordinator", "dev"), ("p0", "train")):
        path = told / name / f"{split}.jsonl"
        first, *others = path.read_text().splitlines(keepends=True)
        row = json.loads(first)
        path.write_text(json.dumps(row | {"token": ["Paracelsus", *row["token"][1:]]}) + "\n" + "".join(others))
    sent = words_sent(told, tmp_path / "trained", "extractor.embeddings=trainable")
    assert [name for name in PLATFORMS if "paracelsus" in sent[name]] == ["p0"]
    shown = fedrel("ledger", "show", tmp_path / "trained" / "homes" / "p0", "--json")
    assert "weights/words#rows" in shown.out and "which words your text uses" in shown.out
    assert "**which words the platform's text uses**" in PAGE.read_text(encoding="utf-8")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {'0.1 ' * 50}".strip() + "\n" for word in ("paracelsus", "the", "surgeon")))
    frozen = ["extractor.embeddings=frozen", f"extractor.vectors={vectors}"]
    assert not any(words_sent(told, tmp_path / "frozen", *frozen).values())
    shown = fedrel("ledger", "show", tmp_path / "frozen" / "homes" / "p0", "--json")
    assert shown.code == 0 and "weights/" in shown.out and "weights/words" not in shown.out
