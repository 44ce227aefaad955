"""Stores objects in an SQLite file, which needs no setup.

The file is in WAL mode and locked by the node as long as it runs. With `synchronous` FULL a
transaction is on the disk when its commit returns. With NORMAL the operating system has it, and a
power cut may lose the last transactions, but never leaves a part of one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.contract import (
    FORMAT_VERSION,
    SyncPolicy,
    failure,
    text_of_subject,
    wrong_version,
)

_APPLICATION: Final = 0x736B7279
"""Identifies the file as a storage of skerry (`skry`)."""

_SET_UP: Final = (
    "CREATE TABLE types (name TEXT PRIMARY KEY, definition BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE objects (
        type TEXT NOT NULL, key BLOB NOT NULL, payload BLOB NOT NULL, subject BLOB NOT NULL,
        created_ns INTEGER NOT NULL, created_from INTEGER NOT NULL,
        modified_ns INTEGER NOT NULL, modified_from INTEGER NOT NULL,
        sent_ns INTEGER NOT NULL, position INTEGER NOT NULL,
        PRIMARY KEY (type, key)
    ) WITHOUT ROWID""",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
"""Statements that create the tables in an empty file."""

_TYPES_IN_USE: Final = """
SELECT name, definition FROM types WHERE EXISTS (SELECT 1 FROM objects WHERE type = name)
"""

_WAL_BYTES: Final = 64 * 1024 * 1024
"""Size to which the log is truncated after a large transaction."""


class SqliteStorage:
    """One file, created if it does not exist."""

    def __init__(self, path: Path, *, sync: SyncPolicy = SyncPolicy.COMMIT) -> None:
        self.path = path.absolute()
        try:
            _create(self.path)
            self._inode = self.path.stat().st_ino
            self._connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._failure(error) from error
        try:
            self._prepare(sync)
        except BaseException:
            self._connection.close()
            raise

    @property
    def location(self) -> str:
        return str(self.path)

    def meta(self) -> dict[str, int]:
        try:
            return dict(self._connection.execute("SELECT name, value FROM meta").fetchall())
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def load(self) -> Iterator[StoredType | StoredObject]:
        try:
            with closing(self._connection.cursor()) as cursor:
                for name, definition in cursor.execute(_TYPES_IN_USE):
                    yield StoredType(name=name, definition=definition)
                for row in cursor.execute("SELECT * FROM objects"):
                    yield StoredObject._make((*row[:3], text_of_subject(row[3]), *row[4:]))
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def write(self, batch: WriteBatch) -> None:
        connection = self._connection
        try:
            self._check_file()
            connection.execute("BEGIN IMMEDIATE")
            try:
                _execute(connection, batch)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk may already have ended the transaction.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (OSError, OverflowError, sqlite3.Error) as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Write the log into the file, and unlock it."""
        try:
            self._connection.close()
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _prepare(self, sync: SyncPolicy) -> None:
        try:
            for pragma in (
                # Must precede the first read, or the lock is released after it.
                "locking_mode = EXCLUSIVE",
                f"synchronous = {'NORMAL' if sync == SyncPolicy.NONE else 'FULL'}",
                # On macOS fsync alone does not reach the disk.
                "fullfsync = ON",
                "checkpoint_fullfsync = ON",
                f"journal_size_limit = {_WAL_BYTES}",
            ):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("BEGIN EXCLUSIVE")
            if self._is_new():
                for statement in _SET_UP:
                    self._connection.execute(statement)
            self._connection.execute("COMMIT")
            (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        if mode != "wal":
            raise failure(
                f"{self.location} cannot be used in WAL mode (its mode is {mode})",
                "keep the file on a local file system",
            )

    def _is_new(self) -> bool:
        """Whether the file is empty; StorageError if it is not a storage of skerry."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (table_count,) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not table_count and not application:
            return True
        if application != _APPLICATION:
            raise failure(
                f"{self.location} is a database of another program",
                "name another file for the storage",
            )
        if version != FORMAT_VERSION:
            raise wrong_version(self.location, version)
        return False

    def _check_file(self) -> None:
        """StorageError if the file was removed or replaced: what is written to it would be lost."""
        try:
            found = self.path.stat().st_ino
        except FileNotFoundError:
            found = -1
        if found != self._inode:
            raise failure(
                f"{self.location} was removed or replaced while it was in use",
                "restore the file, or restart the node to use the present one",
            )

    def _failure(self, error: Exception) -> StorageError:
        code = getattr(error, "sqlite_errorcode", None)
        # The low byte is the kind of error, the others are details.
        known = None if code is None else _FAULTS.get(code & 0xFF)
        if known is None:
            detail = getattr(error, "strerror", None) or error
            return failure(f"{self.location} cannot be used: {detail}", _CHECK_FOLDER)
        what, hint = known
        return failure(f"{self.location} {what} ({error})", hint)


_CHECK_FOLDER: Final = "check that its folder exists, and that this user may write to it"

_FAULTS: Final = {
    sqlite3.SQLITE_BUSY: (
        "is in use by another node",
        "a file is for one node; stop the other, or name another file",
    ),
    sqlite3.SQLITE_NOTADB: ("is not a database", "name another file for the storage"),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "restore a copy of it, or name another file to start without stored objects",
    ),
    sqlite3.SQLITE_FULL: (
        "has no space left",
        "free space on the disk; the node retries",
    ),
    sqlite3.SQLITE_READONLY: ("cannot be written", _CHECK_FOLDER),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", _CHECK_FOLDER),
}
"""Messages and hints for common errors of the library."""


def _create(path: Path) -> None:
    """Create an empty private file, and make its name durable."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        # Not opened here: closing it would release the locks of this process on the file.
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _execute(connection: sqlite3.Connection, batch: WriteBatch) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO types VALUES (?, ?)",
        ((type_.name, type_.definition) for type_ in batch.types),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*obj[:3], obj.subject.encode("utf-8", "surrogatepass"), *obj[4:]) for obj in batch.puts),
    )
    connection.executemany("DELETE FROM objects WHERE type = ? AND key = ?", batch.drops)
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", batch.meta.items())
