"""The system call filter, interpreted step by step: this covers architectures that the tests do not run on."""

import errno
import socket

import pytest

from fedrel.sandbox.seccomp import ARCHITECTURES, program

ALLOWED, KILLED = "allowed", "killed"
NAMESPACES = {"mount": 0x20000, "user": 0x10000000, "net": 0x40000000}


def answer(name, call, *arguments, network="none", programs=True, accelerator=False, mark=None):
    """The filter's verdict on a call, given by name or number."""
    on = ARCHITECTURES[name]
    number = on.numbers[call] if isinstance(call, str) else call
    words = {0: number, 4: on.mark if mark is None else mark}
    for place in range(6):
        value = arguments[place] if place < len(arguments) else 0
        words |= {16 + 8 * place: value & 0xFFFFFFFF, 20 + 8 * place: value >> 32}
    steps, at, held = program(on, network, programs, accelerator), 0, 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code == 0x06:
            if operand & 0x7FFF0000 == 0x50000:
                return errno.errorcode[operand & 0xFFFF]
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}[operand]
        if code == 0x20:
            held = words[operand]
        elif code == 0x54:
            held &= operand
        else:
            truth = {0x15: held == operand, 0x35: held >= operand, 0x45: bool(held & operand)}[code]
            at += yes if truth else no


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("network", ["none", "client", "server", "any"])
def test_sockets(name, network):
    def says(call, *arguments):
        return answer(name, call, *arguments, network=network)

    flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    internet = "EACCES" if network == "none" else ALLOWED
    other = ALLOWED if network == "any" else "EACCES"
    for family in (socket.AF_INET, socket.AF_INET6):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM | flags):
            assert says("socket", family, kind) == internet
        assert says("socket", family, socket.SOCK_RAW) == other
        assert says("socket", family, socket.SOCK_STREAM, 262) == other
    assert says("socket", socket.AF_UNIX, socket.SOCK_STREAM) == other
    assert says("socketpair", socket.AF_UNIX, socket.SOCK_STREAM | flags) == ALLOWED
    assert says("socketpair", socket.AF_UNIX, socket.SOCK_DGRAM) == other
    assert says("socketpair", 30, socket.SOCK_STREAM) == other
    for call in ("bind", "listen", "accept", "accept4"):
        assert says(call) == ("EACCES" if network == "client" else ALLOWED)
    # the kernel ignores the upper half of these arguments, and so must the filter
    assert says("socket", socket.AF_UNIX | 1 << 32, socket.SOCK_STREAM) == other
    assert says("ioctl", 0, 0x5412 | 1 << 32) == "EPERM"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_accelerator_gets_a_local_socket_that_leads_nowhere(name):
    def says(call, *arguments):
        return answer(name, call, *arguments, accelerator=True)

    assert says("socket", socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) == ALLOWED
    assert says("bind") == says("listen") == ALLOWED
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        assert says("socket", socket.AF_UNIX, kind) == says("socket", socket.AF_INET, kind) == "EACCES"
    assert says("connect") == says("accept") == says("accept4") == "EACCES"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_calls(name):
    for call in ("ptrace", "mount", "bpf", "keyctl", "setns", "io_uring_setup", "process_vm_writev", "open_tree_attr"):
        assert answer(name, call, network="any") == "EPERM"
    for bits in NAMESPACES.values():
        assert answer(name, "clone", bits | 17) == answer(name, "unshare", bits) == "EPERM"
    assert answer(name, "clone", 0x3D0F00) == ALLOWED  # a thread
    assert answer(name, "clone", 0x1200011) == ALLOWED  # a fork
    assert answer(name, "unshare", 0x400) == ALLOWED  # its own descriptor table
    assert answer(name, "clone3") == "ENOSYS"
    assert answer(name, "ioctl", 0, 0x5401) == ALLOWED
    assert answer(name, "execve") == answer(name, "execveat") == ALLOWED
    assert answer(name, "execve", programs=False) == answer(name, "execveat", programs=False) == "EACCES"
    assert answer(name, 0x40000000 + 41) == answer(name, 0xFFFFFFFF) == "ENOSYS"
    assert answer(name, 0, mark=0x40000003) == KILLED


def test_every_jump_of_every_filter_ends_within_it():
    for on in ARCHITECTURES.values():
        for network in ("none", "client", "server", "any"):
            steps = program(on, network, False)
            for place, (code, yes, no, _) in enumerate(steps):
                assert max(yes, no) < 256 and (code == 0x06 or place + 1 + max(yes, no) < len(steps))
