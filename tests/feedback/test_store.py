"""Verdicts stay: through undo, two reviewers at once, kills, full disks, locks, and files that are no store."""

import json
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.feedback import database, exchange
from fedrel.feedback import store as stores
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, UNKNOWN, VERDICTS, WRONG, Store, Verdict
from tests.processes import start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.sqlite"


def told(store: Store) -> list[tuple[str, str, str]]:
    return [(it.key, it.user, it.verdict) for it in store.standing()]


def whole_history(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM verdicts ORDER BY number").fetchall()


def write_to(path: Path, *programs: str, limit: int | None = None) -> list[subprocess.Popen[str]]:
    """Each program in a process of its own, with `store` open."""

    def cap():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    head = (
        f"from pathlib import Path\nfrom fedrel.feedback.store import Store\nstore = Store.open(Path({str(path)!r}))\n"
    )
    return [
        subprocess.Popen(
            [sys.executable, "-c", head + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=cap,
        )
        for program in programs
    ]


# ---------------------------------------------------------------------------------------- keys


def test_no_two_sentences_share_a_key():
    sentences = [["a", "b"], ["ab"], ["a b"], ["a\n1\nb"], ["a", "", "b"], ["", "a", "b"], ["b", "a"], [], [""]]
    keys = {sentence_key(tokens, (0, 1, 1, 2)) for tokens in sentences}
    keys |= {sentence_key(["a", "b"], spans) for spans in ((1, 2, 0, 1), (0, 0, 0, 0), (0, 1, 1, 12), (0, 11, 1, 2))}
    assert len(keys) == len(sentences) + 4
    assert sentence_key(["é", "\ud800"], (0, 1, 1, 2)) == sentence_key(("é", "\ud800"), [0, 1, 1, 2])


# ---------------------------------------------------------------------------------------- what stands


def test_what_is_given_is_there(path):
    with Store.open(path) as store:
        first = store.show("k1", "born_in", 0.75, "m1")
        assert store.show("k1", "born_in", 0.75, "m1") == first
        others = {store.show("k1", "born_in", 0.5, "m2"), store.show("k1", "NA", 0.5, "m1"), first}
        assert len(others) == 3
        store.give(first, "anna", RIGHT, 1_234)
    with Store.open(path, create=False) as store:
        [verdict] = store.standing()
        assert verdict == Verdict("k1", "born_in", "m1", RIGHT, "anna", verdict.at, 1_234)
        assert store.counts() == {"shown": 3, RIGHT: 1, WRONG: 0, UNKNOWN: 0}
        assert store.sentence_of(first) == ("k1", "born_in")
        assert store.sentence_of(99) is None


def test_the_latest_verdict_stands_and_undo_brings_the_one_before_back(path):
    with Store.open(path) as store:
        number = store.show("k", "r", 0.5, "m")
        for verdict in (RIGHT, WRONG, UNKNOWN):
            store.give(number, "anna", verdict)
        store.give(number, "bert", RIGHT)
        assert told(store) == [("k", "anna", UNKNOWN), ("k", "bert", RIGHT)]
        for expected in (WRONG, RIGHT):
            assert store.undo("anna") == number
            assert ("k", "anna", expected) in told(store)
        assert store.undo("anna") == number
        assert store.undo("anna") is None
        assert told(store) == [("k", "bert", RIGHT)]
    assert len(whole_history(path)) == 4 + 3, "nothing is ever deleted"


def test_a_click_that_comes_twice_counts_once(path):
    with Store.open(path) as store:
        one, other = (store.show(key, "r", 0.5, "m") for key in ("k1", "k2"))
        store.give(one, "anna", RIGHT, id="a" * 32)
        store.give(other, "anna", RIGHT)
        store.give(one, "anna", WRONG, id="a" * 32)
        assert [it[2] for it in told(store)] == [RIGHT, RIGHT]
        assert store.undo("anna", id="b" * 32) == store.undo("anna", id="b" * 32) == other
        assert [it[0] for it in told(store)] == ["k1"]
        assert store.undo("anna", id="c" * 32) == one
        store.give(one, "anna", RIGHT, id="a" * 32)
        assert told(store) == [], "what was taken back does not come back by the same click"


def test_rows_are_only_added(path):
    with Store.open(path) as store:
        store.give(store.show("k", "r", 0.5, "m"), "anna", RIGHT)
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("DELETE FROM verdicts", "UPDATE verdicts SET user = 'eve'", "DELETE FROM predictions"):
            with pytest.raises(sqlite3.IntegrityError, match="only added"):
                connection.execute(statement)


def test_a_clock_that_is_set_back_does_not_change_the_order(path, monkeypatch):
    times = iter([f"2026-01-01T00:00:0{second}.000000Z" for second in (5, 9, 3, 2, 1)])
    monkeypatch.setattr(stores, "_now", lambda: next(times))
    with Store.open(path) as store:
        number = store.show("k", "r", 0.5, "m")
        for verdict in (RIGHT, WRONG, UNKNOWN):
            store.give(number, "anna", verdict)
        assert told(store) == [("k", "anna", UNKNOWN)]
        store.undo("anna")
        assert told(store) == [("k", "anna", WRONG)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda store: store.give(7, "anna", RIGHT), "there is no prediction 7"),
        (lambda store: store.give(1, "anna", "maybe"), 'not "maybe"'),
        (lambda store: store.give(1, " ", RIGHT), "user: must not be empty"),
        (lambda store: store.give(1, "a" * 101, RIGHT), "user: longer than 100"),
        (lambda store: store.give(1, "anna", RIGHT, corrected="s"), 'only if the one shown is "wrong", not "right"'),
        (lambda store: store.give(1, "anna", WRONG, corrected="r"), '"r" is the relation that was shown'),
        (lambda store: store.give(1, "anna", WRONG, corrected=" "), "corrected: must not be empty"),
        (lambda store: store.show("k", "r\ud800", 0.5, "m"), "half a character"),
        (lambda store: store.show("k", "r", float("nan"), "m"), "a number from 0 to 1"),
    ],
)
def test_nonsense_is_refused(path, call, sentence):
    with Store.open(path) as store:
        store.show("k", "r", 0.5, "m")
        with pytest.raises(UserError, match=sentence):
            call(store)
        assert told(store) == []


