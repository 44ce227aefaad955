"""Stores objects in a PostgreSQL database, for sites that operate one.

The tables are in the first schema of the search path. An advisory lock of the session reserves that
schema for one node. If the session breaks, the next write opens another one, and fails if another
node has used the schema meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.contract import (
    FORMAT_VERSION,
    SyncPolicy,
    failure,
    text_of_subject,
    wrong_version,
)

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as error:
    _missing: ImportError | None = error
else:
    _missing = None


_LOCK: Final = 0x736B7279
"""First key of the advisory lock; the second is a hash of the name of the schema."""

_TABLES: Final = """
CREATE TABLE skerry_format (version integer NOT NULL, life bigint NOT NULL);
CREATE TABLE skerry_types (name text PRIMARY KEY, definition bytea NOT NULL);
CREATE TABLE skerry_objects (
    type text NOT NULL, key bytea NOT NULL, payload bytea NOT NULL, subject bytea NOT NULL,
    created_ns bigint NOT NULL, created_from bigint NOT NULL,
    modified_ns bigint NOT NULL, modified_from bigint NOT NULL,
    sent_ns bigint NOT NULL, position bigint NOT NULL,
    PRIMARY KEY (type, key)
);
CREATE TABLE skerry_meta (name text PRIMARY KEY, value bigint NOT NULL);
"""

_PUT_TYPE: Final = """
INSERT INTO skerry_types VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition
"""
_PUT_OBJECT: Final = """
INSERT INTO skerry_objects VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (type, key) DO UPDATE SET
    payload = excluded.payload, subject = excluded.subject,
    created_ns = excluded.created_ns, created_from = excluded.created_from,
    modified_ns = excluded.modified_ns, modified_from = excluded.modified_from,
    sent_ns = excluded.sent_ns, position = excluded.position
"""
_PUT_META: Final = """
INSERT INTO skerry_meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

_TYPES_IN_USE: Final = """
SELECT name, definition FROM skerry_types
WHERE EXISTS (SELECT 1 FROM skerry_objects WHERE type = name)
"""

_DEFAULTS: Final = {
    "client_encoding": "utf8",
    # Timeouts in seconds and in milliseconds.
    "connect_timeout": "10",
    "tcp_user_timeout": "30000",
}
"""Settings of the connection, unless the URL has others."""

_ROWS_AT_ONCE: Final = 5000
"""Objects per round trip when all are loaded."""


