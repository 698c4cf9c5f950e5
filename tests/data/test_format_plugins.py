"""A format that is not fedrel's own, by one line in the registry or by an installed package: everything works on it."""

import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from fedrel_example import bars

from fedrel import config
from fedrel.corpus import FORMATS, Skipped
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.data import cache as data_cache
from fedrel.data.sources import with_metric
from fedrel.errors import UserError
from fedrel.experiment.assembly import plugins_of
from fedrel.experiment.parties import federated
from fedrel.util import plugins
from tests.instances import items, sentences, write
from tests.loading import load
from tests.parity.consortium import PLATFORMS, Consortium

SMALL = (
    *("training.rounds=2", "training.epochs=1", "partition.platforms=2", "extractor.filters=8"),
    *("extractor.min_count=1", "engine.device=cpu", "method.name=fedavg"),
)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package of one module, with entry points for its parts: name → attribute."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    added: set[str] = set()

    def forget():
        for cached in (plugins._found, data_cache.readers_version):
            cached.cache_clear()
        FORMATS._loaded.clear()
        for name in added:
            sys.modules.pop(name, None)

    def add(name, code, group="fedrel.formats", **parts):
        added.add(name)
        (site / name).mkdir(exist_ok=True)
        (site / name / "__init__.py").write_text(code)
        shutil.rmtree(site / name / "__pycache__", ignore_errors=True)
        described = site / f"{name}-1.0.dist-info"
        described.mkdir(exist_ok=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = "".join(f"{entry} = {name}:{attribute}\n" for entry, attribute in parts.items())
        (described / "entry_points.txt").write_text(f"[{group}]\n{points}")
        forget()

    yield add
    monkeypatch.undo()
    forget()


@pytest.fixture(params=["a line in the registry", "an entry point"])
def plugged(request, monkeypatch, install):
    if request.param == "an entry point":
        install("fedrel_bars", CODE, bars="FORMAT")
    else:
        monkeypatch.setitem(FORMATS.own, "bars", bars.FORMAT)


CODE = Path(bars.__file__).read_text(encoding="utf-8")


def write_bars(folder: Path, count: int, *splits: str) -> Path:
    """Two rows in three have a relation, which the word between the entities tells."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits or ("train", "dev", "test"):
        rows = []
        for n in range(count):
            relation, verb = (("-", "saw"), ("per:spouse", "wed"), ("org:founded_by", "left"))[n % 3]
            head, tail = f"Ann{split}{folder.name}{n}", f"Bonn{n}"
            rows.append(f"{head}|{relation}|{tail}|Then {head} {verb} {tail} .\n")
        (folder / f"{split}.psv").write_text("".join(rows))
    return folder


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def test_data_check_detects_it_and_counts_its_rows(plugged, fedrel, tmp_path):
    data = write_bars(tmp_path / "data", 9)
    outcome = fedrel("data", "check", data, "--json")
    assert outcome.code == 0, outcome
    found = json.loads(outcome.out)
    assert (found["format"], found["why"]) == ("bars", "train.psv: four columns between bars")
    assert found["splits"]["train"]["rows"] == 9
    assert found["splits"]["test"]["sentences_per_relation"] == {"NA": 3, "org:founded_by": 3, "per:spouse": 3}
    assert found["next"][-1] == f"fedrel run --set data.source=bars --set data.path={data}"
    named = json.loads(fedrel("data", "check", data, "--source", "bars", "--json").out)
    assert named["splits"] == found["splits"]
    assert detect(data / "dev.psv").source == "bars"


def test_a_run_on_it_is_evaluated_by_micro_f1_and_says_so(plugged, fedrel, tmp_path):
    data = write_bars(tmp_path / "data", 30)
    settings = (*SMALL, "data.source=bars", f"data.path={data}")
    outcome = fedrel("run", *options(*settings), "--out", tmp_path / "run")
    assert outcome.code == 0, outcome
    assert "micro_f1" in json.loads((tmp_path / "run" / "result.json").read_text())["test"]
    assert tomllib.loads((tmp_path / "run" / "experiment.toml").read_text())["training"]["metric"] == "micro_f1"
    chosen = fedrel("run", *options(*settings, "training.metric=ap"), "--out", tmp_path / "ranked")
    assert chosen.code == 0, chosen
    assert "ap" in json.loads((tmp_path / "ranked" / "result.json").read_text())["test"]


def test_a_partition_of_it_keeps_its_metric_in_the_format_that_is_written(plugged, fedrel, tmp_path):
    data = write_bars(tmp_path / "data", 12)
    settings = options(*SMALL, "data.source=bars", f"data.path={data}")
    assert fedrel("data", "partition", *settings, "--out", tmp_path / "parts").code == 0
    written = config.read(tmp_path / "parts" / "experiment.toml")
    assert (written.data.source, written.training.metric) == ("opennre", "micro_f1")


@pytest.fixture
def consortium(tmp_path):
    """A coordinator and platforms with the format in folders of their own."""
    world = tmp_path / "world"
    for name in PLATFORMS:
        write_bars(world / name, 18, "train")
    write_bars(world / "coordinator", 9, "dev", "test")
    table = {
        "data": {"source": "bars", "path": str(world), "relations": ["per:spouse", "org:founded_by"]},
        "extractor": {"filters": 8, "embeddings": "trainable"},
        "method": {"name": "fedavg"},
        "training": {"rounds": 1},
        "engine": {"workers": 1, "device": "cpu"},
    }
    made = Consortium(world, tmp_path / "homes", config.parse(federated(table)))
    yield made
    made.close()


def test_a_federation_trains_on_it(plugged, consortium, tmp_path):
    if origin := FORMATS.origin("bars"):
        for name in PLATFORMS:
            rule = f'[plugins]\nallow = ["bars sha256:{origin.digest}"]\n'
            consortium.home(name).policy.write_text(rule)
    consortium.begin()
    assert consortium.failures == []
    assert consortium.coordination.setup.sites.sizes == dict.fromkeys(PLATFORMS, 18)
    assert consortium.coordination.setup.experiment.training.metric == "micro_f1"
    [done] = consortium.execution(tmp_path / "run").rounds()
    assert "micro_f1" in done.line["dev"]


def test_a_platform_reads_its_data_with_a_plug_in_that_its_policy_allows_alone(install, request):
    install("fedrel_bars", CODE, bars="FORMAT")
    consortium = request.getfixturevalue("consortium")
    sys.modules.pop("fedrel_bars")
    FORMATS._loaded.clear()
    consortium.begin()
    assert [name for name, _ in consortium.failures] == list(PLATFORMS)
    assert all('its policy does not allow the plug-in "bars"' in why for _, why in consortium.failures)
    assert "fedrel_bars" not in sys.modules, "nobody has loaded it"


def test_a_plug_in_is_named_also_if_another_part_shares_its_name(install):
    install("fedrel_cnn", CODE, group="fedrel.algorithms", cnn="METHOD")
    table = {"method": {"name": "cnn"}, "extractor": {"kind": "cnn"}}
    assert [(name, str(origin)) for name, origin in plugins_of(config.parse(table))] == [("cnn", "fedrel_cnn 1.0")]


def test_it_is_no_text_to_label(plugged, tmp_path):
    with pytest.raises(UserError, match=r"between bars \(bars\); text to read is wanted here: .*chemprot, "):
        Documents(write_bars(tmp_path / "data", 3))


def test_rows_are_read_as_they_are_and_bad_ones_counted_by_line(tmp_path):
    path = write_bars(tmp_path, 2, "train") / "train.psv"
    first, second = items(bars.read, path)
    assert first.relation == "NA" and second.relation == "per:spouse"
    assert second.tokens[second.head.start : second.head.end] == [second.head.id] == [f"Anntrain{tmp_path.name}1"]
    path.write_text(path.read_text() + "Ann|-|Bonn|Then Ann left .\nAnn||Bonn|Ann left Bonn\nAnn|\n")
    skip = Skipped()
    assert list(items(bars.read, path, skip)) == [first, second]
    assert skip.broken.total() == 3
    assert skip.broken_examples[0] == f'{path}:3: "Bonn" is not in the sentence; write it as the sentence does'
    assert all(f"{path}:{line}: not four columns" in skip.broken_examples[line - 3] for line in (4, 5))


# ------------------------------------------------------------------------------------------- by entry points


def test_another_version_of_a_plug_in_reads_the_data_anew(install, tmp_path):
    data = write_bars(tmp_path / "data", 6)
    install("fedrel_bars", CODE, bars="FORMAT")
    one, told = load(data, source="bars")
    assert told == [f"reading {data} …"]
    assert load(data, source="bars")[1] == []
    install("fedrel_bars", CODE.replace('"-"', '"per:spouse"'), bars="FORMAT")
    other, told = load(data, source="bars")
    assert told == [f"reading {data} …"]
    assert (one.relations, other.relations) == (
        ["NA", "org:founded_by", "per:spouse"],
        ["NA", "-", "org:founded_by"],
    )


def test_a_file_that_two_formats_recognise_names_both(install, tmp_path):
    data = write_bars(tmp_path / "data", 3)
    install("fedrel_bars", CODE, bars="FORMAT", twin="FORMAT")
    with pytest.raises(UserError) as caught:
        detect(data)
    why = "four columns between bars"
    assert str(caught.value) == f"{data}/train.psv: could be bars ({why}) or twin ({why}); choose one with --source"


GREEDY = """
from fedrel.corpus import Format, has_extension
def read(path, skip):
    yield from ()
BY_CONTENT = Format(what="everything", sentences=read, by_content=lambda sample: "anything")
GENERAL = Format(what="everything", sentences=read, by_content=lambda sample: "anything", general=True)
BY_NAME = Format(what="names", sentences=read, by_name=has_extension(".ann"))
"""


def test_a_plug_in_does_not_take_files_from_fedrels_own_formats_unseen(install, tmp_path):
    write(tmp_path / "train.jsonl", sentences(2))
    install("greedy", GREEDY, greedy="BY_CONTENT", names="BY_NAME")
    with pytest.raises(UserError, match=r"train\.jsonl: could be opennre \(.*\) or greedy \(anything\); choose one"):
        detect(tmp_path / "train.jsonl")
    (tmp_path / "a.ann").write_text("")
    with pytest.raises(UserError, match=r"a\.ann: could be brat \(the name a\.ann\) or names \(the name a\.ann\)"):
        detect(tmp_path / "a.ann")
    install("greedy", GREEDY, greedy="GENERAL")
    assert detect(tmp_path / "train.jsonl").source == "opennre", "which knows its own content"


def test_what_is_specific_comes_before_plain_text(install, tmp_path):
    (tmp_path / "a.txt").write_text("We met.\n")
    assert detect(tmp_path / "a.txt").source == "text"
    install("greedy", GREEDY, greedy="BY_CONTENT")
    assert detect(tmp_path / "a.txt").source == "greedy"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("FORMAT = 1", r'the plug-in "bad" \(broken:FORMAT, fedrel\.formats\) is no fedrel\.corpus\.Format'),
        ("from fedrel.corpus import Format\nFORMAT = Format(what='x')", "needs exactly one of sentences, documents"),
        ("import nothing_of_that_name", "does not load: ModuleNotFoundError"),
    ],
)
def test_a_broken_plug_in_is_named_where_it_is_needed_and_harms_no_other_format(install, tmp_path, code, says):
    install("broken", code, bad="FORMAT")
    with pytest.raises(UserError, match=says):
        load(tmp_path, source="bad")
    for split in ("train", "dev", "test"):
        write(tmp_path / "data" / f"{split}.jsonl", sentences(4, prefix=split))
    assert len(load(tmp_path / "data")[0].train) == 8


# ---------------------------------------------------------------------------------------------- the metric


@pytest.mark.parametrize(
    ("source", "metric"),
    [
        *(("world", "ap"), ("opennre", "ap"), ("nyt10", "ap"), ("classification", "accuracy")),
        *((gold, "micro_f1") for gold in ("biobert", "pgr", "chemprot", "brat", "bioc", "pubtator", "i2b2", "jsonl")),
        *(("bere", "ap"), ("tacred", "micro_f1"), ("semeval", "micro_f1"), ("fewrel", "micro_f1")),
    ],
)
def test_the_labels_of_a_format_choose_the_metric_unless_one_is_set(source, metric):
    table: dict[str, dict[str, object]] = {"data": {"source": source}}
    assert with_metric(config.parse(table)).training.metric == metric
    for given in ("auc", "macro_f1"):
        assert with_metric(config.parse(table | {"training": {"metric": given}})).training.metric == given


@pytest.mark.parametrize("source", ["text", "table", "opennr"])
def test_what_cannot_be_trained_on_has_no_metric(source):
    with pytest.raises(UserError, match=f'data.source = "{source}" is unknown'):
        with_metric(config.parse({"data": {"source": source}}))
