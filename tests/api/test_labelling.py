"""Raw text labelled from Python: the files of `fedrel label`, and an experiment on them."""

from pathlib import Path

import pytest

import fedrel

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory) -> fedrel.LabelledText:
    return fedrel.label(EXAMPLE / "kb", EXAMPLE / "new", tmp_path_factory.mktemp("labelled") / "out", seed=3)


def test_the_files_are_those_of_the_command_line(labelled, fedrel, tmp_path):
    options = ("--kb", EXAMPLE / "kb", "--text", EXAMPLE / "new", "--seed", 3)
    assert fedrel("label", *options, "--out", tmp_path / "out").code == 0
    for path in labelled.folder.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    lines = {it: len((labelled.folder / f"{it}.jsonl").read_text().splitlines()) for it in ("train", "dev", "test")}
    assert labelled.sentences == lines


def test_progress_is_told_in_characters_and_sentences(tmp_path):
    seen: list[tuple[int, int]] = []
    made = fedrel.label(EXAMPLE / "kb", EXAMPLE / "new", tmp_path / "out", tick=lambda *done: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == (made.summary["characters"], made.summary["sentences"])


def test_it_has_an_experiment(labelled):
    data = labelled.experiment.settings.data
    assert (data.source, data.path) == ("opennre", str(labelled.folder))
    assert labelled.experiment.settings.partition.platforms == 1


def test_mistakes_are_sentences_and_leave_nothing(labelled, tmp_path):
    with pytest.raises(fedrel.UserError, match="exists; choose a new folder"):
        fedrel.label(EXAMPLE / "kb", EXAMPLE / "new", labelled.folder)
    with pytest.raises(fedrel.UserError, match="leave nothing to train on"):
        fedrel.label(EXAMPLE / "kb", EXAMPLE / "new", tmp_path / "out", dev=0.5, test=0.5)
    (tmp_path / "text.txt").write_text("Nobody is named here.\n")
    with pytest.raises(fedrel.UserError, match="without any name of"):
        fedrel.label(EXAMPLE / "kb", tmp_path / "text.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()
