"""`fedrel label`: what it writes and says, the same bytes every time, and one sentence for every mistake."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedrel.alignment.label import TYPES, UNLINKED, Labeller
from fedrel.alignment.mentions import NOT_IN_KB
from fedrel.cli import reading
from fedrel.config import Data
from fedrel.corpus import SPLITS, world_text
from fedrel.corpus.checks import EMPTY
from fedrel.corpus.world import World
from fedrel.data import loading
from fedrel.errors import UserError
from tests import knowledge
from tests.documents import place
from tests.processes import start

ENTITIES = {
    "Q1": "person: Ann Lee|Lee",
    "Q2": "person: Bo Lee|Lee",
    "Q3": "city: Bonn",
    "M:9": "drug: Aspirin",
    "M:8": "disease: headache",
}
TRIPLES = ["Q1 born_in Q3", "Q1 lives_in Q3", "M:9 treats M:8", "M:9 eases M:8"]


@pytest.fixture
def kb(tmp_path):
    return knowledge.write(tmp_path / "kb", ENTITIES, TRIPLES)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Text of several pieces of work."""
    folder = tmp_path_factory.mktemp("world")
    world_text.write(World(size=9_000), folder)
    assert sum(path.stat().st_size for path in (folder / "text").iterdir()) > 1_000_000
    return folder


def rows(folder: Path, files="*.jsonl") -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.glob(files)) for line in path.read_text("utf-8").split("\n")[:-1]
    ]


def labels(folder: Path) -> list[str]:
    return sorted(f"{it['h']['id']} {it['relation']} {it['t']['id']}" for it in rows(folder))


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# --------------------------------------------------------------------------------------------- what it does


def test_lines_summary_and_table(fedrel, tmp_path, kb):
    text = place(tmp_path / "t", {"a.txt": "Ann Lee left Bonn.\nBo Lee hates Bonn. Aspirin, Bonn.", "b.txt": "\n"})
    outcome = fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / "o")
    assert outcome.code == 0
    assert labels(tmp_path / "o") == ["Q1 born_in Q3", "Q1 lives_in Q3", "Q2 NA Q3"]
    for row in rows(tmp_path / "o"):
        whole = (text / row["source"]).read_text()
        assert whole[row["start"] : row["start"] + len(row["text"])] == row["text"]
        assert row["text"][slice(*row["h"]["pos"])] == row["h"]["name"]
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert sum(summary.pop("lines").values()) == 3
    assert summary == {
        **{"documents": 1, "marked_documents": 0, "characters": 52, "sentences": 3, "sentences_with_a_pair": 2},
        **{"mentions": 6, "ambiguous": 0, "settled": 0, "pairs": 2, "facts": 2},
        "relations": {
            "NA": {"sentences": 1, "facts": 0},
            "born_in": {"sentences": 1, "facts": 1},
            "lives_in": {"sentences": 1, "facts": 1},
            "treats": {"sentences": 0, "facts": 0},
            "eases": {"sentences": 0, "facts": 0},
        },
        **{"na_weight": 1.0, "too_little": []},
        "left_out": {TYPES: 4, EMPTY: 1},
        "left_out_examples": [f"{text / 'b.txt'}: {EMPTY}"],
        "files": {
            "files": 2,
            "read": {"count": 1, "by_extension": {".txt": 1}},
            "empty": {"count": 1, "first": ["b.txt"]},
            "skipped": {"count": 0, "by_extension": {}},
            "broken": {"count": 0, "files": []},
            "set_aside": {"count": 0, "first": []},
        },
    }
    for line in (
        *("│ born_in  │         1 │     1 │", "without a sentence: treats, eases"),
        "1 documents, 3 sentences, 6 entities (0 ambiguous), 2 pairs, 2 facts found",
        *("a pair is in one of them only", f"4 left out: {TYPES}", "│ without text │     1 │ b.txt"),
        f"next: fedrel run --set data.source=opennre --set data.path={tmp_path / 'o'}",
    ):
        assert line in outcome.out
    assert "5 entities, 4 facts, 4 relations" in outcome.err
    assert "1 × ambiguous name, such as" in outcome.err


def test_json_alone_goes_to_standard_output_and_no_split_of_no_share_is_written(fedrel, tmp_path, kb):
    text = place(tmp_path, {"a.txt": "Ann Lee left Bonn."}) / "a.txt"
    outcome = fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / "o", "--dev", 0, "--test", 0, "--json")
    assert json.loads(outcome.out) == json.loads((tmp_path / "o" / "summary.json").read_text())
    assert json.loads(outcome.out)["lines"] == {"train": 2}
    assert {path.name for path in (tmp_path / "o").iterdir()} == {"train.jsonl", "summary.json"}


