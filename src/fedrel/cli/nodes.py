"""`fedrel coordinator start` and `fedrel platform start`: a party's node, in the foreground."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrel.cli.console import say, tell
from fedrel.cli.federation import federation_extra
from fedrel.errors import UserError
from fedrel.federation.engines.nvflare.status import read_status, status_files
from fedrel.files import Tail
from fedrel.units import megabytes

if TYPE_CHECKING:
    from fedrel.federation.engines.nvflare.kits import Kit

KitFolder = Annotated[Path, typer.Argument(help="The kit: a folder made by `fedrel federation new`.")]
Check = Annotated[bool, typer.Option("--check", help="Only look whether everything is in place.")]


def coordinator(
    kit: KitFolder,
    data: Annotated[Path, typer.Option("--data", help="Public data: any of dev, test and train.")],
    runs: Annotated[Path, typer.Option("--runs", help="Folder for the results.")] = Path("runs"),
    check: Check = False,
) -> None:
    """Run the coordinator's node until Ctrl-C. It holds public data only, and never sees a sentence of a platform."""
    opened = _open(kit, "coordinator")
    _check_data(data)
    if check:
        _check_listening(opened)
        tell("all in place", "bold")
        return
    from fedrel.federation.engines.nvflare.keeper import Keeper
    from fedrel.federation.engines.nvflare.node import Node

    runs.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(opened, runs.absolute(), say)
    watching = threading.Thread(target=keeper.watch, daemon=True)
    watching.start()
    say(f"coordinator on {opened.host}:{opened.port}; runs go to {runs}; Ctrl-C ends it")
    settings = {"data": str(data.absolute()), "runs": str(runs.absolute())}
    try:
        Node(opened, settings, say, News(runs)).run()
    finally:
        keeper.ended.set()
        watching.join(5)


def platform(
    kit: KitFolder,
    data: Annotated[Path, typer.Option("--data", help="This platform's own text: train, perhaps dev and test.")],
    store: Annotated[Path | None, typer.Option("--store", help="Verdicts of this platform's reviewers.")] = None,
    check: Check = False,
) -> None:
    """Run a platform's node until Ctrl-C. Its text stays where it is; what leaves is in its ledger."""
    opened = _open(kit, "platform")
    opened.blinding_key()
    _check_data(data)
    from fedrel.privacy.policy import Policy

    policy = opened.folder / "local" / "policy.toml"
    Policy.read(policy)
    if check:
        from fedrel.algorithms import METHODS  # loads torch, which the node itself does without

        Policy.read(policy, methods=METHODS)
        _check_reaching(opened)
        _check_memory()
        tell("all in place", "bold")
        return
    from fedrel.federation.engines.nvflare.node import Node, folder_for

    for name in ("ledger", "memory"):
        folder_for(opened, name)
    say(f"platform {opened.name}: joins {opened.host}:{opened.port}; Ctrl-C ends it")
    say(f"what leaves: fedrel ledger show {kit}; what may: {policy}")
    settings = {"data": str(data.absolute()), "store": str(store.absolute()) if store else ""}
    Node(opened, settings, say, Departures(opened.folder / "ledger" / "ledger.jsonl")).run()


class News:
    """Tells what changes in the runs, a line each."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.told: dict[str, tuple[object, ...]] = {}

    def __call__(self) -> None:
        for path in status_files(self.runs):
            status = read_status(path)
            if not status:
                continue
            now = (status["state"], status["round"], status["why"])
            if self.told.get(path.name) != now:
                self.told[path.name] = now
                say(_line(status))


def _line(status: dict[str, object]) -> str:
    score, metric = status["score"], status["metric"]
    dev = f", dev {metric} {score:.3f}" if isinstance(score, float) else ""
    why = f": {status['why']}" if status["why"] else ""
    return f"{status['run']}: {status['state']}, round {status['round']} of {status['rounds']}{dev}{why}"


class Departures:
    """Tells what leaves a platform, as its ledger has it."""

    def __init__(self, ledger: Path) -> None:
        self._new = Tail(ledger)

    def __call__(self) -> None:
        for line in self._new.lines():
            entry = json.loads(line)
            what = f"refused: {entry['refused']}" if "refused" in entry else megabytes(entry["bytes"])
            say(f"{entry['run']}: round {entry['round']}, {entry['task']}: {what}")


def _open(path: Path, role: str) -> Kit:
    with federation_extra():
        from fedrel.federation.engines.nvflare.kits import open_kit

    kit = open_kit(path)
    if kit.role != role:
        raise UserError(f"{path}: this is the kit of {kit.name} ({kit.role}), not of a {role}")
    return kit


def _check_data(path: Path) -> None:
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    tell(f"data         {path}")


def _check_listening(kit: Kit) -> None:
    with socket.socket() as probe:
        try:
            probe.bind(("", kit.port))
        except OSError as error:
            raise UserError(f"port {kit.port}: {error.strerror}; is a coordinator running already?") from None
    tell(f"port         {kit.port} is free")
    _tell_certificate(kit)


def _check_reaching(kit: Kit) -> None:
    tell(f"coordinator  {kit.host}:{kit.port} knows this kit ({kit.greet()})")
    _tell_certificate(kit)


def _tell_certificate(kit: Kit) -> None:
    tell(f"certificate  {kit.name}, until {kit.certificate.not_valid_after_utc:%Y-%m-%d}; the clock agrees with it")


def _check_memory() -> None:
    wanted = 2 * 2**30  # torch, a data set and a small model; a large transformer needs more
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    if free < wanted:
        raise UserError(f"{free / 2**30:.1f} GB of memory are free, and training needs at least 2; stop other programs")
    tell(f"memory       {free / 2**30:.0f} GB free")
