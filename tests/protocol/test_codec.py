import contextlib
import json

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.protocol.codec import CodecError, decode, encode, fields, measure, metadata

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
DTYPES += [torch.int8, torch.uint8, torch.bool]
names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    seed = draw(st.integers(0, 999))
    values = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed))
    return values.to(draw(st.sampled_from(DTYPES)))


records = st.dictionaries(
    names, st.one_of(st.floats(), st.dictionaries(st.text(min_size=1, max_size=8), tensors(), max_size=3).map(Named))
)


def readable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def same(a, b):
    if isinstance(a, Named):
        assert a.keys() == b.keys()
        for name, value in a.items():
            assert value.dtype == b[name].dtype
            assert torch.equal(value, b[name])
    else:
        assert a == b or (a != a and b != b)


@given(records)
def test_a_record_comes_back_as_it_was(record):
    back = decode(encode(record))
    assert record.keys() == back.keys()
    for key, value in record.items():
        same(value, back[key])


@given(records)
def test_a_record_is_measured_without_encoding_it(record):
    assert measure(record) == fields(encode(record))


@given(records)
def test_fields_add_up_to_the_bytes(record):
    payload = encode(record)
    assert sum(field.bytes for field in fields(payload)) == len(payload)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_refused(junk):
    with contextlib.suppress(CodecError):
        decode(junk)


@given(records, st.data())
def test_a_damaged_record_is_read_or_refused_never_worse(record, data):
    payload = bytearray(encode(record))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CodecError):
        decode(payload)


@given(records, st.integers(1, 50))
def test_a_cut_record_is_refused(record, missing):
    payload = encode(record)
    with pytest.raises(CodecError):
        decode(payload[: max(len(payload) - missing, 0)])


def test_the_safetensors_library_reads_what_we_write():
    record = {"weights": Named(a=torch.randn(2, 3), b=torch.arange(4, dtype=torch.int16)), "loss": 0.5}
    theirs = safetensors.torch.load(bytes(encode(record, {"k": "v"})))
    assert torch.equal(theirs["weights/a"], record["weights"]["a"])
    assert torch.equal(theirs["weights/b"], record["weights"]["b"])
    assert theirs["loss"].item() == 0.5


def test_we_read_what_the_safetensors_library_writes():
    tensor = torch.randn(3, 2)
    back = decode(safetensors.torch.save({"weights/a": tensor}))
    assert torch.equal(back["weights"]["a"], tensor)


def test_metadata_travels_along():
    assert metadata(encode({}, {"round": "7"})) == {"round": "7"}


def test_a_header_that_lies_about_sizes_is_refused():
    header = json.dumps({"w/a": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4]}}).encode()
    with pytest.raises(CodecError, match="bytes for the shape"):
        decode(len(header).to_bytes(8, "little") + header + b"1234")


def test_a_strided_tensor_is_written_in_order():
    tensor = torch.arange(6.0).view(2, 3).T
    assert torch.equal(decode(encode({"g": Named(t=tensor)}))["g"]["t"], tensor)


@given(records)
def test_32_bit_numbers_travel_in_16_bits_if_asked(record):
    payload = encode(record, half=True)
    back = decode(payload)
    assert record.keys() == back.keys()
    for key, value in record.items():
        if isinstance(value, Named):
            same(
                Named({name: it.half().float() if it.dtype == torch.float32 else it for name, it in value.items()}),
                back[key],
            )
        else:
            same(value, back[key])
    assert not any(entry.dtype == "F32" for entry in fields(payload))


def test_a_number_that_16_bits_cannot_hold_is_refused():
    with pytest.raises(UserError, match=r"weights/w does not fit into 16 bits; set engine.transport"):
        encode({"weights": Named(w=torch.tensor([1e9]))}, half=True)
