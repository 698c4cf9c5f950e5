"""Every command of docs/review.md runs, in the order of the page, but for `fedrel run`, which tests/experiment has."""

import re
import shlex
import shutil
import signal
import urllib.error
import urllib.request

import pytest

from fedrel.cli.improve import KEPT
from fedrel.feedback.store import RIGHT, WRONG, Store
from tests.docs.test_docs import ROOT
from tests.processes import start
from tests.review.browser.small_platform import queue_of, save, write_data
from tests.review.small_facts import write_facts

COMMANDS = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "review.md").read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]


def answered(address: str) -> None:
    """Waits until the page is served, to whoever may see it."""
    try:
        urllib.request.urlopen(address, timeout=120).close()
    except urllib.error.HTTPError as refusal:
        assert refusal.code == 401
        refusal.close()


@pytest.mark.slow
def test_every_command_runs(tmp_path, monkeypatch, fedrel):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "docs" / "example", "docs/example")
    clinic = write_data(tmp_path / "clinic")
    shutil.copytree(clinic, "gold")
    model = save(clinic, tmp_path / "my-model")
    write_facts(tmp_path / "facts.jsonl")
    (tmp_path / "answers.csv").write_text("user,verdict,correct\nanna,right,true\nanna,wrong,false\n")
    for name, options in (("clinic.verdicts.sqlite", {}), ("trusted.sqlite", {"labels_of_dev": True})):
        queue = queue_of(clinic, model, **options)
        with Store.open(tmp_path / name) as store:
            for item, verdict in zip(queue.items[:20], [RIGHT, WRONG] * 10, strict=True):
                store.give(store.show(item.key, item.relation, item.confidence, queue.digest), "anna", verdict)
    served = 0
    for command in COMMANDS:
        words = shlex.split(command)
        environment = dict(it.split("=", 1) for it in words if re.match(r"[A-Z_]+=", it))
        words = words[len(environment) :]
        if words[:2] == ["fedrel", "review"]:
            with monkeypatch.context() as patched:
                for name, value in environment.items():
                    patched.setenv(name, value)
                process = start(*words[1:], "--port", 0)
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("open "), (command, process.communicate())
            answered(line.split()[1].partition("?")[0])
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0 and "; next: fedrel " in out, (command, out, err)
            served += 1
        elif words[:2] == ["fedrel", "feedback"]:
            if "their-export.json" in words:
                shutil.copyfile("tasks.json", "their-export.json")
            said = fedrel(*words[1:])
            assert said.code == 0, (command, said.err)
        elif words[:2] == ["fedrel", "improve"]:
            said = fedrel(*words[1:])
            assert said.code in (0, KEPT) and said.out.splitlines()[-1].count("; use ") == 1, (command, said)
            if not (tmp_path / "next").exists():  # these answers are worth nothing
                shutil.copytree(model, "next")
        else:
            assert words[:2] in (["pip", "install"], ["fedrel", "run"]), command
    assert served == 6
