"""`fedrel ledger show`: kits and runs, tables and JSON, refusals, and a chain that is broken."""

import json
from pathlib import Path

import pytest
import torch

from fedrel.learning.named import Named
from fedrel.privacy.ledger import Ledger
from fedrel.protocol.codec import encode, fields


def ballot(facts: int) -> bytearray:
    return encode({"ballot": Named(key=torch.zeros(facts, dtype=torch.int64), score=torch.zeros(facts))})


WEIGHTS = encode({"weights": Named(conv=torch.zeros(3, 4)), "sentences": 7})


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A platform that took part in two runs and refused a request twice."""
    folder = tmp_path / "kit"
    with Ledger.open(folder / "ledger" / "ledger.jsonl") as ledger:
        for number, facts in ((1, 10), (2, 2000)):
            for task, payload in (("score", ballot(facts)), ("train", WEIGHTS)):
                ledger.write(run="lazy", round=number, task=task, payload=payload, fields=fields(payload))
        for number in (3, 4):
            ledger.refuse(run="lazy", round=number, task="train", why="its policy forbids it")
        ledger.write(run="\x1b[2Jodd", round=1, task="surprise", payload=WEIGHTS, fields=fields(WEIGHTS))
    return folder


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    """Two platforms, two rounds; in the second, b sent nothing but an empty reply."""
    folder = tmp_path / "my-run"
    folder.mkdir()
    lines = [
        {"round": round_, "platform": platform, "task": "train", "field": name, "shape": shape, "bytes": size}
        for round_, platform, made_of in (
            (1, "a", [("(header)", [], 100), ("weights/conv", [3, 4], 48)]),
            (1, "b", [("(header)", [], 100), ("weights/conv", [3, 4], 48)]),
            (2, "a", [("(header)", [], 100), ("weights/conv", [3, 4], 48)]),
            (2, "b", [("(header)", [], 8)]),
        )
        for name, shape, size in made_of
    ]
    (folder / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def shown(outcome) -> list[list[str]]:
    """The cells of the tables, row by row."""
    rows = [line.strip("│┃ ") for line in outcome.out.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in row.replace("┃", "│").split("│")] for row in rows]


@pytest.mark.parametrize("place", ["", "ledger", "ledger/ledger.jsonl"])
def test_what_left_by_field(fedrel, kit, place):
    outcome = fedrel("ledger", "show", kit / place)
    assert outcome.code == 0
    rows = shown(outcome)
    assert ["ballot/key", "10–2,000", "2", "16.1 KB"] in rows
    assert ["weights/conv", "3×4", "2", "96 B"] in rows
    assert ["sentences", "", "2", "16 B"] in rows
    lines = outcome.out.splitlines()
    assert any(line.startswith("Run lazy, score: 2 replies in rounds 1–2, 20") for line in lines)
    assert "\x1b[2J" not in outcome.out and any(line.startswith("Run \\x1b[2Jodd, surprise: 1") for line in lines)
    flowing = " ".join(outcome.out.replace("│", " ").split())
    assert "a blinded key per" in flowing and "trained weights" in flowing
    assert next(row[2] for row in rows if row[:2] == ["lazy", "train"]) == "2 in rounds 3–4"
    assert any(line.startswith("5 replies, ") and "sent by this platform" in line for line in lines)
    last = json.loads((kit / "ledger" / "ledger.jsonl").read_text().splitlines()[-1])["hash"]
    assert lines[-1] == f"the file is unchanged: 7 entries, the last with the hash {last}"


def test_what_left_by_task_and_by_round(fedrel, kit):
    size = len(WEIGHTS)
    ballots = [len(ballot(10)), len(ballot(2000))]
    by_task = json.loads(fedrel("ledger", "show", kit, "--by", "task", "--run", "lazy", "--json").out)
    found = [(row["run"], row["task"], row["count"], row["bytes"], row["rounds"]) for row in by_task["rows"]]
    assert found == [("lazy", "score", 2, sum(ballots), [1, 2]), ("lazy", "train", 2, 2 * size, [1, 2])]
    by_round = json.loads(fedrel("ledger", "show", kit, "--by", "round", "--json").out)
    assert [(row["run"], row["round"], row["bytes"]) for row in by_round["rows"]] == [
        ("lazy", 1, ballots[0] + size),
        ("lazy", 2, ballots[1] + size),
        ("\x1b[2Jodd", 1, size),
    ]
    assert by_round["bytes"] == sum(ballots) + 3 * size
    assert shown(fedrel("ledger", "show", kit, "--by", "task"))[1][:3] == ["score", "2", "24.4 KB"]
    assert [row[0] for row in shown(fedrel("ledger", "show", kit, "--by", "round"))[1:3]] == ["1", "2"]


def test_for_machines(fedrel, kit):
    found = json.loads(fedrel("ledger", "show", kit, "--json", "--verify").out)
    assert (found["replies"], found["entries"], found["problems"]) == (5, 7, [])
    assert found["runs"] == ["\x1b[2Jodd", "lazy"]
    [refusal] = found["refusals"]
    assert refusal.pop("times")
    assert refusal == {"run": "lazy", "task": "train", "why": "its policy forbids it", "count": 2, "rounds": [3, 4]}
    key = next(row for row in found["rows"] if row["field"] == "ballot/key")
    assert (key["shapes"], key["bytes"], key["is"]) == ([[10], [2000]], 16080, "ballot: a blinded key per fact")
    assert sum(row["bytes"] for row in found["rows"]) == found["bytes"]


def test_a_broken_chain_is_shown_and_fails_when_asked(fedrel, refused, kit):
    path = kit / "ledger" / "ledger.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[3], lines[4].replace("forbids", "allows"), *lines[5:]]))
    outcome = fedrel("ledger", "show", kit)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-2:] == [
        "line 3 does not follow the line before it: lines were changed, removed, added or moved here",
        "line 4 was changed after it was written: its hash does not match",
    ]
    problems = json.loads(fedrel("ledger", "show", kit, "--json").out)["problems"]
    assert [it["line"] for it in problems] == [3, 4]
    assert refused("ledger", "show", kit, "--verify") == (
        f"{path}:3: this line does not follow the line before it: lines were changed, removed, added or moved here; "
        "in all, 2 of 6 lines were changed"
    )


def test_an_end_that_was_cut_off_is_found_by_a_hash_noted_before(fedrel, refused, kit):
    path = kit / "ledger" / "ledger.jsonl"
    noted = json.loads(fedrel("ledger", "show", kit, "--json").out)["last_hash"]
    assert fedrel("ledger", "show", kit, "--holds", noted).code == 0
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert fedrel("ledger", "show", kit, "--verify").code == 0
    assert refused("ledger", "show", kit, "--holds", noted) == (
        f"{path}: no entry has the hash {noted}; the ledger was truncated or replaced"
    )
    assert "no entry has the hash ;" in refused("ledger", "show", kit, "--holds", "")


def test_a_line_that_breaks_off_is_said(fedrel, kit):
    path = kit / "ledger" / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    outcome = fedrel("ledger", "show", kit)
    assert outcome.out.splitlines()[-1].startswith("line 7 is incomplete")
    assert "4 replies" in outcome.out


def test_a_simulated_run(fedrel, refused, simulated):
    rows = shown(fedrel("ledger", "show", simulated))
    assert ["(header)", "", "4", "308 B"] in rows and ["weights/conv", "3×4", "3", "144 B"] in rows
    outcome = fedrel("ledger", "show", simulated / "ledger.jsonl", "--by", "round")
    assert shown(outcome) == [["round", "replies", "bytes"], ["1", "2", "296 B"], ["2", "2", "156 B"]]
    assert outcome.out.splitlines()[-1] == "4 replies, 452 B, sent by 2 simulated platforms"
    found = json.loads(fedrel("ledger", "show", simulated, "--json", "--run", "my-run").out)
    assert (found["platforms"], found["runs"], found["bytes"]) == (["a", "b"], ["my-run"], 452)
    assert "has no hash chain to verify" in refused("ledger", "show", simulated, "--verify")
    path = simulated / "ledger.jsonl"
    path.write_text(path.read_text() + "{}\n")
    assert refused("ledger", "show", simulated) == f"{path}:8: unreadable (not in fedrel's format)"


def test_a_platform_that_has_sent_nothing(fedrel, tmp_path):
    Ledger.open(tmp_path / "ledger.jsonl").close()
    assert fedrel("ledger", "show", tmp_path, "--verify").out == "nothing was sent by this platform\n"


def test_what_is_no_ledger_is_refused(refused, kit, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.jsonl").write_text('{"round": 1}\n\n[]\n')
    (tmp_path / "bytes").write_bytes(b"\xff\x00" * 100)
    assert refused("ledger", "show", "none") == "none: no such file or folder"
    assert "empty: no ledger.jsonl here or in empty/ledger" in refused("ledger", "show", "empty")
    assert "text.jsonl: not a ledger" in refused("ledger", "show", "text.jsonl")
    assert "bytes: not a ledger" in refused("ledger", "show", "bytes")
    assert refused("ledger", "show", kit, "--run", "lasy").endswith('no run "lasy"; did you mean "lazy"?')