def test_what_is_stated_instead_is_stored_taken_back_and_exported(path, tmp_path):
    with Store.open(path) as store:
        number = store.show("k", "born_in", 0.5, "m")
        store.give(number, "anna", WRONG)
        store.give(number, "anna", WRONG, corrected="lives_in")
        assert [(it.verdict, it.corrected, it.stated) for it in store.standing()] == [(WRONG, "lives_in", "lives_in")]
        assert exchange.export(store, tmp_path / "v.jsonl") == 2
        with Store.open(tmp_path / "copy.sqlite") as copy:
            exchange.load(copy, tmp_path / "v.jsonl")
            assert copy.history() == store.history()
        store.undo("anna")
        assert [(it.verdict, it.corrected, it.stated) for it in store.standing()] == [(WRONG, None, None)]


def test_a_decision_stands_beside_the_verdicts_and_is_taken_back_on_its_own(path):
    with Store.open(path) as store:
        number = store.show("k", "r", 0.5, "m")
        store.give(number, "anna", RIGHT)
        store.give(number, "anna", WRONG, decides=True)
        store.give(number, "bert", WRONG)
        assert [(it.user, it.verdict, it.decides) for it in store.standing()] == [
            ("anna", RIGHT, False),
            ("anna", WRONG, True),
            ("bert", WRONG, False),
        ]
        assert store.counts() == {"shown": 1, RIGHT: 1, WRONG: 1, UNKNOWN: 0}, "of reviewers"
        assert store.undo("anna", decides=True) == number
        assert store.undo("anna", decides=True) is None
        assert told(store) == [("k", "anna", RIGHT), ("k", "bert", WRONG)]