class PostgresStorage:
    """The schema that a URL selects. Missing tables are created."""

    def __init__(self, url: str, *, sync: SyncPolicy = SyncPolicy.COMMIT) -> None:
        if _missing is not None:
            raise failure(
                f"PostgreSQL needs the library psycopg, which cannot be imported: {_missing}",
                "install it with pip install 'skerry[postgres]'",
            )
        self.location = url_without_password(url)
        self._url = url
        self._sync = sync
        self._life = 0
        """Number of this use of the schema by a node; 0 until the schema is locked."""
        self._connection = self._connect()

    def meta(self) -> dict[str, int]:
        try:
            with self._connection.transaction():
                return dict(self._connection.execute("SELECT name, value FROM skerry_meta"))
        except psycopg.Error as error:
            raise self._failure(error) from error

    def load(self) -> Iterator[StoredType | StoredObject]:
        connection = self._connection
        try:
            with connection.transaction(), connection.cursor("objects", binary=True) as cursor:
                for name, definition in connection.execute(_TYPES_IN_USE, binary=True):
                    yield StoredType(name=name, definition=definition)
                cursor.itersize = _ROWS_AT_ONCE
                cursor.execute("SELECT * FROM skerry_objects")
                for row in cursor:
                    yield StoredObject._make((*row[:3], text_of_subject(row[3]), *row[4:]))
        except psycopg.Error as error:
            raise self._failure(error) from error

    def write(self, batch: WriteBatch) -> None:
        if self._connection.closed:
            self._connection = self._connect()
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                _execute(cursor, batch)
        except (OverflowError, psycopg.Error) as error:
            # Also after an error that the session would survive: its state is unknown.
            self._connection.close()
            raise self._failure(error) from error

    def close(self) -> None:
        """Release the lock and end the session."""
        # Explicitly: the server may notice the end of the session only after the next node started.
        with suppress(psycopg.Error):
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            given = conninfo_to_dict(self._url)
            more = {name: value for name, value in _DEFAULTS.items() if name not in given}
            connection = psycopg.connect(make_conninfo(self._url, **more), autocommit=True)
        except psycopg.Error as error:
            raise self._failure(error) from error
        try:
            self._prepare(connection)
        except psycopg.Error as error:
            connection.close()
            raise self._failure(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        is_lazy = self._sync == SyncPolicy.NONE
        connection.execute(f"SET synchronous_commit = {'off' if is_lazy else 'on'}")
        if not is_lazy and _setting(connection, "fsync") != "on":
            raise failure(
                f"{self.location}: the server does not sync to its disk (fsync is off)",
                'switch fsync on there, or set sync = "none" to accept losses',
            )
        if _setting(connection, "server_encoding") != "UTF8":
            raise failure(
                f"{self.location}: the encoding of the database is not UTF8",
                "create the database with ENCODING 'UTF8'",
            )
        self._lock(connection)
        with connection.transaction():
            self._check_tables(connection)

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(current_schema())), current_schema()",
            (_LOCK,),
        ).fetchone()
        assert row is not None
        is_ours, schema = row
        if schema is None:
            raise failure(
                f"{self.location}: no schema of the search path exists",
                "create the schema that the URL names, and permit this user to create tables in it",
            )
        if not is_ours:
            raise failure(
                f"schema {schema} of {self.location} is in use by another node",
                "a schema is for one node; stop the other, or name another database or schema",
            )

    def _check_tables(self, connection: psycopg.Connection[Any]) -> None:
        """Create missing tables, and check that no other node has used them since."""
        known = connection.execute("SELECT to_regclass('skerry_format')").fetchone()
        if known == (None,):
            connection.execute(_TABLES)
            connection.execute("INSERT INTO skerry_format VALUES (%s, 0)", (FORMAT_VERSION,))
        row = connection.execute("SELECT version, life FROM skerry_format").fetchone()
        version, life = row or (0, 0)
        if version != FORMAT_VERSION:
            raise wrong_version(self.location, version)
        if self._life and life != self._life:
            raise failure(
                f"{self.location} was used by another node while this one was disconnected from it",
                "restart this node, so that it loads what is stored now",
            )
        if not self._life:
            connection.execute("UPDATE skerry_format SET life = %s", (life + 1,))
            self._life = life + 1

    def _failure(self, error: Exception) -> StorageError:
        text = " ".join(str(error).split())
        return failure(
            f"{self.location} cannot be used: {text}",
            "check that the server runs, and that this user may create tables in the database",
        )


def url_without_password(url: str) -> str:
    """The URL for messages, without its password; StorageError if it is invalid."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        # The message of the library contains the URL with its password.
        raise failure(
            f"the URL of the storage is invalid ({type(error).__name__})",
            "write it as in postgresql://user:password@host:5432/database",
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or "")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def _execute(cursor: psycopg.Cursor[Any], batch: WriteBatch) -> None:
    if batch.types:
        cursor.executemany(_PUT_TYPE, [(type_.name, type_.definition) for type_ in batch.types])
    if batch.puts:
        cursor.executemany(
            _PUT_OBJECT,
            (
                (*obj[:3], obj.subject.encode("utf-8", "surrogatepass"), *obj[4:])
                for obj in batch.puts
            ),
        )
    if batch.drops:
        cursor.executemany("DELETE FROM skerry_objects WHERE type = %s AND key = %s", batch.drops)
    if batch.meta:
        cursor.executemany(_PUT_META, list(batch.meta.items()))
