"""A node with a million objects: how much memory they take and how fast who asks gets them all.

The objects are small; one program publishes them, and the node replays them to another, through a
Unix socket. Memory is what the node's resident set grew by, less the encoded objects themselves.
While the replay goes on, the first program measures round trips of an object that has nothing to
do with it: no client waits for the large replay of another.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import skerry
from benchmarks.rows import Row
from skerry import aio
from skerry.errors import ConnectFailed

OBJECT_COUNT = 1_000_000
OVERHEAD_GOAL = 300
"""Bytes of memory for an object besides its encoded form."""
BATCH = 2000
"""Objects published between two waits for the node."""
ROUND_TRIP_COUNT = 200
START_S = 10.0
REPLAY_S_MAX = 300.0

TYPES = skerry.define_types("""
struct BenchCached {
    1: [key] uint32 id;
    2: uint64 seq;
    3: timepoint t;
    4: float64 x;
}
struct BenchPing [cached=false] {
    1: [key] uint32 id;
    2: uint64 number;
}
""")


def run() -> list[Row]:
    """Rows for memory, publishing, replay, and what others notice of it."""
    return asyncio.run(measure(OBJECT_COUNT))


async def measure(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        endpoint = f"uds:{folder}/node.sock"
        async with node_at(endpoint) as node, await connected(endpoint) as space:
            # The first one brings with it all that a type costs once.
            await publish(space, 0, 1)
            before = resident_bytes(node)
            started = time.perf_counter()
            size = await publish(space, 1, count)
            publishing_s = time.perf_counter() - started
            overhead = (resident_bytes(node) - before - size) / (count - 1)
            pings = Pings(space)
            quiet_us = await pings.times_us(lambda done: done < ROUND_TRIP_COUNT)
            async with reader_at(endpoint, count) as reader:
                busy_us = await pings.times_us(lambda _done: reader.returncode is None)
                replay_s = await replay_seconds(reader)
    objects = f"{count:,} objects".replace(",", " ")
    return [
        Row(
            name=f"{objects}, memory for each besides its bytes",
            ours=overhead,
            unit="bytes",
            goal=OVERHEAD_GOAL,
            is_less_better=True,
        ),
        Row(name=f"{objects}, published", ours=(count - 1) / publishing_s, unit="1/s"),
        Row(name=f"{objects}, replayed", ours=count / replay_s, unit="1/s"),
        Row(name=f"{objects}, round trip before", ours=median_ms(quiet_us), unit="ms"),
        Row(name=f"{objects}, round trip during replay", ours=median_ms(busy_us), unit="ms"),
        Row(name=f"{objects}, longest during replay", ours=max(busy_us) / 1e3, unit="ms"),
    ]


def median_ms(times_us: list[float]) -> float:
    return statistics.median(times_us) / 1e3


# -- the node


@asynccontextmanager
async def node_at(endpoint: str) -> AsyncIterator[Process]:
    """A node in a process of its own."""
    words = ("-P", "-m", "skerry", "node", "run", "--listen", endpoint)
    node = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=DEVNULL)
    async with ended(node):
        yield node


@asynccontextmanager
async def ended(process: Process) -> AsyncIterator[None]:
    """See to it that a process is over afterwards."""
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def connected(endpoint: str) -> aio.Space:
    """A space of a node that may still be starting."""
    end = time.monotonic() + START_S
    while True:
        try:
            return await aio.connect(endpoint, name="bench", types=TYPES)
        except ConnectFailed:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)


def resident_bytes(process: Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


# -- the programs


async def publish(space: aio.Space, start: int, stop: int) -> int:
    """Publish objects of these numbers; gives how many bytes they have together."""
    size = 0
    for first in range(start, stop, BATCH):
        for number in range(first, min(first + BATCH, stop)):
            obj = TYPES.BenchCached(id=number, seq=number, t=1_700_000_000.123456, x=number / 3)
            size += len(obj.encode())
            space.publish(obj)
        await space.flush()
    return size


class Pings:
    """Objects that come back to who published them."""

    def __init__(self, space: aio.Space) -> None:
        self._space = space
        self._arrived: asyncio.Queue[int] = asyncio.Queue()
        self._number = 0
        space.subscribe(TYPES.BenchPing, self._on_event)

    def _on_event(self, event: Any) -> None:
        self._arrived.put_nowait(event.object.number)

    async def times_us(self, more: Callable[[int], bool]) -> list[float]:
        """The duration of each round trip during the replay."""
        times: list[float] = []
        while more(len(times)):
            self._number += 1
            started_ns = time.perf_counter_ns()
            self._space.publish(TYPES.BenchPing(id=1, number=self._number))
            while await self._arrived.get() != self._number:
                pass
            times.append((time.perf_counter_ns() - started_ns) / 1e3)
            await asyncio.sleep(0.002)
        return times


@asynccontextmanager
async def reader_at(endpoint: str, count: int) -> AsyncIterator[Process]:
    """A program that asks for all objects and ends when it has them."""
    words = ("-P", __file__, endpoint, str(count))
    reader = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE)
    async with ended(reader):
        yield reader


async def replay_seconds(reader: Process) -> float:
    output, _ = await reader.communicate()
    if reader.returncode:
        raise RuntimeError(f"the reader of the replay ended with {reader.returncode}")
    return float(json.loads(output))


async def read(endpoint: str, count: int) -> float:
    """Ask for the objects; gives how long it took until the last was there."""
    seen = 0
    is_done = asyncio.Event()

    def on_event(_event: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            is_done.set()

    async with await aio.connect(endpoint, name="reader", types=TYPES) as space:
        started = time.perf_counter()
        space.subscribe(TYPES.BenchCached, on_event)
        await asyncio.wait_for(is_done.wait(), REPLAY_S_MAX)
        return time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(sys.argv[1], int(sys.argv[2])))))
