"""Storages of both kinds: written objects are loaded again, and one node at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.storage.contract import Storage, SyncPolicy

pytestmark = pytest.mark.slow

Opener = Callable[..., Storage]


def obj(key: bytes = b"k", **facts: Any) -> StoredObject:
    values = {
        "type_name": "Boat",
        "key": key,
        "payload": b"\xa1\x01\x05",
        "subject": "/own",
        "created_ns": 1,
        "created_from": 2,
        "modified_ns": 3,
        "modified_from": 4,
        "sent_ns": 5,
        "position": 6,
    }
    return StoredObject(**{**values, **facts})


BOAT = StoredType(name="Boat", definition=b"\x00\xffdefinition")


def reopened(storage: Storage, opened: Opener, url: str) -> Storage:
    storage.close()
    return opened(url)


def test_new_storage_is_empty(url: str, opened: Opener) -> None:
    storage = opened(url)
    assert list(storage.load()) == []
    assert storage.meta() == {}


@pytest.mark.parametrize("sync", SyncPolicy)
def test_batch_is_there_after_opening_again(url: str, opened: Opener, sync: SyncPolicy) -> None:
    storage = opened(url, sync=sync)
    batch = WriteBatch(number=1, types=(BOAT,), puts=(obj(b"a"), obj(b"b")), meta={"position": 6})
    storage.write(batch)
    storage = reopened(storage, opened, url)
    assert list(storage.load()) == [BOAT, obj(b"a"), obj(b"b")]
    assert storage.meta() == {"position": 6}


def test_later_batches_replace_and_drop(url: str, opened: Opener) -> None:
    storage = opened(url)
    storage.write(WriteBatch(number=1, types=(BOAT,), puts=(obj(b"a"), obj(b"b")), meta={"x": 1}))
    newer = StoredType(name="Boat", definition=b"new")
    changed = obj(
        b"a",
        payload=b"other",
        subject="",
        created_ns=11,
        created_from=12,
        modified_ns=13,
        modified_from=14,
        sent_ns=15,
        position=16,
    )
    drops = (("Boat", b"b"), ("Boat", b"never there"))
    storage.write(WriteBatch(number=2, types=(newer,), puts=(changed,), drops=drops, meta={"x": 2}))
    storage = reopened(storage, opened, url)
    assert list(storage.load()) == [newer, changed]
    assert storage.meta() == {"x": 2}


def test_batch_written_twice_is_as_if_written_once(url: str, opened: Opener) -> None:
    storage = opened(url)
    batch = WriteBatch(number=1, types=(BOAT,), puts=(obj(b"a"),), drops=(("Boat", b"b"),))
    storage.write(batch)
    storage.write(batch)
    assert list(storage.load()) == [BOAT, obj(b"a")]


def test_type_without_objects_is_not_loaded(url: str, opened: Opener) -> None:
    storage = opened(url)
    pier = StoredType(name="Pier", definition=b"of piers")
    puts = (obj(b"a"), obj(b"a", type_name="Pier"))
    storage.write(WriteBatch(number=1, types=(BOAT, pier), puts=puts))
    storage.write(WriteBatch(number=2, drops=(("Boat", b"a"),)))
    assert list(storage.load()) == [pier, puts[1]]
    storage.write(WriteBatch(number=3, puts=(puts[0],)))
    assert {item for item in storage.load() if isinstance(item, StoredType)} == {BOAT, pier}


def test_extreme_values_come_back_as_they_were(url: str, opened: Opener) -> None:
    low, high = -(2**63), 2**63 - 1
    odd = [
        obj(b"", payload=b"", subject="", created_ns=low, sent_ns=high, created_from=2**32),
        obj(b"\x00", subject="/nul\x00/quote'\"/%s/?"),
        obj(b"\x00\x00", subject="/æ/\U0001f6a2/\udcff"),
        obj(bytes(range(256)), payload=bytes(1_000_000), position=high),
        obj(b"", type_name="Ærø"),
    ]
    storage = opened(url)
    storage.write(WriteBatch(number=1, puts=tuple(odd), meta={"a": low, "b": high}))
    storage = reopened(storage, opened, url)
    assert set(storage.load()) == set(odd)
    assert storage.meta() == {"a": low, "b": high}


def test_failed_batch_is_rolled_back_and_the_storage_continues(url: str, opened: Opener) -> None:
    storage = opened(url)
    storage.write(WriteBatch(number=1, puts=(obj(b"a"),)))
    bad = WriteBatch(number=2, puts=(obj(b"b"), obj(b"c", sent_ns=2**63)), drops=(("Boat", b"a"),))
    with pytest.raises(StorageError):
        storage.write(bad)
    storage = reopened(storage, opened, url)
    assert keys(storage) == [b"a"]
    storage.write(WriteBatch(number=3, puts=(obj(b"d"),)))
    assert keys(storage) == [b"a", b"d"]


def keys(storage: Storage) -> list[bytes]:
    return [item.key for item in storage.load() if isinstance(item, StoredObject)]


def test_second_node_gets_the_name_of_the_first(url: str, opened: Opener) -> None:
    storage = opened(url)
    storage.write(WriteBatch(number=1, puts=(obj(),)))
    with pytest.raises(StorageError, match="is in use by another node") as messages:
        opened(url)
    assert storage.location in str(messages.value)
    assert messages.value.hint is not None
    storage.write(WriteBatch(number=2, puts=(obj(b"still works"),)))
    storage = reopened(storage, opened, url)
    assert len(list(storage.load())) == 2


def test_load_reads_as_it_goes(url: str, opened: Opener) -> None:
    storage = opened(url)
    count = 20_000
    puts = tuple(obj(number.to_bytes(4, "big")) for number in range(count))
    storage.write(WriteBatch(number=1, types=(BOAT,), puts=puts))
    items = storage.load()
    assert next(items) == BOAT
    assert [next(items) for _ in range(2)] == list(puts[:2])
    assert sum(1 for _ in items) == count - 2
    storage.write(WriteBatch(number=2, drops=(("Boat", puts[0].key),)))
    assert sum(1 for _ in storage.load()) == count