def test_a_split_that_got_nothing_is_told(fedrel, tmp_path, kb):
    text = place(tmp_path, {"a.txt": "Ann Lee left Bonn."}) / "a.txt"
    outcome = fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / "o o", "--dev", 0.1)
    empty = [split for split in ("train", "dev", "test") if not (tmp_path / "o o" / f"{split}.jsonl").stat().st_size]
    assert len(empty) == 2
    for split in empty:
        assert f"no pair fell to {split}: give more text, or a larger share of it" in outcome.out
    assert f"--set 'data.path={tmp_path}/o o'" in outcome.out, "as a shell needs it"


def test_what_it_writes_loads_and_no_pair_is_in_two_splits(fedrel, world, tmp_path):
    done = fedrel("label", "--kb", world / "kb", "--text", world / "text", "--out", tmp_path / "o", "--workers", 1)
    assert done.code == 0
    lines = json.loads((tmp_path / "o" / "summary.json").read_text())["lines"]
    checked = json.loads(fedrel("data", "check", tmp_path / "o", "--json").out)
    assert {split: it["sentences"] for split, it in checked["splits"].items()} == lines
    assert checked["overlap"] == 0
    dataset = loading.load(Data(source="opennre", path=str(tmp_path / "o")))
    assert {split: len(getattr(dataset, split)) for split in lines} == lines
    pairs = {
        split: {frozenset((it["h"]["id"], it["t"]["id"])) for it in rows(tmp_path / "o", f"{split}.jsonl")}
        for split in lines
    }
    assert not (pairs["train"] & pairs["dev"] or pairs["train"] & pairs["test"] or pairs["dev"] & pairs["test"])
    shares = {split: len(found) / sum(map(len, pairs.values())) for split, found in pairs.items()}
    assert shares == pytest.approx({"train": 0.8, "dev": 0.1, "test": 0.1}, abs=0.03)
    assert checked["shared_sentences"] == {"train-dev": 0, "train-test": 0, "dev-test": 0}


def test_the_same_bytes_whenever_and_with_however_many_processes(fedrel, world, tmp_path):
    command = ["label", "--kb", world / "kb", "--text", world / "text", "--na-rate", "0.7", "--out"]
    for name, workers in (("one", 1), ("again", 1), ("two", 2)):
        assert fedrel(*command, tmp_path / name, "--workers", workers).code == 0
    subprocess.run(
        [sys.executable, "-m", "fedrel.cli", *map(str, command), str(tmp_path / "other"), "--workers", "3"],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
        capture_output=True,
    )
    first = digest(tmp_path / "one")
    assert set(first) == {"train.jsonl", "dev.jsonl", "test.jsonl", "summary.json"}
    assert first == digest(tmp_path / "again") == digest(tmp_path / "two") == digest(tmp_path / "other")


def test_knowledge_bases_of_other_forms_label_as_well(fedrel, tmp_path):
    text = place(tmp_path, {"a.txt": "Ann Lee left Bonn."}) / "a.txt"
    csv = "head,relation,tail,head_name,tail_name\nQ1,born_in,Q3,Ann Lee,Bonn\n"
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    nt = f'<x:Q1> {label} "Ann Lee" .\n<x:Q3> {label} "Bonn" .\n<x:Q1> <x:born_in> <x:Q3> .\n'
    for name, content in {"kb.csv": csv, "kb.nt": nt}.items():
        place(tmp_path, {name: content})
        out = tmp_path / f"{name}.out"
        assert fedrel("label", "--kb", tmp_path / name, "--text", text, "--out", out).code == 0
        assert any("born_in" in it for it in labels(out))


# --------------------------------------------------------------------------------------------------- marks

TEXT = "Lee gave a pill for migraine. In Bonn, aspirin helps zinc."
MARKS = [("pill", "M:9"), ("migraine", "M:8"), ("aspirin", ""), ("zinc", "Z:1")]


def spans():
    return [(n, TEXT.index(words), words, id_) for n, (words, id_) in enumerate(MARKS, 1)]


