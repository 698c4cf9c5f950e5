"""Policies: what a platform refuses, and in which words; mistakes in the file are told with their line."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel import config
from fedrel.algorithms import METHODS
from fedrel.errors import UserError
from fedrel.privacy import policy as policies
from fedrel.privacy.entries import Field
from fedrel.privacy.policy import TEMPLATE, Fields, Methods, Plugins, Policy, Settings, Size

HEADER = Field("(header)", "", (), 100)


def policy(tmp_path: Path, text: str, **options) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return Policy.read(path, **options)


def experiment(*settings: str) -> config.Experiment:
    return config.read(None, settings)


def reply(policy: Policy, *names: str, size=10, sent_this_round=0, sent_this_run=0) -> str | None:
    made_of = [HEADER, *(Field(name, "F32", (size,), size) for name in names)]
    return policy.objection_to_reply(made_of, sent_this_round=sent_this_round, sent_this_run=sent_this_run)


# ------------------------------------------------------------------------------------------ the file


def test_without_a_file_all_may_leave(tmp_path):
    for path in (tmp_path / "policy.toml", tmp_path / "no" / "such" / "folder" / "policy.toml"):
        found = Policy.read(path, methods=METHODS)
        assert found == Policy()
        assert found.objection_to_experiment(experiment()) is None
        assert found.objection_to_size(16) is None
        assert reply(found, "weights/words", size=10**12, sent_this_round=10**12, sent_this_run=10**12) is None


def test_the_template_has_no_rules_and_shows_all_of_them(tmp_path):
    path = tmp_path / "local" / "policy.toml"
    policies.install(path)
    assert Policy.read(path) == Policy()
    assert all(line.startswith("# ") for line in path.read_text().splitlines() if line)
    rules = re.sub(r"^# (?=\[|\w+ = )", "", TEMPLATE, flags=re.MULTILINE).replace("sha256:…", f"sha256:{'0' * 64}")
    assert policy(tmp_path, rules, methods=METHODS) == Policy(
        methods=Methods(allow=("feded",), forbid=("scaffold",)),
        plugins=Plugins(allow=(f"fednova sha256:{'0' * 64}",)),
        fields=Fields(allow=("log/p", "sentences", "words", "unknown_words"), forbid=("*/words",)),
        size=Size(round="5 MB", run="1 GB"),
        settings=Settings(
            embeddings="frozen",
            blinded=True,
            min_sentences=100,
            private_seeds=True,
            min_trained=16,
            sums="secure",
            min_summed=3,
            epsilon=8.0,
            epsilon_delta=1e-5,
            epsilon_unit="sentence",
        ),
    )


def test_a_file_that_is_there_is_not_replaced_by_the_template(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("[methods]\n")
    policies.install(path)
    assert path.read_text() == "[methods]\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[method]\n", ':1: unknown key "method"; did you mean "methods"?'),
        ("\n[methods]\nalow = []", ':3: unknown key "methods.alow"; did you mean "allow"?'),
        ("[settings]\nembeddings = 'trainable'", ':2: settings.embeddings = "trainable" is none of any, frozen'),
        ("[settings]\nmin_sentences = -1", ":2: settings.min_sentences = -1: must be at least 0"),
        ("[settings]\nblinded = 1", ":2: settings.blinded must be true or false, not 1"),
        ("fields = 3", ":1: fields must be a section"),
        ("[fields]\nforbid = 'weights'", ":2: fields.forbid must be a list of texts, not 'weights'"),
        ("[fields]\nforbid = ['weights', 3]", ":2: every one of fields.forbid must be text, not 3"),
        ("[fields]\nforbid = []", ":2: fields.forbid is empty"),
        ("[methods]\n\nallow = []", ":3: methods.allow is empty"),
        ("[methods]\nallow = ['']", ":2: methods.allow is empty, or has a name that is empty"),
        ("[fields]\nforbid = [' weights']", ":2: fields.forbid is empty, or has a name that"),
        (
            "[methods]\nforbid = ['feded', 'lazymil']",
            ':2: methods.forbid names "lazymil", which is not a method; did you mean "lazy-mil"?',
        ),
        ("[size]\nround = '5 MiB'", ':2: size.round = "5 MiB" is not a size such as "5 MB" (B, KB, MB, GB or TB)'),
        ("[size]\nrun = ''", ':2: size.run = "" is not a size'),
        ("[size]\nrun = '-5 MB'", ':2: size.run = "-5 MB" is not a size'),
        ("[size]\nrun = '٥ MB'", ':2: size.run = "٥ MB" is not a size'),
        ("[size]\nround = 5", ":2: size.round must be text, not 5"),
        ("[size\n", ": not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, text, sentence):
    with pytest.raises(UserError) as refusal:
        policy(tmp_path, text, methods=METHODS)
    assert str(refusal.value).startswith(f"{tmp_path}/policy.toml{sentence}")
    assert "\n" not in str(refusal.value)


def test_a_policy_that_cannot_be_read_is_not_taken_for_none(tmp_path):
    (tmp_path / "dangling.toml").symlink_to(tmp_path / "gone.toml")
    (tmp_path / "file").write_text("")
    (tmp_path / "latin.toml").write_bytes(b"# \xe4\n")
    for path in (tmp_path / "dangling.toml", tmp_path, tmp_path / "file" / "policy.toml", tmp_path / "latin.toml"):
        with pytest.raises(UserError):
            Policy.read(path)


# ------------------------------------------------------------------------------------------ experiments


def test_methods(tmp_path):
    only = policy(tmp_path, "[methods]\nallow = ['feded', 'none']")
    refusal = "its policy allows only feded, none (policy.toml, methods.allow)"
    assert only.objection_to_experiment(experiment("method.name=lazy-mil")) == refusal
    assert only.objection_to_experiment(experiment("method.name=feded")) is None
    but = policy(tmp_path, "[methods]\nforbid = ['scaffold']")
    refusal = "its policy forbids scaffold (policy.toml, methods.forbid)"
    assert but.objection_to_experiment(experiment("method.name=scaffold")) == refusal
    assert but.objection_to_experiment(experiment("method.name=feded")) is None
    both = policy(tmp_path, "[methods]\nallow = ['feded']\nforbid = ['feded']")
    assert both.objection_to_experiment(experiment("method.name=feded")) is not None


@pytest.mark.parametrize(
    ("settings", "stay"),
    [
        (["extractor.kind=pcnn"], False),
        (["extractor.kind=cnn", "extractor.embeddings=frozen"], True),
        (["extractor.kind=text", "extractor.encoder=frozen"], False),
        (["extractor.kind=bert"], False),
        (["extractor.kind=bert", "extractor.embeddings=frozen"], False),
        (["extractor.kind=bert", "extractor.encoder=frozen"], True),
        (["extractor.kind=bert", "extractor.lora=4"], True),
    ],
)
def test_frozen_embeddings(tmp_path, settings, stay):
    strict = policy(tmp_path, "[settings]\nembeddings = 'frozen'")
    refusal = "its policy requires word embeddings to be frozen (policy.toml, settings.embeddings)"
    assert strict.objection_to_experiment(experiment(*settings)) == (None if stay else refusal)


def test_blinding(tmp_path):
    strict = policy(tmp_path, "[settings]\nblinded = true")
    refusal = "its policy requires the keys of facts to be blinded (policy.toml, settings.blinded)"
    assert strict.objection_to_experiment(experiment()) == refusal, "who does not say so has not blinded them"
    assert strict.objection_to_experiment(experiment(), blinded=True) is None


def test_few_sentences(tmp_path):
    strict = policy(tmp_path, "[settings]\nmin_sentences = 1000")
    refusal = "its policy requires at least 1,000 sentences to take part (policy.toml, settings.min_sentences)"
    assert strict.objection_to_size(999) == refusal, "which does not say how many there are"
    assert strict.objection_to_size(1000) is None


# ------------------------------------------------------------------------------------------ replies


@pytest.mark.parametrize(
    ("pattern", "forbidden", "allowed"),
    [
        ("weights/words", ["weights/words", "weights/words#rows"], ["weights/wordsmith", "change/words", "words"]),
        ("weights/words#rows", ["weights/words#rows"], ["weights/words", "weights/words#values"]),
        ("*/words", ["weights/words", "change/words", "weights/words#values"], ["weights/conv", "sentences"]),
        ("weights", ["weights/conv", "weights/words#rows", "weights"], ["change/conv", "weight"]),
        ("ballot/*", ["ballot/key", "ballot/score"], ["log/p"]),
        ("weights/[cp]*", ["weights/conv", "weights/position"], ["weights/bias"]),
        ("los?", ["loss"], ["los", "Loss"]),
        ("*", ["loss", "weights/a", "x"], []),
    ],
)
def test_fields(pattern, forbidden, allowed):
    forbids, allows = Policy(fields=Fields(forbid=(pattern,))), Policy(fields=Fields(allow=(pattern,)))
    for name in forbidden:
        refusal = f"its policy forbids the field {name} (policy.toml, fields.forbid)"
        assert reply(forbids, "first" if pattern != "*" else name, name, "last") == refusal
        assert reply(allows, name) is None
    for name in allowed:
        refusal = f"its policy does not allow the field {name} (policy.toml, fields.allow)"
        assert reply(forbids, name) is None
        assert reply(allows, name) == refusal
    assert reply(forbids) is None and reply(allows) is None, "an empty reply says nothing"


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_text_is_a_pattern(name, pattern):
    forbidden = reply(Policy(fields=Fields(forbid=(pattern,))), name)
    allowed = reply(Policy(fields=Fields(allow=(pattern,))), name)
    assert (forbidden is None) == (allowed is not None) or name == "(header)"
    if not set(name) & set("*?["):
        assert reply(Policy(fields=Fields(forbid=(name,))), name) is not None or name == "(header)"


@pytest.mark.parametrize(("text", "size"), [("5 MB", 5_000_000), ("5MB", 5_000_000), ("0.25 kb", 250), ("150 B", 150)])
def test_sizes(tmp_path, text, size):
    for rule, sent in (("round", "sent_this_round"), ("run", "sent_this_run")):
        strict = policy(tmp_path, f"[size]\n{rule} = '{text}'")
        refusal = f"its policy allows at most {text} per {rule} (policy.toml, size.{rule})"
        room = {sent: size - 100 - 10}
        assert reply(strict, "loss", size=10, **room) is None, "the header counts, and the limit may be reached"
        assert reply(strict, "loss", size=11, **room) == refusal
        assert reply(strict, **{sent: size - 99}) == refusal


@pytest.mark.parametrize("sentences", [0, 1, 99.0, 99.999, -1.0, math.nan, -math.inf])
def test_what_was_trained_on_too_few_sentences_stays_and_no_number_is_told(tmp_path, sentences):
    strict = policy(tmp_path, "[settings]\nmin_sentences = 100")
    refusal = strict.objection_to_training(sentences)
    assert refusal == "its policy requires more sentences behind what it sends (policy.toml, settings.min_sentences)"
    assert not re.search(r"\d", refusal)
    none = policy(tmp_path, "[settings]\nmin_trained = 0")
    assert none.objection_to_training(sentences) is None, "without a rule all may leave"


@pytest.mark.parametrize("rules", ["", "[settings]\nmin_sentences = 5", "[settings]\nmin_trained = 16"])
def test_without_a_rule_what_was_trained_on_a_handful_stays(tmp_path, rules):
    found = policy(tmp_path, rules)
    refusal = "its policy requires more sentences behind what it sends (policy.toml, settings.min_trained)"
    assert found.objection_to_training(15) == refusal
    assert found.objection_to_training(16) is None
    assert found.objection_to_size(15) == (
        "its policy requires at least 16 sentences to take part (policy.toml, settings.min_trained)"
    )
    assert found.objection_to_size(16) is None


def test_seeds_can_be_required_to_be_private(tmp_path):
    strict = policy(tmp_path, "[settings]\nprivate_seeds = true")
    assert strict.objection_to_experiment(experiment()) is None, "they are by default"
    refusal = "requires training to draw from seeds that others do not know (policy.toml, settings.private_seeds)"
    assert strict.objection_to_experiment(experiment("engine.public_seeds=true")) == f"its policy {refusal}"
    assert Policy().objection_to_experiment(experiment("engine.public_seeds=true")) is None


@pytest.mark.parametrize("sentences", [100, 100.0, 1e9, math.inf])
def test_what_was_trained_on_enough_sentences_may_leave(tmp_path, sentences):
    assert policy(tmp_path, "[settings]\nmin_sentences = 100").objection_to_training(sentences) is None


def test_a_refusal_names_the_file_and_not_its_folder(tmp_path):
    path = tmp_path / "strict.toml"
    path.write_text("[methods]\nallow = ['feded']")
    refusal = Policy.read(path).objection_to_experiment(experiment())
    assert refusal == "its policy allows only feded (strict.toml, methods.allow)"


def test_the_documented_policy_is_one(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    [block] = [it for it in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if it.startswith("[methods]")]
    documented = policy(tmp_path, block, methods=METHODS)
    assert documented != Policy()
    assert documented.objection_to_experiment(experiment("method.name=scaffold"), blinded=True) is not None
    good = experiment(
        "method.name=evidence", "extractor.embeddings=frozen", "privacy.sums=secure", "robust.screening=off"
    )
    assert documented.objection_to_experiment(good, blinded=True) is None
    assert reply(documented, "weights/words#rows") is not None
    assert reply(documented, "weights/classifier.weight", "loss") is None


def test_a_policy_can_ask_for_sums_alone_and_for_more_platforms_in_them(tmp_path):
    secure = ("method.name=none", "privacy.sums=secure")
    strict = policy(tmp_path, '[settings]\nsums = "secure"\n')
    refusal = "its policy requires that only sums over platforms can be read (policy.toml, settings.sums)"
    assert strict.objection_to_experiment(experiment("method.name=none")) == refusal
    assert strict.objection_to_experiment(experiment(*secure)) is None
    least = policy(tmp_path, "[settings]\nmin_summed = 5\n")
    refusal = "its policy requires at least 5 platforms in a sum (policy.toml, settings.min_summed)"
    assert least.objection_to_experiment(experiment(*secure)) == refusal
    assert least.objection_to_experiment(experiment(*secure, "privacy.least=5")) is None
    assert least.objection_to_experiment(experiment("method.name=none")) is None, "it sends nothing in a sum there"


def test_what_is_sent_unreadably_is_limited_in_size_alone(tmp_path):
    only = policy(tmp_path, '[fields]\nallow = ["weights"]\n[size]\nround = "1 KB"\n')
    masked = [Field("masked/numbers", "I32", (250,), 1000)]
    told = {"sent_this_round": 0, "sent_this_run": 0}
    assert only.objection_to_reply(masked, **told) is not None
    assert only.objection_to_reply(masked, **told, unreadable=True) is None
    assert "at most 1 KB per round" in only.objection_to_reply(masked * 2, **told, unreadable=True)
    assert only.objection_to_fields(["weights/words", "weights/conv"]) is None
    assert "does not allow the field loss" in only.objection_to_fields(["weights/conv", "loss"])
