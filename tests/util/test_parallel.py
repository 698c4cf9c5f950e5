"""Work over processes: in order, lazily, with the errors it has, and with nothing left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from fedrel.errors import UserError
from fedrel.util.parallel import _WAITING, cores, map_in_order


def slow_first(number: int) -> tuple[int, int]:
    time.sleep(0.05 if number == 0 else 0)
    return number, os.getpid()


def refuse_three(number: int) -> int:
    if number == 3:
        raise UserError("d.txt:3: not so")
    return number


def killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 20])
def test_results_are_in_the_order_of_the_work(workers, items):
    assert [number for number, _ in map_in_order(slow_first, iter(range(items)), workers)] == list(range(items))
    assert not multiprocessing.active_children()


def test_work_is_spread_over_processes_only_where_there_are_several_pieces():
    assert {process for _, process in map_in_order(slow_first, range(1), 2)} == {os.getpid()}
    assert {process for _, process in map_in_order(slow_first, range(9), 1)} == {os.getpid()}
    assert os.getpid() not in {process for _, process in map_in_order(slow_first, range(9), 2)}


def test_there_are_no_more_processes_than_pieces():
    with closing(map_in_order(slow_first, range(2), 50)) as results:
        next(results)
        assert len(multiprocessing.active_children()) <= 2


def test_work_may_be_anything_since_nothing_of_it_is_sent():
    with Path(os.devnull).open() as held:  # it cannot be pickled, and neither can the function
        assert list(map_in_order(lambda number: (number, held.name), range(3), 2)) == [
            (n, os.devnull) for n in range(3)
        ]


def test_two_at_the_same_time_do_their_own_work():
    double, negate = map_in_order(lambda n: 2 * n, range(50), 2), map_in_order(lambda n: -n, range(50), 2)
    assert list(zip(double, negate, strict=True)) == [(2 * n, -n) for n in range(50)]


def test_no_more_is_read_than_is_under_way():
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    with closing(map_in_order(slow_first, items(), 2)) as results:
        for done in range(1, 20):
            next(results)
            assert len(read) < done + _WAITING * 2 + 1
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_the_work_is_the_same_error_here(workers):
    results = map_in_order(refuse_three, range(100), workers)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError) as caught:
        next(results)
    assert str(caught.value) == "d.txt:3: not so"
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_what_gives_the_items_is_the_same_error_here(workers):
    def items():
        yield from range(4)
        raise UserError("d.txt:5: not UTF-8")

    with pytest.raises(UserError, match=r"d\.txt:5: not UTF-8"):
        list(map_in_order(slow_first, items(), workers))
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_told_in_a_sentence():
    with pytest.raises(UserError, match=r"a worker process was killed.*fewer --workers"):
        list(map_in_order(killed, range(100), 2))
    assert not multiprocessing.active_children()


# In a process of its own: workers say who they are, and then there is work without end; they are at it, or wait for it.
SCRIPT = """
import os, sys, time, itertools
from fedrel.util.parallel import map_in_order

def work(number):
    time.sleep(0.02 if sys.argv[1] == "work" else 0)
    return os.getpid()

def items():
    for number in itertools.count():
        time.sleep(0.02 if sys.argv[1] == "wait" and number > 8 else 0)
        yield number

try:
    for process in map_in_order(work, items(), 2):
        print(process, flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(what="work") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def workers_of(process: subprocess.Popen[str]) -> set[int]:
    assert process.stdout is not None
    found: set[int] = set()
    while len(found) < 2:
        found.add(int(process.stdout.readline()))
    return found


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def all_end(processes: set[int]) -> bool:
    deadline = time.monotonic() + 10
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(is_alive, processes))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
@pytest.mark.parametrize("what", ["work", "wait"])
@pytest.mark.parametrize("whom", ["all", "first"])
def test_ctrl_c_ends_all_without_a_word(whom, what):
    process = start(what)
    workers = workers_of(process)
    os.killpg(process.pid, signal.SIGINT) if whom == "all" else process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
    assert all_end(workers)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
def test_processes_end_when_the_first_one_is_killed():
    process = start()
    workers = workers_of(process)
    process.kill()
    process.communicate(timeout=30)
    assert all_end(workers)


def test_there_is_a_core():
    assert 1 <= cores() <= (os.cpu_count() or 1)
