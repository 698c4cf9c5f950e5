"""The SQLite file of a store: its schema and migrations, and SQLite's errors in plain words."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrel.errors import UserError

_APPLICATION = 0x66726C76  # "frlv": marks an SQLite file as a store of verdicts
_TIMEOUT = 10.0  # seconds to wait for another program's lock
_MIGRATIONS: tuple[tuple[str, ...], ...] = (  # statements from version n to n + 1; published ones must not change
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
    (  # the relation that the sentence states instead of the one shown; a decision where reviewers disagree
        "ALTER TABLE verdicts ADD corrected TEXT CHECK (corrected IS NULL OR verdict = 'wrong')",
        "ALTER TABLE verdicts ADD decides INTEGER NOT NULL DEFAULT 0 CHECK (decides IN (0, 1))",
    ),
)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_SHUT = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Opens a store, and creates or migrates its tables if need be. Raises UserError if it cannot be opened, is not a
    store, or was written by a newer version.
    """
    if create:
        _claim(path)
    with explained_errors(path):
        address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(address, uri=True, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            _prepare(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens a store for reading alone, which needs no right to write to the file or its folder: a platform's training
    process has none. Raises UserError if that cannot be done, or if the file is not a store of this version.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    if not Path(f"{path}-wal").exists():
        address += "&immutable=1"  # nobody has it open, and SQLite need not create the files that readers share
    with explained_errors(path):
        connection = sqlite3.connect(address, uri=True, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            if _version(path, connection) < len(_MIGRATIONS):
                raise UserError(f"{path}: empty, or written by an older fedrel; open it once with fedrel feedback show")
        except BaseException:
            connection.close()
            raise
    return connection


def _claim(path: Path) -> None:
    """Creates the file with mode 0600, since SQLite would use the umask. Its journals get the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass  # and keeps its mode
    except OSError as error:
        raise UserError(f"{path}: cannot be created ({error.strerror or error})") from None


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Makes sure that this is a store of the current version. A file that is not a store is left unchanged."""
    version = _version(path, connection)
    if version < len(_MIGRATIONS):
        with transaction(connection):
            version = _version(path, connection)  # another process may have migrated it in the meantime
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
        raise UserError(f"{path}: a database, but not a store of verdicts; name another file")
    if version > len(_MIGRATIONS):
        raise UserError(
            f"{path}: this store was written by a newer fedrel (version {version} of the store; this one knows "
            f"{len(_MIGRATIONS)}); install the newer one, the store is unchanged"
        )
    return version


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switches to write-ahead logging, so that readers and the writer do not block each other. SQLite's own timeout
    does not apply to this switch, which can collide only when several processes open a new file at once.
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
    """Commits what the block has written, or rolls it back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code; the extended one has details in its upper bits."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


@contextmanager
def explained_errors(path: Path) -> Iterator[None]:
    """Raises SQLite's common errors as UserErrors that say what to do."""
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
                f"{path}: cannot be written, the disk is full or failing ({error}); free some space and try again: "
                "this was not stored, everything before it was"
            ) from None
        if code in _SHUT:
            raise UserError(f"{path}: cannot be opened ({error}); check who owns the file and its folder") from None
        if code == sqlite3.SQLITE_NOTADB:
            raise UserError(f"{path}: not a store of verdicts; name another file") from None
        if code == sqlite3.SQLITE_CORRUPT:
            raise UserError(f"{path}: damaged ({error}); restore a backup, or import an export of it") from None
        raise
