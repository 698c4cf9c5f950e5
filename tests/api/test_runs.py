"""Runs from Python: the same weights as the command line, round by round, resumed, and read again."""

import importlib
import json
import subprocess
import sys

import pytest

import fedrel
from fedrel.experiment.results import read_rounds
from tests.cli.test_cli import sets

EXPERIMENT = fedrel.Experiment().with_(
    {
        "data.size": 600,
        "partition.platforms": 3,
        "training.rounds": 3,
        "training.fraction": 0.7,
        "extractor.filters": 8,
        "method.name": "none",
    }
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> fedrel.Run:
    return fedrel.run(EXPERIMENT, out=tmp_path_factory.mktemp("runs") / "run")


def test_the_weights_are_those_of_the_command_line(run, fedrel, tmp_path):  # the fixture `fedrel`, not the module
    changes = ["data.size=600", "partition.platforms=3", "training.rounds=3", "training.fraction=0.7"]
    outcome = fedrel("run", *sets(*changes, "extractor.filters=8", "method.name=none"), "--out", tmp_path / "run")
    assert outcome.code == 0, outcome
    for name in ("model/weights.safetensors", "experiment.toml"):
        assert (tmp_path / "run" / name).read_bytes() == (run.folder / name).read_bytes()
    assert sorted(it.name for it in run.folder.iterdir()) == sorted(it.name for it in (tmp_path / "run").iterdir())


def test_a_run_says_what_its_files_say(run):
    result = json.loads((run.folder / "result.json").read_text())
    lines = read_rounds(run.folder)
    assert run.scores == result["test"] and run.dev_scores == result["dev"]
    assert run.best_round == result["best_round"] and run.result == result
    assert [it.number for it in run.rounds] == [line["round"] for line in lines] == [1, 2, 3]
    assert [it.scores for it in run.rounds] == [line["dev"] for line in lines]
    assert [it.bytes_up for it in run.rounds] == [line["bytes"]["up"] for line in lines]
    assert run.rounds[0].platforms == tuple(lines[0]["cohort"])
    curve = json.loads((run.folder / "details.json").read_text())["pr"]
    assert (list(run.curve.precision), list(run.curve.recall)) == (curve["precision"], curve["recall"])
    assert run.experiment.settings.training.rounds == 3
    assert run.report.is_file()
    assert repr(run) == f"Run({str(run.folder)!r}, none, test ap {run.scores['ap']:.3f})"
    assert run.model.relations == fedrel.load(run.folder).relations


def test_rounds_come_one_by_one_and_go_on_where_they_were_left(run, tmp_path, capfd):
    rounds = fedrel.rounds(EXPERIMENT, out=tmp_path / "run")
    seen = []
    for done in rounds:
        seen.append(done)
        if done.number == 2:
            break
    with pytest.raises(fedrel.UserError, match="not finished"):
        _ = rounds.run
    with pytest.raises(fedrel.UserError, match=r"go on with fedrel\.rounds\(resume="):
        next(iter(rounds))
    rest = fedrel.rounds(resume=tmp_path / "run")
    seen += rest
    assert [(it.number, it.scores, it.loss) for it in seen] == [(it.number, it.scores, it.loss) for it in run.rounds]
    weights = "model/weights.safetensors"
    assert (rest.run.folder / weights).read_bytes() == (run.folder / weights).read_bytes()
    assert capfd.readouterr() == ("", ""), "the library prints nothing"


def test_what_takes_long_is_said_to_whoever_asks(tmp_path):
    said: list[str] = []
    fedrel.run(EXPERIMENT.with_({"training.rounds": 1}), out=tmp_path / "run", say=said.append)
    assert said and all(said)


def test_a_folder_that_is_taken_is_refused_before_anything_is_prepared(run):
    with pytest.raises(fedrel.UserError, match="is not empty"):
        fedrel.rounds(EXPERIMENT, out=run.folder)
    with pytest.raises(fedrel.UserError, match="this run is finished"):
        fedrel.run(resume=run.folder)
    with pytest.raises(fedrel.UserError, match="leave out the experiment, start and out"):
        fedrel.run(EXPERIMENT, resume=run.folder)


def test_without_a_folder_a_run_has_one_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = (fedrel.rounds(EXPERIMENT.with_({"training.rounds": 1})) for _ in range(2))
    assert one.folder.parent.name == "runs" and one.folder.name.startswith("none-")
    one.folder.mkdir(parents=True)
    third = fedrel.rounds(EXPERIMENT)
    assert len({one.folder, third.folder}) == 2
    assert other.folder == one.folder or not other.folder.exists()  # nothing is taken before it begins


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(fedrel.UserError, match="no run in this folder"):
        fedrel.Run(tmp_path)
    with pytest.raises(fedrel.UserError, match="no run to go on with"):
        fedrel.rounds(resume=tmp_path)


def test_divergence_begins_again_with_a_smaller_rate(tmp_path):
    said: list[str] = []
    wild = EXPERIMENT.with_({"training.lr": 900.0, "training.rounds": 5, "training.restarts": 1})
    try:
        fedrel.run(wild, out=tmp_path / "run", say=said.append)
    except fedrel.UserError as error:
        assert "lower training.lr" in str(error)
    assert any("beginning again with training.lr=270" in line for line in said)
    assert (tmp_path / "run" / "diverged-1" / "why.json").is_file()


def test_rounds_as_a_table(run):
    pytest.importorskip("pandas")
    table = run.to_pandas()
    assert list(table["number"]) == [1, 2, 3]
    assert list(table["dev_ap"]) == [it.scores["ap"] for it in run.rounds]
    assert list(run.curve.to_pandas()["recall"]) == list(run.curve.recall)


def test_without_pandas_it_says_so(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fedrel.UserError, match="to_pandas needs pandas"):
        run.to_pandas()


def test_importing_fedrel_imports_little():
    program = "import sys, fedrel; print(fedrel.__version__); print({'torch', 'numpy', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "set()"


def test_every_public_name_is_there_and_no_other():
    for name in fedrel.__all__:
        assert getattr(fedrel, name)
    with pytest.raises(AttributeError, match="module 'fedrel' has no attribute 'runn'"):
        _ = fedrel.runn
    assert set(dir(fedrel)) == set(fedrel.__all__)
    assert set(importlib.import_module("fedrel.api").__all__) <= set(fedrel.__all__)
