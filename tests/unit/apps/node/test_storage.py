"""The storage of a node: when it is opened, restored objects, and waiting changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import skerry
from skerry.apps.node import storage as node_storage
from skerry.apps.node.storage import NodeStorage
from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal
from skerry.errors import StorageError
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address
from skerry.runtime.storage.contract import StorageConfig
from skerry.runtime.storage.open import open_storage

TYPES = skerry.define_types(
    "struct Setting [persistent=true] { 1: [key] string name; 2: string value; }"
)
GUEST = Address("client", 1, is_stream=True)
PATIENCE_S = 10.0
"""Timeout of waits; much longer than any test needs."""


class Life:
    """One life of a node with a storage and a client, without sockets."""

    def __init__(self, storage: NodeStorage, journal: Journal) -> None:
        self.storage = storage
        self.journal = journal
        self.core = NodeCore(journal=journal)
        self.stored = asyncio.Event()
        self.restored_count = storage.start(self.core, self.stored.set)
        self._client = ClientConnection(Wire(), name="ann", cnonce="", wants_preload=False)

    def publish(self, obj: skerry.Struct) -> None:
        self.core.stream_opened(GUEST, 1)
        self._exchange()
        header = Header(obj.descriptor.name)
        header.sent_time = 1.0
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        self._client.send(header, obj.encode(), obj.descriptor, 0.0)
        self._exchange()
        assert self.journal.number > 0
        self.storage.wake()

    def _exchange(self) -> None:
        for _ in range(3):
            for transmit in self.core.take_transmits():
                self._client.receive(transmit.data, 0.0)
            self.core.receive(self._client.take_output(), GUEST, 2)

    def values(self) -> dict[str, str]:
        type_cache = self.core.cache.type_cache("Setting").objects
        objects = [TYPES.Setting.decode(entry.payload) for entry in type_cache.values()]
        return {obj.name: obj.value for obj in objects}


async def begin(folder: Path, *, url: str = "") -> Life:
    storage = NodeStorage(
        StorageConfig(url=url), name="harbour", environ={"SKERRY_STATE_DIR": str(folder / "state")}
    )
    return Life(storage, await storage.open(Random(1)))


def in_time(scene: Callable[[], object]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene()  # type: ignore[misc]

    asyncio.run(run())


def test_usual_file_is_made_when_the_first_persistent_object_is_published(tmp_path: Path) -> None:
    async def scene() -> None:
        life = await begin(tmp_path)
        life.storage.wake()
        assert not (tmp_path / "state").exists()
        life.publish(TYPES.Setting(name="course", value="north"))
        await life.stored.wait()
        assert (tmp_path / "state" / "harbour.db").exists()
        assert life.storage.trouble == ""
        await life.storage.close()

    in_time(scene)


def test_objects_are_there_in_the_next_life(tmp_path: Path) -> None:
    async def scene() -> None:
        life = await begin(tmp_path)
        life.publish(TYPES.Setting(name="course", value="north"))
        # Not awaited: the end of the node stores the rest.
        await life.storage.close()
        life = await begin(tmp_path)
        assert life.restored_count == 1
        assert life.values() == {"course": "north"}
        await life.storage.close()

    in_time(scene)


def test_named_storage_is_there_from_the_start(tmp_path: Path) -> None:
    async def scene() -> None:
        life = await begin(tmp_path, url=f"sqlite:{tmp_path}/mine.db")
        assert (tmp_path / "mine.db").exists()
        await life.storage.close()

    in_time(scene)


def test_named_storage_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(StorageError):
            await begin(tmp_path, url=f"sqlite:{tmp_path}/file/mine.db")
        with pytest.raises(StorageError, match="there is no storage"):
            await begin(tmp_path, url="oracle:mine")

    in_time(scene)


def test_storage_that_cannot_be_opened_yet_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_storage, "_RETRY_S", 0.01)
    real = open_storage
    failures = [StorageError("the disk is full")] * 2

    def scarce(url: str, **options: object) -> object:
        if failures:
            raise failures.pop()
        return real(url, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(node_storage, "open_storage", scarce)

    async def scene() -> None:
        life = await begin(tmp_path)
        life.publish(TYPES.Setting(name="course", value="north"))
        await life.stored.wait()
        assert life.storage.trouble == ""
        await life.storage.close()

    in_time(scene)
    assert [vars(record)["reason"] for record in caplog.records] == ["the disk is full"] * 2


def test_close_without_a_storage_reports_the_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_storage, "_RETRY_S", 0.01)
    (tmp_path / "state").write_text("not a folder")

    async def scene() -> None:
        life = await begin(tmp_path)
        life.publish(TYPES.Setting(name="course", value="north"))
        with pytest.raises(StorageError, match=r"objects were not stored: .*File exists"):
            await life.storage.close()
        assert "File exists" in life.storage.trouble

    in_time(scene)


def test_node_that_stored_nothing_ends_without_a_file(tmp_path: Path) -> None:
    async def scene() -> None:
        life = await begin(tmp_path)
        await life.storage.close()

    in_time(scene)
    assert list(tmp_path.iterdir()) == []
