"""`fedrel federation`: certificates and kits for the parties of a federation."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import out, print_json, tell
from fedrel.errors import UserError

if TYPE_CHECKING:
    from fedrel.federation.kits.kit import Kit, Party

_Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
_Dir = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `fedrel federation new` made.")]
_SOON = 30  # days before the end of a certificate from which on it is worth a warning
_DEFAULT_PORT = 8002


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")],
    coordinator: Annotated[
        str, typer.Option("--coordinator", metavar="HOST[:PORT]", help="Where all others reach the coordinator.")
    ],
    platforms: Annotated[str, typer.Option("--platforms", metavar="A,B,C", help="Names of the organisations.")],
    port: Annotated[
        int | None, typer.Option("--port", help=f"The coordinator's port [default: {_DEFAULT_PORT}].")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="How long certificates last.")] = 365,
    admin: Annotated[str, typer.Option("--admin", metavar="NAME", help="Who may start training.")] = "admin",
    json_: _Json = False,
) -> None:
    """Make certificates and a kit for the coordinator, each platform and an admin."""
    provisioning = _provisioning()
    host, port = _address(coordinator, port)
    names = [name.strip() for name in platforms.split(",")]
    made = provisioning.new(folder, host=host, port=port, platforms=names, admin=admin, days=days)
    if json_:
        print_json(json.dumps(_as_json(made.parties()), indent=1))
        return
    table = Table("folder", "goes to")
    table.add_row(Text(f"{folder}/coordinator"), Text(f"the coordinator ({host})"))
    for name in names:
        table.add_row(Text(f"{folder}/{name}"), Text(f"platform {name} alone: it has the key that blinds facts"))
    table.add_row(Text(f"{folder}/{admin}"), "whoever starts training")
    table.add_row(Text(f"{folder}/ca"), "nobody: it stays here. Who has it can let anybody in; keep a safe copy")
    out.print(table)
    tell(f"Certificates last until {made.parties()[0].until:%Y-%m-%d}. All parties must reach {host}, port {port}.")
    tell("A kit holds a private key: send it over a channel that you trust, and delete your copy.")
    tell("Then, each on its own machine:")
    tell(f"  fedrel coordinator start {_quoted(folder / 'coordinator')} --data PATH")
    for name in names:
        tell(f"  fedrel platform start {_quoted(folder / name)} --data PATH")
    tell(f"  fedrel submit {_quoted(folder / admin)} EXPERIMENT.toml --follow")


def add(
    folder: _Dir,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[
        Literal["platform", "admin", "viewer"],
        typer.Option("--role", help="A platform trains, an admin starts training, a viewer may look."),
    ] = "platform",
    key_from: Annotated[
        Path | None,
        typer.Option("--key-from", metavar="KIT", help="A platform's kit, for the blinding key they share."),
    ] = None,
    json_: _Json = False,
) -> None:
    """Make a kit for one more party."""
    kit = _provisioning().add(folder, name, role, key_from)
    if json_:
        print_json(json.dumps({"name": name, "role": role, "kit": str(kit)}))
        return
    tell(f"{kit} is the kit of {name} ({role}).")
    tell("A coordinator that runs from this folder knows it within a second. If it runs from a copy, replace there:")
    tell(f"  {folder}/coordinator/members.json")


def revoke(folder: _Dir, name: Annotated[str, typer.Argument(metavar="NAME")], json_: _Json = False) -> None:
    """Shut a party out: the coordinator refuses the name at once, whatever its certificate says."""
    files = _provisioning().revoke(folder, name)
    if json_:
        print_json(json.dumps({"revoked": name, "files": [str(file) for file in files]}))
        return
    tell(f"{name} is shut out for good: the name is not given again.")
    tell("A coordinator that runs from this kit knows it within a second. If it runs from a copy, replace there:")
    for file in files:
        tell(f"  {file}")
    tell("A platform keeps what it knows, the blinding key too: if that must not be, make a new federation.")


def renew(
    folder: _Dir,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Everybody, if left out.")] = None,
    json_: _Json = False,
) -> None:
    """Give out new certificates for the keys that are there; nothing else in a kit changes."""
    renewed = _provisioning().renew(folder, names or [])
    if json_:
        print_json(json.dumps({name: [str(path) for path in paths] for name, paths in renewed.items()}))
        return
    table = Table("who", "files to copy into the kit (they are no secret)")
    for name, paths in renewed.items():
        table.add_row(Text(name), Text("\n".join(map(str, paths))))
    out.print(table)
    tell("A node that is running takes them up by itself.")


def show(
    path: Annotated[Path, typer.Argument(metavar="DIR_OR_KIT", help="What `new` made, or one kit of it.")],
    json_: _Json = False,
) -> None:
    """Say who belongs to the federation, in which role, and until when certificates last."""
    parties = _parties(path)
    if json_:
        print_json(json.dumps(_as_json(parties), indent=1))
        return
    table = Table("who", "role", "certificate until", "")
    for party in parties:
        table.add_row(Text(party.name), party.role, f"{party.until:%Y-%m-%d}", _remark(party))
    out.print(table)
    late = [party for party in parties if not party.revoked and _days_left(party) < _SOON]
    if late:
        names = ", ".join(party.name for party in late)
        tell(f"Renew soon (fedrel federation renew DIR NAME): {names}", "yellow")


_Passphrase = Annotated[
    Path | None, typer.Option("--passphrase-file", help="Its first line is the passphrase; else you are asked.")
]


def backup(
    kit: Annotated[Path, typer.Argument(metavar="KIT")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    passphrase_file: _Passphrase = None,
) -> None:
    """Put a kit into one encrypted file: keys, certificates, policy, ledger and memory."""
    opened = _kits().open_kit(kit, dates=False)
    from fedrel.federation.kits import backup as backups

    count = backups.backup(opened, file, _passphrase(passphrase_file, twice=True))
    tell(f"{file} holds {count} files of the kit of {opened.name}; without the passphrase it is lost.")
    tell(f"Get it back with: fedrel federation restore {_quoted(file)} NEW_FOLDER")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `backup` wrote.")],
    folder: Annotated[Path, typer.Argument(metavar="KIT", help="A folder that is not there yet.")],
    passphrase_file: _Passphrase = None,
) -> None:
    """Get a kit back from a backup."""
    _kits()
    from fedrel.federation.kits import backup as backups

    restored = backups.restore(file, folder, _passphrase(passphrase_file))
    tell(f"{folder} is the kit of {restored.name} ({restored.role}) again. What left after the backup is not in it.")


def _passphrase(file: Path | None, *, twice: bool = False) -> str:
    if file is None:
        return str(typer.prompt("passphrase", hide_input=True, confirmation_prompt=twice, err=True))
    try:
        return file.read_text(encoding="utf-8").split("\n", 1)[0]
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def _parties(path: Path) -> list[Party]:
    if (path / "ca").is_dir():
        found: list[Party] = _provisioning().read(path).parties()
        return found
    kit: Kit = _kits().open_kit(path, dates=False)
    return kit.members() or [kit.party()]


def _remark(party: Party) -> Text:
    if party.revoked:
        return Text(f"shut out on {party.revoked:%Y-%m-%d}", "red")
    left = _days_left(party)
    if left < 0:
        return Text("expired", "red")
    return Text(f"{left} days left", "yellow" if left < _SOON else "")


def _days_left(party: Party) -> int:
    return (party.until - datetime.now(UTC)).days


def _as_json(parties: list[Party]) -> list[dict[str, object]]:
    return [{**party.as_json(), "days_left": _days_left(party)} for party in parties]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _address(coordinator: str, port: int | None) -> tuple[str, int]:
    host, colon, digits = coordinator.rpartition(":")
    if not colon:
        return coordinator, _DEFAULT_PORT if port is None else port
    if not (digits.isascii() and digits.isdigit()):
        raise UserError(
            f"--coordinator {coordinator}: expected HOST or HOST:PORT, like fed.example.org:{_DEFAULT_PORT}"
        )
    if port not in (None, int(digits)):
        raise UserError(f"--coordinator {coordinator} and --port {port} disagree; give the port once")
    return host, int(digits)


def _provisioning() -> ModuleType:
    with federation_extra():
        from fedrel.federation.kits import provisioning
    return provisioning


def _kits() -> ModuleType:
    with federation_extra():
        from fedrel.federation.kits import kit
    return kit


@contextmanager
def federation_extra() -> Iterator[None]:
    """Around imports inside a command: what a federation needs is an extra, and no other command waits for it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "cryptography"):
            raise
        raise UserError('a federation needs more packages: pip install "fedrel[federation]"') from None
