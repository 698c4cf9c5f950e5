"""The three commands of the README's second example, end to end, on the shipped pair and on a world of another seed."""

import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"


def test_the_shipped_pair_is_what_the_command_writes(fedrel, tmp_path):
    assert fedrel("data", "world", "--text", "--out", tmp_path / "w").code == 0
    made, shipped = ({path.relative_to(root): path for path in root.rglob("*.*")} for root in (tmp_path / "w", EXAMPLE))
    assert made.keys() == shipped.keys()
    assert all(path.read_bytes() == shipped[name].read_bytes() for name, path in made.items())


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kind"), [(None, "pcnn"), (7, "pcnn"), (None, "minilm")])
def test_facts_at_nine_tenths_are_right(fedrel, tmp_path, seed, kind):
    """With the PCNN of a plain installation, and with a pretrained encoder."""
    folder = EXAMPLE
    if seed is not None:
        folder = tmp_path / "w"
        assert fedrel("data", "world", "--text", "--seed", seed, "--out", folder).code == 0
    data, model, facts = tmp_path / "labelled", tmp_path / "model", tmp_path / "facts.jsonl"
    settings = ["data.source=opennre", f"data.path={data}", f"extractor.kind={kind}"]
    for command in (
        ("label", "--kb", folder / "kb", "--text", folder / "text", "--out", data),
        ("run", *(f"--set={it}" for it in settings), "--out", model),
        ("extract", "--model", model, "--text", folder / "new", "--kb", folder / "kb", "--out", facts),
    ):
        assert fedrel(*command).code == 0
    rows = [line.split("\t") for line in (folder / "truth.tsv").read_text(encoding="utf-8").splitlines()]
    truth = {tuple(row[:3]) for row in rows}
    to_find = {tuple(row[:3]) for row in rows if row[3] == "new"}
    found = [json.loads(line) for line in facts.read_text(encoding="utf-8").splitlines()]
    sure = {(f["head"]["id"], f["relation"], f["tail"]["id"]) for f in found if f["confidence"] >= 0.9}
    assert len(sure & truth) / len(sure) >= 0.9
    assert len(sure & to_find) / len(to_find) >= 0.3
