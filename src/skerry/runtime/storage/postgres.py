"""Objects in a PostgreSQL database: for sites that already care for one.

The tables are in the first schema of the search path, and that schema belongs to one node at a
time, by an advisory lock of the session. A session that broke is opened again by the next write,
which goes on only if nobody else had the schema meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.config import SyncPolicy
from skerry.runtime.storage.contract import (
    FORMAT_VERSION,
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

__all__ = ["PostgresStorage", "shown_place"]

_LOCK: Final = 0x736B7279
"""First half of the number of the lock; the second is made of the schema's name."""

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
    # Seconds and milliseconds for a server that does not answer.
    "connect_timeout": "10",
    "tcp_user_timeout": "30000",
}
"""Settings of the connection, unless the URL says otherwise."""

_ROWS_AT_ONCE: Final = 5000
"""Objects fetched with one round trip when all are loaded."""


class PostgresStorage:
    """The schema that a URL leads to. Its tables are made if they are not there."""

    def __init__(self, url: str, *, sync: SyncPolicy = SyncPolicy.COMMIT) -> None:
        if _missing is not None:
            raise failure(
                f"PostgreSQL needs the library psycopg, which cannot be used here: {_missing}",
                "install it with the extra: pip install 'skerry[postgres]'",
            )
        self.place = shown_place(url)
        self._url = url
        self._sync = sync
        self._life = 0
        """Counts the nodes that had the schema; 0 until this one has it."""
        self._connection = self._connect()

    def meta(self) -> dict[str, int]:
        """The small values that came with the batches."""
        try:
            with self._connection.transaction():
                return dict(self._connection.execute("SELECT name, value FROM skerry_meta"))
        except psycopg.Error as error:
            raise self._failure(error) from error

    def load(self) -> Iterator[StoredType | StoredObject]:
        """All objects, and before them their types."""
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
        """One transaction."""
        if self._connection.closed:
            self._connection = self._connect()
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                _execute(cursor, batch)
        except (OverflowError, psycopg.Error) as error:
            # Also after a fault that it would survive: who knows in which state it is.
            self._connection.close()
            raise self._failure(error) from error

    def close(self) -> None:
        """End the session, and with it the lock."""
        # The server may notice the end of a session a moment later, when the next node has begun.
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
                f"{self.place}: the server does not write through to its disk (fsync is off)",
                'switch fsync on there, or set sync = "none" to do without the promise',
            )
        if _setting(connection, "server_encoding") != "UTF8":
            raise failure(
                f"{self.place}: the database cannot keep every text",
                "create the database with ENCODING 'UTF8'",
            )
        self._lock(connection)
        with connection.transaction():
            self._take(connection)

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(current_schema())), current_schema()",
            (_LOCK,),
        ).fetchone()
        assert row is not None
        is_ours, schema = row
        if schema is None:
            raise failure(
                f"{self.place}: no schema of the search path is there",
                "create the schema that the URL names, and let this user create tables in it",
            )
        if not is_ours:
            raise failure(
                f"schema {schema} of {self.place} is in use by another node",
                "a schema is for one node; stop the other, or name another database or schema",
            )

    def _take(self, connection: psycopg.Connection[Any]) -> None:
        """Have the schema for this node, which must have been the last to have it if it had."""
        known = connection.execute("SELECT to_regclass('skerry_format')").fetchone()
        if known == (None,):
            connection.execute(_TABLES)
            connection.execute("INSERT INTO skerry_format VALUES (%s, 0)", (FORMAT_VERSION,))
        row = connection.execute("SELECT version, life FROM skerry_format").fetchone()
        version, life = row or (0, 0)
        if version != FORMAT_VERSION:
            raise wrong_version(self.place, version)
        if self._life and life != self._life:
            raise failure(
                f"{self.place} was used by another node while this one was cut off from it",
                "restart this node, so that it begins with what is stored now",
            )
        if not self._life:
            connection.execute("UPDATE skerry_format SET life = %s", (life + 1,))
            self._life = life + 1

    def _failure(self, error: Exception) -> StorageError:
        text = " ".join(str(error).split())
        return failure(
            f"{self.place} cannot be used: {text}",
            "see that the server runs, and that this user may create tables in the database",
        )


def shown_place(url: str) -> str:
    """The URL without what must not be shown; StorageError when it is none."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        # The library repeats the URL, password and all, so its words are kept back.
        raise failure(
            f"the URL of the storage cannot be read ({type(error).__name__})",
            "it looks like postgresql://user:password@host:5432/database",
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
