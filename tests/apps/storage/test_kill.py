"""Kill -9 while a node writes: confirmed objects are stored, and the others are consistent."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from skerry.engine.persistence import POSITION, StoredObject, StoredType, stored_type
from skerry.errors import StorageError
from skerry.runtime.storage.contract import Storage

pytestmark = pytest.mark.slow

Opener = Callable[..., Storage]

KEY_COUNT = 50
PATIENCE_S = 30.0

WRITER = """
import asyncio, sys
from random import Random
import skerry
from skerry.engine.dispatch.cache import Entry
from skerry.engine.persistence import POSITION, Journal
from skerry.runtime.storage.contract import StorageConfig, SyncPolicy
from skerry.runtime.storage.storage_writer import StorageWriter
from skerry.runtime.storage.open import open_storage

TYPE = skerry.define_types("struct Boat [persistent=true] { 1: [key] uint32 id; }").Boat

async def main(url, sync, key_count):
    config = StorageConfig(url=url, sync=SyncPolicy(sync), sync_interval_ms=2)
    storage = open_storage(config.url, sync=config.sync)
    journal = Journal(rng=Random(1), meta=storage.meta(), interval_ns=config.interval_ns)
    position = journal.meta.get(POSITION, 0)
    positions = {}

    def on_stored():
        print(positions[journal.stored], flush=True)

    keeper = StorageWriter(journal, storage, on_stored)
    keeper.start()
    while True:
        position += 1
        key = b"%d" % (position % int(key_count))
        if position % 7 == 0:
            journal.drop("Boat", key, position=position)
        else:
            journal.put(TYPE.descriptor, key, Entry(
                payload=b"%d" % position, present=0, subject="", created_ns=0, created_from=2,
                modified_ns=0, modified_from=2, sent_ns=0, position=position))
        positions[journal.number] = position
        keeper.wake()
        await asyncio.sleep(0)

asyncio.run(main(*sys.argv[1:]))
"""
"""Changes objects for ever, and prints the position up to which all is confirmed."""


@contextmanager
def writer(url: str, sync: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, sync, str(KEY_COUNT)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def state_at(position: int) -> dict[bytes, bytes]:
    """The writer's objects after that many changes."""
    state: dict[bytes, bytes] = {}
    for number in range(1, position + 1):
        key = b"%d" % (number % KEY_COUNT)
        if number % 7 == 0:
            state.pop(key, None)
        else:
            state[key] = b"%d" % number
    return state


@pytest.mark.parametrize("sync", ["commit", "interval", "none"])
def test_confirmed_changes_survive_kill_9(url: str, opened: Opener, sync: str) -> None:
    rng = random.Random(sync)
    for _ in range(3):
        with writer(url, sync) as process:
            assert process.stdout is not None
            for _ in range(rng.randrange(1, 40)):
                line = process.stdout.readline()
                assert line, "the writer ended by itself"
            process.send_signal(signal.SIGKILL)
            # Objects confirmed before the kill count, too; the last line may be incomplete.
            rest = process.stdout.read()
            confirmed = int((line + rest).rpartition("\n")[0].split()[-1])
        storage = opened_when_free(opened, url)
        items = list(storage.load())
        position = storage.meta()[POSITION]
        storage.close()
        assert position >= confirmed
        found = {item.key: item.payload for item in items if isinstance(item, StoredObject)}
        assert found == state_at(position)
        assert [stored_type(item).name for item in items if isinstance(item, StoredType)] == [
            "Boat"
        ]


def opened_when_free(opened: Opener, url: str) -> Storage:
    """A server may notice the end of a client a moment later than we do."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return opened(url)
        except StorageError as error:
            is_early = "in use by another node" in str(error) and url.startswith("postgresql:")
            if not is_early or time.monotonic() > give_up_s:
                raise
