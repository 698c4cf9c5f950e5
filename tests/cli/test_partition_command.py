"""`fedrel data partition`: a table, a map as text or picture, counts for machines, one sentence for every mistake."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from fedrel import config
from fedrel.data.loading import world_of
from fedrel.experiment.assembly import read_experiment
from fedrel.report.heatmap import HeatMap, text_of, write_picture
from tests.conftest import contents
from tests.instances import sentence, sentences, write

PNG = b"\x89PNG\r\n\x1a\n"


def sets(*settings):
    return [part for setting in settings for part in ("--set", setting)]


SMALL = sets("data.size=600", "partition.platforms=4")
UNEVEN = [*SMALL, *sets("partition.kind=dirichlet", "partition.alpha=0.05")]


def lines(outcome):
    assert outcome.code == 0, outcome
    return outcome.out.splitlines()


def heat_map(platforms, labels, seed=0):
    counts = np.random.default_rng(seed).multinomial(400, np.full(labels, 1 / labels), platforms)
    names = [f"p{number:03}" for number in range(platforms)]
    return HeatMap(
        [*names, "all"], [f"/a/long/name_of_label_{n}" for n in range(labels)], np.vstack([counts, counts[0]]), 1
    )


def test_a_short_table_and_what_to_do_next(fedrel):
    told = lines(fedrel("data", "partition", *UNEVEN, *sets("partition.server=0.1")))
    assert told[0] == "dirichlet with alpha 0.05, seed 1"
    cells = {row[1]: row[2:-1] for row in (re.split(r" *[│┃] *", line) for line in told) if len(row) > 5}
    assert cells[""] == ["min", "median", "max", "total"]
    least, median, most, all_ = (int(cell.replace(",", "")) for cell in cells["sentences per platform"])
    assert 1 <= least <= median <= most < all_ == 540
    assert cells["platforms"][-1] == "4"
    assert cells["sentences of the server"][-1] == "60"
    assert 0.4 < float(cells["unevenness (0: all the same)"][-1]) < 1
    assert told[-1].startswith("train on it with: fedrel run --set data.size=600 --set partition.platforms=4 ")
    assert len(told) < 15
    assert max(map(len, told[:-1])) <= 80


def test_the_next_command_has_the_file_and_quotes_what_needs_it(fedrel, tmp_path):
    file = tmp_path / "my experiment.toml"
    file.write_text('[data]\nsize = 600\n[partition]\nkind = "relation"\n[method]\nname = "centralised"\n')
    told = lines(fedrel("data", "partition", file, *sets("seed=3")))
    assert told[0] == "a platform for each relation, seed 3"
    assert told[-2] == "centralised pools all of this in one place; other methods do not"
    assert told[-1] == f"train on it with: fedrel run '{file}' --set seed=3"


def test_json_counts_every_sentence(fedrel):
    found = json.loads(fedrel("data", "partition", *UNEVEN, *sets("partition.server=0.1"), "--json").out)
    assert set(found) == {"platforms", "server", "unevenness"}
    assert list(found["platforms"]) == ["p0", "p1", "p2", "p3"]
    assert sum(found["server"].values()) == 60
    assert sum(sum(counts.values()) for counts in found["platforms"].values()) == 540
    assert all(list(counts) == list(found["server"]) for counts in found["platforms"].values())
    assert json.loads(fedrel("data", "partition", *UNEVEN, *sets("partition.server=0.1"), "--json").out) == found


def test_the_map_agrees_with_the_counts(fedrel):
    counted = json.loads(fedrel("data", "partition", *UNEVEN, "--json").out)["platforms"]
    told = lines(fedrel("data", "partition", *UNEVEN, "--show"))
    for name, counts in counted.items():
        (row,) = (line for line in told if line.startswith(f"{name} "))
        size = sum(counts.values())
        assert row.split()[1] == f"{size:,}"
        assert len(re.findall("[░▒▓█]", row)) == sum(count > 0 for count in counts.values())
        percents = [int(number) for number in re.findall(r"[░▒▓█] ?(\d+)", row)]
        assert percents == [
            min(round(100 * n / size), 99) if n < size else 100 for n in counts.values() if n * 200 >= size
        ]
    assert any(line.startswith("all ") for line in told)
    assert any("person/born_in" in line for line in told), "the legend names the columns"
    assert max(map(len, told[:-1])) <= 80


def test_sources_have_their_own_names(fedrel, tmp_path):
    train = [sentence(f"h{n}", f"t{n}", "r", source=f"ward {n % 3}") for n in range(30)]
    for name, rows in (("train", train), ("dev", sentences(4, prefix="d")), ("test", sentences(4, prefix="t"))):
        write(tmp_path / f"{name}.jsonl", rows)
    settings = sets("data.source=opennre", f"data.path={tmp_path}", "partition.kind=source")
    told = lines(fedrel("data", "partition", *settings, "--show"))
    assert told[0] == "a platform for each source, seed 1"
    assert [line for line in told if line.startswith("ward-")] == [
        line for line in told if re.fullmatch(r"ward-[012] +10 +█100", line)
    ]


@pytest.mark.parametrize(("platforms", "labels"), [(100, 53), (3, 2), (1, 1), (130, 300), (2, 12), (20, 20)])
@pytest.mark.parametrize("width", [80, 60, 132])
def test_every_map_fits_the_terminal(platforms, labels, width):
    drawn = heat_map(platforms, labels)
    told = list(text_of(drawn, width=width))
    end = len(told) - told[::-1].index("")
    assert max(map(cell_len, told[:end])) <= width
    assert len(told[end]) < 80
    assert all(any(line.startswith(name) for line in told) for name in drawn.rows) == (platforms <= 100)
    assert any("left out: the 30 platforms with the fewest sentences" in line for line in told) == (platforms == 130)
    assert any("rarest labels" in line for line in told) == (labels > width - 20)


def test_few_labels_stand_above_their_columns_folded():
    counts = np.array([[1, 2, 1], [1000, 0, 1]])
    told = list(text_of(HeatMap(["p0", "p1"], ["NA", "gene-disease association", "关系名称关系名称关系"], counts)))
    assert told[:4] == [
        "                                           gene-disease  关系名称关系名称",
        "platform sentences                 NA       association              关系",
        "p0               4                ░25               ▒50               ░25",
        "p1           1,001                █99                                 ░<1",
    ]
    assert not any(line.startswith(("1 ", " 1 ")) for line in told), "no legend is needed"


def test_hostile_names_stay_in_their_line():
    labels = ["[bold]x[/]", "a\nb", "\x1b[31mred", "", "$x^$", "<b>", "longer/than/its/column"]
    told = list(text_of(HeatMap(["p0"], labels, np.ones((1, 7), int))))
    assert all(line.isprintable() for line in told)
    assert any("[bold]x[/]" in line for line in told)


def test_a_terminal_without_block_characters_gets_ascii(tmp_path):
    command = [
        sys.executable,
        "-m",
        "fedrel.cli",
        "data",
        "partition",
        *sets("data.size=600", "partition.kind=source"),
        "--show",
    ]
    found = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=True)
    told = found.stdout.decode("ascii").splitlines()
    assert any(re.match(r"Valley-Observer +\d+ +[.:+#]", line) for line in told)
    assert not any("\\" in line for line in told)


@pytest.mark.parametrize(("suffix", "start"), [("png", PNG), ("PNG", PNG), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures(fedrel, tmp_path, suffix, start):
    file = tmp_path / "new" / f"map.{suffix}"
    told = lines(fedrel("data", "partition", *UNEVEN, "--png", file))
    assert told[-2] == f"picture  {file}"
    content = file.read_bytes()
    assert content.startswith(start)
    assert json.loads(fedrel("data", "partition", *UNEVEN, "--png", file, "--json").out)
    assert file.read_bytes() == content, "the same map, the same bytes"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_large_map_is_a_picture_too(tmp_path):
    write_picture(heat_map(130, 110), tmp_path / "map.png", "北京 $x^$")
    content = (tmp_path / "map.png").read_bytes()
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert 1500 < width < 6000 and 1500 < height < 6000


def test_mistakes_are_one_sentence_and_nothing_is_written(refused, tmp_path):
    (tmp_path / "folder.png").mkdir()
    assert refused("data", "partition", *SMALL, "--png", "folder.png") == (
        "folder.png is a folder; name a file in it, for example folder.png/partition.png"
    )
    for name in ("map.jpg", "map"):
        assert refused("data", "partition", *SMALL, "--png", name) == (
            f"{name}: a picture's name must end in .png, .svg, .pdf"
        )
    assert "601 platforms for 600 training" in refused(
        "data", "partition", *SMALL, *sets("partition.platforms=601"), "--png", "a.png"
    )
    assert "is none of iid, dirichlet, source, relation, folder" in refused(
        "data", "partition", *sets("partition.kind=odd")
    )
    assert "partition.alpha = 0.0: must be above 0" in refused("data", "partition", *sets("partition.alpha=0"))
    assert refused("data", "partition", "missing.toml") == "missing.toml: No such file or directory"
    assert refused("data", "partition", *SMALL, "--out", "folder.png") == "folder.png exists; choose a new folder"
    assert "601 platforms for 600" in refused(
        "data", "partition", *SMALL, *sets("partition.platforms=601"), "--out", "parts"
    )


def test_everybodys_part_is_written_with_an_experiment_to_run_on_it(fedrel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("one\nTwo\n")
    file = Path("e.toml")
    file.write_text('[data]\nsize = 600\n[extractor]\nvocabulary = "public+words.txt"\n')
    told = lines(fedrel("data", "partition", file, *UNEVEN, *sets("partition.server=0.1"), "--out", "parts"))
    assert told[-2:] == [
        "written  parts: a folder for each platform, and coordinator",
        "train on it with: fedrel run parts/experiment.toml",
    ]
    assert sorted(str(path.relative_to("parts")) for path in Path("parts").rglob("*.*")) == [
        *(f"coordinator/{split}.jsonl" for split in ("dev", "test", "train")),
        "experiment.toml",
        *(f"p{number}/train.jsonl" for number in range(4)),
    ]
    monkeypatch.chdir("/")
    written = config.read(tmp_path / "parts" / "experiment.toml")
    asked = read_experiment(tmp_path / "e.toml", UNEVEN[1::2])
    assert (written.data.source, written.data.path) == ("opennre", str(tmp_path / "parts"))
    assert written.data.relations == tuple(world_of(asked.data).relations()[1:])
    assert (written.partition.kind, written.partition.platforms, written.partition.server) == ("folder", 4, 0.1)
    assert written.extractor == replace(asked.extractor, vocabulary=f"public+{tmp_path / 'words.txt'}")
    chosen = replace(asked.training, lr=0.5, lr_auto=False)  # for so little text, the highest there is
    assert (written.seed, written.method, written.training) == (asked.seed, asked.method, chosen)
    before, after = (
        json.loads(fedrel("data", "partition", *arguments, "--json").out)
        for arguments in (
            (*UNEVEN, *sets("partition.server=0.1")),
            (tmp_path / "parts" / "experiment.toml", "--out", tmp_path / "again"),
        )
    )
    assert after.pop("folder") == str(tmp_path / "again")
    assert after == before
    parts, again = (
        {path.name: contents(path) for path in (tmp_path / it).iterdir() if path.is_dir()} for it in ("parts", "again")
    )
    assert parts == again, "written again from what was written"


def test_a_division_by_folders_is_told_as_such(fedrel, tmp_path):
    fedrel("data", "partition", *SMALL, "--out", tmp_path / "parts")
    assert lines(fedrel("data", "partition", tmp_path / "parts" / "experiment.toml"))[0] == (
        "a platform for each folder, seed 1"
    )
