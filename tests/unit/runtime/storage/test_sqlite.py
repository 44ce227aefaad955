"""SQLite files: creation, locking, and rejection of foreign or damaged files.

What all kinds of storage have in common is tested with both, in `tests/apps/storage`.
"""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skerry.engine.persistence import StoredObject, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.sqlite import SqliteStorage


def batch(count: int, *, size: int = 10, first: int = 0) -> WriteBatch:
    return WriteBatch(
        number=1,
        puts=tuple(
            StoredObject(
                type_name="Boat",
                key=b"%06d" % number,
                payload=bytes([number % 256]) * size,
                subject="",
                created_ns=0,
                created_from=0,
                modified_ns=0,
                modified_from=0,
                sent_ns=0,
                position=number,
            )
            for number in range(first, first + count)
        ),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.db"


@pytest.fixture
def storage(path: Path) -> Iterator[SqliteStorage]:
    storage = SqliteStorage(path)
    yield storage
    storage.close()


def write_some(path: Path, count: int = 10, *, size: int = 10) -> None:
    storage = SqliteStorage(path)
    storage.write(batch(count, size=size))
    storage.close()


def test_file_is_private_and_its_folder_is_created(tmp_path: Path) -> None:
    path = tmp_path / "state" / "skerry" / "node.db"
    SqliteStorage(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_commit_is_on_disk_when_it_returns(storage: SqliteStorage) -> None:
    pragmas = {
        name: storage._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "locking_mode")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "locking_mode": "exclusive"}


def test_written_rows_are_in_the_log_before_the_file_is_closed(
    storage: SqliteStorage, path: Path
) -> None:
    storage.write(batch(5, size=1000))
    log = path.with_name("node.db-wal")
    assert log.stat().st_size > 5000
    storage.close()
    assert not log.exists(), "the log was brought into the file"


@pytest.mark.slow
def test_file_in_use_by_another_process_is_an_error(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from skerry.runtime.storage.sqlite import SqliteStorage\n"
        "storage = SqliteStorage(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
            with pytest.raises(StorageError, match="is in use by another node") as reported:
                SqliteStorage(path)
            assert str(path) in str(reported.value)
        finally:
            other.kill()
    write_some(path)


def test_text_file_is_not_a_database_and_stays_as_it_is(path: Path) -> None:
    path.write_text("dear diary\n" * 100)
    with pytest.raises(StorageError, match="is not a database") as reported:
        SqliteStorage(path)
    assert reported.value.hint is not None
    assert path.read_text() == "dear diary\n" * 100


def test_database_of_another_program_stays_as_it_is(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (title)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="is a database of another program"):
        SqliteStorage(path)
    assert path.read_bytes() == before


def test_file_of_another_format_stays_as_it_is(path: Path) -> None:
    write_some(path)
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 7")
    other.close()
    with pytest.raises(StorageError, match="has format 7, this version of skerry reads format 1"):
        SqliteStorage(path)
    other = sqlite3.connect(path)
    assert other.execute("SELECT count(*) FROM objects").fetchone() == (10,)
    other.close()


def test_damaged_page_is_an_error_while_loading(path: Path) -> None:
    write_some(path, 2000, size=100)
    data = bytearray(path.read_bytes())
    for start in range(8 * 4096, len(data), 4096):
        data[start : start + 200] = b"\xa5" * 200
    path.write_bytes(data)
    with pytest.raises(StorageError, match="is damaged") as reported:
        storage = SqliteStorage(path)
        try:
            list(storage.load())
        finally:
            storage.close()
    assert "copy" in (reported.value.hint or "")


def test_truncated_file_is_an_error(path: Path) -> None:
    write_some(path, 2000, size=100)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StorageError, match="is damaged"):
        storage = SqliteStorage(path)
        try:
            list(storage.load())
        finally:
            storage.close()


def test_missing_table_is_an_error_of_meta(path: Path) -> None:
    write_some(path)
    other = sqlite3.connect(path)
    other.execute("DROP TABLE meta")
    other.close()
    storage = SqliteStorage(path)
    try:
        with pytest.raises(StorageError, match="no such table: meta"):
            storage.meta()
    finally:
        storage.close()


def test_full_disk_fails_the_batch_and_a_later_one_succeeds(
    storage: SqliteStorage,
) -> None:
    storage.write(batch(10))
    storage._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StorageError, match="has no space left") as reported:
        storage.write(batch(1000, size=1000, first=10))
    assert "free space" in (reported.value.hint or "")
    assert sum(1 for _ in storage.load()) == 10, "nothing of the batch is there"
    storage.write(batch(1, first=5000))
    storage._connection.execute("PRAGMA max_page_count = 10000")
    storage.write(batch(1000, size=1000, first=10))
    assert sum(1 for _ in storage.load()) == 1011


def test_removed_file_is_not_written(storage: SqliteStorage, path: Path) -> None:
    storage.write(batch(1))
    aside = path.with_name("aside.db")
    path.rename(aside)
    with pytest.raises(StorageError, match="was removed or replaced"):
        storage.write(batch(2))
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="was removed or replaced"):
        storage.write(batch(2))
    aside.rename(path)
    storage.write(batch(2))


def test_impossible_path_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file / "node.db", tmp_path):
        with pytest.raises(StorageError, match="cannot be") as reported:
            SqliteStorage(path)
        assert str(path) in str(reported.value)
        assert reported.value.hint is not None


def test_number_that_no_database_holds_fails_only_its_batch(storage: SqliteStorage) -> None:
    with pytest.raises(StorageError, match="cannot be used"):
        storage.write(WriteBatch(number=1, meta={"large": 2**63}))
    storage.write(WriteBatch(number=1, meta={"large": 2**63 - 1}))
    assert storage.meta() == {"large": 2**63 - 1}
