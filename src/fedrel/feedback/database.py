"""A store's file: its tables, how older ones are brought up, and what SQLite complains of in plain words."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrel.errors import UserError

_APPLICATION = 0x66726C76  # "frlv": what marks an SQLite file as a store of verdicts
_TIMEOUT = 10.0  # seconds that another program may hold the file
_MIGRATIONS: tuple[tuple[str, ...], ...] = (  # from version n to n + 1, a statement each; what is published stays
    (
        """CREATE TABLE predictions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,  -- of the sentence, as keys.py makes it
            model TEXT NOT NULL,  -- its digest
            relation TEXT NOT NULL,
            confidence REAL NOT NULL,
            shown TEXT NOT NULL,  -- for the first time
            UNIQUE (key, model, relation)
        ) STRICT""",
        """CREATE TABLE verdicts (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,  -- by which the same click, or the same line of a file, is known again
            prediction INTEGER NOT NULL REFERENCES predictions,
            user TEXT NOT NULL,
            verdict TEXT CHECK (verdict IN ('right', 'wrong', 'unknown')),
            takes_back INTEGER UNIQUE REFERENCES verdicts,
            at TEXT NOT NULL,
            latency_ms INTEGER CHECK (latency_ms >= 0),
            CHECK ((verdict IS NULL) <> (takes_back IS NULL))
        ) STRICT""",
        "CREATE INDEX verdicts_of_user ON verdicts (user, at)",
        *(
            f"CREATE TRIGGER {table}_{action} BEFORE {action} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are only added'); END"
            for table in ("predictions", "verdicts")
            for action in ("UPDATE", "DELETE")
        ),
    ),
)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_SHUT = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """A new file gets its tables, an older one what it lacks."""
    if create:
        _claim(path)
    with told(path):
        address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(address, uri=True, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            _prepare(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _claim(path: Path) -> None:
    """Makes the file, so that only this user can read it: SQLite would go by the umask. Journals follow the file."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass  # and is what its owner made it
    except OSError as error:
        raise UserError(f"{path}: cannot be made ({error.strerror or error})") from None


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Makes sure that this is a store, of our version. A file that is none stays as it is."""
    version = _version(path, connection)
    if version < len(_MIGRATIONS):
        with transaction(connection):
            version = _version(path, connection)  # somebody else may have been first
            for statements in _MIGRATIONS[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _version(path: Path, connection: sqlite3.Connection) -> int:
    application, version, tables = (
        int(connection.execute(query).fetchone()[0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if application != _APPLICATION and (application or version or tables):
        raise UserError(f"{path}: a database, but no store of verdicts; name another file")
    if version > len(_MIGRATIONS):
        raise UserError(
            f"{path}: this store was written by a newer fedrel (version {version} of the store; this one knows "
            f"{len(_MIGRATIONS)}); install that, the store is unchanged"
        )
    return version


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Readers and the writer do not wait for each other. SQLite does not wait by itself for those who hold the file
    while the mode changes, which is only the moment when several open a new one.
    """
    end = time.monotonic() + _TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """Without the details that SQLite packs into the upper bits."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite complains of, as a sentence for whoever can mend it."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in _BUSY:
            raise UserError(
                f"{path}: another program has held the store for {_TIMEOUT:.0f} seconds; close it and try again, "
                "nothing that was stored is lost"
            ) from None
        if code in _FULL:
            raise UserError(
                f"{path}: cannot be written, the disk is full or fails ({error}); make room and try again: "
                "this was not stored, all before it is"
            ) from None
        if code in _SHUT:
            raise UserError(f"{path}: cannot be opened for writing ({error}); whose file or folder is it?") from None
        if code == sqlite3.SQLITE_NOTADB:
            raise UserError(f"{path}: no store of verdicts; name another file") from None
        if code == sqlite3.SQLITE_CORRUPT:
            raise UserError(f"{path}: damaged ({error}); take the latest copy, or import an export of it") from None
        raise
