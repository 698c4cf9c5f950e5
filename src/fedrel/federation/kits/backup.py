"""A kit as one encrypted file: keys, certificates, policy, ledger, memory and audit trail.

The file is a tar archive encrypted with AES-256-GCM; the key is derived from a passphrase with scrypt. Without the
passphrase it reveals nothing, and any changed byte is detected.
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
from fedrel.util.files import atomic_folder, write_atomic

_MARK = b"fedrel kit 1\n"
_SALT, _NONCE = 16, 12
_MOST_BYTES = 2**31 - 1  # the limit of one AES-GCM message here
_LEFT_OUT = ("spool", "relay", ".node.lock", "node.log")  # a node creates these itself


def backup(kit: Kit, file: Path, passphrase: str) -> int:
    """Writes the backup and returns how many files of the kit it holds. Raises UserError if `file` exists, the kit is
    too large, or the passphrase is too short.
    """
    if file.exists():
        raise UserError(f"{file}: already exists; choose another name")
    content, count = io.BytesIO(), 0
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in sorted(kit.folder.rglob("*")):
            inside = path.relative_to(kit.folder)
            if path.is_file() and not path.is_symlink() and not inside.parts[0].startswith(_LEFT_OUT):
                archive.add(path, str(inside), recursive=False)
                count += 1
    if content.tell() >= _MOST_BYTES:
        raise UserError(f"{kit.folder}: more than 2 GB; move old files out of its memory/ folder, then try again")
    salt, nonce = secrets.token_bytes(_SALT), secrets.token_bytes(_NONCE)
    sealed = AESGCM(_key(passphrase, salt)).encrypt(nonce, content.getvalue(), _MARK)
    write_atomic(file, _MARK + salt + nonce + sealed, private=True)
    return count


def restore(file: Path, folder: Path, passphrase: str) -> Kit:
    """Restores a kit into a new folder, completely or not at all, and returns it. Raises UserError if the folder
    exists, the passphrase is wrong, or the file is damaged.
    """
    if folder.exists():
        raise UserError(f"{folder}: already exists; move it away, or choose another name")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    if not content.startswith(_MARK):
        raise UserError(f"{file}: not a backup of a kit; create one with `fedrel federation backup`")
    rest = content[len(_MARK) :]
    salt, nonce, sealed = rest[:_SALT], rest[_SALT : _SALT + _NONCE], rest[_SALT + _NONCE :]
    try:
        opened = AESGCM(_key(passphrase, salt)).decrypt(nonce, sealed, _MARK)
    except (InvalidTag, ValueError):
        raise UserError(f"{file}: the passphrase is wrong, or the file is damaged") from None
    with atomic_folder(folder, private=True) as whole:
        with tarfile.open(fileobj=io.BytesIO(opened), mode="r:gz") as archive:
            archive.extractall(whole, filter="data")
        make_private([whole])
        kit = open_kit(whole, dates=False)
    return Kit(folder, kit.federation, kit.name, kit.role, kit.host, kit.port)


def _key(passphrase: str, salt: bytes) -> bytes:
    if len(passphrase) < 8:
        raise UserError("a passphrase must have at least 8 characters")
    return Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(passphrase.encode())
