"""`fedrel extract`: the files it writes, what people and programs read of it, and one sentence for every mistake."""

import csv
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console

from fedrel.cli import extract as command
from fedrel.corpus import world_text
from fedrel.corpus.world import World
from fedrel.evaluation.calibration import Calibration, readable
from fedrel.experiment import saved as saved_module
from fedrel.experiment.saved import save_model
from fedrel.extraction import candidates
from fedrel.extraction.facts import COLUMNS, Fact, Support, from_json
from fedrel.version import installed_version
from tests.conftest import contents
from tests.documents import place as place_files
from tests.experiment.test_saved import prepared
from tests.written import docx, odt, pdf

BORN = "person/born_in"
TEXT = "Ann Meler was born in Bonn. Cem saw Lyon, said Meler. 😀 Bonn is where Cem was born.\n"
ENTITIES = "Q1\tperson\tAnn Meler|Meler\nQ2\tperson\tBea Meler|Meler\nQ3\tperson\tCem\nQ8\tcity\tBonn\nQ9\tcity\tLyon\n"
SUMMARY = {
    *("out", "confidences", "facts", "new", "documents", "sentences", "mentions", "ambiguous", "pairs", "left_out"),
    *("seconds", "sentences_per_second", "calibration", "files"),
}


def strict(text):
    """JSON that every reader accepts: no NaN, no Infinity."""

    def never(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=never)


def place(folder):
    """A model, a text and a knowledge base: `model`, `text.txt` and `kb`."""
    folder.mkdir(exist_ok=True)
    setup = prepared()
    save_model(folder / "model", setup, setup.weights, Calibration(1.2, -0.1, 0.25, 0.125))
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "kb").mkdir()
    (folder / "kb" / "entities.tsv").write_text(ENTITIES, encoding="utf-8")
    (folder / "kb" / "triples.tsv").write_text(f"Q1\t{BORN}\tQ8\n")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return place(tmp_path)


ALL = ("extract", "--model", "model", "--text", "text.txt", "--kb", "kb", "--min-confidence", 0)


# ------------------------------------------------------------------------------------------------------ outputs


