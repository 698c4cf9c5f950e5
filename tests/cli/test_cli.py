"""The command line: files it writes, what it prints where, and one sentence for every mistake."""

import json
import math
import os
import re
import subprocess
import sys

import pytest

from fedrel.algorithms import METHODS
from fedrel.cli.console import complain
from fedrel.config import read as read_experiment
from fedrel.evaluation import ranking
from fedrel.experiment.assembly import complete
from fedrel.experiment.fitted import fitted
from fedrel.experiment.saved import load_model
from tests.instances import row, sentences, write


def sets(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


TINY = sets("data.size=600", "training.rounds=2", "partition.platforms=3", "extractor.filters=4", "engine.threads=1")
RESULT = {
    *(
        "method",
        "seed",
        "rounds",
        "best_round",
        "dev",
        "dev_ap_hidden",
        "test",
        "selection",
        "calibration",
        "bytes",
        "seconds",
    ),
    *(
        "sentences_per_second",
        "privacy",
        "version",
        "commit",
        "device",
        "bags",
        "metric",
        "intervals",
        "trivial",
        "too_little",
        "human",
        "trusted",
        "hidden_view",
    ),
}


def strict(text: str):
    """JSON that every reader accepts: no NaN, no Infinity."""

    def never(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=never)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, made once: its folder and what was printed."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    done = subprocess.run(
        [sys.executable, "-m", "fedrel.cli", "run", *TINY, "--out", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return folder, done


# --------------------------------------------------------------------------------------------------- run


def test_a_run_writes_every_file_of_the_contract(finished):
    folder, _ = finished
    assert {path.name for path in folder.iterdir()} == {
        *("checkpoint", "details.json", "experiment.toml", "ledger.jsonl", "metrics.jsonl"),
        *("model", "report.html", "result.json"),
    }
    assert not [path for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]
    result = strict((folder / "result.json").read_text())
    assert set(result) == RESULT
    assert set(result["bytes"]) == {"up", "down"}
    assert set(result["seconds"]) == {"total", "by_phase"}
    assert set(result["dev"]) == set(result["test"]) == {*ranking.METRICS, "ties", "facts"}
    scores = [result[split][name] for split in ("dev", "test") for name in ranking.METRICS]
    assert all(0 <= value <= 1 and math.isfinite(value) for value in scores)
    assert (result["method"], result["seed"], result["rounds"]) == ("evidence", 1, 2)
    assert result["best_round"] in (1, 2)


def test_the_log_has_one_line_a_round_and_the_ledger_adds_up(finished):
    folder, _ = finished
    result = strict((folder / "result.json").read_text())
    lines = [strict(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2]
    for way in ("up", "down"):
        assert sum(line["bytes"][way] for line in lines) == result["bytes"][way]
    assert lines[result["best_round"] - 1]["dev"] == result["dev"]
    assert max(line["dev"]["ap"] for line in lines) == result["dev"]["ap"]
    ledger = [strict(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert {(entry["round"], entry["platform"]) for entry in ledger} == {
        (number, name) for number in (1, 2) for name in ("p0", "p1", "p2")
    }
    assert 0 < sum(entry["bytes"] for entry in ledger) <= result["bytes"]["up"]


def test_the_folder_says_which_experiment_it_was_and_holds_a_model(finished):
    folder, _ = finished
    experiment = read_experiment(folder / "experiment.toml")
    assert experiment == fitted(
        complete(read_experiment(None, [*TINY[1::2], "training.lr=0.5", "privacy.sums=off"]))
    )  # as it was chosen
    saved = load_model(folder / "model")
    assert len(saved.relations) == 15
    assert "report" in (folder / "report.html").read_text().lower()


def test_the_last_lines_say_where_everything_lies(finished):
    folder, done = finished
    assert done.stdout.splitlines()[-3:] == [
        f"result  {folder}/result.json",
        f"model   {folder}/model",
        f"report  {folder}/report.html   (open it in a browser)",
    ]


def test_progress_is_plain_and_apart_from_the_result_where_there_is_no_terminal(finished):
    _, done = finished
    assert "\x1b" not in done.stdout + done.stderr
    for number, left in ((1, r"\(time left after the next\)"), (2, r"≤0:\d\d left")):
        seen = rf"^evidence  round {number}/2  {left}  dev ap 0\.\d+ .*loss \d"
        assert re.search(seen, done.stderr, re.MULTILINE)
    assert "round 1/2" not in done.stdout


def test_json_alone_goes_to_standard_output(fedrel, tmp_path):
    outcome = fedrel("run", *TINY, "--set", "method.name=one", "--out", tmp_path / "r", "--json")
    assert outcome.code == 0
    assert strict(outcome.out) == strict((tmp_path / "r" / "result.json").read_text())
    assert strict(outcome.out)["method"] == "one"


def test_a_profile_says_where_the_time_went(fedrel, tmp_path):
    done = fedrel("run", "--profile", *TINY, *sets("method.name=lazy-mil", "method.warmup=1"), "--out", tmp_path / "p")
    assert done.code == 0
    result = strict((tmp_path / "p" / "result.json").read_text())
    assert set(result["profile"]) == {"data", "score", "train", "aggregate", "evaluate", "codec"}
    assert all(seconds > 0 for seconds in result["profile"].values())
    assert "By kind of work" in (tmp_path / "p" / "report.html").read_text()


def test_without_out_a_run_gets_a_folder_named_after_its_experiment(fedrel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('[method]\nname = "none"\n[training]\nrounds = 1\n')
    outcome = fedrel(
        "run", "mine.toml", *sets("data.size=600", "extractor.filters=4", "partition.platforms=2", "engine.threads=1")
    )
    assert outcome.code == 0
    [folder] = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"mine-\d{8}-\d{6}", folder.name)
    assert f"result  runs/{folder.name}/result.json" in outcome.out


def test_a_folder_may_have_any_name(fedrel, tmp_path):
    folder = tmp_path / "a [b] [/c] :smile: é"
    outcome = fedrel("run", *TINY, "--out", folder)
    assert outcome.code == 0
    assert f"result  {folder}/result.json" in outcome.out
    shown = fedrel("show", folder)
    assert f"report  {folder}/report.html" in shown.out


def test_names_that_the_terminal_cannot_show_do_no_harm(tmp_path):
    folder = os.fsdecode(bytes(tmp_path) + b"/caf\xe9")
    for extra in ({}, {"PYTHONIOENCODING": "ascii"}):
        done = subprocess.run(
            [sys.executable, "-m", "fedrel.cli", "data", "world", "--size", "500", "--out", folder],
            capture_output=True,
            env=os.environ | extra,
        )
        assert b"Traceback" not in done.stderr
        assert done.returncode == (2 if extra else 0)  # the second time the folder is there
    assert os.path.isdir(folder)  # noqa: PTH112 - a name that is no text


# ------------------------------------------------------------------------------------- mistakes in a run


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["training.rounds"], "--set training.rounds: write it as section.key=value"),
        (["training.round=3"], '--set: unknown key "training.round"; did you mean "rounds"?'),
        (["training.lr=fast"], "training.lr must be a number, not 'fast'"),
        (["training.lr=-1"], "training.lr = -1.0: must be above 0"),
        (["training.lr=nan"], "training.lr = nan: must be"),
        (["training.lr=1e300"], "training.lr = 1e+300: must be at most"),
        (["training.fraction=0"], "training.fraction = 0.0: must be above 0"),
        (["training.dropout=1"], "training.dropout = 1.0: must be at most 0.99"),
        (["training.metric=acu"], 'training.metric = "acu" is not a metric; did you mean "auc"?'),
        (["training.batch=100000000000000000000"], "training.batch = 100000000000000000000: must be at most"),
        (["method.name=lazymil"], 'method.name = "lazymil" is no method; did you mean "lazy-mil"?'),
        (["method.name=one", "method.warmup=3"], 'unknown key "method.warmup"'),
        (["method.name=lazy-mil", "method.warmups=3"], 'unknown key "method.warmups"; did you mean "warmup"?'),
        (["extractor.window=4"], "extractor.window = 4: must be odd"),
        (["extractor.filters=10000000000000"], "extractor.filters = 10000000000000: must be at most"),
        (["engine.threads=10000000000000"], "engine.threads = 10000000000000: must be at most"),
        (["data.size=600", "partition.platforms=601"], "601 platforms for 600 training sentences; set partition"),
        (["data.size=huge"], 'no world of size "huge"'),
        (["data.size=10"], "a world has 500 to 1,000,000 training sentences, not 10"),
        (["data.source=opennre"], 'data.source = "opennre" needs data.path'),
        (["data.source=opennre", "data.path=nowhere"], "nowhere: no such file or folder"),
        (["data.source=opennre", f"data.path={'x' * 5000}"], "File name too long"),
        (["data.source=csv"], 'data.source = "csv" is unknown'),
        (["data.size=600", "extractor.vectors=nowhere.txt"], "nowhere.txt: no such file; extractor.vectors is"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(refused, settings, says):
    assert says in refused("run", *sets(*settings), "--out", "r")


def test_a_mistake_in_a_file_is_told_with_its_line(refused, tmp_path):
    (tmp_path / "e.toml").write_text("seed = 1\n\n[training]\nlr = -1\n")
    assert refused("run", "e.toml") == "e.toml:4: training.lr = -1.0: must be above 0"
    assert refused("compare", "e.toml") == "e.toml:4: training.lr = -1.0: must be above 0"
    assert refused("run", "none.toml") == "none.toml: No such file or directory"
    assert refused("run", ".") == ".: Is a directory"


def test_the_hundredth_line_is_told_as_a_number(refused, tmp_path):
    (tmp_path / "train.jsonl").write_text(f"{row()}\n" * 99 + "{\n")
    assert refused("data", "check", "train.jsonl", "--strict").startswith("train.jsonl:100: not a JSON object")


def test_a_complaint_is_one_line_with_every_character_shown(capsys):
    complain("a [b] [/c] \\[d] :smile: x\\")
    complain("two\nlines")
    assert capsys.readouterr().err == "fedrel: a [b] [/c] \\[d] :smile: x\\\nfedrel: two lines\n"


def test_a_folder_that_is_not_empty_is_refused(refused, finished, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    assert "full is not empty" in refused("run", *TINY, "--out", "full")
    assert "full is not empty" in refused("run", *sets("data.source=opennre", "data.path=nowhere"), "--out", "full")
    assert "file is not empty" in refused("run", *TINY, "--out", "file")
    assert "is not empty; go on with --resume" in refused("run", *TINY, "--out", finished[0])


def test_only_an_unfinished_run_can_be_resumed(refused, finished, tmp_path):
    (tmp_path / "empty").mkdir()
    assert refused("run", "--resume", "nowhere") == "nowhere: no run to go on with (it has no experiment.toml)"
    assert "no run to go on with" in refused("run", "--resume", "empty")
    assert "this run is finished; look at it with: fedrel show" in refused("run", "--resume", finished[0])
    assert "leave out the file, --set, --out and --from" in refused("run", *TINY, "--resume", finished[0])
    (tmp_path / "empty" / "experiment.toml").write_text("[data]\nsize = 600\n")
    assert "there is nothing to go on from" in refused("run", "--resume", "empty")


def test_a_damaged_checkpoint_is_refused(refused, tmp_path):
    (tmp_path / "r" / "checkpoint").mkdir(parents=True)
    (tmp_path / "r" / "experiment.toml").write_text("[data]\nsize = 600\n")
    (tmp_path / "r" / "checkpoint" / "round.safetensors").write_bytes(b"\0" * 100)
    assert "round.safetensors: damaged" in refused("run", "--resume", "r")


def test_a_cache_that_cannot_be_written_is_one_sentence(refused, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "file"))
    assert "file" in refused("run", *TINY)


# ---------------------------------------------------------------------------------------------- own data


def test_the_world_written_to_files_trains_as_well(fedrel, finished, tmp_path):
    folder = tmp_path / "w [1]"
    outcome = fedrel("data", "world", "--out", folder, "--size", 600)
    assert outcome.code == 0
    assert {path.name for path in folder.iterdir()} == {
        *("train.jsonl", "dev.jsonl", "test.jsonl", "entities.tsv", "triples.tsv")
    }
    assert outcome.out.splitlines()[0] == str(folder)
    files = sets("data.source=opennre", f"data.path={folder}")
    assert outcome.out.splitlines()[1] == f"train on it with: fedrel run {' '.join(files)}"
    done = fedrel("run", *TINY[2:], *files, "--out", tmp_path / "r", "--json")
    assert done.code == 0
    result, other = strict(done.out), strict((finished[0] / "result.json").read_text())
    assert set(result) == RESULT
    assert result["rounds"] == 2
    assert result["bytes"]["down"] == other["bytes"]["down"], "the same sentences, words and platforms"


def test_a_world_is_written_to_a_new_folder_only(refused, tmp_path):
    (tmp_path / "old").mkdir()
    assert refused("data", "world", "--out", "old") == "old exists; choose a new folder"
    assert 'no world of size "²"' in refused("data", "world", "--out", "new", "--size", "²")
    assert "must be at most 1" in refused("data", "world", "--out", "new", "--noise", 2)
    assert "must be at least 0" in refused("data", "world", "--out", "new", "--noise", "nan")
    assert "500 to 1,000,000" in refused("data", "world", "--out", "new", "--size", 3)
    assert "sentences per fact" in refused("data", "world", "--out", "new", "--evidence", 99)


def test_check_counts_what_is_there(fedrel, tmp_path):
    for name, pairs in (("train", 6), ("dev", 4), ("test", 2)):
        write(tmp_path / f"{name}.jsonl", sentences(pairs, prefix=name, each=3))
    found = strict(fedrel("data", "check", tmp_path, "--json").out)
    assert {name: (it["sentences"], it["pairs"], it["facts"]) for name, it in found["splits"].items()} == {
        "train": (18, 6, 3),
        "dev": (12, 4, 2),
        "test": (6, 2, 1),
    }
    assert found["splits"]["train"]["sentences_per_relation"] == {"NA": 9, "r0": 6, "r2": 3}
    assert (found["overlap"], found["notes"]) == (0, [])
    shown = fedrel("data", "check", tmp_path).out
    assert "it runs, and the warnings say what not to trust" in shown


def test_check_tells_of_carving_and_overlap_and_shows_odd_names(fedrel, tmp_path):
    made = sentences(60)
    odd = json.loads(row(relation="[/red] :smile:"))
    write(tmp_path / "train.jsonl", made)
    write(tmp_path / "test.jsonl", made[:4])
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write(json.dumps(odd) + "\n")
    outcome = fedrel("data", "check", tmp_path)
    assert outcome.code == 0
    assert "[/red] :smile:" in outcome.out
    assert "carved from train for dev" in outcome.out
    assert "2 pairs are in both train and test" in outcome.out


def test_check_reads_files_alone(refused, tmp_path):
    assert '"world" is no format of files; there is bere, biobert, bioc, bioc-json, ' in refused(
        "data", "check", ".", "--source", "world"
    )
    assert 'did you mean "nyt10"?' in refused("data", "check", ".", "--source", "nyt")
    assert refused("data", "check", "nowhere") == "nowhere: no such file or folder"


def test_overlap_is_refused_with_its_count_unless_allowed(fedrel, refused, tmp_path):
    for name in ("train", "dev"):
        write(tmp_path / "d" / f"{name}.jsonl", sentences(10, prefix=name))
    write(tmp_path / "d" / "test.jsonl", [*sentences(4, prefix="train"), *sentences(4, prefix="test")])
    data = [*TINY[2:], *sets("data.source=opennre", "data.path=d", "extractor.min_count=1")]
    assert refused("run", *data).startswith("4 entity pairs are in both train and test")
    assert fedrel("run", *data, *sets("data.allow_overlap=true"), "--out", "r").code == 0


def test_a_carved_dev_is_told_in_every_run(fedrel, tmp_path):
    write(tmp_path / "d" / "train.jsonl", sentences(60, prefix="told"))
    write(tmp_path / "d" / "test.jsonl", sentences(8, prefix="x"))
    data = [*TINY[2:], *sets("data.source=opennre", f"data.path={tmp_path / 'd'}", "extractor.min_count=1")]
    for name in ("one", "two"):
        outcome = fedrel("run", *data, "--out", tmp_path / name)
        assert outcome.code == 0
        assert "no dev sentences given: one pair in 10 was carved from train for dev" in outcome.err


def test_tokens_of_every_kind_train_and_are_reported(fedrel, tmp_path):
    odd = "\n\r\t\x85\u2028\0é👩‍🚀<&>"
    for name in ("train", "dev", "test"):
        made = [*sentences(6, prefix=f"{odd}{name}"), *sentences(6, prefix=name)]
        lines = write(tmp_path / f"{name}.jsonl", made).read_text(encoding="utf-8")
        (tmp_path / f"{name}.jsonl").write_text(lines.replace('"w0"', json.dumps(odd)), encoding="utf-8")
    data = [*TINY[2:], *sets("data.source=opennre", f"data.path={tmp_path}", "extractor.min_count=1")]
    outcome = fedrel("run", *data, *sets("method.name=lazy-mil", "method.warmup=0"), "--out", tmp_path / "r")
    assert outcome.code == 0
    saved = load_model(tmp_path / "r" / "model")
    assert len(saved.encoding) == len(saved.weights["words"])


# -------------------------------------------------------------------------------------- show and methods


def test_a_finished_run_is_shown(fedrel, finished):
    folder, done = finished
    shown = fedrel("show", folder)
    assert shown.code == 0
    table = done.stdout.split("result  ")[0]
    assert shown.out.startswith(table)
    assert strict(fedrel("show", folder, "--json").out) == strict((folder / "result.json").read_text())


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "3", '{"method": "one"}', "[" * 100_000])
def test_what_is_no_result_is_not_shown(refused, tmp_path, content):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "result.json").write_text(content)
    assert refused("show", "r").startswith("r/result.json: unreadable")
    (tmp_path / "r" / "compare.json").write_text(content)
    assert refused("show", "r").startswith("r/compare.json: unreadable")


def test_a_folder_without_a_run_is_not_shown(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "experiment.toml").write_text("")
    assert refused("show", "nowhere") == "nowhere: no run in this folder"
    assert refused("show", "empty") == "empty: no run in this folder"
    assert refused("show", "begun") == "begun: not finished; resume it with: fedrel run --resume begun"
    assert refused("show", "begun/experiment.toml") == "begun/experiment.toml: no run in this folder"


def test_every_method_is_listed_with_paper_and_settings(fedrel):
    listed = strict(fedrel("methods", "--json").out)
    assert set(listed) == set(METHODS)
    assert all(
        set(it) == {"paper", "summary", "settings", "stacked", "package"} and it["paper"] and it["summary"]
        for it in listed.values()
    )
    assert listed["lazy-mil"]["settings"].keys() >= {"warmup", "na"}
    assert "Use one with: fedrel run --set method.name=one" in fedrel("methods").out
    whole = {name for name, method in listed.items() if method["stacked"] == "all of it"}
    assert {"evidence", "lazy-mil", "none", "one", "att", "fedprox", "scaffold"} <= whole
    assert {listed[name]["stacked"] for name in ("moon", "fedcmc", "feedback")} == {"the encoder"}


def test_the_version_is_printed(fedrel):
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", fedrel("--version").out)


def test_an_unknown_option_or_command_is_exit_code_2(fedrel):
    assert fedrel("run", "--bogus").code == 2
    assert fedrel("trian").code == 2
    assert fedrel("compare", "--seeds", 0).code == 2