def _old_store(path: Path) -> None:
    """As version 1 made it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in database._MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("INSERT INTO predictions VALUES (1, 'k', 'm', 'r', 0.5, '2026-01-01T00:00:00.000000Z')")
        connection.execute(
            "INSERT INTO verdicts VALUES (1, 'a', 1, 'anna', 'right', NULL, '2026-01-01T00:00:01.000000Z', 7)"
        )
        connection.execute(f"PRAGMA application_id = {database._APPLICATION}")
        connection.execute("PRAGMA user_version = 1")


def test_a_store_and_an_export_from_before_corrections_go_on(path, tmp_path):
    _old_store(path)
    with pytest.raises(UserError, match="written by an older fedrel; open it once with fedrel feedback show"):
        Store.open_to_read(path)
    with Store.open(path) as store:
        assert list(store.standing()) == [Verdict("k", "r", "m", RIGHT, "anna", "2026-01-01T00:00:01.000000Z", 7)]
        store.give(1, "anna", WRONG, corrected="s")
        assert exchange.export(store, tmp_path / "v.jsonl") == 2
        lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
        assert [(it.pop("corrected"), it.pop("decides")) for it in lines] == [(None, False), ("s", False)]
        (tmp_path / "old.jsonl").write_text(json.dumps(lines[0]))
        assert exchange.load(store, tmp_path / "old.jsonl") == 0
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="only added"):
        connection.execute("UPDATE verdicts SET corrected = 't'")


users, keys = st.sampled_from(["anna", "bert"]), st.sampled_from(["k1", "k2", "k3"])
actions = st.one_of(
    st.tuples(st.just("give"), keys, st.sampled_from(["m1", "m2"]), users, st.sampled_from(VERDICTS)),
    st.tuples(st.just("undo"), users),
    st.tuples(st.just("reopen")),
)


def expected(done: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The same in plain Python: the history of each user, from which undo takes the last."""
    given: list[tuple[str, ...]] = []
    for action in done:
        if action[0] == "give":
            given.append(action[1:])
        elif action[0] == "undo":
            mine = [place for place, it in enumerate(given) if it[2] == action[1]]
            if mine:
                del given[mine[-1]]
    latest = {it[:3]: place for place, it in enumerate(given)}
    return [given[place] for place in sorted(latest.values())]


@settings(max_examples=40)
@given(st.lists(actions, max_size=25))
def test_any_sequence_of_verdicts_and_undos(tmp_path_factory, done):
    folder = tmp_path_factory.mktemp("any")
    store = Store.open(folder / "a.sqlite")
    for action in done:
        if action[0] == "give":
            _, key, model, user, verdict = action
            store.give(store.show(key, "r", 0.5, model), user, verdict)
        elif action[0] == "undo":
            store.undo(action[1])
        else:
            store.close()
            store = Store.open(folder / "a.sqlite")
    assert [(it.key, it.model, it.user, it.verdict) for it in store.standing()] == expected(done)
    # and the same from its export, into an empty store, twice
    given = sum(action[0] == "give" for action in done)
    assert exchange.export(store, folder / "a.jsonl") == given
    with store, Store.open(folder / "b.sqlite") as copy:
        assert exchange.load(copy, folder / "a.jsonl") == len(whole_history(folder / "a.sqlite"))
        assert exchange.load(copy, folder / "a.jsonl") == 0
        assert list(copy.standing()) == list(store.standing())
        assert exchange.export(copy, folder / "b.jsonl") == given
    assert (folder / "b.jsonl").read_bytes() == (folder / "a.jsonl").read_bytes()


# ---------------------------------------------------------------------------------------- several at once, and kills


def test_two_processes_lose_nothing_and_open_a_new_store_together(path):
    program = (
        "for n in range(60):\n"
        "    store.give(store.show(f'k{{n}}', 'r', 0.5, 'm'), '{user}', 'right')\n"
        "    if n % 3 == 0: store.undo('{user}')"
    )
    running = write_to(path, *(program.format(user=user) for user in ("anna", "bert", "carl")))
    for process in running:
        _, problem = process.communicate(timeout=120)
        assert process.returncode == 0, problem
    with Store.open(path) as store:
        assert store.counts() == {"shown": 60, RIGHT: 3 * 40, WRONG: 0, UNKNOWN: 0}


