"""`fedrel coordinator start`, `fedrel platform start` and `fedrel platform check`: nodes, in the foreground."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedrel.cli.console import print_json, say, tell
from fedrel.cli.federation import federation_extra
from fedrel.errors import UserError
from fedrel.federation.nodes.status import read_status, status_files
from fedrel.util.escaping import shown
from fedrel.util.files import Tail
from fedrel.util.locks import require_locks
from fedrel.util.units import format_bytes
from fedrel.watch.states import rounds_done

if TYPE_CHECKING:
    from fedrel.federation.kits.kit import Kit
    from fedrel.federation.nodes.relay import Relay

KitFolder = Annotated[Path, typer.Argument(help="The kit: a folder created by `fedrel federation new`.")]
Check = Annotated[bool, typer.Option("--check", help="Only check that everything is in place, and exit.")]
CarrierName = Annotated[
    Literal["https", "nvflare"],
    typer.Option("--carrier", help="nvflare: an existing FLARE federation carries the messages."),
]
RelayFolder = Annotated[
    Path | None,
    typer.Option("--relay", metavar="FOLDER", help="Folder of the socket for FLARE [default: in the kit]."),
]
RelayUser = Annotated[
    str | None,
    typer.Option("--relay-user", metavar="NAME", help="The user FLARE runs as here; should not be your own."),
]


def coordinator(
    kit: KitFolder,
    data: Annotated[Path, typer.Option("--data", help="Public data: any of dev, test and train.")],
    runs: Annotated[Path, typer.Option("--runs", help="Folder for runs and their results.")] = Path("runs"),
    carrier: CarrierName = "https",
    relay: RelayFolder = None,
    relay_user: RelayUser = None,
    check: Check = False,
) -> None:
    """Run the coordinator's node until Ctrl-C. It has public data only, and never sees a platform's text."""
    require_locks()
    opened = _open(kit, "coordinator")
    with federation_extra():
        if find_spec("aiohttp") is None:  # checked here: it is a child of the node that would fail to import it
            raise ModuleNotFoundError(name="aiohttp")
    _check_data(data)
    chosen = _relay(kit, carrier, relay, relay_user)
    if check:
        _check_listening(opened)
        _tell_protection()
        tell("all in place", "bold")
        return
    from fedrel.federation.nodes.coordinator import CoordinatorNode

    say(f"coordinator on {opened.host}:{opened.port}; runs are written to {runs}; Ctrl-C to stop")
    _tell_relay(chosen, kit)
    CoordinatorNode(opened, data.absolute(), runs.absolute(), _say, News(runs), chosen).run()


def platform(
    kit: KitFolder,
    data: Annotated[Path, typer.Option("--data", help="This platform's own text: train, optionally dev and test.")],
    store: Annotated[Path | None, typer.Option("--store", help="This platform's store of verdicts.")] = None,
    carrier: CarrierName = "https",
    relay: RelayFolder = None,
    relay_user: RelayUser = None,
    check: Check = False,
) -> None:
    """Run a platform's node until Ctrl-C. Its text stays here; everything it sends is in its ledger."""
    require_locks()
    opened = _open(kit, "platform")
    policy = _check_platform(opened, data)
    chosen = _relay(kit, carrier, relay, relay_user)
    if check:
        from fedrel.algorithms import METHODS  # imports torch, which the node itself does not need
        from fedrel.privacy.policy import Policy

        Policy.read(policy, methods=METHODS)
        if chosen is None:
            _check_reaching(opened)
        _check_memory()
        _tell_protection()
        tell("all in place", "bold")
        return
    from fedrel.federation.nodes.platform import PlatformNode

    where = "FLARE" if chosen else f"{opened.host}:{opened.port}"
    say(f"platform {opened.name}: connecting to {where}; Ctrl-C to stop")
    _tell_relay(chosen, kit, data)
    say(f"what was sent: fedrel ledger show {kit}; what may be sent: {policy}")
    departures = Departures(opened.folder / "ledger" / "ledger.jsonl")
    PlatformNode(opened, data.absolute(), str(store.absolute()) if store else "", _say, departures, chosen).run()


