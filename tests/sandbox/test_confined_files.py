"""Files that a confined process may not touch."""

import os

import pytest

from tests.sandbox.confined import needs_files, run

pytestmark = needs_files
REFUSED = {"EACCES", "EPERM", "EXDEV"}
READING = "read=(*python_paths(), Path(sys.argv[1])), write=()"
WRITING = "write=(Path(sys.argv[1]),)"


@pytest.fixture
def folders(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        (folder / "deep").mkdir(parents=True)
        (folder / "file").write_text("text")
    (inside / "link").symlink_to(outside / "file")
    (inside / "folder").symlink_to(outside)
    return inside, outside


def test_reads_only_what_it_may(folders):
    code = """
inside, outside = map(Path, sys.argv[1:3])
print(json.dumps({
    "inside": attempt(open, inside / "file"),
    "list": attempt(os.listdir, inside),
    "write": attempt(open, inside / "file", "w"),
    "outside": attempt(open, outside / "file"),
    "list outside": attempt(os.listdir, outside),
    "up": attempt(open, inside / ".." / "outside" / "file"),
    "link": attempt(open, inside / "link"),
    "folder": attempt(open, inside / "folder" / "file"),
    "root": attempt(open, f"/proc/self/root{outside}/file"),
    "cwd": attempt(open, "file"),
    "again": attempt(open, f"/proc/self/fd/{os.open(outside / 'file', os.O_PATH)}"),
    "start": attempt(os.execv, "/usr/bin/env", ["env"]),
    "shadow": attempt(open, "/etc/shadow"),
    "null": attempt(open, "/dev/null", "r+b"),
    "random": attempt(open, "/dev/urandom", "rb"),
}))
"""
    inside, outside = folders
    found = run(code, inside, outside, limits=READING, cwd=outside)
    allowed = {name for name, answer in found.items() if answer == "done"}
    assert allowed == {"inside", "list", "null", "random"}
    assert {answer for name, answer in found.items() if name not in allowed} <= REFUSED


def test_writes_only_where_it_may(folders):
    code = """
inside, outside = map(Path, sys.argv[1:3])
print(json.dumps({
    "read outside": attempt(open, outside / "file"),
    "write": attempt(open, inside / "file", "w"),
    "create": attempt(open, inside / "new", "w"),
    "folder": attempt(os.mkdir, inside / "more"),
    "move": attempt(os.rename, inside / "new", inside / "deep" / "new"),
    "remove": attempt(os.unlink, inside / "deep" / "new"),
    "null": attempt(open, "/dev/null", "wb"),
    "start": attempt(subprocess.run, ["true"]),
    "write outside": attempt(open, outside / "file", "w"),
    "append outside": attempt(open, outside / "file", "a"),
    "truncate outside": attempt(os.truncate, outside / "file", 0),
    "empty outside": attempt(os.open, outside / "file", os.O_RDONLY | os.O_TRUNC),
    "create outside": attempt(open, outside / "new", "w"),
    "mkdir outside": attempt(os.mkdir, outside / "new"),
    "remove outside": attempt(os.unlink, outside / "file"),
    "rmdir outside": attempt(os.rmdir, outside / "deep"),
    "by link": attempt(open, inside / "link", "w"),
    "by folder": attempt(open, inside / "folder" / "new", "w"),
    "hard link in": attempt(os.link, outside / "file", inside / "copy"),
    "hard link out": attempt(os.link, inside / "file", outside / "copy"),
    "move in": attempt(os.rename, outside / "deep", inside / "moved"),
    "move out": attempt(os.rename, inside / "deep", outside / "moved"),
    "device": attempt(os.mknod, inside / "disk", 0o60600, os.makedev(8, 0)),
}))
"""
    inside, outside = folders
    found = run(code, inside, outside, limits=WRITING)
    allowed = {name for name, answer in found.items() if answer == "done"}
    assert allowed == {"read outside", "write", "create", "folder", "move", "remove", "null", "start"}
    assert {answer for name, answer in found.items() if name not in allowed} <= REFUSED
    assert (outside / "file").read_text() == "text"


def test_what_may_be_written_may_be_read_but_not_started(folders):
    inside, _ = folders
    code = """
inside = Path(sys.argv[1])
(inside / "program").write_bytes(Path("/bin/true").resolve().read_bytes())
(inside / "program").chmod(0o755)
print(json.dumps([attempt(open, inside / "file"), attempt(os.execv, inside / "program", ["program"])]))
"""
    limits = "read=(*python_paths(), Path('/bin'), Path('/usr/bin')), write=(Path(sys.argv[1]),)"
    assert run(code, inside, limits=limits) == ["done", "EACCES"]


def test_a_single_file_may_be_named_and_missing_ones_are_skipped(folders):
    code = """
inside = Path(sys.argv[1])
folders = [attempt(os.listdir, folder) for folder in (inside, inside / "deep")]
print(json.dumps([attempt(open, inside / "file", "r+"), *folders]))
"""
    limits = "read=python_paths(), write=(Path(sys.argv[1], 'file'), Path(sys.argv[1], 'missing'), Path('/no/such'))"
    assert run(code, folders[0], limits=limits) == ["done", "EACCES", "EACCES"]


def test_threads_forks_and_programs_inherit_the_limits(folders):
    code = """
outside = Path(sys.argv[2])
look = lambda: attempt(open, outside / "file")
started = subprocess.run([sys.executable, "-c", f"open({str(outside / 'file')!r})"], stderr=subprocess.PIPE, text=True)
answers = [in_thread(look), in_fork(look), in_fork(lambda: in_thread(look))]
print(json.dumps([*answers, "PermissionError" in started.stderr]))
"""
    assert run(code, *folders, limits=READING) == ["EACCES", "EACCES", "EACCES", True]


def test_an_open_folder_is_no_way_in_but_an_open_file_stays_open(folders):
    inside, outside = folders
    folder, file = os.open(outside, os.O_RDONLY), os.open(outside / "file", os.O_RDONLY)
    code = """
folder, file = map(int, sys.argv[2:])
print(json.dumps([attempt(os.open, "file", os.O_RDONLY, dir_fd=folder), os.read(file, 4).decode()]))
"""
    try:
        assert run(code, inside, folder, file, limits=READING, pass_fds=(folder, file)) == ["EACCES", "text"]
    finally:
        os.close(folder)
        os.close(file)


def test_limits_add_up(folders):
    code = """
inside, outside = map(Path, sys.argv[1:3])
wider = confine(Limits(read=None, write=(outside, inside / "deep"), network="any"))
answers = [attempt(open, outside / "file"), attempt(open, outside / "new", "w"), attempt(open, inside / "new", "w")]
print(json.dumps([wider.problems, *answers, attempt(open, inside / "deep" / "new", "w"), attempt(socket.socket)]))
"""
    limits = "read=(*python_paths(),), write=(Path(sys.argv[1]),)"
    assert run(code, *folders, limits=limits) == [[], "EACCES", "EACCES", "EACCES", "done", "EACCES"]