def test_threads_share_a_store(path):
    with Store.open(path) as store:

        def work(user):
            for n in range(20):
                store.give(store.show(f"k{n}", "r", 0.5, "m"), user, WRONG)

        threads = [threading.Thread(target=work, args=(f"user {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.counts() == {"shown": 20, RIGHT: 0, WRONG: 80, UNKNOWN: 0}


def test_a_kill_in_the_middle_of_writing_loses_nothing_that_was_confirmed(path):
    program = (
        "for n in range(1_000_000):\n"
        "    store.give(store.show(f'k{n}', 'r', 0.5, 'm'), 'anna', 'right')\n"
        "    print(n, flush=True)"
    )
    confirmed = -1
    for wait_for in (3, 20):
        [process] = write_to(path, program.replace("range(", f"range({confirmed + 1}, "))
        assert process.stdout is not None
        for line in process.stdout:
            confirmed = int(line)
            if confirmed >= wait_for:
                process.send_signal(signal.SIGKILL)
                break
        rest = process.stdout.read()  # what the loop has read ahead too, which communicate() would lose
        process.communicate(timeout=60)
        confirmed = max([confirmed, *(int(line) for line in rest.split("\n")[:-1])])
        assert process.returncode == -signal.SIGKILL
        with Store.open(path) as store:
            keys = [it.key for it in store.standing()]
        assert len(set(keys)) == len(keys)
        assert {f"k{n}" for n in range(confirmed + 1)} <= set(keys)
        assert len(keys) <= confirmed + 2, "at most the one that was on its way"


def test_a_full_disk_is_one_sentence_and_loses_nothing(path):
    with Store.open(path) as store:
        store.give(store.show("before", "r", 0.5, "m"), "anna", RIGHT)
    program = (
        "from fedrel.errors import UserError\n"
        "try:\n"
        "    for n in range(100_000):\n"
        "        store.give(store.show(f'k{n}', 'r' * 500, 0.5, 'm'), 'anna', 'right')\n"
        "        print(n, flush=True)\n"
        "except UserError as error:\n"
        "    print(error)"
    )
    [process] = write_to(path, program, limit=200_000)
    printed, problem = process.communicate(timeout=60)
    assert process.returncode == 0, problem
    *confirmed, sentence = printed.splitlines()
    assert sentence.startswith(f"{path}: cannot be written, the disk is full or failing")
    assert sentence.endswith("this was not stored, everything before it was")
    assert len(confirmed) > 3
    with Store.open(path) as store:
        assert [it.key for it in store.standing()] == ["before", *(f"k{n}" for n in range(len(confirmed)))]
        store.give(store.show("after", "r", 0.5, "m"), "anna", RIGHT)


def test_a_locked_store_is_one_sentence(path, monkeypatch):
    monkeypatch.setattr(database, "_TIMEOUT", 0.2)
    with Store.open(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        number = store.show("k", "r", 0.5, "m")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UserError, match="another program has held the store"):
            store.give(number, "anna", RIGHT)
        assert told(store) == [], "reading goes on"
        other.execute("COMMIT")
        store.give(number, "anna", RIGHT)
        assert len(told(store)) == 1


def test_a_store_that_was_moved_or_replaced_takes_nothing_more(path):
    with Store.open(path) as store:
        number = store.show("k", "r", 0.5, "m")
        store.give(number, "anna", RIGHT)
        aside = path.rename(path.with_name("aside.sqlite"))
        with pytest.raises(UserError, match=r"was moved, deleted or replaced .* this was not stored"):
            store.give(number, "anna", WRONG)
        path.write_bytes(aside.read_bytes())
        with pytest.raises(UserError, match="moved, deleted or replaced"):
            store.undo("anna")
        path.unlink()
        aside.rename(path)
        store.give(number, "anna", UNKNOWN)
        assert [row[4] for row in whole_history(path)] == [RIGHT, UNKNOWN]


def test_a_folder_that_cannot_be_made_is_one_sentence(path):
    path.write_text("no folder")
    with pytest.raises(UserError, match=r"its folder cannot be created \(Not a directory|File exists"):
        Store.open(path / "below" / "it.sqlite")


# ---------------------------------------------------------------------------------------- what is no store


def test_a_store_of_a_newer_version_is_left_alone(path):
    with Store.open(path) as store:
        store.give(store.show("k", "r", 0.5, "m"), "anna", RIGHT)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"written by a newer fedrel \(version 99 of the store; this one knows \d+\)"):
        Store.open(path)
    assert path.read_bytes() == before


def test_an_older_store_is_brought_up_step_by_step_or_not_at_all(path, monkeypatch):
    with Store.open(path) as store:
        store.give(store.show("k", "r", 0.5, "m"), "anna", RIGHT)
    now = database._MIGRATIONS
    broken = (*now, ("CREATE TABLE more (it TEXT)",), ("INSERT INTO nowhere VALUES (1)",))
    monkeypatch.setattr(database, "_MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError):
        Store.open(path)
    monkeypatch.setattr(database, "_MIGRATIONS", (*now, ("CREATE TABLE more (it TEXT)",), ("ALTER TABLE more ADD x",)))
    with Store.open(path) as store:
        assert told(store) == [("k", "anna", RIGHT)]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(now) + 2,)
        assert [row[1] for row in connection.execute("PRAGMA table_info(more)")] == ["it", "x"]


@pytest.mark.parametrize("content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\1" * 5_000])
def test_a_file_that_is_no_store_is_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"not a store of verdicts|damaged"):
        Store.open(path)
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE accounts (it TEXT)")
    before = path.read_bytes()
    with pytest.raises(UserError, match="a database, but not a store of verdicts"):
        Store.open(path)
    assert path.read_bytes() == before
    assert [it.name for it in path.parent.iterdir()] == [path.name]


