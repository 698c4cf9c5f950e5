"""The ledger: what is written is read, what is cut off is mended, what is changed is found, and a full disk lets
nothing out.
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.privacy.ledger import Entry, Field, Ledger, read, scan, verify
from fedrel.protocol.codec import encode, fields

BALLOT = encode({"ballot": Named(key=torch.tensor([7, -7]), score=torch.tensor([0.5, 0.25])), "loss": 0.5})


def write(ledger, payload=BALLOT, *, run="r", round=1, task="score"):
    ledger.write(run=run, round=round, task=task, payload=payload, fields=fields(payload))


def filled(path: Path) -> bytes:
    """Three replies and a refusal."""
    with Ledger.open(path) as ledger:
        for number in (1, 2, 3):
            write(ledger, round=number)
        ledger.refuse(run="r", round=4, task="train", why="its policy forbids it")
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "ledger.jsonl"


def test_an_entry_says_what_left(path):
    filled(path)
    first, *_, last = read(path)
    assert first == Entry(
        time=first.time,
        run="r",
        round=1,
        task="score",
        to="coordinator",
        bytes=len(BALLOT),
        sha256=hashlib.sha256(BALLOT).hexdigest(),
        fields=(
            Field("(header)", "", (), len(BALLOT) - 32),
            Field("ballot/key", "I64", (2,), 16),
            Field("loss", "F64", (), 8),
            Field("ballot/score", "F32", (2,), 8),
        ),
    )
    assert last == Entry(last.time, "r", 4, "train", "coordinator", refused="its policy forbids it")
    assert first.time < last.time and first.time.endswith("Z")
    assert path.stat().st_mode & 0o777 == 0o600


names = st.text(min_size=1, max_size=8)
tensors = st.lists(st.integers(0, 3), max_size=2).map(lambda shape: torch.zeros(shape, dtype=torch.float16))
records = st.dictionaries(
    names.filter(lambda name: "/" not in name and name != "__metadata__"),
    st.one_of(st.floats(), st.dictionaries(names, tensors).map(Named)),
    max_size=3,
)
writes = st.tuples(st.text(), st.integers(0, 10**9), st.text(), records.map(encode), st.booleans())
refusals = st.tuples(st.text(), st.integers(0, 10**9), st.text(), st.text(min_size=1), st.booleans())


@settings(max_examples=50)
@given(st.lists(st.one_of(writes, refusals), max_size=5))
def test_what_is_written_is_read(sequence):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        ledger = Ledger.open(path)
        expected = []
        for run, number, task, what, again in sequence:
            if isinstance(what, str):
                ledger.refuse(run=run, round=number, task=task, why=what)
                expected.append((run, number, task, 0, "", (), what))
            else:
                write(ledger, what, run=run, round=number, task=task)
                digest = hashlib.sha256(what).hexdigest()
                expected.append((run, number, task, len(what), digest, tuple(fields(what)), ""))
            if again:
                ledger.close()
                ledger = Ledger.open(path)
        ledger.close()
        found = [(it.run, it.round, it.task, it.bytes, it.sha256, it.fields, it.refused) for it in read(path)]
        assert found == expected
        assert verify(path) == []
        assert path.read_bytes().count(b"\n") == len(sequence)


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    return filled(tmp_path_factory.mktemp("ledger") / "ledger.jsonl")


@given(data=st.data())
def test_a_file_cut_off_at_any_byte_goes_on_from_its_last_whole_line(content, data):
    ends = [at for at, byte in enumerate(content) if byte == ord("\n")]
    near = st.sampled_from([0, *(end + more for end in ends for more in (-1, 0, 1))])
    cut = data.draw(st.one_of(near, st.integers(0, len(content))))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(content)
        before = list(read(path))
        path.write_bytes(content[:cut])
        between_lines = cut == 0 or cut - 1 in ends
        kept = content[:cut].count(b"\n") + (cut in ends)
        assert bool(verify(path)) == (not between_lines)
        assert list(read(path)) == before[:kept]
        said = []
        with Ledger.open(path, say=said.append) as ledger:
            write(ledger, round=9)
        assert len(said) == (not between_lines)
        assert [*read(path)][:-1] == before[:kept]
        assert verify(path) == []
        aside = [it.read_bytes() for it in path.parent.glob("*.torn-*")]
        assert aside == ([] if between_lines or cut in ends else [content[:cut].split(b"\n")[-1]])


def test_a_second_torn_line_does_not_replace_the_first(path):
    filled(path)
    for number in (1, 2):
        with path.open("ab") as file:
            file.write(b"\0" * number)
        Ledger.open(path).close()
    assert sorted((it.name, it.read_bytes()) for it in path.parent.glob("*.torn-*")) == [
        ("ledger.jsonl.torn-1", b"\0"),
        ("ledger.jsonl.torn-2", b"\0\0"),
    ]


def problems(content: bytes) -> list[int]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(content)
        return [line.number for line in verify(path)]


@given(data=st.data())
def test_any_changed_byte_is_found(content, data):
    at = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    assert problems(content[:at] + bytes([other]) + content[at + 1 :])


@given(data=st.data())
def test_any_inserted_or_removed_bytes_are_found(content, data):
    at = data.draw(st.integers(0, len(content) - 1))
    assert problems(content[:at] + data.draw(st.binary(min_size=1, max_size=9)) + content[at:])
    end = data.draw(st.integers(at + 1, len(content)))
    shorter = content[:at] + content[end:]
    if not content.startswith(shorter) or not (shorter.endswith(b"\n") or not shorter):
        assert problems(shorter)


def test_lines_that_are_moved_removed_or_repeated_are_found_where_they_are(content):
    a, b, c, d = content.splitlines(keepends=True)
    for lines, wrong in (
        ([a, b, c, d], []),
        ([b, c, d], [1]),
        ([a, c, d], [2]),
        ([a, b, d], [3]),
        ([a, c, b, d], [2, 3, 4]),
        ([a, b, b, c, d], [3]),
        ([a, b, b"\n", c, d], [3]),
        ([a, b.replace(b'"round":2', b'"round":5'), c, d], [2]),
        ([a, b"{}\n", c, d], [2]),
    ):
        assert problems(b"".join(lines)) == wrong


def test_a_line_made_anew_with_a_fitting_hash_is_found_by_the_next_one(content):
    a, b, c, d = content.splitlines(keepends=True)
    text = b.replace(b'"round":2', b'"round":5')[:-76] + b"}"
    forged = text[:-1] + f',"hash":"{hashlib.sha256(text).hexdigest()}"}}\n'.encode()
    assert len(forged) == len(b)
    assert problems(b"".join([a, forged, c, d])) == [3]


@pytest.mark.parametrize("damage", [b"not ours\n", b"{}\n", b"\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_nothing_is_added_to_a_file_that_does_not_end_as_a_ledger(path, damage):
    content = filled(path) + damage
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"ledger.jsonl: the last line is not a ledger entry, so no line can follow"):
        Ledger.open(path)
    assert path.read_bytes() == content
    with pytest.raises(UserError, match=r"ledger.jsonl:5: is not a ledger entry"):
        list(read(path))
    assert len([line for line in scan(path) if line.entry is not None]) == 4


def test_nothing_is_added_after_a_changed_last_line(path):
    changed = filled(path).replace(b'"round":4', b'"round":5')
    for content in (changed, changed.removesuffix(b"\n")):
        path.write_bytes(content)
        with pytest.raises(UserError, match="was changed after it was written"):
            Ledger.open(path)
        assert path.read_bytes() == content


# ------------------------------------------------------------------------------------------ who may write


HOLD = """
import os, sys, time
from pathlib import Path
from fedrel.privacy.ledger import Ledger
ledger = Ledger.open(Path(sys.argv[1]))
ledger.refuse(run="r", round=1, task="t", why="no")
child = 0
if sys.argv[2] == "fork":
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b".")
        time.sleep(600)
    os.read(reading, 1)  # the child runs
