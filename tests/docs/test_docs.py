"""Every command in the README and in docs/ runs, on little data."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedrel import config
from fedrel.algorithms import METHODS

ROOT = Path(__file__).parents[2]
FEDERATION = ROOT / "docs" / "federation.md"  # its commands need each other: tests/docs/test_federation_docs.py
ELSEWHERE = [ROOT / "deploy" / "README.md", ROOT / "examples" / "README.md", ROOT / "examples" / "plugin" / "README.md"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *ELSEWHERE]
RUN = [page for page in PAGES if page not in (FEDERATION, *ELSEWHERE)]
SMALL = ["data.size=600", "training.rounds=2", "partition.platforms=3", "extractor.filters=8"]
OWN_DATA = [setting for setting in SMALL if not setting.startswith("data.")]


def commands(page):
    """The lines after `$ ` in console blocks, without their comments."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            yield line.split("  #")[0].split(" # ")[0].strip()


def programs(page):
    """The blocks of Python; those of docs/python.md go on from one to the next."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return ["\n".join(blocks)] if page.name == "python.md" else blocks


def shortened(command):
    """The same command with settings that make it quick."""
    words = command.split()
    if words[:2] in (["fedrel", "run"], ["fedrel", "compare"]) and "--resume" not in words:
        small = OWN_DATA if any(word.startswith("data.path=") for word in words) else SMALL
        words += [part for setting in small for part in ("--set", setting)]
    if words[:3] == ["fedrel", "privacy", "audit"]:
        words += ["--rounds", "2", "--sentences", "100"]
    if words[:2] == ["fedrel", "compare"]:
        if any(word.endswith(".toml") for word in words) and "--quick" not in words:
            words.append("--quick")
        words = [word for at, word in enumerate(words) if word != "--seeds" and words[at - 1] != "--seeds"]
        words += ["--seeds", "1"]
    return words


def is_quick(command, page):
    """Whether it runs in every test run: not the tables of papers, nor what another command or page runs as well."""
    if page.name == "README.md" and command in set(commands(ROOT / "docs" / "text.md")):
        return False
    variant = re.search(r"\b(lazy|none|frozen|uneven)-run$", command)  # further audits of the same kind
    table = command.startswith("fedrel compare") and ".toml" in command
    return not (table or variant or "kind=ray" in command)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
@pytest.mark.parametrize("which", ["quick", pytest.param("all", marks=pytest.mark.slow)])
def test_every_command_runs(page, which, tmp_path):
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    for example in ("example", "first"):
        shutil.copytree(ROOT / "docs" / example, tmp_path / "docs" / example)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 300}
    if page.name == "README.md":  # "your own data"
        subprocess.run(["fedrel", "data", "world", "--out", "my-data", "--size", "600"], check=True, **run)
    for command in commands(page):
        if which == "quick" and not is_quick(command, page):
            continue
        if command.startswith("make "):
            done = subprocess.run([*command.split(), "--dry-run", "-C", str(ROOT)], **run)
        else:
            done = subprocess.run(shortened(command), **run)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    for program in programs(page):
        subprocess.run([sys.executable, "-c", program], check=True, **run)


def test_documented_experiment_is_the_default_one():
    [block] = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "files.md").read_text(encoding="utf-8"), re.DOTALL)
    documented = config.parse(tomllib.loads(block))
    assert {**vars(documented), "method": None} == {**vars(config.Experiment()), "method": None}
    algorithm = METHODS[config.DEFAULT_METHOD].algorithm()
    assert documented.method == {"name": config.DEFAULT_METHOD, **vars(algorithm)}


def test_the_readme_lists_every_method():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in METHODS if f"`{name}`" not in text] == []


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_every_experiment_file_is_valid():
    from fedrel.sweeps import comparison

    for path in sorted((ROOT / "experiments").glob("*.toml")):
        asked = comparison.read(path, settings=[], methods=[], vary=[], seeds=None, metric=None)
        assert asked.cells()


def test_no_page_has_a_gap():
    for page in PAGES:
        assert not re.search(r"[A-Z]+_TABLE|TODO|TBD|XXX", page.read_text(encoding="utf-8"))


def test_every_page_is_in_the_site_s_navigation():
    named = set(re.findall(r"(?:- |: )([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} == {it for it in named if "/" not in it}
    ours = {f"project/{page.relative_to(ROOT).as_posix().lower()}" for page in PAGES if page.parent.name != "docs"}
    assert ours | {"project/security.md", "project/changelog.md"} == {it for it in named if "/" in it}