BRAT = {
    "a.txt": TEXT,
    "a.ann": "".join(
        f"T{n}\tX {at} {at + len(words)}\t{words}\n" + (f"N{n}\tReference T{n} {id_}\tx\n" if id_ else "")
        for n, at, words, id_ in spans()
    ),
}
BIOC = {
    "a.xml": "<collection><source/><date/><key/><document><id>a</id><passage><offset>0</offset>"
    f"<text>{TEXT}</text>"
    + "".join(
        f'<annotation id="T{n}"><infon key="type">X</infon>'
        + (f'<infon key="identifier">{id_}</infon>' if id_ else "")
        + f'<location offset="{at}" length="{len(words)}"/><text>{words}</text></annotation>'
        for n, at, words, id_ in spans()
    )
    + "</passage></document></collection>"
}
PUBTATOR = {
    "a.pubtator": f"7|t|{TEXT}\n7|a|\n"
    + "".join(f"7\t{at}\t{at + len(words)}\t{words}\tX\t{id_ or '-'}\n" for _, at, words, id_ in spans())
}
ENTITY_ROWS = [{"start": at, "end": at + len(words), "id": id_} for _, at, words, id_ in spans()]
JSONL = {"a.jsonl": json.dumps({"text": TEXT, "entities": ENTITY_ROWS}) + "\n"}


@pytest.mark.parametrize("files", [BRAT, BIOC, PUBTATOR, JSONL], ids=["brat", "bioc", "pubtator", "jsonl"])
def test_entities_that_are_marked_are_used_instead_of_names(fedrel, tmp_path, kb, files):
    text = place(tmp_path / "t", files)
    outcome = fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / "o")
    assert outcome.code == 0
    assert labels(tmp_path / "o") == ["M:9 eases M:8", "M:9 treats M:8"], "and neither Lee nor Bonn"
    [row, _] = rows(tmp_path / "o")
    assert (row["h"], row["t"]["name"]) == ({"id": "M:9", "name": "pill", "pos": [11, 15]}, "migraine")
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert (summary["marked_documents"], summary["mentions"]) == (1, 4)
    assert summary["left_out"] == {NOT_IN_KB: 1, UNLINKED: 2, TYPES: 1}
    assert f'"zinc" (Z:1): {NOT_IN_KB}' in summary["left_out_examples"][0]
    for line in ("entities were marked in 1", f"1 left out: {NOT_IN_KB}", '"zinc" (Z:1)'):
        assert line in outcome.out


def test_documents_that_nobody_marked_are_searched_for_names(fedrel, tmp_path, kb):
    text = place(tmp_path / "t", {**BRAT, "b.txt": "Ann Lee left Bonn.", "c.txt": "Bonn: Ann Lee.", "c.ann": ""})
    assert fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / "o").code == 0
    assert {it["source"] for it in rows(tmp_path / "o")} == {"a", "b", "c"}


