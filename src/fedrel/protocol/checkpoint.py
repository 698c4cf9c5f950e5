"""Where a run stands, in two files that are replaced whole after every round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.protocol.codec import CodecError, Record, metadata, seal, unseal
from fedrel.util.files import write_atomic


@dataclass(frozen=True)
class Checkpoint:
    """After `progress["rounds"]` rounds: the server's state, the platforms' memories, and plain facts."""

    state: Record
    memories: Mapping[str, Record]
    progress: dict[str, object]


def save(folder: Path, checkpoint: Checkpoint) -> None:
    parts = {"state": checkpoint.state} | {f"memory.{name}": memory for name, memory in checkpoint.memories.items()}
    record: Record = {f"{part}|{field}": value for part, values in parts.items() for field, value in values.items()}
    write_atomic(folder / "round.safetensors", seal(record, {"progress": json.dumps(checkpoint.progress)}))


def load(folder: Path) -> Checkpoint:
    path = folder / "round.safetensors"
    record, said = _read(path)
    if "progress" not in said:
        raise UserError(f"{path}: not the checkpoint of a run, which says how far it is; {_MEND}")
    parts: dict[str, Record] = {}
    for name, value in record.items():
        part, _, field = name.partition("|")
        parts.setdefault(part, {})[field] = value
    memories = {part.removeprefix("memory."): values for part, values in parts.items() if part != "state"}
    return Checkpoint(parts.get("state", {}), memories, json.loads(said["progress"]))


def save_record(path: Path, record: Record) -> None:
    write_atomic(path, seal(record))


def load_record(path: Path) -> Record:
    return _read(path)[0]


def save_weights(path: Path, weights: Named) -> None:
    write_atomic(path, seal({"weights": weights}))


def load_weights(path: Path) -> Named:
    weights = _read(path)[0].get("weights")
    if not isinstance(weights, Named):
        raise UserError(f"{path}: holds no weights")
    return weights


_MEND = "put a copy of the file back, or start anew without it"


def _read(path: Path) -> tuple[Record, dict[str, str]]:
    """The record and the metadata of a file in which not a byte has changed since it was written."""
    try:
        payload = bytearray(path.read_bytes())
        return unseal(payload), metadata(payload)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}; there is nothing to go on from") from None
    except CodecError as error:
        raise UserError(f"{path}: damaged ({error}); {_MEND}") from None
