"""A kit as one encrypted file, for the safe: keys, certificates, policy, ledger, memory and audit trail.

The file is a tar archive under AES-256-GCM; the key is made of a passphrase with scrypt. Whoever has the file and not
the passphrase has nothing, and a changed byte is noticed.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from fedrel.errors import UserError
from fedrel.federation.kits.authority import make_private
from fedrel.federation.kits.kit import Kit, open_kit
from fedrel.util.files import folder_whole, write_whole

_MARK = b"fedrel kit 1\n"
_SALT, _NONCE = 16, 12
_MOST_BYTES = 2**31 - 1  # that are encrypted as one
_LEFT_OUT = ("spool", "relay", ".node.lock", "node.log")  # what a node makes anew


def backup(kit: Kit, file: Path, passphrase: str) -> int:
    """Writes the file; how many files of the kit are in it."""
    if file.exists():
        raise UserError(f"{file}: already there; choose another name")
    content, count = io.BytesIO(), 0
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in sorted(kit.folder.rglob("*")):
            inside = path.relative_to(kit.folder)
            if path.is_file() and not path.is_symlink() and not inside.parts[0].startswith(_LEFT_OUT):
                archive.add(path, str(inside), recursive=False)
                count += 1
    if content.tell() >= _MOST_BYTES:
        raise UserError(f"{kit.folder}: more than 2 GB; move old files of its memory away, then try again")
    salt, nonce = secrets.token_bytes(_SALT), secrets.token_bytes(_NONCE)
    sealed = AESGCM(_key(passphrase, salt)).encrypt(nonce, content.getvalue(), _MARK)
    write_whole(file, _MARK + salt + nonce + sealed, private=True)
    return count


def restore(file: Path, folder: Path, passphrase: str) -> Kit:
    """Puts the kit into a folder that is not there yet, whole or not at all."""
    if folder.exists():
        raise UserError(f"{folder}: already there; move it away, or choose another name")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    if not content.startswith(_MARK):
        raise UserError(f"{file}: not a backup of a kit (`fedrel federation backup` makes them)")
    rest = content[len(_MARK) :]
    salt, nonce, sealed = rest[:_SALT], rest[_SALT : _SALT + _NONCE], rest[_SALT + _NONCE :]
    try:
        opened = AESGCM(_key(passphrase, salt)).decrypt(nonce, sealed, _MARK)
    except (InvalidTag, ValueError):
        raise UserError(f"{file}: another passphrase, or the file is damaged") from None
    with folder_whole(folder, private=True) as whole:
        with tarfile.open(fileobj=io.BytesIO(opened), mode="r:gz") as archive:
            archive.extractall(whole, filter="data")
        make_private([whole])
        kit = open_kit(whole, dates=False)
    return Kit(folder, kit.federation, kit.name, kit.role, kit.host, kit.port)


def _key(passphrase: str, salt: bytes) -> bytes:
    if len(passphrase) < 8:
        raise UserError("a passphrase has at least 8 characters")
    return Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(passphrase.encode())