def test_marks_none_of_which_is_in_the_knowledge_base(refused, tmp_path, kb):
    place(tmp_path, {"a.jsonl": json.dumps({"text": "zinc", "entities": [{"start": 0, "end": 4, "id": "Z:1"}]})})
    said = refused("label", "--kb", "kb", "--text", "a.jsonl", "--out", "o")
    assert said.startswith("a.jsonl: none of the 1 marked entities is in kb, neither by id nor by name (such as ")
    assert 'a.jsonl:1: "zinc" (Z:1)' in said


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("files", "options", "says"),
    [
        ({}, {"--kb": "nowhere"}, "nowhere: no such file or folder"),
        ({}, {"--kb": "a.txt"}, "a.txt: not a knowledge base; expected a folder, a .nt file or a .csv file"),
        ({"kb/triples.tsv": ""}, {}, "kb/triples.tsv: no triples"),
        ({"kb/entities.tsv": "Q1 person Ann\n"}, {}, "kb/entities.tsv:1: no tab in this line; separate id, type and"),
        ({"kb/triples.tsv": b"Q1\tr\tQ3\n\xff\n"}, {}, "kb/triples.tsv:2: not UTF-8 text; convert the file to UTF-8"),
        ({}, {"--text": "nowhere"}, "nowhere: no such file or folder"),
        ({}, {"--text": "nowhere", "--format": "text"}, "nowhere: no such file or folder"),
        ({}, {"--text": "empty"}, "empty: no file in this folder"),
        ({}, {"--text": "empty", "--format": "text"}, "empty: no text in this folder; .txt, .md, "),
        ({}, {"--text": "kb", "--format": "brat"}, "kb: no .txt file here; brat keeps NAME.txt and NAME.ann"),
        ({"a.txt": " \n"}, {"--format": "text"}, f"a.txt: no text to label (1 × {EMPTY})"),
        ({"a.txt": "Nobody."}, {}, "a.txt: 1 sentences without any name of kb; is it the right knowledge base?"),
        ({"a.txt": "Bo Lee, Bonn."}, {}, "a.txt: 1 sentences with 2 entities, but no two of them in one sentence"),
        (
            {"t/a.txt": "Ann Lee, Bonn.", "t/b.txt": b"x\n\xff", "t/c.txt": b"\xff"},
            {"--text": "t"},
            "t/b.txt:2: not UTF-8 text; convert the file to UTF-8 (2 of the 3 files of t that are text cannot be read; "
            "up to half of them may be left out)",
        ),
        (
            {"t/a.txt": "Bonn.", "t/a.ann": "T1\tX 0 9\tBonn\n"},
            {"--text": "t"},
            "t/a.ann:1: position 0..9 lies outside",
        ),
        ({"a.jsonl": '{"text": "x"}\n{"text":'}, {"--text": "a.jsonl"}, "a.jsonl:2: not a JSON object (is the file"),
        ({}, {"--format": "txt"}, '"txt" is no format of documents; did you mean "text"?'),
        ({}, {"--format": "opennre"}, '"opennre" is no format of documents'),
        (
            {"a.jsonl": '{"text": "x", "h": 1, "t": 2, "relation": "r"}'},
            {"--text": "a.jsonl"},
            "text to read is wanted",
        ),
        ({"o/x": ""}, {}, "o exists; choose a new folder"),
        ({"o": ""}, {}, "o exists; choose a new folder"),
        ({}, {"--out": "a.txt/o"}, "a.txt"),
        ({}, {"--dev": 0.5, "--test": 0.5}, "--dev 0.5 and --test 0.5 leave nothing to train on"),
        ({}, {"--language": "english"}, '"english" is not a language code; give two letters'),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(refused, tmp_path, kb, files, options, says):
    (tmp_path / "empty").mkdir()
    place(tmp_path, {"a.txt": "Ann Lee left Bonn.", **files})
    arguments = {"--kb": "kb", "--text": "a.txt", "--out": "o"} | options
    said = refused("label", *(part for pair in arguments.items() for part in pair))
    assert says in said
    assert "left_out" not in said


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_file_in_the_middle_is_named_and_refused_if_strict(fedrel, refused, tmp_path, world, workers):
    text = tmp_path / "t"
    text.mkdir()
    for number, path in enumerate(sorted((world / "text").iterdir())):
        (text / f"{number:03}.txt").write_bytes(path.read_bytes())
    for number in (90, 91, 95):
        (text / f"{number:03}.txt").write_bytes(b"Fine.\nNot f\xedne.\n")
    command = ("label", "--kb", world / "kb", "--text", "t", "--out", "o", "--workers", workers)
    said = refused(*command, "--strict")
    assert said == "t/090.txt:2: not UTF-8 text; convert the file to UTF-8"
    command = ("label", "--kb", world / "kb", "--text", text, "--out", tmp_path / "o", "--workers", workers)
    outcome = fedrel(*command, "--json")
    assert outcome.code == 0
    why = "line 2: not UTF-8 text; convert the file to UTF-8"
    broken = json.loads(outcome.out)["files"]["broken"]
    assert broken == {"count": 3, "files": [{"file": f"0{number}.txt", "why": why} for number in (90, 91, 95)]}


def refuse(labeller, documents):
    raise UserError("a.txt:3: something about this line")


def kill(labeller, documents):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("label", "says"),
    [
        (refuse, "a.txt:3: something about this line"),
        (
            kill,
            "a worker process was killed, perhaps because memory ran out; try again with fewer --workers",
        ),
    ],
)
def test_what_goes_wrong_in_another_process_is_one_sentence_here(refused, monkeypatch, world, label, says):
    monkeypatch.setattr(Labeller, "label", label)
    assert refused("label", "--kb", world / "kb", "--text", world / "text", "--out", "o", "--workers", 2) == says


def test_options_out_of_range_are_exit_code_2(fedrel, tmp_path, kb):
    for option, value in (("--na-rate", 2), ("--na-per-sentence", -1), ("--workers", 100_000), ("--dev", "nan")):
        outcome = fedrel("label", "--kb", kb, "--text", kb, "--out", tmp_path / "o", option, value)
        assert outcome.code == 2
        assert "Traceback" not in outcome.err
    assert not (tmp_path / "o").exists()


