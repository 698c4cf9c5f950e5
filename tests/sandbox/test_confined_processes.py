"""Other processes, programs, threads and the kernel, as seen from a confined process."""

import json
import os
import platform
import signal
import subprocess
import sys

import pytest

from fedrel.sandbox.seccomp import ARCHITECTURES
from tests.sandbox.confined import PRELUDE, landlock_version, needs_files, needs_filter, needs_scopes, program, run


@needs_files
@needs_filter
def test_cannot_read_its_parents_memory():
    code = """
parent = f"/proc/{os.getppid()}"
ptrace_attach, numbers = 16, json.loads(sys.argv[1])
buffer = ctypes.create_string_buffer(64)
files = ("mem", "environ", "maps", "root/etc/hosts", "cwd/x", "fd/0")
print(json.dumps([
    *(attempt(open, f"{parent}/{name}", "rb") for name in files),
    *(attempt(os.readlink, f"{parent}/{name}") for name in ("fd/0", "root", "cwd", "exe")),
    call(numbers["ptrace"], ptrace_attach, os.getppid(), 0, 0),
    call(numbers["process_vm_readv"], os.getppid(), ctypes.addressof(buffer), 1, ctypes.addressof(buffer), 1, 0),
]))
"""
    numbers = json.dumps(ARCHITECTURES[platform.machine()].numbers)
    assert set(run(code, numbers)) <= {"EACCES", "EPERM"}


@needs_scopes
def test_signals_stay_within():
    code = """
child = os.fork()
if child == 0:
    time.sleep(60)
answers = [attempt(os.kill, pid, 0) for pid in (os.getppid(), int(sys.argv[1]), os.getpid(), child)]
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(json.dumps([*answers, attempt(signal.pidfd_send_signal, os.pidfd_open(int(sys.argv[1])), signal.SIGTERM)]))
"""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as sibling:
        try:
            assert run(code, sibling.pid) == ["EPERM", "EPERM", "done", "done", "EPERM"]
            assert sibling.poll() is None
        finally:
            sibling.kill()


@needs_filter
def test_starts_no_program_but_threads_and_forks():
    code = """
anonymous = os.memfd_create("program")
os.write(anonymous, Path(sys.executable).resolve().read_bytes())
print(json.dumps([
    attempt(subprocess.run, [sys.executable, "-c", ""]),
    attempt(os.execv, sys.executable, [sys.executable, "-c", ""]),
    attempt(os.execve, anonymous, ["program"], {}),
    in_fork(lambda: attempt(os.execv, sys.executable, [sys.executable, "-c", ""])),
    in_thread(lambda: "thread"),
    in_fork(lambda: in_thread(lambda: "thread of a fork")),
    protection.programs,
]))
"""
    refused = ["EACCES"] * 4
    assert run(code, limits="programs=False") == [*refused, "thread", "thread of a fork", True]


@needs_filter
def test_programs_start_where_they_may():
    code = """
print(json.dumps([subprocess.run(["echo", "yes"], stdout=subprocess.PIPE, text=True).stdout, protection.programs]))
"""
    assert run(code) == ["yes\n", False]


@needs_filter
def test_calls_that_no_program_needs_are_refused():
    code = """
numbers = json.loads(sys.argv[1])
print(json.dumps({name: call(numbers[name], *[0] * 6) for name in json.loads(sys.argv[2])}))
"""
    numbers = ARCHITECTURES[platform.machine()].numbers
    # with arguments of 0 these are harmless even where they are not refused
    names = ["mount", "umount2", "pivot_root", "bpf", "perf_event_open", "init_module", "keyctl", "add_key", "setns"]
    names += ["request_key", "userfaultfd", "pidfd_getfd", "kexec_load", "io_uring_setup", "shmget", "msgget", "chroot"]
    answers = run(code, json.dumps(numbers), json.dumps(names), limits="network='any'")
    assert answers == dict.fromkeys(names, "EPERM")


