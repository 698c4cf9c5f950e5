"""One format for messages, memory, checkpoints and models: a record as a safetensors file.

A record maps names to Named tensors or plain numbers. `weights` holding `conv` becomes the tensor
`weights/conv`; a number becomes a float64 tensor without a slash. The layout is written here, in numpy and
torch alone, because the simulator must run where nothing else is installed, and because bytes from the
network are checked before anything is made of them; the tests read and write the same files with the
safetensors library.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.privacy.entries import HEADER, Field
from fedrel.util.profiling import timed

Record = dict[str, Named | float]
Payload = bytes | bytearray

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_HEADER = 16 * 2**20
_HALVED = "halved"  # what travels in 16 bits and was 32 before
_SEAL = "sha256"  # the first entry of the metadata of what is kept on a disk
_SEALED = b'{"__metadata__":{"%s":"' % _SEAL.encode()  # how such a header begins; 64 hexadecimal digits follow
_DIGITS = slice(8 + len(_SEALED), 8 + len(_SEALED) + 64)
_UNSEALED_METADATA = {"progress"}  # all that files had before they were sealed
_MOST_DIMS, _MOST_BYTES = 16, 2**60  # an empty tensor takes no bytes, but its other sizes must fit a machine's numbers


class CodecError(ValueError):
    """Bytes that are no record of ours."""


@timed("codec")
def encode(
    record: Mapping[str, Named | float], metadata: Mapping[str, str] | None = None, *, half: bool = False
) -> bytearray:
    """With `half`, 32-bit numbers travel in 16 bits and arrive as 32-bit numbers again, rounded."""
    flat = _flatten(record)
    if half:
        flat, metadata = _halved(flat, metadata)
    order = _order(flat)
    text = _described(flat, order, metadata)
    tensors = (flat[name].detach().cpu().contiguous() for name in order)
    parts = [_flat(tensor).view(torch.uint8).numpy().data for tensor in tensors]
    return bytearray().join([len(text).to_bytes(8, "little"), text, *parts])


def _flat(tensor: Tensor) -> Tensor:
    """(n,) its numbers side by side. A single number that was expanded passes for contiguous with a stride of 0."""
    flat = tensor.reshape(-1)
    return flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)


def seal(record: Mapping[str, Named | float], metadata: Mapping[str, str] | None = None) -> bytearray:
    """A record for a disk: its metadata begins with the SHA-256 of all other bytes, so that `unseal` finds damage. To
    other readers of safetensors it is one more entry of the metadata.
    """
    payload = encode(record, {_SEAL: "0" * 64, **(metadata or {})})
    payload[_DIGITS] = _digest(payload)
    return payload


def unseal(payload: Payload) -> Record:
    """The record, if not a byte was changed, cut or added since `seal`. A file of an older version has no digest and
    is read as it is; but one with metadata that no older version wrote has lost its digest to damage.
    """
    if payload[8 : _DIGITS.start] == _SEALED:
        if payload[_DIGITS] != _digest(payload):
            raise CodecError("its bytes are not those that were written")
    elif not metadata(payload).keys() <= _UNSEALED_METADATA:
        raise CodecError("its header is not the one that was written")
    return decode(payload)


@timed("codec")
def _digest(payload: Payload) -> bytes:
    content = memoryview(payload)
    digest = hashlib.sha256(content[: _DIGITS.start])
    digest.update(content[_DIGITS.stop :])
    return digest.hexdigest().encode()


def _halved(flat: dict[str, Tensor], metadata: Mapping[str, str] | None) -> tuple[dict[str, Tensor], dict[str, str]]:
    short = {name: tensor.half() for name, tensor in flat.items() if tensor.dtype == torch.float32}
    for name, tensor in short.items():
        if not bool(torch.isfinite(tensor).all()) and bool(torch.isfinite(flat[name]).all()):
            raise UserError(f'{name} does not fit into 16 bits; set engine.transport = "exact"')
    return flat | short, {**(metadata or {}), _HALVED: json.dumps(sorted(short))}


@timed("codec")
def measure(record: Mapping[str, Named | float]) -> list[Field]:
    """What `fields` would say of the encoded record, without encoding it."""
    flat = _flatten(record)
    order = _order(flat)
    entries = [Field(name, _NAMES[it.dtype], tuple(it.shape), it.nbytes) for name, it in ((n, flat[n]) for n in order)]
    return [Field(HEADER, "", (), 8 + len(_described(flat, order, None))), *entries]


def _order(flat: Mapping[str, Tensor]) -> list[str]:
    """Wide types first: every tensor then starts at a multiple of its own size, without holes."""
    return sorted(flat, key=lambda name: -flat[name].element_size())


def _described(flat: Mapping[str, Tensor], order: list[str], metadata: Mapping[str, str] | None) -> bytes:
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        tensor = flat[name]
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + tensor.nbytes],
        }
        end += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


@timed("codec")
def decode(payload: Payload) -> Record:
    """The record; its tensors are views of `payload` where that is writable, copies otherwise."""
    header, start, found = _read_header(payload)
    halved = _names_in(found.get(_HALVED, "[]"))
    buffer = payload if isinstance(payload, bytearray) else bytearray(payload)
    record: Record = {}
    for name, field in header.items():
        tensor = _tensor(buffer, start, field)
        if name in halved and tensor.dtype == torch.float16:
            tensor = tensor.float()
        group, slash, rest = name.partition("/")
        if not slash:
            if tensor.dtype != torch.float64 or tensor.shape:
                raise CodecError(f"{name!r} is neither a number nor in a group")
            if group in record:
                raise CodecError(f"{group!r} is both a number and a group")
            record[group] = float(tensor)
            continue
        named = record.setdefault(group, Named())
        if not isinstance(named, Named):
            raise CodecError(f"{group!r} is both a number and a group")
        if rest:
            named[rest] = tensor
    return record


def _names_in(text: str) -> set[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        raise CodecError("unreadable header: a list of names is none") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CodecError("unreadable header: a list of names is none")
    return set(names)


def metadata(payload: Payload) -> dict[str, str]:
    _, _, found = _read_header(payload)
    return found


def fields(payload: Payload) -> list[Field]:
    """What the payload is made of; the bytes add up to its length exactly."""
    header, start = _header(payload)
    entries = [Field(name, f.dtype, f.shape, f.end - f.begin) for name, f in header.items()]
    return [Field(HEADER, "", (), start), *entries]


class _Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _flatten(record: Mapping[str, Named | float]) -> dict[str, Tensor]:
    flat: dict[str, Tensor] = {}
    for group, value in record.items():
        if not group or "/" in group:
            raise CodecError(f"{group!r} cannot name a part of a record")
        if not isinstance(value, Named):
            flat[group] = torch.tensor(float(value), dtype=torch.float64)
        elif value:
            flat |= {f"{group}/{name}": tensor for name, tensor in value.items()}
        else:
            flat[f"{group}/"] = torch.zeros(0)  # an empty group stays a group
    return flat


def _header(payload: Payload) -> tuple[dict[str, _Entry], int]:
    entries, start, _ = _read_header(payload)
    return entries, start


def _read_header(payload: Payload) -> tuple[dict[str, _Entry], int, dict[str, str]]:
    if len(payload) < 8:
        raise CodecError("shorter than its own header")
    length = int.from_bytes(payload[:8], "little")
    if length > min(_MAX_HEADER, len(payload) - 8):
        raise CodecError("shorter than its own header")
    try:
        header = json.loads(bytes(payload[8 : 8 + length]))
        found = header.pop("__metadata__", {})
        entries = {name: _entry(name, described) for name, described in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CodecError(f"unreadable header: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise CodecError("unreadable header: metadata must be text")
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].begin):
        if entry.begin != end:
            raise CodecError(f"{name!r} does not start where the one before it ends")
        end = entry.end
    if 8 + length + end != len(payload):
        raise CodecError(f"{len(payload)} bytes where the header announces {8 + length + end}")
    return dict(sorted(entries.items(), key=lambda item: item[1].begin)), 8 + length, found


def _entry(name: str, described: dict[str, object]) -> _Entry:
    dtype, shape, offsets = described["dtype"], described["shape"], described["data_offsets"]
    if dtype not in _DTYPES or not isinstance(dtype, str):
        raise ValueError(f"{name!r} has the unknown type {dtype!r}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{name!r} has the impossible shape {shape!r}")
    if len(shape) > _MOST_DIMS or math.prod(max(n, 1) for n in shape) > _MOST_BYTES:
        raise ValueError(f"{name!r} has a shape that no tensor can have")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(n) is int and n >= 0 for n in offsets):
        raise ValueError(f"{name!r} has impossible offsets")
    begin, end = offsets
    if end - begin != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise ValueError(f"{name!r} has {end - begin} bytes for the shape {shape}")
    return _Entry(dtype, tuple(shape), begin, end)


def _tensor(buffer: bytearray, start: int, entry: _Entry) -> Tensor:
    dtype = _DTYPES[entry.dtype]
    count = math.prod(entry.shape)
    if not count:
        return torch.zeros(entry.shape, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=start + entry.begin).reshape(entry.shape)
