"""The storage writer: batches are written in a thread, failures retried, close waits for all."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import skerry
from skerry.engine.dispatch.cache import Entry
from skerry.engine.persistence import Journal, StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.sqlite import SqliteStorage
from skerry.runtime.storage.storage_writer import StorageWriter

BOAT = skerry.define_types("struct Boat [persistent=true] { 1: [key] uint32 id; }").Boat.descriptor

PATIENCE_S = 10.0
"""Far longer than anything here takes; a test that waits so long has failed."""


class Gate:
    """A storage in memory with a simulated disk."""

    location = "memory"

    def __init__(self) -> None:
        self.batches: list[WriteBatch] = []
        self.faults: list[Exception] = []
        self.threads: set[int] = set()
        self.is_open = threading.Event()
        self.is_open.set()
        self.closed_count = 0

    def meta(self) -> dict[str, int]:
        return {}

    def load(self) -> Iterator[StoredType | StoredObject]:
        return iter(())

    def write(self, batch: WriteBatch) -> None:
        self.threads.add(threading.get_ident())
        assert self.is_open.wait(PATIENCE_S)
        if self.faults:
            raise self.faults.pop(0)
        self.batches.append(batch)

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed_count += 1


class Desk:
    """A journal with its writer, used like by a node."""

    def __init__(self, storage: Any, *, interval_ns: int = 0) -> None:
        self.journal = Journal(rng=Random(1), interval_ns=interval_ns)
        self.reported: list[int] = []
        self._news = asyncio.Event()
        self.writer = StorageWriter(self.journal, storage, self._on_stored)

    def _on_stored(self) -> None:
        self.reported.append(self.journal.stored)
        self._news.set()

    def put(self, key: bytes, payload: bytes = b"\xa0") -> None:
        entry = Entry(
            payload=payload,
            present=0,
            subject="",
            created_ns=0,
            created_from=2,
            modified_ns=0,
            modified_from=2,
            sent_ns=0,
            position=1,
        )
        self.journal.put(BOAT, key, entry)
        self.writer.wake()

    async def all_stored(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.journal.stored < self.journal.number:
                self._news.clear()
                await self._news.wait()


def test_changes_are_written_by_another_thread_and_reported() -> None:
    async def scenario() -> None:
        storage = Gate()
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a")
        await desk.all_stored()
        assert desk.reported == [desk.journal.number]
        await desk.writer.close()
        assert storage.closed_count == 1
        assert len(storage.threads) == 1
        assert threading.get_ident() not in storage.threads

    asyncio.run(scenario())


def test_loop_continues_while_the_disk_is_slow_and_changes_are_batched() -> None:
    async def scenario() -> None:
        storage = Gate()
        storage.is_open.clear()
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a", b"1")
        for number in range(100):
            desk.put(b"b", b"%d" % number)
            await asyncio.sleep(0)
        assert desk.reported == []
        storage.is_open.set()
        await desk.all_stored()
        assert len(storage.batches) == 2
        assert [obj.payload for obj in storage.batches[1].puts] == [b"99"]
        await desk.writer.close()

    asyncio.run(scenario())


def test_what_was_in_the_journal_before_the_start_is_written() -> None:
    async def scenario() -> None:
        storage = Gate()
        desk = Desk(storage)
        desk.put(b"a")
        assert storage.batches == []
        desk.writer.start()
        await desk.all_stored()
        await desk.writer.close()

    asyncio.run(scenario())


def test_failed_write_is_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        storage = Gate()
        storage.faults = [StorageError("the disk is full")]
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a")
        await desk.all_stored()
        assert desk.journal.statistics().failure_count == 1
        assert desk.journal.trouble == ""
        await desk.writer.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert [record.message for record in caplog.records] == [
        "objects cannot be stored",
        "objects are stored again",
    ]


def test_batches_keep_the_interval_but_close_does_not_wait_for_it() -> None:
    async def scenario() -> None:
        storage = Gate()
        desk = Desk(storage, interval_ns=3600 * 1_000_000_000)
        desk.writer.start()
        desk.put(b"a")
        await desk.all_stored()
        desk.put(b"b")
        desk.writer.wake()
        await asyncio.sleep(0)
        assert len(storage.batches) == 1
        await desk.writer.close()
        assert [obj.key for obj in storage.batches[1].puts] == [b"b"]
        assert desk.journal.stored == desk.journal.number

    asyncio.run(scenario())


def test_batch_is_written_after_a_short_interval() -> None:
    async def scenario() -> None:
        storage = Gate()
        desk = Desk(storage, interval_ns=5_000_000)
        desk.writer.start()
        for key in (b"a", b"b", b"c"):
            desk.put(key)
            await desk.all_stored()
        assert len(storage.batches) == 3
        await desk.writer.close()

    asyncio.run(scenario())


def test_close_waits_for_the_current_batch_and_the_rest() -> None:
    async def scenario() -> None:
        storage = Gate()
        storage.is_open.clear()
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a")
        desk.put(b"b")
        closing = asyncio.ensure_future(desk.writer.close())
        await asyncio.sleep(0)
        assert storage.closed_count == 0
        storage.is_open.set()
        await asyncio.wait_for(closing, PATIENCE_S)
        assert [obj.key for batch in storage.batches for obj in batch.puts] == [b"a", b"b"]
        assert storage.closed_count == 1
        desk.put(b"too late")
        assert len(storage.batches) == 2

    asyncio.run(scenario())


def test_close_without_changes_returns_at_once() -> None:
    async def scenario() -> None:
        storage = Gate()
        desk = Desk(storage)
        desk.writer.start()
        await asyncio.wait_for(desk.writer.close(), PATIENCE_S)
        assert storage.closed_count == 1

    asyncio.run(scenario())


def test_close_retries_after_a_failure() -> None:
    async def scenario() -> None:
        storage = Gate()
        storage.faults = [StorageError("no room"), StorageError("no room")]
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a")
        await asyncio.wait_for(desk.writer.close(), PATIENCE_S)
        assert desk.journal.stored == desk.journal.number

    asyncio.run(scenario())


def test_close_reports_changes_that_could_not_be_stored() -> None:
    async def scenario() -> None:
        storage = Gate()
        storage.faults = [StorageError("no room")] * 1000
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a")
        with pytest.raises(StorageError, match="2 changes were not stored: no room") as reported:
            await desk.writer.close(patience_s=0.05)
        assert reported.value.hint is not None
        assert storage.closed_count == 1

    asyncio.run(scenario())


def test_unexpected_exception_is_reported_and_stops_writing() -> None:
    async def scenario() -> None:
        heard: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, facts: heard.append(facts))
        storage = Gate()
        storage.faults = [RuntimeError("a mistake")]
        desk = Desk(storage)
        desk.writer.start()
        desk.put(b"a")
        with pytest.raises(RuntimeError, match="a mistake"):
            await desk.writer.close()
        assert [facts["message"] for facts in heard] == [
            "the storage failed; nothing is stored any more"
        ]
        assert "a mistake" in desk.journal.trouble
        assert storage.batches == []
        assert storage.closed_count == 1

    asyncio.run(scenario())


def test_full_disk_of_a_real_file_is_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        storage = SqliteStorage(tmp_path / "node.db")
        storage._connection.execute("PRAGMA max_page_count = 12")
        desk = Desk(storage)
        for number in range(100):
            desk.put(b"%d" % number, bytes(1000))
        desk.writer.start()
        assert desk.writer._writing is not None
        await asyncio.wait([desk.writer._writing])
        assert "has no space left" in desk.journal.trouble
        assert desk.journal.stored < desk.journal.number
        # Through the one thread, as all that touches the file.
        await asyncio.get_running_loop().run_in_executor(
            desk.writer._thread, storage._connection.execute, "PRAGMA max_page_count = 1000"
        )
        await desk.all_stored()
        await desk.writer.close()

    asyncio.run(scenario())
    storage = SqliteStorage(tmp_path / "node.db")
    assert sum(isinstance(item, StoredObject) for item in storage.load()) == 100
    storage.close()
