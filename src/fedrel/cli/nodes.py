"""`fedrel coordinator start`, `fedrel platform start` and `check`: a party's node, in the foreground."""

from __future__ import annotations

import json
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedrel.cli.console import say, tell
from fedrel.cli.federation import federation_extra
from fedrel.errors import UserError
from fedrel.federation.nodes.status import read_status, status_files
from fedrel.util.escaping import shown
from fedrel.util.files import Tail
from fedrel.util.units import megabytes

if TYPE_CHECKING:
    from fedrel.federation.kits.kit import Kit
    from fedrel.federation.nodes.relay import Relay

KitFolder = Annotated[Path, typer.Argument(help="The kit: a folder made by `fedrel federation new`.")]
Check = Annotated[bool, typer.Option("--check", help="Only look whether everything is in place.")]
CarrierName = Annotated[
    Literal["https", "nvflare"],
    typer.Option("--carrier", help="nvflare: a FLARE federation that runs already carries the messages."),
]
RelayFolder = Annotated[
    Path | None, typer.Option("--relay", metavar="FOLDER", help="Where FLARE finds this node [default: in the kit].")
]
RelayUser = Annotated[
    str | None, typer.Option("--relay-user", metavar="NAME", help="The user as whom FLARE runs here; not your own.")
]


def coordinator(
    kit: KitFolder,
    data: Annotated[Path, typer.Option("--data", help="Public data: any of dev, test and train.")],
    runs: Annotated[Path, typer.Option("--runs", help="Folder for the results.")] = Path("runs"),
    carrier: CarrierName = "https",
    relay: RelayFolder = None,
    relay_user: RelayUser = None,
    check: Check = False,
) -> None:
    """Run the coordinator's node until Ctrl-C. It holds public data only, and never sees a sentence of a platform."""
    opened = _open(kit, "coordinator")
    with federation_extra():
        if find_spec("aiohttp") is None:  # a child of the node loads it, and could not say why it ends
            raise ModuleNotFoundError(name="aiohttp")
    _check_data(data)
    chosen = _relay(kit, carrier, relay, relay_user)
    if check:
        _check_listening(opened)
        _tell_protection()
        tell("all in place", "bold")
        return
    from fedrel.federation.nodes.coordinator import CoordinatorNode

    say(f"coordinator on {opened.host}:{opened.port}; runs go to {runs}; Ctrl-C ends it")
    _tell_relay(chosen, kit)
    CoordinatorNode(opened, data.absolute(), runs.absolute(), _say, News(runs), chosen).run()


def platform(
    kit: KitFolder,
    data: Annotated[Path, typer.Option("--data", help="This platform's own text: train, perhaps dev and test.")],
    store: Annotated[Path | None, typer.Option("--store", help="Verdicts of this platform's reviewers.")] = None,
    carrier: CarrierName = "https",
    relay: RelayFolder = None,
    relay_user: RelayUser = None,
    check: Check = False,
) -> None:
    """Run a platform's node until Ctrl-C. Its text stays where it is; what leaves is in its ledger."""
    opened = _open(kit, "platform")
    policy = _check_platform(opened, data)
    chosen = _relay(kit, carrier, relay, relay_user)
    if check:
        from fedrel.algorithms import METHODS  # loads torch, which the node itself does without
        from fedrel.privacy.policy import Policy

        Policy.read(policy, methods=METHODS)
        if chosen is None:
            _check_reaching(opened)
        _check_memory()
        _tell_protection()
        tell("all in place", "bold")
        return
    from fedrel.federation.nodes.platform import PlatformNode

    where = "by way of FLARE" if chosen else f"{opened.host}:{opened.port}"
    say(f"platform {opened.name}: joins {where}; Ctrl-C ends it")
    _tell_relay(chosen, kit, data)
    say(f"what leaves: fedrel ledger show {kit}; what may: {policy}")
    departures = Departures(opened.folder / "ledger" / "ledger.jsonl")
    PlatformNode(opened, data.absolute(), str(store.absolute()) if store else "", _say, departures, chosen).run()


def platform_check(
    kit: KitFolder,
    data: Annotated[Path | None, typer.Option("--data", help="This platform's own text, if it is here.")] = None,
    carrier: CarrierName = "https",
    relay: RelayFolder = None,
    relay_user: RelayUser = None,
) -> None:
    """Say how well a platform's text and keys are protected on this machine, and what could be better."""
    opened = _open(kit, "platform")
    if data is not None:
        _check_platform(opened, data)
    _tell_certificate(opened)
    problems = [*_tell_protection(), *_open_to_others([kit, *([data] if data else [])])]
    if carrier == "nvflare":
        problems += _flare_reads(kit, data, relay, relay_user)
    for problem in problems:
        tell(f"  - {problem}", "yellow")
    tell("well protected" if not problems else f"{len(problems)} things could be better", "bold")


def _relay(kit: Path, carrier: str, folder: Path | None, user: str | None) -> Relay | None:
    from fedrel.federation.nodes.relay import relay

    if carrier == "nvflare":
        return relay(kit, folder, user)
    if folder is not None or user is not None:
        raise UserError("--relay and --relay-user mean something with --carrier nvflare alone")
    return None


def _flare_reads(kit: Path, data: Path | None, folder: Path | None, user: str | None) -> list[str]:
    """Why FLARE's processes could read what they should not."""
    from fedrel.federation.nodes.relay import Relay, user_id

    return Relay(folder or kit, user_id(user)).warnings([kit, *([data] if data else [])])


def _tell_relay(relay: Relay | None, *private: Path) -> None:
    if relay is None:
        return
    say(f"FLARE's job finds this node at {relay.socket}")
    for warning in relay.warnings(private):
        tell(warning, "yellow")


def _check_platform(kit: Kit, data: Path) -> Path:
    """All that a platform needs before it starts; its policy."""
    from fedrel.privacy.policy import Policy

    kit.blinding_key()
    _check_data(data)
    policy = kit.folder / "local" / "policy.toml"
    Policy.read(policy)
    return policy


def _tell_protection() -> list[str]:
    """What the kernel can give to the node's processes here; the problems with it."""
    from fedrel.sandbox import available

    found = available()
    for name, holds, meaning in (
        ("files", found.files, "the process with the network can read its own TLS key and no text (Landlock)"),
        ("network", found.network, "the process with the text can open no connection (seccomp)"),
        ("programs", found.programs, "the process with the network can start no program (seccomp)"),
        ("memory", found.memory, "no other process of the same user can look into theirs"),
    ):
        tell(f"{name:<12} {'yes' if holds else 'NO '}  {meaning}", "" if holds else "red")
    return list(found.problems)


def _open_to_others(folders: list[Path]) -> list[str]:
    """Files with text or keys that other users of the machine can read."""
    found = []
    for folder in folders:
        paths = [folder, *folder.rglob("*")] if folder.is_dir() else [folder]
        loose = [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]
        if loose:
            found.append(f"{folder}: other users can read {len(loose)} of its files; chmod -R go= {folder}")
    return found


def _say(line: str) -> None:
    """What a node tells may hold words of other parties."""
    say(shown(line, 500))


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
                _say(_line(status))


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
            _say(f"{entry['run']}: round {entry['round']}, {entry['task']}: {what}")


def _open(path: Path, role: str) -> Kit:
    with federation_extra():
        from fedrel.federation.kits.kit import open_kit

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
    from fedrel.federation.https.session import greet

    greet(kit)
    tell(f"coordinator  {kit.host}:{kit.port} knows this kit")
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
