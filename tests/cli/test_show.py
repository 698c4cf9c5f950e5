"""`fedrel show` on folders made by hand: both kinds of runs, and what a target cost."""

import json
from pathlib import Path

import pytest

from fedrel.cli import console

RANKED = {
    "auc": 0.5,
    "auc_2000": 0.4,
    "ap": 0.6,
    "p@100": 0.9,
    "p@200": 0.8,
    "p@300": 0.7,
    "p@mean": 0.8,
    "max_f1": 0.55,
}
CLASSIFIED = {"micro_f1": 0.7312, "micro_precision": 0.8, "micro_recall": 0.67, "macro_f1": 0.52, "accuracy": 0.9}


def make_run(folder: Path, scores: dict[str, float], metric: str) -> Path:
    """Three rounds of two platforms; the dev score is 0.5, 0.7, then 0.6."""
    folder.mkdir()
    result = {
        **{"method": "fedavg", "seed": 7, "rounds": 3, "best_round": 2, "dev": scores, "test": scores},
        **{"selection": None, "calibration": None, "bytes": {"up": 12_000_000, "down": 30_000_000}},
        **{"seconds": {"total": 60.0, "by_phase": {}}, "sentences_per_second": 100.0, "version": "1.0"},
    }
    lines = [
        {
            **{"round": number, "lr": 1.0, "loss": None, "dev": scores | {metric: score}, "selection": None},
            **{"cohort": ["a", "b"], "bytes": {"up": 4_000_000, "down": 10_000_000}, "trace": {"drift": [1.0]}},
        }
        for number, score in enumerate((0.5, 0.7, 0.6), 1)
    ]
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "experiment.toml").write_text(f'[training]\nmetric = "{metric}"\n')
    return folder


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "r", CLASSIFIED, "micro_f1")


@pytest.mark.parametrize(("scores", "metric"), [(RANKED, "ap"), (CLASSIFIED, "micro_f1")])
def test_both_kinds_of_runs_are_shown(fedrel, tmp_path, scores, metric):
    folder = make_run(tmp_path / "r", scores, metric)
    shown = fedrel("show", folder)
    assert shown.code == 0
    assert "fedavg, seed 7: best of 3 rounds is 2" in shown.out
    assert metric in shown.out and f"{scores[metric]:.3f}" in shown.out
    assert "fact" not in shown.out and "target" not in shown.out
    assert shown.out.splitlines()[-2:] == ["upload  2.0 MB per platform and round", f"report  {folder}/report.html"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_scores_are_whole_on_any_terminal(fedrel, tmp_path, monkeypatch, width):
    monkeypatch.setattr(console.out, "width", width)
    shown = fedrel("show", make_run(tmp_path / "r", RANKED, "ap")).out
    assert "…" not in shown
    assert all(f"{score:.3f}" in shown for score in RANKED.values())
    assert all(name in shown for name in RANKED)
    table = [line for line in shown.splitlines() if not line.startswith("report")]  # a path is as long as it is
    assert max(map(len, table)) <= width


def test_a_score_is_read_beside_its_interval_ties_and_warnings(fedrel, tmp_path):
    folder = make_run(tmp_path / "r", RANKED | {"ties": 1200}, "ap")
    result = json.loads((folder / "result.json").read_text())
    result |= {
        "metric": "ap",
        "intervals": {"dev": [0.25, 0.75], "test": None},
        "trivial": {"constant": 0.01},
        "too_little": ["dev has 1 fact, too few for anything; " + "x" * 200],
        "calibration": {
            "dev": {"ece_before": 0.3, "ece_after": 0.1},
            "test": {"ece_before": 0.4, "ece_after": 0.2},
        },
    }
    (folder / "result.json").write_text(json.dumps(result))
    lines = fedrel("show", folder).out.splitlines()
    assert "dev ap between 0.250 and 0.750 (95 %, by bootstrap)" in lines
    assert "answers that need no model, test ap: all candidates alike 0.010" in lines
    assert "calibration error: dev 0.300, after fitting 0.100; test 0.400, after fitting 0.200" in lines
    assert "1,200 candidates of test share their score with others; scores are means over their orders" in lines
    assert f"warning: {result['too_little'][0]}" in lines, "one line, however narrow the table is"
    assert not any("ties" in line for line in lines)
    result["calibration"]["dev"] = {"ece_before": None, "ece_after": None}
    (folder / "result.json").write_text(json.dumps(result))
    assert "calibration error: test 0.200; nothing could be fitted on dev" in fedrel("show", folder).out


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("0.4", "dev micro_f1 0.4 first reached in round 1, after 4.0 MB up and 10.0 MB down"),
        ("0.7", "dev micro_f1 0.7 first reached in round 2, after 8.0 MB up and 20.0 MB down"),
        ("0.71", "dev micro_f1 0.71 was never reached in 3 rounds; the best is 0.700 in round 2"),
    ],
)
def test_what_a_target_cost(fedrel, run, target, line):
    assert f"target  {line}\n" in fedrel("show", run, "--target", target).out


