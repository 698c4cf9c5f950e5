"""A platform's files: where they are, its secret, and its memory between the rounds of a run."""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from fedrel.errors import UserError
from fedrel.federation.kits.kit import BLINDING_KEY, KEY_BYTES, POLICY
from fedrel.privacy.account import FILE as ACCOUNT
from fedrel.protocol.checkpoint import load_record, save_record
from fedrel.protocol.codec import Record
from fedrel.util.files import private_folder, write_atomic

_KEPT_ROUNDS = 2  # snapshots of memory: a coordinator that lost a round asks for it again
_KEPT_RUNS = 20  # runs whose memory is kept
_SNAPSHOT = re.compile(r"round-(\d+)\.safetensors")


@dataclass(frozen=True)
class Home:
    """The platform's name and the paths of its files; the coordinator cannot influence them."""

    name: str
    data: Path
    store: str  # its reviewers' verdicts; empty: none
    blinding_key: Path
    policy: Path
    ledger: Path
    memory: Path

    @property
    def account(self) -> Path:
        """What it has given away in noisy sums, over all runs."""
        return self.ledger.with_name(ACCOUNT)

    @classmethod
    def of(cls, kit: Path, name: str, data: Path, store: str) -> Home:
        """The paths of a platform with its kit, data and verdicts in these places."""
        ledger, memory = kit / "ledger" / "ledger.jsonl", kit / "memory"
        return cls(name, data, store, kit / BLINDING_KEY, kit / POLICY, ledger, memory)

    def own_secret(self) -> bytes:
        """The platform's secret that its training draws from; made when it is first needed, so that nobody else ever
        had it, and kept, so that a repeated round repeats exactly.
        """
        path = private_folder(self.memory) / "seed.key"
        if not path.exists():
            write_atomic(path, secrets.token_bytes(KEY_BYTES), private=True)
        secret = path.read_bytes()
        if len(secret) != KEY_BYTES:
            raise UserError(f"{path}: {len(secret)} bytes where {KEY_BYTES} were expected; delete it to begin anew")
        return secret


@dataclass
class Memory:
    """A platform's memory between the rounds of one run: snapshots on disk of the last rounds."""

    folder: Path
    attempt: int = -1
    loaded: bool = False

    def before(self, round_: int, attempt: int, current: Record) -> Record:
        """The memory at the start of a round. A coordinator that restarts after a crash may repeat a round that was
        already answered: in a new attempt, the snapshot from before the round is loaded instead of `current`.
        """
        if self.loaded and attempt == self.attempt:
            return current
        self.loaded, self.attempt = True, attempt
        earlier = [number for number in self._rounds() if number < round_]
        return load_record(self._path(max(earlier))) if earlier else {}

    def keep(self, round_: int, memory: Record) -> None:
        """Saves the memory after a round, and deletes snapshots that are no longer needed."""
        if not memory:
            return
        save_record(self._path(round_), memory)
        for number in sorted(self._rounds())[:-_KEPT_ROUNDS]:
            self._path(number).unlink(missing_ok=True)

    def _rounds(self) -> list[int]:
        names = (_SNAPSHOT.fullmatch(path.name) for path in self.folder.glob("round-*.safetensors"))
        return [int(name[1]) for name in names if name]

    def _path(self, round_: int) -> Path:
        return self.folder / f"round-{round_}.safetensors"


def tidy(memory: Path) -> None:
    """Deletes the memory of old runs, except the number of their last request: none of them is ever answered again."""
    asked = {path.parent: path.stat().st_mtime_ns for path in memory.glob("*/seen.json")}  # time of the last request
    for folder in sorted(asked, key=lambda it: asked[it])[:-_KEPT_RUNS]:
        for path in folder.iterdir():
            if path.name != "seen.json":
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