def test_json_lines_the_surest_first(fedrel, here):
    outcome = fedrel(*ALL, "--out", "facts.jsonl")
    assert outcome.code == 0
    lines = (here / "facts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    facts = [from_json(line) for line in lines]
    assert [set(strict(line)) for line in lines] == [
        {"head", "relation", "tail", "confidence", "log_odds", "known", "instead", "sentences", "support"}
    ] * len(lines)
    assert {(it.head, it.tail) for it in facts} == {
        *(("Q1", "Q8"), ("Q3", "Q8"), ("Q3", "Q9"), ("Q1", "Q9")),  # one document: its Meler is Ann
    }
    assert {(it.head, it.relation, it.tail) for it in facts if it.known} == {("Q1", BORN, "Q8")}
    confidences = [it.confidence for it in facts]
    assert confidences == sorted(confidences, reverse=True)
    for fact in facts:
        for support in fact.support:
            assert support.document == "text.txt"
            assert TEXT[support.start :].startswith(support.text)
    assert "facts   facts.jsonl\n" in outcome.out
    assert "calibration error on dev 0.250, after fitting 0.125" in outcome.out
    assert "5 entities, 1 facts, 1 relations" in outcome.err
    assert "\x1b" not in outcome.out + outcome.err


def test_csv_and_n_triples_say_the_same(fedrel, here):
    for name in ("facts.jsonl", "facts.csv", "facts.nt"):
        assert fedrel(*ALL, "--out", name).code == 0
    facts = [from_json(line) for line in (here / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    with (here / "facts.csv").open(encoding="utf-8", newline="") as file:
        headline, *rows = csv.reader(file)
    assert tuple(headline) == COLUMNS
    assert [(row[0], row[2], row[3], float(row[5])) for row in rows] == [
        (it.head, it.relation, it.tail, readable(it.log_odds)) for it in facts
    ]
    triples = (here / "facts.nt").read_text(encoding="utf-8").splitlines()
    _, *beside = (here / "facts.confidence.tsv").read_text(encoding="utf-8").splitlines()
    assert len(triples) == len(beside) == len(facts)
    for triple, line, fact in zip(triples, beside, facts, strict=True):
        head, relation, tail, confidence, known = line.split("\t")
        assert triple == f"{head} {relation} {tail} ."
        assert head == f"<urn:fedrel:entity:{fact.head}>"
        assert (float(confidence), known) == (readable(fact.log_odds), str(fact.known).lower())


def test_the_file_beside_n_triples_is_named(fedrel, here):
    outcome = fedrel(*ALL, "--out", "out/facts.nt")
    assert outcome.out.splitlines()[-2:] == [
        "facts   out/facts.nt",
        "their confidences   out/facts.confidence.tsv",
    ]
    assert {path.name for path in (here / "out").iterdir()} == {"facts.nt", "facts.confidence.tsv"}


def test_json_alone_goes_to_standard_output(fedrel, here):
    outcome = fedrel(*ALL, "--out", "facts.nt", "--json")
    summary = strict(outcome.out)
    assert set(summary) == SUMMARY
    assert (summary["out"], summary["confidences"]) == ("facts.nt", "facts.confidence.tsv")
    assert (summary["documents"], summary["sentences"], summary["mentions"], summary["ambiguous"]) == (1, 3, 7, 0)
    assert summary["facts"] == len((here / "facts.nt").read_text().splitlines()) == summary["new"] + 1
    fitted = {"temperature": 1.2, "offset": -0.1, "ece_before": 0.25, "ece_after": 0.125, "most": 1.0}
    assert summary["calibration"] == fitted
    assert set(summary["left_out"].values()) == {0}


def test_output_is_replaced_whole(fedrel, here):
    (here / "facts.jsonl").write_text("old\n" * 10_000)
    assert fedrel(*ALL, "--out", "facts.jsonl").code == 0
    content = (here / "facts.jsonl").read_bytes()
    assert b"old" not in content
    assert not [path for path in here.rglob("*") if path.name.startswith(".")]
    assert fedrel(*ALL, "--out", "facts.jsonl").code == 0
    assert (here / "facts.jsonl").read_bytes() == content


def test_the_thresholds_from_all_to_nothing(fedrel, here):
    counts = {}
    for least in (0, 0.1, 1):
        arguments = [*ALL[:-1], least, "--out", "facts.jsonl", "--json"]
        counts[least] = strict(fedrel(*arguments).out)["facts"]
    assert counts[0] == 4 * 14  # pairs and relations
    assert 0 < counts[0.1] < counts[0]
    assert counts[1] == 0
    assert (here / "facts.jsonl").read_bytes() == b""


def test_new_facts_alone(fedrel, here):
    every, new = (strict(fedrel(*ALL, *more, "--out", "facts.jsonl", "--json").out) for more in ((), ("--new-only",)))
    assert new["facts"] == new["new"] == every["new"] == every["facts"] - 1


def test_a_name_that_several_share_is_left_out_unless_asked_for(fedrel, here):
    (here / "text.txt").write_text("Meler saw Lyon.")
    outcome = fedrel(*ALL, "--out", "facts.csv")
    assert outcome.code == 0
    assert "14 left out: facts of which it is not clear whom a name means (--ambiguous keeps them)" in outcome.out
    kept = strict(fedrel(*ALL, "--ambiguous", "--out", "facts.csv", "--json").out)
    assert kept["facts"] == 14
    assert "Q1|Q2,Meler," in (here / "facts.csv").read_text()


def test_marked_text_needs_no_knowledge_base(fedrel, here):
    row = {"id": "n1", "text": "Ann met Bea.", "entities": [{"start": 0, "end": 3}, {"start": 8, "end": 11, "id": "B"}]}
    (here / "marked.jsonl").write_text(json.dumps(row) + "\n")
    outcome = fedrel("extract", "--model", "model", "--text", "marked.jsonl", "--min-confidence", 0, "--out", "f.jsonl")
    assert outcome.code == 0
    facts = [from_json(line) for line in (here / "f.jsonl").read_text().splitlines()]
    assert {(it.head, it.tail, it.known) for it in facts} == {("ann", "B", None), ("B", "ann", None)}
    assert "of them new" not in outcome.out


# ------------------------------------------------------------------------------------------------ nothing found


def test_a_text_without_a_pair_is_no_mistake_and_says_so(fedrel, here):
    (here / "text.txt").write_text("Nobody was here. Only Cem.")
    outcome = fedrel(*ALL, "--out", "facts.jsonl")
    assert outcome.code == 0
    assert "no facts: no two entities in a sentence (0 pairs of entities)\n" in outcome.out
    assert "0 facts, 0 of them new, from 2 sentences in 1 documents" in outcome.out
    assert (here / "facts.jsonl").read_bytes() == b""


def test_a_threshold_that_nothing_reaches_says_so(fedrel, here):
    outcome = fedrel(*ALL[:-1], 0.99, "--out", "facts.csv")
    assert outcome.code == 0
    assert "no facts: none is held for 0.99 likely (4 pairs of entities)\n" in outcome.out
    assert (here / "facts.csv").read_text().splitlines() == [",".join(COLUMNS)]


# ----------------------------------------------------------------------------------------------------- mistakes


@pytest.fixture
def wrong(refused, tmp_path):
    place(tmp_path)
    return refused


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--out": "facts.jsnl"}, '--out facts.jsnl: ".jsnl" is no form of facts; did you mean ".jsonl"?'),
        ({"--out": "facts"}, '--out facts: "" is no form of facts; there is .csv, .jsonl, .jsonld, .nt, .ttl'),
        ({"--out": "facts.rdf"}, '--out facts.rdf: ".rdf" is no form of facts; there is .csv, .jsonl, .jsonld,'),
        ({"--out": "folder.csv"}, "--out folder.csv: this is a folder; name a file"),
        ({"--out": "kb.csv", "--kb": "kb.csv"}, "--out kb.csv: this is what is read; choose another name"),
        ({"--out": "t.jsonl", "--text": "t.jsonl"}, "--out t.jsonl: this is what is read; choose another name"),
        ({"--text": "nowhere"}, "nowhere: no such file or folder"),
        ({"--text": "empty"}, "empty: no file in this folder"),
        ({"--text": "void.txt"}, "void.txt: the file is empty"),
        ({"--format": "txt"}, '"txt" is no format of documents; did you mean "text"?'),
        ({"--model": "nowhere"}, "nowhere: no model in this folder (config.json: No such file or directory)"),
        ({"--model": "kb"}, "kb: no model in this folder (config.json: No such file or directory)"),
        ({"--model": "begun"}, "begun: no model yet; go on with: fedrel run --resume begun"),
        ({"--model": "broken"}, "broken/weights.safetensors: damaged or changed since the model was saved; copy the"),
        ({"--kb": "nowhere"}, "nowhere: no such file or folder"),
        ({"--kb": "empty"}, "empty: not a knowledge base; expected entities.tsv and triples.tsv, or .nt files"),
        ({"--kb": "half"}, "half/triples.tsv: no such file; a knowledge base has entities.tsv and triples.tsv"),
        ({"--kb": None}, "text.txt: no entities are marked in this text; give a knowledge base with --kb"),
        ({"--kb": None, "--new-only": ""}, "--new-only needs --kb, to know what is known"),
        ({"--language": "klingon"}, '"klingon" is not a language code'),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(wrong, tmp_path, changed, says):
    for folder in ("empty", "folder.csv", "half", "begun"):
        (tmp_path / folder).mkdir()
    (tmp_path / "half" / "entities.tsv").write_text(ENTITIES, encoding="utf-8")
    (tmp_path / "begun" / "experiment.toml").write_text("")
    (tmp_path / "void.txt").write_text("")
    (tmp_path / "kb.csv").write_text("head,relation,tail\n")
    (tmp_path / "t.jsonl").write_text('{"text": "x"}\n')
    shutil.copytree(tmp_path / "model", tmp_path / "broken")
    with (tmp_path / "broken" / "weights.safetensors").open("r+b") as file:
        file.truncate(100)
    options = {"--model": "model", "--text": "text.txt", "--kb": "kb", "--out": "facts.jsonl"} | changed
    arguments = [part for option in options.items() if option[1] is not None for part in option if part != ""]
    assert wrong("extract", *arguments).startswith(says)


@pytest.mark.parametrize("least", [-0.1, 1.1, "nan", "much"])
def test_a_share_is_from_0_to_1(fedrel, here, least):
    outcome = fedrel(*ALL[:-1], least, "--out", "facts.jsonl")
    assert outcome.code == 2
    assert "--min-confidence" in outcome.err
    assert not (here / "facts.jsonl").exists()


def test_a_text_that_breaks_off_half_way_leaves_the_old_facts(wrong, tmp_path):
    (tmp_path / "facts.jsonl").write_text("old\n")
    (tmp_path / "t.jsonl").write_text('{"text": "Cem saw Bonn."}\n{"text": "Cem le')
    says = wrong("extract", "--model", "model", "--text", "t.jsonl", "--kb", "kb", "--out", "facts.jsonl")
    assert says.startswith("t.jsonl:2: not a JSON object (is the file cut off?) (1 of 2 rows; up to 0.01 of them may")
    assert (tmp_path / "facts.jsonl").read_text() == "old\n"


def test_a_full_disk_is_one_sentence(wrong, monkeypatch):
    def full(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(candidates, "_BUFFERED", 0)
    monkeypatch.setattr(candidates.Sightings, "_write", full)
    assert "No space left on device" in wrong(*ALL, "--out", "facts.jsonl")


# ----------------------------------------------------------------------------------------- folders of many formats


def test_every_file_of_a_mixed_folder_is_accounted_for(fedrel, here):
    """Eight formats, four that nothing reads, and three broken files; every readable one has the same fact."""
    said = "Cem saw Lyon."
    good = {
        **{"a.txt": said, "b.md": f"# *On*\n\n{said}", "c.html": f"<p>{said}", "d.pdf": pdf([[said]])},
        **{"e.docx": docx(said), "f.odt": odt(said), "g.jsonl": json.dumps({"text": said}) + "\n"},
        "h.json": json.dumps([{"id": "1", "text": said}]),
    }
    unread = {"i.png": b"\x89PNG", "j.xlsx": b"PK", "k.doc": b"\xd0\xcf", "l.eml": f"Subject: x\n\n{said}"}
    broken = {"m.pdf": b"%PDF-1.4", "n.docx": b"PK", "o.txt": b"\xff"}
    place_files(here / "mixed", good | unread | broken)
    mixed = ("extract", "--model", "model", "--text", "mixed", "--kb", "kb", "--min-confidence", 0, "--out", "f.jsonl")
    summary = strict(fedrel(*mixed, "--json").out)
    files = summary["files"]
    assert (files["files"], files["read"]["count"], files["skipped"]["count"], files["broken"]["count"]) == (
        15,
        8,
        4,
        3,
    )
    assert [it["file"] for it in files["broken"]["files"]] == sorted(broken)
    assert summary["documents"] == 8
    facts = [json.loads(line) for line in (here / "f.jsonl").read_text().splitlines()]
    assert {fact["sentences"] for fact in facts} == {8}
    outcome = fedrel(*mixed)
    assert outcome.code == 0
    for name in (*unread, *broken):
        assert name in outcome.out


# -------------------------------------------------------------------------------------------- what is said aside


def test_a_model_of_another_version_is_used_and_says_so(fedrel, here, monkeypatch):
    setup = prepared()
    monkeypatch.setattr(saved_module, "installed_version", lambda: "0.0.7")
    save_model(here / "model", setup, setup.weights, Calibration())
    monkeypatch.undo()
    monkeypatch.chdir(here)
    outcome = fedrel(*ALL, "--out", "facts.jsonl", "--json")
    assert outcome.code == 0
    assert f"model: the model was saved by fedrel 0.0.7; this is {installed_version()}, which reads it\n" in outcome.err
    assert "the model has no calibration" in outcome.err
    assert strict(outcome.out)["calibration"]["ece_after"] is None


def test_a_dev_set_that_supports_nothing_is_named_where_there_are_no_facts(fedrel, here):
    setup = prepared()
    save_model(here / "model", setup, setup.weights, Calibration(most=0.05))
    outcome = fedrel(*ALL, "--out", "facts.jsonl", "--min-confidence", 0.5)
    assert "confidences are no more than an order of the facts" in outcome.err
    assert "no confidence is above 0.05: the dev set that this model was chosen on has too few facts" in outcome.err
    assert "no facts: the model's dev set supports no confidence above 0.05; --min-confidence 0 shows" in outcome.out


@pytest.mark.parametrize(("most", "told"), [(0.65, False), (0.95, True)])
def test_how_far_confidences_are_off_is_told_where_dev_can_tell(fedrel, here, most, told):
    setup = prepared()
    save_model(here / "model", setup, setup.weights, Calibration(ece_before=0.02, ece_after=0.006, most=most))
    assert ("calibration error on dev 0.020" in fedrel(*ALL, "--out", "facts.jsonl").out) is told


def test_a_knowledge_base_with_other_relations_is_remarked_on(fedrel, here):
    said = "no relation of the model is in kb: every fact will count as new, whatever its types\n"
    assert said not in fedrel(*ALL, "--out", "facts.jsonl").err
    (here / "kb" / "triples.tsv").write_text("Q1\tP19\tQ8\n")
    outcome = fedrel(*ALL, "--out", "facts.jsonl", "--json")
    assert said in outcome.err
    assert strict(outcome.out)["new"] == strict(outcome.out)["facts"]


def test_a_sentence_too_long_is_told(fedrel, here):
    (here / "text.txt").write_text(f"Cem {'and ' * 500} Bonn. Cem saw Bonn.")
    assert "1 left out: sentences too long to be sentences\n" in fedrel(*ALL, "--out", "facts.jsonl").out


# ------------------------------------------------------------------------------------------------- the table


def fact(sentence, head, tail, known=False):
    spans = [(sentence.index(name), sentence.index(name) + len(name)) for name in (head, tail)]
    support = Support("d", 0, sentence, *spans, 0.9)
    return Fact("Q1", head, "person/lives_in", "Q2", tail, 0.912, known, 12, (support,))


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_fact_takes_two_lines_at_any_width(monkeypatch, width):
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, emoji=False)
    monkeypatch.setattr(command, "out", console)
    filler = "and so on and so forth " * 9
    found = [
        fact("Ann saw Bonn.", "Ann", "Bonn"),
        fact(f"{filler}Ann saw Bonn{filler}.", "Ann", "Bonn"),
        fact(f"It was Bonn, {filler}, where Ann lived.", "Ann", "Bonn", known=True),
        fact("Ann [bold]saw[/bold]\nBonn :smile: \x1b[31mred", "Ann", "Bonn"),
    ]
    console.print(command._table(found))
    lines = file.getvalue().splitlines()
    assert "\x1b" not in file.getvalue()
    assert len(lines) == 5 + 2 * len(found)  # title, head and frame
    assert max(map(len, lines)) <= width
    rows = [re.split("│ ?", line)[3].rstrip() for line in lines[4:-1]]
    assert rows[::2] == ["Ann —person/lives_in→ Bonn"] * 4
    for row in rows[1::2]:
        assert "Ann" in row
        assert "Bonn" in row
    assert rows[1] == "Ann saw Bonn."
    assert rows[3].startswith("…")
    assert rows[3].endswith("…")
    assert rows[5].count("…") == 3
    assert rows[7].startswith("Ann [bold]saw[/bold] Bonn :s")
    assert [line.count(" new ") for line in lines[4:-1:2]] == [1, 1, 0, 1]


def test_the_surest_are_shown(fedrel, here):
    outcome = fedrel(*ALL, "--out", "facts.jsonl")
    best = from_json((here / "facts.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert f"{best.head_name} —{best.relation}→ {best.tail_name}" in outcome.out
    assert outcome.out.count("→") == 10


# --------------------------------------------------------------------------------------------- from end to end


def test_a_run_extracts_from_new_text_with_the_calibration_of_its_dev_set(fedrel, tmp_path):
    (tmp_path / "world").mkdir()
    world_text.write(World(600), tmp_path / "world")
    run = tmp_path / "run"
    tiny = ("data.size=600", "training.rounds=3", "partition.platforms=3", "extractor.filters=4", "engine.threads=1")
    assert fedrel("run", *(part for it in tiny for part in ("--set", it)), "--out", run, "--json").code == 0
    result = strict((run / "result.json").read_text())["calibration"]
    outcome = fedrel(
        *("extract", "--model", run, "--text", tmp_path / "world" / "new", "--kb", tmp_path / "world" / "kb"),
        *("--min-confidence", 0, "--out", tmp_path / "facts.jsonl", "--json"),
    )
    assert outcome.code == 0
    summary = strict(outcome.out)
    assert summary["calibration"] == {key: result[key] for key in ("temperature", "offset", "most")} | result["dev"]
    assert summary["left_out"].keys() >= {"sentences too long to be sentences"}
    facts = [from_json(line) for line in (tmp_path / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(facts) == summary["facts"] > 100
    assert 0 < sum(it.known is True for it in facts) < len(facts)
    assert np.all(np.diff([it.confidence for it in facts]) <= 0)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "world" / "new").iterdir()}
    for it in facts[:200]:
        for support in it.support:
            assert texts[support.document][support.start :].startswith(support.text)
            assert support.text[slice(*support.head)] != support.text[slice(*support.tail)]


def test_a_file_whose_name_is_no_text_is_refused(wrong, tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("Cem saw Bonn.")
    assert "is not UTF-8; rename" in wrong(*ALL[:4], name, *ALL[5:], "--out", "facts.jsonl")


@pytest.mark.slow
def test_ten_times_the_text_takes_hardly_more_memory():
    done = subprocess.run([sys.executable, "-m", "benchmarks.extract"], capture_output=True, text=True, check=True)
    report = strict(done.stdout)
    assert report["model"] == {"extractor": "pcnn", "filters": 230, "relations": 53, "words": report["model"]["words"]}
    assert report["sentences"]["100000"]["sentences"] > 99_000
    assert report["peak_of_the_last_over_the_first"] < 1.25


def test_an_interrupted_extraction_leaves_nothing_behind(tmp_path):
    folder = place(tmp_path / "given")
    (folder / "text.txt").write_text("Cem saw Bonn again and again, and Ann Meler left Lyon for good.\n" * 60_000)
    (folder / "facts.nt").write_text("old\n")
    (tmp_path / "temporary").mkdir()
    before = contents(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "fedrel.cli", *map(str, ALL), "--out", "facts.nt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
    )
    while not list((tmp_path / "temporary").glob("fedrel-*/texts")):  # so much is read that it is on disk
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert [line for line in err.splitlines() if line.startswith("fedrel: ")] == ["fedrel: interrupted"]
    assert "Traceback" not in err
    assert contents(folder) == before
    assert list((tmp_path / "temporary").iterdir()) == []