print(child, flush=True)
time.sleep(600)
"""


@contextmanager
def platform(path: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the ledger; forked, with a child that outlives it."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path), how], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process
        finally:
            process.kill()
            if child:
                os.kill(child, signal.SIGKILL)


def test_one_process_at_a_time(path):
    with platform(path, "alone") as process:
        with pytest.raises(UserError, match="another process has this ledger open"):
            Ledger.open(path)
        process.kill()
        process.wait()
        Ledger.open(path).close()
    with Ledger.open(path) as ledger:
        write(ledger)
        with pytest.raises(UserError, match="another process has this ledger open"):
            Ledger.open(path)
        assert len(list(read(path))) == 2, "reading does not let go of it"
        with pytest.raises(UserError, match="another process has this ledger open"):
            Ledger.open(path)
    assert verify(path) == []


def test_a_forked_child_that_outlives_its_platform_does_not_hold_the_ledger(path):
    with platform(path, "fork") as process:
        process.kill()
        process.wait()
        with Ledger.open(path) as ledger:
            write(ledger)
    assert verify(path) == []


def test_threads_share_a_ledger(path):
    with Ledger.open(path) as ledger:
        threads = [threading.Thread(target=lambda: [write(ledger) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(list(read(path))) == 80
    assert verify(path) == []


# ------------------------------------------------------------------------------------------ failing closed


FILL = """
import resource, sys
from pathlib import Path
from fedrel.errors import UserError
from fedrel.privacy import Field, Ledger