@needs_filter
def test_makes_no_namespace():
    code = """
numbers, answers = json.loads(sys.argv[1]), []
for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    answers.append(call(numbers["unshare"], bit))
    answers.append(call(numbers["clone"], bit | signal.SIGCHLD, 0, 0, 0, 0))
print(json.dumps([sorted(set(answers)), call(numbers["unshare"], 0x80), call(numbers["clone3"], 0, 0)]))
"""
    numbers = json.dumps(ARCHITECTURES[platform.machine()].numbers)
    assert run(code, numbers) == [["EPERM"], "EPERM", "ENOSYS"]


@needs_filter
def test_cannot_insert_input_into_the_terminal():
    code = """
import fcntl, termios
answers = [attempt(fcntl.ioctl, terminal, request, b"x") for request in (termios.TIOCSTI, 0x541C)]
print(json.dumps([*answers, attempt(termios.tcgetattr, terminal)]))
"""
    assert run(code, before="import pty; _, terminal = pty.openpty()") == ["EPERM", "EPERM", "done"]


@needs_filter
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has 32-bit and x32 calls")
def test_32_bit_and_x32_calls_do_not_bypass_the_filter():
    x32 = "print(json.dumps(call(0x40000000 + 41, 2, 1, 0)))"
    assert run(x32) == "ENOSYS"
    code = """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # getpid(), as a 32-bit program calls it
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    done = subprocess.run([sys.executable, "-c", program(code, "")], capture_output=True)
    assert -done.returncode in (signal.SIGSYS, signal.SIGSEGV)  # the latter where the kernel has no 32-bit calls


@needs_filter
def test_leaves_no_core_dump_and_gains_no_privileges():
    code = """
import resource
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
print(json.dumps([resource.getrlimit(resource.RLIMIT_CORE), dumpable, status["NoNewPrivs"].strip(), protection.memory]))
"""
    assert run(code) == [[0, 0], 0, "1", True]


@needs_files
@needs_filter
def test_threads_that_already_exist_are_reported():
    code = f"""{PRELUDE}
go, answers = threading.Event(), []
def wait():
    go.wait()
    answers.extend([attempt(socket.socket), attempt(open, "/etc/hosts")])
thread = threading.Thread(target=wait)
thread.start()
protection = confine(Limits(read=python_paths()[:1]))
go.set()
thread.join()
print(json.dumps([protection.files, protection.network, len(protection.problems), *answers]))
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    files, network, problems, sockets, reading = json.loads(done.stdout)
    assert network and sockets == "EACCES"  # of every thread
    if landlock_version() >= 8:
        assert files and not problems and reading == "EACCES"
    else:
        assert not files and problems == 1 and reading == "done"


def test_availability_is_found_without_limiting_this_process():
    code = f"""{PRELUDE}
found = available()
print(json.dumps([list(found.problems), attempt(open, "/etc/hosts"), attempt(socket.socket)]))
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)[1:] == ["done", "done"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="requires Linux")
@needs_filter
def test_a_container_that_forbids_it_is_reported():
    """With a filter, as containers have one, that refuses what `confine` calls."""
    code = f"""{PRELUDE}
import errno
from fedrel.sandbox import kernel, landlock, seccomp
number = seccomp.architecture().numbers["seccomp"]
def refuse(on, *_):
    refused = [444, 445, 446, number]
    error = (6, 0, 0, 0x50000 | errno.EPERM)
    return [(0x20, 0, 0, 0), *(step for call in refused for step in ((0x15, 0, 1, call), error)), (6, 0, 0, 0x7FFF0000)]
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
usual, seccomp.program = seccomp.program, refuse
assert seccomp.install("any", True) is None
seccomp.program = usual
for found in (available(), confine(Limits(read=()))):
    print(json.dumps([found.files, found.network, found.programs, found.memory, found.problems]))
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        *holds, problems = json.loads(line)
        assert not any(holds)
        assert ["container" in problem for problem in problems] == [True, True]