def test_what_a_target_cost_for_machines(fedrel, run):
    result = json.loads((run / "result.json").read_text())
    assert json.loads(fedrel("show", run, "--json").out) == result
    best = {"round": 2, "score": 0.7}
    reached = {"round": 2, "bytes_up": 8_000_000, "bytes_down": 20_000_000}
    for target, found in ((0.6, reached), (0.9, None)):
        expected = {"metric": "micro_f1", "score": target, "reached": found, "best": best}
        assert json.loads(fedrel("show", run, "--target", target, "--json").out) == {**result, "target": expected}


@pytest.mark.parametrize("target", ["-0.1", "1.5", "nan", "70"])
def test_a_target_that_no_score_can_have_is_refused(refused, run, target):
    assert refused("show", run, "--target", target) == f"--target {target}: scores are between 0 and 1"


def test_a_comparison_has_no_target(refused, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "compare.json").write_text("{}")
    assert refused("show", "c", "--target", "0.5").startswith("c: --target is for a run, and this is a comparison")


def test_a_run_without_its_log_is_shown_but_has_no_target(fedrel, refused, run):
    (run / "metrics.jsonl").unlink()
    shown = fedrel("show", run)
    assert shown.code == 0 and "upload" not in shown.out
    assert refused("show", run, "--target", "0.5").startswith(f"{run}/metrics.jsonl: unreadable")


@pytest.mark.parametrize("line", ["{", "[]", "3", "{}", '{"round": 1}', "[" * 100_000])
def test_a_log_that_we_did_not_write_is_refused(refused, run, line):
    with (run / "metrics.jsonl").open("a") as log:
        log.write(line + "\n")
    for more in ((), ("--target", "0.5")):
        assert refused("show", run, *more).startswith(f"{run}/metrics.jsonl:4: unreadable")


def test_a_log_that_is_no_text_is_refused(refused, run):
    (run / "metrics.jsonl").write_bytes(b"\xff\xfe")
    assert refused("show", run).startswith(f"{run}/metrics.jsonl: unreadable")


@pytest.mark.parametrize("content", ["=", "", "training = 3", "[training]\n", "\udcff"])
def test_an_experiment_that_does_not_say_its_metric_is_refused(refused, run, content):
    (run / "experiment.toml").write_text(content, errors="surrogateescape")
    assert refused("show", run, "--target", "0.5").startswith(f"{run}/experiment.toml: unreadable")


def test_a_metric_that_the_rounds_lack_is_refused(refused, run):
    (run / "experiment.toml").write_text('[training]\nmetric = "ap"\n')
    expected = f"{run}/metrics.jsonl: not every round has a dev score ap"
    assert refused("show", run, "--target", "0.5") == expected
    (run / "metrics.jsonl").write_text("")
    assert refused("show", run, "--target", "0.5") == expected