def test_a_store_that_is_not_there_is_made_only_if_asked(path, tmp_path):
    with pytest.raises(UserError, match="no such file"):
        Store.open(path, create=False)
    assert not path.exists()
    with Store.open(tmp_path / "new" / "folder" / "it.sqlite") as store:
        assert told(store) == []
    with pytest.raises(UserError, match="this is a folder"):
        Store.open(tmp_path)


# ---------------------------------------------------------------------------------------- export and import


@pytest.fixture
def exported(tmp_path) -> Path:
    file: Path = tmp_path / "verdicts.jsonl"
    with Store.open(tmp_path / "from.sqlite") as store:
        for key, verdict in (("k1", RIGHT), ("k2", WRONG), ("k3", UNKNOWN)):
            store.give(store.show(key, "bor\u2028n <in>", 0.25, "m"), "änna", verdict, 900)
        store.undo("änna")
        assert exchange.export(store, file) == 3
    return file


def test_stores_merge(tmp_path, exported):
    with Store.open(tmp_path / "to.sqlite") as store:
        store.give(store.show("k1", "bor\u2028n <in>", 0.25, "m"), "bert", WRONG)
        assert exchange.load(store, exported) == 4
        assert exchange.load(store, exported) == 0
        assert sorted(told(store)) == [("k1", "bert", WRONG), ("k1", "änna", RIGHT), ("k2", "änna", WRONG)]
        store.undo("änna")
        exchange.export(store, tmp_path / "more.jsonl")
    with Store.open(tmp_path / "from.sqlite") as store:
        assert exchange.load(store, tmp_path / "more.jsonl") == 2, "bert's verdict, and what änna took back over there"
        assert sorted(told(store)) == [("k1", "bert", WRONG), ("k1", "änna", RIGHT)]


