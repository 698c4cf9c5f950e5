"""`fedrel extract` without a model: the general one, said in a line."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "first"


def extract(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedrel.cli", "extract", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_folder_of_text_is_all_it_needs(tmp_path: Path) -> None:
    done = extract("--text", str(EXAMPLE), "--out", str(tmp_path / "facts.jsonl"))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "no --model given: the general one, for English, which extracts acted_in, born_in," in said
    assert "rules of thumb (a knowledge base, --kb, is better)" in said
    facts = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {(it["head"]["id"], it["relation"], it["tail"]["id"]) for it in facts} == {
        ("marie curie", "born_in", "warsaw"),
        ("marie curie", "spouse_of", "pierre curie"),
        ("pierre curie", "spouse_of", "marie curie"),
        ("jane austen", "wrote", "pride and prejudice"),
        ("steve jobs", "founder_of", "apple"),
        ("paris", "capital_of", "france"),
    }
    assert all(it["known"] is None and it["support"][0]["document"] == "first.txt" for it in facts)


def test_other_languages_are_refused_in_a_sentence(tmp_path: Path) -> None:
    done = extract("--text", str(EXAMPLE), "--out", str(tmp_path / "facts.jsonl"), "--language", "de")
    assert done.returncode == 2 and "the general model reads English" in done.stderr
    assert not list(tmp_path.iterdir())
