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
_Dir = Annotated[Path, typer.Argument(metavar="DIR", help="A folder created by `fedrel federation new`.")]
_SOON = 30  # days before a certificate expires, from which on there is a warning
_DEFAULT_PORT = 8002


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    coordinator: Annotated[
        str, typer.Option("--coordinator", metavar="HOST[:PORT]", help="The coordinator's address for all others.")
    ],
    platforms: Annotated[str, typer.Option("--platforms", metavar="A,B,C", help="Names of the organisations.")],
    port: Annotated[
        int | None, typer.Option("--port", help=f"The coordinator's port [default: {_DEFAULT_PORT}].")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="How long certificates are valid.")] = 365,
    admin: Annotated[str, typer.Option("--admin", metavar="NAME", help="The party that may start runs.")] = "admin",
    json_: _Json = False,
) -> None:
    """Create certificates and a kit for the coordinator, each platform and an admin."""
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
        table.add_row(Text(f"{folder}/{name}"), Text(f"platform {name} only: it has the key that blinds facts"))
    table.add_row(Text(f"{folder}/{admin}"), "the person who starts runs")
    table.add_row(Text(f"{folder}/ca"), "nobody: keep it here, and a safe copy. It can admit any party")
    out.print(table)
    tell(f"Certificates are valid until {made.parties()[0].until:%Y-%m-%d}. All parties must reach {host}:{port}.")
    tell("A kit contains private keys: send it over a channel that you trust, and delete your copy.")
    tell("Then, each party on its own machine:")
    tell(f"  fedrel coordinator start {_quoted(folder / 'coordinator')} --data PATH")
    for name in names:
        tell(f"  fedrel platform start {_quoted(folder / name)} --data PATH")
    tell(f"  fedrel submit {_quoted(folder / admin)} EXPERIMENT.toml --follow")


def add(
    folder: _Dir,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[
        Literal["platform", "admin", "viewer"],
        typer.Option("--role", help="A platform trains, an admin starts runs, a viewer sees the status."),
    ] = "platform",
    key_from: Annotated[
        Path | None,
        typer.Option("--key-from", metavar="KIT", help="A platform's kit, to copy the shared blinding key from."),
    ] = None,
    json_: _Json = False,
) -> None:
    """Create a kit for one more party."""
    kit = _provisioning().add(folder, name, role, key_from)
    if json_:
        print_json(json.dumps({"name": name, "role": role, "kit": str(kit)}))
        return
    tell(f"{kit} is the kit of {name} ({role}).")
    tell("A coordinator that runs from this folder notices within a second. If it runs from a copy, replace there:")
    tell(f"  {folder}/coordinator/members.json")


def revoke(folder: _Dir, name: Annotated[str, typer.Argument(metavar="NAME")], json_: _Json = False) -> None:
    """Revoke a party: the coordinator refuses it at once, even though its certificate is still valid."""
    files = _provisioning().revoke(folder, name)
    if json_:
        print_json(json.dumps({"revoked": name, "files": [str(file) for file in files]}))
        return
    tell(f"{name} is revoked permanently; the name cannot be used again.")
    tell("A coordinator that runs from this kit notices within a second. If it runs from a copy, replace there:")
    for file in files:
        tell(f"  {file}")
    tell("A platform still has the blinding key: if that is not acceptable, create a new federation.")


def renew(
    folder: _Dir,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="All parties, if left out.")] = None,
    json_: _Json = False,
) -> None:
    """Issue new certificates for the existing keys; nothing else in a kit changes."""
    renewed = _provisioning().renew(folder, names or [])
    if json_:
        print_json(json.dumps({name: [str(path) for path in paths] for name, paths in renewed.items()}))
        return
    table = Table("party", "files to copy into its kit (not secret)")
    for name, paths in renewed.items():
        table.add_row(Text(name), Text("\n".join(map(str, paths))))
    out.print(table)
    tell("A running node uses them without a restart.")


def show(
    path: Annotated[Path, typer.Argument(metavar="DIR_OR_KIT", help="A folder created by `new`, or one kit in it.")],
    json_: _Json = False,
) -> None:
    """Show the parties of a federation, their roles, and when their certificates expire."""
    parties = _parties(path)
    if json_:
        print_json(json.dumps(_as_json(parties), indent=1))
        return
    table = Table("party", "role", "certificate until", "")
    for party in parties:
        table.add_row(Text(party.name), party.role, f"{party.until:%Y-%m-%d}", _remark(party))
    out.print(table)
    late = [party for party in parties if not party.revoked and _days_left(party) < _SOON]
    if late:
        names = ", ".join(party.name for party in late)
        tell(f"Renew soon (fedrel federation renew DIR NAME): {names}", "yellow")


_Passphrase = Annotated[
    Path | None, typer.Option("--passphrase-file", help="Its first line is the passphrase; otherwise you are asked.")
]


def backup(
    kit: Annotated[Path, typer.Argument(metavar="KIT")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    passphrase_file: _Passphrase = None,
    json_: _Json = False,
) -> None:
    """Back up a kit into one encrypted file: keys, certificates, policy, ledger and memory."""
    opened = _kits().open_kit(kit, dates=False)
    from fedrel.federation.kits import backup as backups

    count = backups.backup(opened, file, _passphrase(passphrase_file, twice=True))
    if json_:
        print_json(json.dumps({"file": str(file), "files": count, "name": opened.name}))
        return
    tell(f"{file} contains {count} files of the kit of {opened.name}; it is useless without the passphrase.")
    tell(f"Restore it with: fedrel federation restore {_quoted(file)} NEW_FOLDER")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by `backup`.")],
    folder: Annotated[Path, typer.Argument(metavar="KIT", help="A new folder.")],
    passphrase_file: _Passphrase = None,
    json_: _Json = False,
) -> None:
    """Restore a kit from a backup."""
    _kits()
    from fedrel.federation.kits import backup as backups

    restored = backups.restore(file, folder, _passphrase(passphrase_file))
    if json_:
        print_json(json.dumps({"folder": str(folder), "name": restored.name, "role": restored.role}))
        return
    tell(f"{folder} is the kit of {restored.name} ({restored.role}). Its ledger lacks what was sent after the backup.")


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
        return Text(f"revoked on {party.revoked:%Y-%m-%d}", "red")
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
    """Wraps imports of packages that only federations need: they are an optional extra, and no other command loads
    them. Raises UserError if they are missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "cryptography"):
            raise
        raise UserError('a federation needs more packages: pip install "fedrel[federation]"') from None
