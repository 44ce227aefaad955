"""PostgreSQL: lost connections, restarts and other behaviour of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skerry.engine.persistence import StoredObject, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.contract import Storage, SyncPolicy

pytestmark = pytest.mark.slow

Opener = Callable[..., Storage]


@pytest.fixture
def schema(postgres: Any) -> str:
    return str(postgres.new_schema())


def batch(number: int) -> WriteBatch:
    obj = StoredObject(
        type_name="Boat",
        key=b"%d" % number,
        payload=b"\xa0",
        subject="",
        created_ns=0,
        created_from=0,
        modified_ns=0,
        modified_from=0,
        sent_ns=0,
        position=number,
    )
    return WriteBatch(number=number, puts=(obj,), meta={"position": number})


def keys(storage: Storage) -> list[bytes]:
    return sorted(item.key for item in storage.load() if isinstance(item, StoredObject))


def cut_connections(postgres: Any) -> None:
    """Also waits until the server has forgotten them, their locks included."""
    postgres.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )


def test_written_objects_survive_a_crash_of_the_server(
    postgres: Any, schema: str, opened: Opener
) -> None:
    storage = opened(postgres.url(schema))
    for number in range(1, 6):
        storage.write(batch(number))
    postgres.stop("immediate")
    try:
        with pytest.raises(StorageError, match="cannot be used"):
            storage.write(batch(6))
        with pytest.raises(StorageError, match="cannot be used"):
            storage.write(batch(6))
    finally:
        postgres.start()
    storage.write(batch(6))
    assert keys(storage) == [b"%d" % number for number in range(1, 7)]
    assert storage.meta() == {"position": 6}


def test_lost_connection_is_opened_again_by_the_next_attempt(
    postgres: Any, schema: str, opened: Opener
) -> None:
    storage = opened(postgres.url(schema))
    storage.write(batch(1))
    cut_connections(postgres)
    with pytest.raises(StorageError):
        storage.write(batch(2))
    storage.write(batch(2))
    assert keys(storage) == [b"1", b"2"]
    with pytest.raises(StorageError, match="in use by another node"):
        opened(postgres.url(schema))


def test_a_node_that_lost_its_storage_does_not_overwrite_another_node(
    postgres: Any, schema: str, opened: Opener
) -> None:
    first = opened(postgres.url(schema))
    first.write(batch(1))
    cut_connections(postgres)
    second = opened(postgres.url(schema))
    second.write(batch(2))
    with pytest.raises(StorageError):
        first.write(batch(3))
    with pytest.raises(StorageError, match=f"schema {schema} .* is in use by another node"):
        first.write(batch(3))
    second.close()
    with pytest.raises(StorageError, match="was used by another node while"):
        first.write(batch(3))
    assert keys(opened(postgres.url(schema))) == [b"1", b"2"]


def test_nodes_with_their_own_schemas_share_a_database(postgres: Any, opened: Opener) -> None:
    storages = [opened(postgres.url(postgres.new_schema())) for _ in range(2)]
    for number, storage in enumerate(storages):
        storage.write(batch(number))
    assert [keys(storage) for storage in storages] == [[b"0"], [b"1"]]


def test_missing_schema_is_reported(postgres: Any, opened: Opener) -> None:
    with pytest.raises(StorageError, match="no schema of the search path") as messages:
        opened(postgres.url("nowhere"))
    assert messages.value.hint is not None


def test_tables_of_another_format_are_left_alone(
    postgres: Any, schema: str, opened: Opener
) -> None:
    opened(postgres.url(schema)).close()
    postgres.execute(f"UPDATE {schema}.skerry_format SET version = 99")
    with pytest.raises(StorageError, match="has format 99, this version of skerry reads format 1"):
        opened(postgres.url(schema))


def test_database_with_a_small_alphabet_is_refused(postgres: Any, opened: Opener) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    with pytest.raises(StorageError, match="the encoding of the database is not UTF8") as messages:
        opened(postgres.url().replace("/postgres?", "/latin?"))
    assert "UTF8" in (messages.value.hint or "")


def test_server_with_fsync_off_is_rejected_unless_sync_is_none(
    postgres: Any, schema: str, opened: Opener
) -> None:
    postgres.execute("ALTER SYSTEM SET fsync = off")
    postgres.stop()
    postgres.start()
    try:
        with pytest.raises(StorageError, match="fsync is off"):
            opened(postgres.url(schema))
        storage = opened(postgres.url(schema), sync=SyncPolicy.NONE)
        storage.write(batch(1))
        assert keys(storage) == [b"1"]
    finally:
        postgres.execute("ALTER SYSTEM RESET fsync")
        postgres.stop()
        postgres.start()


@pytest.mark.parametrize(
    ("sync", "setting"),
    [(SyncPolicy.COMMIT, "on"), (SyncPolicy.INTERVAL, "on"), (SyncPolicy.NONE, "off")],
)
def test_policy_decides_whether_a_commit_waits_for_the_disk(
    postgres: Any, schema: str, opened: Opener, sync: SyncPolicy, setting: str
) -> None:
    storage: Any = opened(postgres.url(schema), sync=sync)
    assert storage._connection.execute("SHOW synchronous_commit").fetchone() == (setting,)


def test_missing_table_is_reported_by_load_and_meta(
    postgres: Any, schema: str, opened: Opener
) -> None:
    storage = opened(postgres.url(schema))
    postgres.execute(f"DROP TABLE {schema}.skerry_objects, {schema}.skerry_meta")
    with pytest.raises(StorageError, match="skerry_meta"):
        storage.meta()
    with pytest.raises(StorageError, match="skerry_objects"):
        list(storage.load())
