"""Programs that limit themselves and report what they can still do."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from fedrel.sandbox import available, landlock

possible = available()
needs_files = pytest.mark.skipif(not possible.files, reason=f"no Landlock: {possible.problems}")
needs_filter = pytest.mark.skipif(not possible.network, reason=f"no seccomp: {possible.problems}")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can switch users")


@cache
def landlock_version():
    try:
        return landlock.version()
    except (OSError, AttributeError, TypeError):
        return 0


needs_scopes = pytest.mark.skipif(landlock_version() < 6, reason="Landlock cannot limit signals on this kernel")

PRELUDE = """
import ctypes, errno, json, os, signal, socket, subprocess, sys, tempfile, threading, time
from pathlib import Path
from fedrel.sandbox import Limits, available, confine, python_paths

def attempt(action, *arguments, **options):
    try:
        result = action(*arguments, **options)
        if hasattr(result, "close"):
            result.close()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]

def call(number, *arguments):
    result = ctypes.CDLL(None, use_errno=True).syscall(number, *map(ctypes.c_long, arguments))
    return "done" if result != -1 else errno.errorcode[ctypes.get_errno()]

def in_fork(action):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(action()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found = json.load(answer)
    os.waitpid(child, 0)
    return found

def in_thread(action):
    found = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]
"""


def program(code, limits, before=""):
    confining = f"protection = confine(Limits({limits}))\nassert not protection.problems, protection\n"
    return f"{PRELUDE}\n{before}\n{confining}\n{code}"


def run(code, *arguments, limits="", before="", wrapper=(), **options):
    """What the program prints, parsed as JSON. It gets its arguments as strings."""
    command = [*wrapper, sys.executable, "-c", program(code, limits, before), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
