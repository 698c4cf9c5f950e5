"""`fedrel privacy audit` and `fedrel privacy explain`."""

import json

import pytest

SMALL = ["data.size=600", "partition.platforms=3", "training.rounds=2", "extractor.filters=8", "engine.workers=1"]
SETTINGS = [part for setting in SMALL for part in ("--set", setting)]
QUICK = ["--rounds", 2, "--sentences", 60, "--shadows", 0]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text("""[data]
size = 600
[partition]
platforms = 3
[extractor]
filters = 8
[method]
name = "none"
[training]
rounds = 2
[engine]
workers = 1
""")
    return path


@pytest.fixture
def run(fedrel, tmp_path):
    folder = tmp_path / "run"
    assert fedrel("run", *SETTINGS, "--out", folder).code == 0
    return folder


def test_an_audit_is_shown_kept_and_part_of_the_report(fedrel, run):
    done = fedrel("privacy", "audit", run, *QUICK)
    assert done.code == 0, done.err
    for part in ("fingerprint", "membership", "verdict", "succeeds", "audit.json"):
        assert part in done.out
    report = json.loads((run / "audit.json").read_text())
    assert report["platforms"] == 3
    page = (run / "report.html").read_text()
    assert "What a curious coordinator could find out" in page
    assert all(it["wants"].split(",")[0].replace("'", "&#39;") in page for it in report["attacks"])


def test_json_has_one_form_whatever_applies(fedrel, file):
    done = fedrel("privacy", "audit", file, *QUICK, "--json")
    report = json.loads(done.out)
    assert report == json.loads((file.parent / "ours.audit.json").read_text())
    assert report["format"] == 1
    assert report.keys() >= {"version", "method", "platforms", "watched", "rounds", "members", "non_members", "seconds"}
    names = [
        "words",
        "fingerprint",
        "linkage",
        "names",
        "membership",
        "attribution",
        "lookup",
        "model",
        "labels",
        "few",
    ]
    assert [it["attack"] for it in report["attacks"]] == names
    for it in report["attacks"]:
        assert it.keys() == {"attack", "wants", "how", "applies", "why", "verdict", "measures", "details"}
        assert it["applies"] == bool(it["measures"]) == (not it["why"])
        for found in it["measures"].values():
            low, high = found["interval"]
            assert low <= found["value"] <= high or found["value"] == pytest.approx(low)
            assert 0 <= found["chance"] <= 0.5
    assert report["attacks"][1]["verdict"] == "does not apply: no scores of facts are sent"


def test_a_limit_that_is_exceeded_is_exit_code_1_and_everything_is_written(fedrel, file):
    kept = fedrel("privacy", "audit", file, *QUICK, "--limit", "fingerprint.auc=0.6", "--limit", "few.share=0")
    assert kept.code == 0
    done = fedrel("privacy", "audit", file, *QUICK, "--limit", "auc=0.6", "--json")
    assert done.code == 1
    assert "limit exceeded: words.auc is 1.000, above 0.6" in done.err
    report = json.loads(done.out)
    assert report["limits"] == ["auc=0.6"]
    assert report["exceeded"][0].startswith("words.auc")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("auc", "write a measure and a number"),
        ("auc=much", "write a measure and a number"),
        ("auc=2", "from 0 to 1"),
        ("acu=0.6", 'there is no measure "acu"; did you mean "auc"?'),
        ("fingerprints.auc=0.6", 'did you mean "fingerprint"?'),
    ],
)
def test_a_limit_that_means_nothing_is_refused(refused, file, limit, said):
    assert said in refused("privacy", "audit", file, "--limit", limit)


def test_what_is_no_run_is_refused(refused, run, file, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no run in this folder" in refused("privacy", "audit", tmp_path / "empty")
    assert "nowhere.toml" in refused("privacy", "audit", tmp_path / "nowhere.toml")
    assert "--set goes with an experiment file" in refused("privacy", "audit", run, "--set", "seed=2")
    (run / "result.json").unlink()
    assert "not finished" in refused("privacy", "explain", run)


def test_it_is_explained_what_leaves_and_what_attacks_found(fedrel, file):
    before = " ".join(fedrel("privacy", "explain", file).out.split())
    for part in ("3 platforms train none", "estimated:", "- train (", "which words your text uses", "Other platforms:"):
        assert part in before
    assert "not measured yet" in before
    fedrel("privacy", "audit", file, *QUICK)
    lines = json.loads(fedrel("privacy", "explain", file, "--json").out)["lines"]
    assert any(line.startswith("Measured by attacks on these data (2 rounds, 3 platforms)") for line in lines)
    assert len(lines) <= 12


def test_one_holder_and_a_reference_method_are_explained(fedrel, file):
    one = fedrel("privacy", "explain", file, "--set", "partition.platforms=1").out
    assert "nothing leaves it" in one
    reference = fedrel("privacy", "explain", file, "--set", "method.name=centralised").out
    assert "no federation can use it" in " ".join(reference.split())


def test_an_audit_that_is_broken_is_refused(refused, file):
    (file.parent / "ours.audit.json").write_text("[]")
    assert "not written by fedrel privacy audit" in refused("privacy", "explain", file)