def left(number):
    ledger.write(run="r", round=number, task="t", payload=b"12345678", fields=[Field("(header)", "", (), 8)])
    print(number)

ledger = Ledger.open(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
number = 0
try:
    while True:
        number += 1
        left(number)
except UserError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
left(number)
"""


@pytest.mark.parametrize("room", [0, 1, 1_000, 1_500])
def test_on_a_full_disk_nothing_leaves_until_there_is_room(path, room):
    done = subprocess.run([sys.executable, "-c", FILL, path, str(room)], capture_output=True, text=True, check=True)
    *left, sentence, last = done.stdout.splitlines()
    assert sentence == (
        f"{path}: File too large, and nothing leaves that is not in the ledger; "
        "free some space or fix the cause, then restart"
    )
    assert len(left) == room // len(path.read_bytes().split(b"\n")[0] + b"\n")
    assert [str(entry.round) for entry in read(path)] == [*left, last]
    assert verify(path) == []


@pytest.mark.parametrize(
    "meddle",
    [
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("old.jsonl")),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"\n"),
        lambda path: (path.rename(path.with_name("old.jsonl")), path.write_bytes(b"")),
    ],
)
def test_nothing_leaves_while_the_file_is_not_the_one_that_was_opened(path, meddle):
    with Ledger.open(path) as ledger:
        write(ledger)
        meddle(path)
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(UserError, match="the ledger was changed, moved or removed"):
            write(ledger)
        assert (path.read_bytes() if path.exists() else None) == before


def test_what_cannot_be_a_ledger_is_refused(path, tmp_path):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for wrong, why in (
        (tmp_path, "Is a directory, and nothing leaves without a ledger"),
        (tmp_path / "file" / "ledger.jsonl", "and nothing leaves without a ledger"),
        (tmp_path / "pipe", "not a regular file"),
    ):
        with pytest.raises(UserError, match=why):
            Ledger.open(wrong)
    with pytest.raises(UserError, match="No such file"):
        list(read(path))


def test_a_closed_ledger_lets_nothing_out(path):
    with Ledger.open(path) as ledger:
        pass
    with pytest.raises(UserError, match="nothing leaves that is not in the ledger"):
        write(ledger)


def test_fields_must_be_those_of_the_payload(path):
    with Ledger.open(path) as ledger, pytest.raises(ValueError, match="not those of the payload"):
        ledger.write(run="r", round=1, task="t", payload=BALLOT + b"\0", fields=fields(BALLOT))
    assert path.read_bytes() == b""


def test_what_left_before_a_crash_still_counts(path):
    filled(path)
    with Ledger.open(path) as ledger:
        write(ledger, run="other")
        write(ledger, round=3)
        size = len(BALLOT)
        assert +ledger.sent("r") == {1: size, 2: size, 3: 2 * size}
        assert ledger.sent("none") == {}
