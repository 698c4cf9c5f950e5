"""All limits in a process without root privileges; the other tests may run as root."""

import json
import subprocess
import sys

from tests.sandbox.confined import PRELUDE, needs_files, needs_filter, needs_root, needs_scopes

pytestmark = [needs_files, needs_filter, needs_root]

# The interpreter may be readable by root only, so everything is imported first
BECOME = f"""{PRELUDE}
import asyncio, encodings.idna, shutil
def become_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
folder = Path(tempfile.mkdtemp())
(folder / "inside").mkdir()
(folder / "outside").mkdir()
(folder / "outside" / "file").write_text("text")
for path in (folder, *folder.rglob("*")):
    os.chown(path, 65534, 65534)
"""


def report(code):
    done = subprocess.run([sys.executable, "-c", BECOME + code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_limits_hold():
    code = """
parent = os.getpid()
def try_it():
    become_nobody()
    found = confine(Limits(read=(folder / "inside",), write=(folder / "inside",), programs=False))
    return {
        "holds": [found.files, found.network, found.programs, found.memory, list(found.problems)],
        "user": os.getuid(),
        "write": attempt(open, folder / "inside" / "new", "w"),
        "read": attempt(open, folder / "outside" / "file"),
        "socket": attempt(socket.socket),
        "start": attempt(os.execv, "/bin/true", ["true"]),
        "thread": in_thread(lambda: attempt(open, folder / "outside" / "file")),
        "fork": in_fork(lambda: attempt(open, folder / "outside" / "file")),
        "available": list(available().problems),
    }
try:
    print(json.dumps(in_fork(try_it)))
finally:
    shutil.rmtree(folder)
"""
    assert report(code) == {
        "holds": [True, True, True, True, []],
        "user": 65534,
        "write": "done",
        **dict.fromkeys(("read", "socket", "start", "thread", "fork"), "EACCES"),
        "available": [],
    }


@needs_scopes
def test_processes_of_one_user_cannot_read_each_others_memory():
    code = """
def wait(confined):
    become_nobody()
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as in a program that this user has started
    if confined:
        confine(Limits())
    os.write(ready, b"x")
    time.sleep(60)

def look_into(process):
    files = [attempt(open, f"/proc/{process}/{name}", "rb") for name in ("mem", "environ", "maps")]
    return [*files, attempt(os.listdir, f"/proc/{process}/fd"), attempt(os.kill, process, 0)]

def look(processes, confined):
    become_nobody()
    if confined:
        confine(Limits())
    return [look_into(process) for process in processes]

begun, ready = os.pipe()
processes = []
for confined in (False, True):
    processes.append(os.fork())
    if processes[-1] == 0:
        wait(confined)
    os.read(begun, 1)
try:
    print(json.dumps([in_fork(lambda: look(processes, confined)) for confined in (False, True)]))
finally:
    for process in processes:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    shutil.rmtree(folder)
"""
    outside, inside = report(code)
    assert outside[0] == ["done"] * 5  # so it is the limits that make the difference
    assert outside[1] == ["EACCES"] * 4 + ["done"]
    assert inside[0][:3] == ["EACCES"] * 3 and inside[0][4] == "EPERM"
    assert inside[1] == ["EACCES"] * 4 + ["EPERM"]