def platform_check(
    kit: KitFolder,
    data: Annotated[
        Path | None, typer.Option("--data", help="This platform's own text, to check its file modes.")
    ] = None,
    carrier: CarrierName = "https",
    relay: RelayFolder = None,
    relay_user: RelayUser = None,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Check how well a platform's text and keys are protected on this machine, and what could be improved."""
    opened = _open(kit, "platform")
    with contextlib.redirect_stdout(sys.stderr) if json_ else contextlib.nullcontext():
        if data is not None:
            _check_platform(opened, data)
        _tell_certificate(opened)
        problems = [*_tell_protection(), *_open_to_others([kit, *([data] if data else [])])]
        if carrier == "nvflare":
            problems += _flare_reads(kit, data, relay, relay_user)
    if json_:
        until = opened.certificate.not_valid_after_utc.date().isoformat()
        print_json(json.dumps({"name": opened.name, "certificate_until": until, "problems": problems}))
        return
    for problem in problems:
        tell(f"  - {problem}", "yellow")
    tell("well protected" if not problems else f"{len(problems)} things could be improved", "bold")


def _relay(kit: Path, carrier: str, folder: Path | None, user: str | None) -> Relay | None:
    from fedrel.federation.nodes.relay import relay

    if carrier == "nvflare":
        return relay(kit, folder, user)
    if folder is not None or user is not None:
        raise UserError("--relay and --relay-user require --carrier nvflare")
    return None


def _flare_reads(kit: Path, data: Path | None, folder: Path | None, user: str | None) -> list[str]:
    """Warnings about kit and data that FLARE's processes could read."""
    from fedrel.federation.nodes.relay import Relay, user_id

    return Relay(folder or kit, user_id(user)).warnings([kit, *([data] if data else [])])


def _tell_relay(relay: Relay | None, *private: Path) -> None:
    if relay is None:
        return
    say(f"waiting for FLARE's job at {relay.socket}")
    for warning in relay.warnings(private):
        tell(warning, "yellow")


def _check_platform(kit: Kit, data: Path) -> Path:
    """Checks what a platform needs before it starts. Returns the path of its policy."""
    from fedrel.privacy.policy import Policy

    kit.blinding_key()
    _check_data(data)
    policy = kit.folder / "local" / "policy.toml"
    Policy.read(policy)
    return policy


def _tell_protection() -> list[str]:
    """Prints which limits the kernel enforces for the node's processes on this machine. Returns the problems."""
    from fedrel.sandbox import available

    found = available()
    for name, holds, meaning in (
        ("files", found.files, "the network process can read its TLS key but no text (Landlock)"),
        ("network", found.network, "the process that reads the text can open no connection (seccomp)"),
        ("programs", found.programs, "the network process can start no program (seccomp)"),
        ("memory", found.memory, "other processes of the same user cannot read their memory"),
    ):
        tell(f"{name:<12} {'yes' if holds else 'NO '}  {meaning}", "" if holds else "red")
    return list(found.problems)


def _open_to_others(folders: list[Path]) -> list[str]:
    """One sentence for each folder with files that other users of the machine can read."""
    found = []
    for folder in folders:
        paths = [folder, *folder.rglob("*")] if folder.is_dir() else [folder]
        loose = [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]
        if loose:
            found.append(f"{folder}: other users can read {len(loose)} of its files; chmod -R go= {folder}")
    return found


def _say(line: str) -> None:
    """Prints a message of a node, which may quote other parties."""
    say(shown(line, 500))


class News:
    """Prints a line whenever the status of a run changes."""

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
                _say(_line(status))


def _line(status: dict[str, object]) -> str:
    score, metric = status["score"], status["metric"]
    dev = f", dev {metric} {score:.3f}" if isinstance(score, float) else ""
    why = f": {status['why']}" if status["why"] else ""
    return f"{status['run']}: {status['state']}, rounds: {rounds_done(status)}{dev}{why}"


class Departures:
    """Prints a line for each new entry in a platform's ledger."""

    def __init__(self, ledger: Path) -> None:
        self._new = Tail(ledger)

    def __call__(self) -> None:
        for line in self._new.lines():
            entry = json.loads(line)
            what = f"refused: {entry['refused']}" if "refused" in entry else format_bytes(entry["bytes"])
            _say(f"{entry['run']}: round {entry['round']}, {entry['task']}: {what}")


def _open(path: Path, role: str) -> Kit:
    with federation_extra():
        from fedrel.federation.kits.kit import open_kit

    kit = open_kit(path)
    if kit.role != role:
        raise UserError(f"{path}: this is the kit of {kit.name} ({kit.role}), not a {role}'s")
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
            raise UserError(f"port {kit.port}: {error.strerror}; is a coordinator already running?") from None
    tell(f"port         {kit.port} is free")
    _tell_certificate(kit)


def _check_reaching(kit: Kit) -> None:
    from fedrel.federation.https.session import greet

    greet(kit)
    tell(f"coordinator  {kit.host}:{kit.port} accepts this kit")
    _tell_certificate(kit)


def _tell_certificate(kit: Kit) -> None:
    tell(f"certificate  {kit.name}, valid until {kit.certificate.not_valid_after_utc:%Y-%m-%d}")


def _check_memory() -> None:
    wanted = 2 * 2**30  # torch, a data set and a small model; a large transformer needs more
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    if free < wanted:
        raise UserError(f"{free / 2**30:.1f} GB of memory are free, but training needs at least 2; stop other programs")
    tell(f"memory       {free / 2**30:.0f} GB free")