def test_names_of_files_that_are_no_text(refused, tmp_path, kb):
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("Ann Lee left Bonn.")
    assert "is not UTF-8; rename it" in refused("label", "--kb", "kb", "--text", name, "--out", "o")


def test_a_folder_whose_name_is_no_text_does_no_harm(fedrel, tmp_path, kb):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    place(folder, {"a.txt": "Ann Lee left Bonn.", "t/b.jsonl": '{"text": "Ann Lee left Bonn."}\n{"text": " "}\n'})
    for number, text in enumerate((folder / "a.txt", folder / "t" / "b.jsonl")):
        assert fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / f"o{number}", "--json").code == 0
    summary = json.loads((tmp_path / "o1" / "summary.json").read_text())
    assert len(summary["left_out_examples"]) == 1


# -------------------------------------------------------------------------------------- cut off in the middle


def end(process: subprocess.Popen[str]) -> tuple[int, str, list[str]]:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return process.returncode, out, [line for line in err.splitlines() if line.startswith("fedrel: ")]


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_nothing(tmp_path, kb, workers):
    (tmp_path / "a.txt").write_text(("Ann Lee left Bonn.\n" + "It rained in the valley, day and night.\n" * 9) * 60_000)
    process = start("label", "--kb", kb, "--text", tmp_path / "a.txt", "--out", tmp_path / "o", "--workers", workers)
    while not any(path.stat().st_size for path in tmp_path.glob(".o.*/*.jsonl")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes at once
    assert end(process) == (130, "", ["fedrel: interrupted"])
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "kb"}


def test_a_full_disk_leaves_nothing(tmp_path, world):
    command = ["label", "--kb", world / "kb", "--text", world / "text", "--out", tmp_path / "o", "--workers", 2]
    code, out, complaints = end(start(*command, limit=300_000))
    assert (code, out) == (2, "")
    assert len(complaints) == 1
    assert "File too large" in complaints[0]
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------ progress


def test_progress_is_told_in_plain_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(reading, "_PLAIN_EVERY", 0.0)
    with reading.reading_progress("labelling", 1_000) as tick:
        tick(250, 5)
        tick(2_000, 40)  # more than was thought
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("labelling  5 sentences, ")
    assert lines[0].endswith(" left")
    assert lines[1].endswith("about 0:00 left")
    assert "\x1b" not in "".join(lines)


def test_progress_of_nothing_is_no_division_by_nothing(monkeypatch, capsys):
    monkeypatch.setattr(reading, "_PLAIN_EVERY", 0.0)
    with reading.reading_progress("labelling", 0) as tick:
        tick(0, 0)
    assert capsys.readouterr().err.startswith("labelling  0 sentences, 0/s")


def test_of_few_facts_some_are_in_every_split(fedrel, tmp_path):
    """Of twelve facts, a draw of a tenth takes none for dev with many a seed."""
    names = [f"{first} {last}" for first in ("Ann", "Bo", "Cy") for last in ("Lee", "Poe", "Roe", "Moe")]
    kb = knowledge.write(
        tmp_path / "kb",
        {f"P{n}": f"person: {name}" for n, name in enumerate(names)} | {"C": "city: Bonn", "D": "city: Rome"},
        [f"P{n} born_in C" for n in range(12)],
    )
    text = "".join(f"{name} left Bonn.\n{name} saw Rome.\n" for name in names)
    place(tmp_path / "t", {"a.txt": text})
    for seed in range(8):
        out = tmp_path / f"o{seed}"
        outcome = fedrel("label", "--kb", kb, "--text", tmp_path / "t", "--out", out, "--seed", seed, "--workers", 1)
        assert outcome.code == 0
        facts = {split: sum(it["relation"] != "NA" for it in rows(out, f"{split}.jsonl")) for split in SPLITS}
        assert min(facts.values()) >= 1 and sum(facts.values()) == 12
        assert "warning: train has" in outcome.out and "warning: dev has" in outcome.out


def test_text_that_nothing_can_be_trained_on_is_said_to_be_so(fedrel, tmp_path, kb):
    text = place(tmp_path / "t", {"a.txt": "Ann Lee left Bonn. Bo Lee saw Bonn."})
    outcome = fedrel("label", "--kb", kb, "--text", text, "--out", tmp_path / "o", "--dev", 0, "--test", 0)
    assert outcome.code == 0
    assert (
        "warning: train has 1 pair with a relation, and at least 3 are needed to carve test and dev from it"
        in outcome.out
    )
