"""Messages between the processes of a node: headers over a socket, payloads as open files."""

import contextlib
import errno
import json
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.federation import channel
from fedrel.federation.channel import Blob, Channel, ClosedError, Message


@pytest.fixture
def pair():
    ours, theirs = Channel.pair()
    other = Channel(theirs)
    yield ours, other
    ours.close(), other.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --------------------------------------------------------------------------------------------- messages


def test_a_message_arrives_with_its_payload(pair):
    one, other = pair
    one.send({"do": "x", "id": 3, "text": "ä\n"}, Blob.of(b"content"))
    one.send({"do": "y"})
    found = other.receive(1)
    assert found.header == {"do": "x", "id": 3, "text": "ä\n"}
    assert found.payload.read(7) == b"content"
    assert other.receive(1) == Message({"do": "y"}, None)
    assert other.receive(0.01) is None
    assert other.receive(-5) is None


def test_both_ends_ask_and_answer(pair):
    one, other = pair
    other.send({"do": "answer"})
    assert one.ask({"do": "question"}, timeout=1).header == {"do": "answer"}
    assert other.receive(1).header == {"do": "question"}
    with pytest.raises(TimeoutError, match="no answer in time"):
        one.ask({"do": "question"}, timeout=0.01)


def test_many_threads_send_whole_messages(pair):
    one, other = pair

    def send(number):
        for _ in range(20):
            one.send({"number": number, "text": "x" * 1000 * number}, Blob.of(bytes([number]) * number))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(1, 6)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        found = other.receive(5)
        number = found.header["number"]
        assert found.header["text"] == "x" * 1000 * number
        assert found.payload.read(9) == bytes([number]) * number
    for thread in threads:
        thread.join()


def test_a_header_that_is_too_large_is_not_sent(pair):
    one, other = pair
    with pytest.raises(ValueError, match="too large for a channel"):
        one.send({"text": "x" * channel._MOST_HEADER})
    one.send({"text": "x" * (channel._MOST_HEADER - 20)})
    assert len(other.receive(1).header["text"]) == channel._MOST_HEADER - 20


def test_the_other_end_has_gone(pair):
    one, other = pair
    other.send({"do": "last"})
    other.close()
    assert one.receive(1).header == {"do": "last"}
    for _ in range(2):
        with pytest.raises(ClosedError, match="the other process has gone"):
            one.receive(1)
    with pytest.raises(ClosedError, match="the other process has gone"):
        one.send({"do": "x"}, Blob.of(b"x"))
    with pytest.raises(ClosedError):
        one.ask({"do": "x"}, timeout=1)


@pytest.mark.parametrize(
    "content",
    [b"{", b"", b"\xff\xfe", b"[]", b"3", b"null", b'"x"', b"{}}", b"[" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}"],
)
def test_an_invalid_message_counts_as_the_end(pair, content):
    one, other = pair
    one._end.send(content)
    with pytest.raises(ClosedError, match=r"gone|not a message"):
        other.receive(1)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_count_as_the_end(content):
    ours, theirs = Channel.pair()
    other = Channel(theirs)
    theirs.send(content)
    with contextlib.suppress(ClosedError):
        assert ours.receive(1).header == json.loads(content)
    ours.close(), other.close()


def test_a_truncated_message_counts_as_the_end(pair):
    one, other = pair
    one._end.send(b'{"text": "' + b"x" * channel._MOST_HEADER + b'"}')
    with pytest.raises(ClosedError, match="the other process has gone"):
        other.receive(1)


def test_more_than_one_file_is_refused_and_none_stays_open(pair):
    one, other = pair
    before = open_files()
    blobs = [Blob.of(b"x") for _ in range(3)]
    socket.send_fds(one._end, [b"{}"], [blob.descriptor for blob in blobs])
    with pytest.raises(ClosedError):
        other.receive(1)
    for blob in blobs:
        blob.close()
    assert open_files() == before


def test_payloads_that_are_not_read_are_closed(pair):
    one, other = pair
    before = open_files()
    for _ in range(50):
        one.send({}, Blob.of(b"x"))
        assert other.receive(1).payload is not None
    one._end.send(b"no message")
    with pytest.raises(ClosedError):
        other.receive(1)
    assert open_files() == before


def test_a_child_inherits_its_end_and_its_children_do_not():
    ours, theirs = Channel.pair()
    descriptor = os.dup(theirs.fileno())
    os.set_inheritable(descriptor, True)
    child = Channel.inherited(descriptor)
    assert not os.get_inheritable(child.fileno())
    child.send({"do": "hello"})
    assert ours.receive(1).header == {"do": "hello"}
    ours.close(), theirs.close(), child.close()


# --------------------------------------------------------------------------------------------- payloads


def test_a_payload_in_memory_and_one_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(channel, "IN_MEMORY", 1000)
    for size, on_disk in ((0, False), (1000, False), (1001, True), (3_000_000, True)):
        content = os.urandom(size)
        blob = Blob.of(content, tmp_path)
        where = str(Path(f"/proc/self/fd/{blob.descriptor}").readlink())
        assert where.startswith(str(tmp_path)) == on_disk and "deleted" in where
        assert blob.read(size) == content and len(blob) == size
        assert blob.piece(1000) == content[1000 : 1000 + 2**20]
        assert list(tmp_path.iterdir()) == []


def test_without_a_folder_everything_is_in_memory(monkeypatch):
    monkeypatch.setattr(channel, "IN_MEMORY", 10)
    blob = Blob.of(b"x" * 100)
    assert "memfd" in str(Path(f"/proc/self/fd/{blob.descriptor}").readlink())


def test_a_large_payload_is_passed_on_and_outlives_its_creator(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(channel, "IN_MEMORY", 1000)
    one, other = pair
    content = os.urandom(5_000_000)
    blob = Blob.of(content, tmp_path)
    one.send({}, blob)
    blob.close()
    one.close()
    assert other.receive(1).payload.read(5_000_000) == content


def test_a_payload_is_as_large_as_expected_or_not_read():
    blob = Blob.of(b"0123456789")
    assert blob.read(10) == b"0123456789"
    with pytest.raises(ValueError, match="a payload of 10 bytes where at most 9 were expected"):
        blob.read(9)


def test_only_regular_files_are_read(tmp_path):
    reading, writing = os.pipe()
    for descriptor in (reading, writing, os.open(tmp_path, os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY)):
        with pytest.raises(ValueError, match="a payload of"):
            Blob(descriptor).read(100)


def test_content_that_was_read_does_not_change_with_the_file():
    blob = Blob.of(b"before")
    content = blob.read(10)
    os.pwrite(blob.descriptor, b"after!", 0)
    assert content == b"before" and blob.read(10) == b"after!"


def test_a_payload_that_shrinks_while_being_read(monkeypatch):
    blob = Blob.of(b"x" * 100)
    whole = os.fstat(blob.descriptor)
    os.ftruncate(blob.descriptor, 50)
    monkeypatch.setattr(os, "fstat", lambda descriptor: whole)
    with pytest.raises(ValueError, match="shrank while it was being read"):
        blob.read(100)


def test_a_payload_is_closed_once():
    blob = Blob.of(b"x")
    blob.close()
    blob.close()
    with pytest.raises(OSError) as caught:
        blob.read(10)
    assert caught.value.errno == errno.EBADF