def test_an_older_verdict_that_is_imported_does_not_replace_a_newer_one(tmp_path, exported):
    with Store.open(tmp_path / "to.sqlite") as store:
        store.give(store.show("k1", "bor\u2028n <in>", 0.25, "m"), "änna", UNKNOWN)
        exchange.load(store, exported)
        assert ("k1", "änna", UNKNOWN) in told(store)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"verdict": "maybe"}, 'not "maybe"'),
        ({"verdict": None}, '"verdict" is null, which is not a string'),
        ({"user": ""}, "user: must not be empty"),
        ({"user": "\ud800"}, "half a character"),
        ({"at": "yesterday"}, '"yesterday" is not a time such as'),
        ({"at": "2026-01-31T09:30:00Z"}, "is not a time such as"),
        ({"confidence": 1.5}, "a number from 0 to 1"),
        ({"confidence": float("nan")}, "a number from 0 to 1"),
        ({"confidence": True}, '"confidence" is true'),
        ({"latency_ms": -1}, "latency_ms cannot be -1"),
        ({"latency_ms": 1.5}, "not a number of milliseconds"),
        ({"latency_ms": 2**80}, "latency_ms cannot be"),
        ({"id": "a b"}, "letters, digits"),
        ({"more": 1}, '"more" is unknown'),
        ({"corrected": ""}, "corrected: must not be empty"),
        ({"corrected": 7}, '"corrected" is 7, which is not a string or null'),
        ({"corrected": "bor\u2028n <in>"}, "is the relation that was shown"),
        ({"corrected": "lives_in", "verdict": "right"}, 'only if the one shown is "wrong", not "right"'),
        ({"decides": 1}, '"decides" is 1, which is not true or false'),
        ({"taken_back": {"id": "x"}}, '"taken_back" has "id" and "at"'),
        ({"taken_back": "yes"}, "not an object or null"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_of_the_file_is_taken(tmp_path, exported, change, sentence):
    lines = exported.read_text(encoding="utf-8").split("\n")
    lines[1] = json.dumps(json.loads(lines[1]) | change)
    exported.write_text("\n".join(lines), encoding="utf-8")
    with Store.open(tmp_path / "to.sqlite") as store:
        with pytest.raises(UserError, match=sentence) as refusal:
            exchange.load(store, exported)
        assert str(refusal.value).startswith(f"{exported}:2: ")
        assert "\n" not in str(refusal.value)
        assert store.counts() == {"shown": 0, RIGHT: 0, WRONG: 0, UNKNOWN: 0}


@pytest.mark.parametrize("line", ["{", "[]", "7", "\udcff", "{}", '{"id": "x"}', "[" * 100_000])
def test_what_is_no_verdict_is_refused(tmp_path, exported, line):
    exported.write_bytes(exported.read_bytes() + line.encode("utf-8", "surrogateescape") + b"\n")
    with Store.open(tmp_path / "to.sqlite") as store, pytest.raises(UserError) as refusal:
        exchange.load(store, exported)
    assert str(refusal.value).startswith(f"{exported}:4: ")


def test_another_verdict_under_a_known_id_is_refused(tmp_path, exported):
    line = json.loads(exported.read_text(encoding="utf-8").split("\n")[0])
    exported.write_text(json.dumps(line | {"verdict": "wrong"}))
    with Store.open(tmp_path / "from.sqlite") as store:
        before = list(store.standing())
        with pytest.raises(UserError, match=r'another verdict with the id \w+ \("verdict" differs\)'):
            exchange.load(store, exported)
        assert list(store.standing()) == before


# ---------------------------------------------------------------------------------------- the command line


def test_feedback_commands(fedrel, refused, tmp_path, exported):
    store, file = tmp_path / "to.sqlite", tmp_path / "again.jsonl"
    assert json.loads(fedrel("feedback", "import", store, exported, "--json").out) == {"added": 4, "store": str(store)}
    shown = json.loads(fedrel("feedback", "show", store, "--json").out)
    counts = {"right": 1, "wrong": 1, "unknown": 0, "corrected": 0, "decisions": 0}
    assert shown["by"] == [{"user": "änna", "model": "m", **counts}]
    assert "2 verdicts; 3 predictions were shown" in fedrel("feedback", "show", store).out
    assert fedrel("feedback", "export", store, file).out == f"3 verdicts in {file}\n"
    assert file.read_bytes() == exported.read_bytes()
    assert "no such file" in refused("feedback", "show", tmp_path / "none.sqlite")
    assert "no such file" in refused("feedback", "import", tmp_path / "new.sqlite", tmp_path / "none.jsonl")
    assert "this is the store itself" in refused("feedback", "export", store, store)
    assert "not a store of verdicts" in refused("feedback", "show", exported)


def test_a_full_disk_at_the_command_line_is_one_sentence(tmp_path, exported):
    process = start("feedback", "import", tmp_path / "to.sqlite", exported, limit=2_000)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    [sentence] = [line for line in err.splitlines() if line.startswith("fedrel: ")]
    assert "disk is full or failing" in sentence
    assert "Traceback" not in err


# --------------------------------------------------------------------------------------- without a right to write


@pytest.mark.parametrize("reviewer_is_there", [False, True])
def test_a_store_is_read_without_a_right_to_write(tmp_path, reviewer_is_there):
    """As a platform's training process reads it, which may write to no folder but its own (Landlock)."""
    path = tmp_path / "home" / "v.sqlite"
    store = Store.open(path)
    store.give(store.show("k", "r", 0.5, "m"), "ann", "right")
    if not reviewer_is_there:
        store.close()
    program = (
        "import sys; from pathlib import Path; from fedrel.sandbox import Limits, confine\n"
        "confine(Limits(read=(Path('/'),), write=(), network='none', programs=False))\n"
        "from fedrel.feedback.stored_verdicts import read_verdicts\n"
        "print([it.verdict for it in read_verdicts(Path(sys.argv[1]))])"
    )
    told = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert told.stdout == "['right']\n", told.stderr
    assert sorted(it.name for it in path.parent.iterdir()) == sorted(
        ["v.sqlite", *(["v.sqlite-shm", "v.sqlite-wal"] if reviewer_is_there else [])]
    )
    store.close()


def test_an_empty_store_cannot_be_read_without_a_right_to_write(tmp_path):
    (tmp_path / "v.sqlite").touch()
    with pytest.raises(UserError, match="empty, or written by an older fedrel; open it once with"):
        Store.open_to_read(tmp_path / "v.sqlite")
    with pytest.raises(UserError, match="no such file; fedrel review creates one"):
        Store.open_to_read(tmp_path / "w.sqlite")
